"""Bounded nonlinear features of a frame, so that the regimes of an AR-HMM may bend."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from swerve.models.arhmm.noise import einsum

DRAWN = 200  # random waves, of which a few combinations are kept
WAVELENGTH = 1.5  # how far apart two frames must lie to look different, in units of standardised data
FAINTEST = 1e-4  # variance of a combination that is still kept


class Waves(eqx.Module):
    """phi(x) = M' cos(F x + p) - C' [x; 1]: what random waves tell that a linear map does not.

    M mixes them into combinations of mean 0 and variance 1 that are uncorrelated with each other and with x over the
    frames they were fitted to. Random Fourier features (Rahimi and Recht, 2007); they stay bounded far from the data
    but for the linear part taken out.
    """

    frequencies: Float[Array, "W D"]
    phases: Float[Array, " W"]
    mixing: Float[Array, "W F"]
    linear: Float[Array, "D+1 F"]

    @property
    def count(self) -> int:
        """F."""
        return self.mixing.shape[-1]

    def __call__(self, x: Float[Array, "T D"]) -> Float[Array, "T F"]:
        """The features of every frame."""
        waves = jnp.cos(einsum("td,wd->tw", x, self.frequencies) + self.phases[None])
        frame = jnp.concatenate([x, jnp.ones_like(x[:, :1])], axis=1)
        return einsum("tw,wf->tf", waves, self.mixing) - einsum("td,df->tf", frame, self.linear)


def fit_waves(x: Float[np.ndarray, "rows D"], count: int) -> Waves:
    """The `count` strongest combinations over the given frames; those too faint to trust are zero."""
    rng = np.random.default_rng(0)  # the same waves for everybody: nothing here is a matter of luck
    rows = x.astype(float)
    channels = rows.shape[1]
    frequencies = rng.standard_normal((DRAWN, channels)) / (WAVELENGTH * np.sqrt(channels / 2))
    phases = rng.uniform(0, 2 * np.pi, DRAWN)
    waves = np.cos(rows @ frequencies.T + phases)
    frame = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    explained, *_ = np.linalg.lstsq(frame, waves, rcond=None)
    rest = waves - frame @ explained
    variances, directions = np.linalg.eigh(rest.T @ rest / max(len(rows), 1))
    strongest = np.argsort(-variances)[:count]
    seen = variances[strongest] > FAINTEST
    mixing = np.where(seen, directions[:, strongest] / np.sqrt(np.where(seen, variances[strongest], 1.0)), 0.0)
    return Waves(*(jnp.asarray(part, x.dtype) for part in (frequencies, phases, mixing, explained @ mixing)))


def blank_waves(channels: int, count: int) -> Waves:
    """Waves of these shapes whose values mean nothing yet."""
    return Waves(
        jnp.zeros((DRAWN, channels)), jnp.zeros(DRAWN), jnp.zeros((DRAWN, count)), jnp.zeros((channels + 1, count))
    )
