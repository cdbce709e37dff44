"""p(s_1) and p(z_1 | s_1)."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from swerve.model.noise import AbstractNoise, DiagonalNoise


class Initial(eqx.Module):
    """p(s_1 = k) = softmax(logits)_k and p(z_1 | s_1 = k) = N(mean_k, C_k), or one N(mean, C) for all regimes.

    No dynamics have acted at t = 1: with one distribution for all, s_1 is left to its neighbours, and a regime
    can not be chosen for the first frame alone.
    """

    logits: Float[Array, " K"]
    means: Float[Array, "R L"]
    noise: AbstractNoise

    def __init__(self, regimes: int, state_size: int, *, per_regime: bool, floor: float):
        distributions = regimes if per_regime else 1
        self.logits = jnp.zeros(regimes)
        self.means = jnp.zeros((distributions, state_size))
        self.noise = DiagonalNoise(distributions, state_size, scale=1.0, floor=floor)

    @property
    def mean(self) -> Float[Array, "K L"]:
        """E[z_1 | s_1 = k] for every k."""
        return jnp.broadcast_to(self.means, (len(self.logits), self.means.shape[1]))

    def log_prob(self, z: Float[Array, " L"]) -> Float[Array, " K"]:
        """log p(z_1 | s_1 = k) for every k."""
        return self.noise.log_prob(z[None] - self.mean)
