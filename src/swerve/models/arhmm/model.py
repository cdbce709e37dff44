"""The autoregressive HMM itself: what it says about one sequence."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from swerve.inference import messages
from swerve.inference.frames import Frames
from swerve.models.arhmm.gaps import Filled, bridged, carried
from swerve.models.arhmm.noise import AbstractNoise, einsum
from swerve.models.arhmm.waves import Waves


class ArHmm(eqx.Module):
    """K linear regimes that take turns by a Markov chain.

    p(s_1 = k) = pi_k,  p(s_t = k | s_{t-1} = j) = A_jk,
    x_t | s_t = k ~ N(W_k [x_{t-1}; ...; x_{t-lags}; 1], Q_k)  for t > 1,
    or, with waves, N(W_k [x_{t-1}; ...; x_{t-lags}; 1; phi(x_{t-1})], Q_k): regimes that bend.
    x_1 ~ N(m, V), whatever the regime; without lags x_1 is like every other frame.
    """

    log_initial: Float[Array, " K"]
    log_transition: Float[Array, "K K"]
    weights: Float[Array, "K D P"]
    noise: AbstractNoise
    start_mean: Float[Array, " D"]
    start_noise: AbstractNoise
    waves: Waves | None = None
    temperature: float = eqx.field(static=True, default=1.0)
    """What the evidence of a frame is divided by when regimes are inferred (docs/decisions/0026)."""

    @property
    def regimes(self) -> int:
        """K."""
        return self.weights.shape[-3]

    @property
    def lags(self) -> int:
        """How many frames a regime looks back."""
        return (self.weights.shape[-1] - 1 - self.features) // self.weights.shape[-2]

    @property
    def features(self) -> int:
        """How many nonlinear features of the last frame a regime reads."""
        return 0 if self.waves is None else self.waves.count

    def window(self, x: Float[Array, "T D"]) -> Float[Array, "T P"]:
        """[x_{t-1}; ...; x_{t-lags}; 1; phi(x_{t-1})]; the first frame stands in for those before it."""
        times = jnp.arange(x.shape[0])
        past = [x[jnp.maximum(times - lag, 0)] for lag in range(1, self.lags + 1)]
        bent = [] if self.waves is None else [self.waves(past[0])]
        return jnp.concatenate([*past, jnp.ones_like(x[:, :1]), *bent], axis=-1)


def log_likelihood(model: ArHmm, frames: Frames, *, partial: bool = True) -> Float[Array, ""]:
    """log p(x) of all observed values of one sequence, in nats: the sum over every regime path, exactly.

    Here and below `partial` = False, which `seen_in_part` can tell, is faster with full covariances.
    """
    evidence = log_evidence(model, carried(frames, model.start_mean, model.lags), partial=partial)
    return messages.log_normalizer(model.log_initial, model.log_transition, evidence, frames.valid)


def bridged_likelihood(model: ArHmm, frames: Frames, *, partial: bool = True) -> Float[Array, ""]:
    """The same of the values that tell once gaps are bridged: what EM climbs. Without gaps it is the likelihood."""
    evidence = log_evidence(model, bridged(frames, model.start_mean, model.lags), partial=partial)
    return messages.log_normalizer(model.log_initial, model.log_transition, evidence, frames.valid)


def smooth(model: ArHmm, frames: Frames, *, partial: bool = True) -> Float[Array, "T K"]:
    """p(s_t = k | x_1..x_T) of one sequence; zeros in padding."""
    evidence = _tempered_evidence(model, frames, partial)
    return messages.smooth(model.log_initial, model.log_transition, evidence, frames.valid).marginals


def viterbi(model: ArHmm, frames: Frames, *, partial: bool = True) -> Int[Array, " T"]:
    """argmax_s p(s | x), the single most probable regime path of one sequence."""
    evidence = _tempered_evidence(model, frames, partial)
    return messages.viterbi(model.log_initial, model.log_transition, evidence, frames.valid)


def _tempered_evidence(model: ArHmm, frames: Frames, partial: bool) -> Float[Array, "T K"]:
    return log_evidence(model, bridged(frames, model.start_mean, model.lags), partial=partial) / model.temperature


def log_evidence(model: ArHmm, filled: Filled, *, partial: bool = True) -> Float[Array, "T K"]:
    """log p(x_t | s_t = k, its lags) of the values that tell, missing ones marginalised out: 0 if none does."""
    residual = residuals(model, filled.x, model.window(filled.x))
    return with_start(model, model.noise.log_density(residual, filled.tells, partial), filled, partial=partial)


def with_start(model: ArHmm, evidence: Float[Array, "T K"], filled: Filled, *, partial: bool) -> Float[Array, "T K"]:
    """Where there are lags, the first frame's evidence is that of the start distribution."""
    if model.lags == 0:
        return evidence
    start = (filled.x[:1] - model.start_mean[None])[:, None]
    start_evidence = model.start_noise.log_density(start, filled.observed[:1], partial)
    return evidence.at[0].set(start_evidence[0, 0])


def seen_in_part(frames: Frames) -> bool:
    """Whether any frame, of one sequence or of many, has both observed and missing channels."""
    some, every = frames.observed.any(axis=-1), frames.observed.all(axis=-1)
    return bool((frames.valid & some & ~every).any())


def residuals(model: ArHmm, x: Float[Array, "rows D"], window: Float[Array, "rows P"]) -> Float[Array, "rows K D"]:
    """x_t - W_k window_t."""
    return x[:, None] - einsum("kdp,tp->tkd", model.weights, window)
