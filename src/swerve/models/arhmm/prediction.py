"""What an AR-HMM expects to observe, and an empty one of given shapes."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from swerve.inference.frames import Frames
from swerve.models.arhmm.fitting import NOISE, Covariance
from swerve.models.arhmm.gaps import bridged
from swerve.models.arhmm.model import ArHmm
from swerve.models.arhmm.noise import einsum
from swerve.models.arhmm.waves import blank_waves


def expected(model: ArHmm, frames: Frames, responsibilities: Float[Array, "T K"]) -> Float[Array, "T D"]:
    """E[x_t | its lags, regimes] = sum_k p(s_t = k | x) W_k window_t."""
    return expected_from(model, model.window(bridged(frames, model.start_mean, model.lags).x), responsibilities)


def expected_from(
    model: ArHmm, window: Float[Array, "T P"], responsibilities: Float[Array, "T K"]
) -> Float[Array, "T D"]:
    """The same from the windows of lags that each frame is predicted from."""
    return einsum("tk,kdp,tp->td", responsibilities, model.weights, window)


def blank(
    regimes: int, channels: int, lags: int, covariance: Covariance, *, features: int = 0, temperature: float = 1.0
) -> ArHmm:
    """A model of these shapes whose values mean nothing yet."""
    unit = jnp.tile(jnp.eye(channels)[None], (regimes, 1, 1))
    floor = jnp.asarray(1.0)
    return ArHmm(
        log_initial=jnp.zeros(regimes),
        log_transition=jnp.zeros((regimes, regimes)),
        weights=jnp.zeros((regimes, channels, channels * lags + 1 + features)),
        noise=NOISE[covariance].nearest(unit, floor=floor),
        start_mean=jnp.zeros(channels),
        start_noise=NOISE[covariance].nearest(unit[:1], floor=floor),
        waves=blank_waves(channels, features) if features else None,
        temperature=temperature,
    )
