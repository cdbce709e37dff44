"""p(s_1) and p(z_1 | s_1)."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from swerve.model.noise import AbstractNoise, DiagonalNoise


class Initial(eqx.Module):
    """p(s_1 = k) = softmax(logits)_k and p(z_1 | s_1 = k) = N(mean_k, C_k)."""

    logits: Float[Array, " K"]
    mean: Float[Array, "K L"]
    noise: AbstractNoise

    def __init__(self, regimes: int, state_size: int, *, floor: float):
        self.logits = jnp.zeros(regimes)
        self.mean = jnp.zeros((regimes, state_size))
        self.noise = DiagonalNoise(regimes, state_size, scale=1.0, floor=floor)

    def log_prob(self, z: Float[Array, " L"]) -> Float[Array, " K"]:
        """log p(z_1 | s_1 = k) for every k."""
        return self.noise.log_prob(z[None] - self.mean)
