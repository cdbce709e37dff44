"""Gaussian noise with a learned covariance and a fixed floor under its variances."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from swerve.inference.frames import Key

LOG_TWO_PI = 1.8378770664093453


class AbstractNoise(eqx.Module):
    """N(0, C_k) for k = 1..K, or one C shared by all regimes (leading size 1)."""

    @property
    @abstractmethod
    def scale(self) -> Float[Array, "R N"]:
        """Standard deviation of every entry."""

    @abstractmethod
    def log_prob(self, residual: Float[Array, "H N"], observed: Bool[Array, " N"] | None = None) -> Float[Array, " K"]:
        """log N(residual_k; 0, C_k) over the observed entries; the others are integrated out.

        There may be one residual for all regimes, or one C, or both.
        """

    @abstractmethod
    def sample(self, regime: Array, *, key: Key) -> Float[Array, " N"]:
        """One draw from N(0, C_regime)."""


class DiagonalNoise(AbstractNoise):
    """C_k = diag(floor + exp(2 log_scale_k))."""

    log_scale: Float[Array, "R N"]
    floor: float = eqx.field(static=True)

    def __init__(self, regimes: int, size: int, *, scale: float, floor: float):
        self.log_scale = jnp.full((regimes, size), jnp.log(scale))
        self.floor = floor

    @property
    def variance(self) -> Float[Array, "R N"]:
        """The diagonal of every C_k."""
        return self.floor + jnp.exp(2 * self.log_scale)

    @property
    def scale(self):
        return jnp.sqrt(self.variance)

    def log_prob(self, residual, observed=None):
        variance = self.variance
        per_entry = -0.5 * (residual**2 / variance + jnp.log(variance) + LOG_TWO_PI)
        if observed is not None:
            per_entry = jnp.where(observed[None], per_entry, 0.0)
        return per_entry.sum(axis=1)

    def sample(self, regime, *, key):
        scale = self.scale[jnp.minimum(regime, len(self.log_scale) - 1)]
        return scale * jax.random.normal(key, scale.shape)


class ScalarNoise(AbstractNoise):
    """C_k = (floor + exp(2 log_scale_k)) I: one variance for all pixels of an image."""

    log_scale: Float[Array, " R"]
    size: int = eqx.field(static=True)
    floor: float = eqx.field(static=True)

    def __init__(self, regimes: int, size: int, *, scale: float | Float[Array, ""], floor: float):
        self.log_scale = jnp.full((regimes,), jnp.log(scale))
        self.size = size
        self.floor = floor

    @property
    def variance(self) -> Float[Array, " R"]:
        """Of every entry."""
        return self.floor + jnp.exp(2 * self.log_scale)

    @property
    def scale(self):
        return jnp.broadcast_to(jnp.sqrt(self.variance)[:, None], (len(self.log_scale), self.size))

    def log_prob(self, residual, observed=None):
        count = self.size
        if observed is not None:
            residual = jnp.where(observed[None], residual, 0.0)
            count = observed.sum()
        return -0.5 * ((residual**2).sum(axis=1) / self.variance + count * (jnp.log(self.variance) + LOG_TWO_PI))

    def sample(self, regime, *, key):
        scale = jnp.sqrt(self.variance)[jnp.minimum(regime, len(self.log_scale) - 1)]
        return scale * jax.random.normal(key, (self.size,))


class FullNoise(AbstractNoise):
    """C_k = F_k F_k' + floor I with F_k lower triangular and a positive diagonal."""

    log_diagonal: Float[Array, "R N"]
    below_diagonal: Float[Array, "R N N"]
    floor: float = eqx.field(static=True)

    def __init__(self, regimes: int, size: int, *, scale: float, floor: float):
        self.log_diagonal = jnp.full((regimes, size), jnp.log(scale))
        self.below_diagonal = jnp.zeros((regimes, size, size))
        self.floor = floor

    @property
    def covariance(self) -> Float[Array, "R N N"]:
        """Every C_k."""
        factor = jnp.tril(self.below_diagonal, -1) + jax.vmap(jnp.diag)(jnp.exp(self.log_diagonal))
        return factor @ factor.mT + self.floor * jnp.eye(factor.shape[-1])[None]

    @property
    def scale(self):
        return jnp.sqrt(jnp.diagonal(self.covariance, axis1=1, axis2=2))

    def log_prob(self, residual, observed=None):
        covariance = self.covariance
        count = residual.shape[1]
        if observed is not None:
            # A missing entry becomes an independent unit Gaussian at its mean: it adds nothing but a constant.
            both = observed[:, None] & observed[None, :]
            covariance = jnp.where(both[None], covariance, jnp.eye(count)[None])
            residual = jnp.where(observed[None], residual, 0.0)
            count = observed.sum()
        factor = jnp.linalg.cholesky(covariance)
        rows = max(len(residual), len(factor))
        factor = jnp.broadcast_to(factor, (rows, *factor.shape[1:]))
        residual = jnp.broadcast_to(residual, (rows, residual.shape[1]))
        white = jax.scipy.linalg.solve_triangular(factor, residual[..., None], lower=True)[..., 0]
        log_det = jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        return -0.5 * (white**2).sum(axis=1) - log_det - 0.5 * count * LOG_TWO_PI

    def sample(self, regime, *, key):
        factors = jnp.linalg.cholesky(self.covariance)
        factor = factors[jnp.minimum(regime, len(factors) - 1)]
        return factor @ jax.random.normal(key, (factor.shape[0],))
