"""p(s_1) and p(z_1 | s_1)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from swerve.inference.frames import Key
from swerve.models.snlds.noise import DiagonalNoise


class Initial(eqx.Module):
    """p(s_1 = k) = softmax(logits)_k, and p(z_1 | s_1 = k) = sum_m softmax(w_k)_m N(mean_km, C_km).

    Without logits p(s_1) is uniform. With one row of means (R = 1) p(z_1) is the same for all regimes: no dynamics
    have acted at t = 1, so s_1 is left to its neighbours, and a regime can not be chosen for the first frame alone.
    """

    logits: Float[Array, " K"] | None
    weights: Float[Array, "R M"]
    means: Float[Array, "R M L"]
    noise: DiagonalNoise
    """Of all R M components."""
    regimes: int = eqx.field(static=True)

    def __init__(
        self,
        regimes: int,
        state_size: int,
        *,
        learned: bool,
        per_regime: bool,
        components: int,
        floor: float,
        key: Key,
    ):
        rows = regimes if per_regime else 1
        self.logits = jnp.zeros(regimes) if learned else None
        self.weights = jnp.zeros((rows, components))
        spread = 0.5 if components > 1 else 0.0  # equal components would stay equal
        self.means = spread * jax.random.normal(key, (rows, components, state_size))
        self.noise = DiagonalNoise(rows * components, state_size, scale=1.0, floor=floor)
        self.regimes = regimes

    @property
    def regime_logits(self) -> Float[Array, " K"]:
        """log p(s_1), not normalised."""
        return jnp.zeros(self.regimes) if self.logits is None else jnp.asarray(self.logits)

    @property
    def mean(self) -> Float[Array, "K L"]:
        """E[z_1 | s_1 = k] for every k."""
        mean = jnp.sum(jax.nn.softmax(self.weights)[..., None] * self.means, axis=1)
        return jnp.broadcast_to(mean, (self.regimes, mean.shape[1]))

    def log_prob(self, z: Float[Array, " L"]) -> Float[Array, " K"]:
        """log p(z_1 | s_1 = k) for every k."""
        components = self.noise.log_prob((z[None, None] - self.means).reshape(-1, len(z)))
        joint = jax.nn.log_softmax(self.weights) + components.reshape(self.weights.shape)
        return jnp.broadcast_to(jax.nn.logsumexp(joint, axis=1), (self.regimes,))

    def sample(self, s: Int[Array, ""], *, key: Key) -> Float[Array, " L"]:
        """One draw from p(z_1 | s_1 = s)."""
        component_key, noise_key = jax.random.split(key)
        row = jnp.minimum(s, len(self.weights) - 1)
        component = jax.random.categorical(component_key, self.weights[row])
        flat = row * self.weights.shape[1] + component
        return self.means[row, component] + self.noise.sample(flat, key=noise_key)
