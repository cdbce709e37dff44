"""Whether the channels of a frame are witnesses of their own, or err together (docs/decisions/0028)."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.stats import chi2

from swerve.inference.frames import Frames
from swerve.models.arhmm.gaps import bridged, lags_known
from swerve.models.arhmm.model import ArHmm, residuals, seen_in_part, smooth

QUARTILES = (0.25, 0.75)
FEWEST = 50  # frames that have a spread to speak of
MOST = 20_000  # frames that are looked at


def joint_errors(model: ArHmm, frames: Frames) -> float:
    """How much more whole frames differ in how wrong a model is than if every channel erred on its own: 1 if each does.

    In the most probable regime k, q_t = e_t' Q_k^-1 e_t of a frame with D channels is then chi^2_D. Told is the squared
    ratio of the interquartile ranges of log q_t and log chi^2_D, which neither the scale of Q nor rare outliers change.
    """
    some = jax.tree.map(lambda leaf: leaf[:: -(-frames.valid.size // MOST)], frames)
    found = _squared_errors(model, some, partly_seen=seen_in_part(some))
    errors, channels = (np.asarray(one) for one in found)
    ratios, weights = [], []
    for count in np.unique(channels[channels > 1]):
        logs = np.log(np.maximum(errors[channels == count], np.finfo(np.float32).tiny))
        if len(logs) >= FEWEST:
            ratios.append(np.ptp(np.quantile(logs, QUARTILES)) / np.ptp(np.log(chi2.ppf(QUARTILES, count))))
            weights.append(len(logs))
    return float(np.average(np.square(ratios), weights=weights)) if ratios else 1.0


@partial(jax.jit, static_argnames="partly_seen")
def _squared_errors(
    model: ArHmm, frames: Frames, *, partly_seen: bool
) -> tuple[Float[Array, "N T"], Int[Array, "N T"]]:
    """q_t, and of how many channels; of none where the frames before are not all there."""

    def one(sequence: Frames) -> tuple[Float[Array, " T"], Int[Array, " T"]]:
        filled = bridged(sequence, model.start_mean, model.lags)
        residual = residuals(model, filled.x, model.window(filled.x))
        exact = model.noise.log_density(jnp.zeros_like(residual), filled.tells, partly_seen)
        squares = 2 * (exact - model.noise.log_density(residual, filled.tells, partly_seen))
        regime = jnp.argmax(smooth(model, sequence, partial=partly_seen), axis=-1)
        seen = jnp.concatenate([jnp.zeros((model.lags, sequence.x.shape[1]), bool), sequence.observed])
        counts = jnp.where(lags_known(seen, model.lags).all(axis=-1), jnp.sum(sequence.observed, axis=-1), 0)
        return jnp.take_along_axis(squares, regime[:, None], axis=-1)[:, 0], counts

    return jax.vmap(one)(frames)
