"""Gaussian noise of the regimes, diagonal or full, seen through missing channels."""

from abc import abstractmethod
from enum import StrEnum
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from swerve.inference.frames import Key

LOG_2PI = 1.8378770664093453

# By default a recent GPU multiplies with three digits (TF32), which would drown small residuals.
einsum = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)


class AbstractNoise(eqx.Module):
    """e ~ N(0, Q_k), of which only the observed channels are seen.

    `partial` = False promises that every frame is observed whole or not at all, which spares full noise
    a factorisation per frame.
    """

    @classmethod
    @abstractmethod
    def nearest(cls, covariance: Float[Array, "K D D"], *, floor: Float[Array, ""]) -> "AbstractNoise":
        """The most likely noise with this sample covariance whose variance is nowhere below `floor`."""

    @abstractmethod
    def log_density(
        self, residual: Float[Array, "T K D"], observed: Bool[Array, "T D"], partial: bool
    ) -> Float[Array, "T K"]:
        """log N(e_o; 0, Q_oo) over the observed channels o; 0 where nothing was observed."""

    @abstractmethod
    def complete(
        self, residual: Float[Array, "T K D"], observed: Bool[Array, "T D"], partial: bool
    ) -> Float[Array, "T K D"]:
        """E[e | e_o]: the residual itself where it was observed, its conditional mean elsewhere."""

    @abstractmethod
    def lost(self, weights: Float[Array, "T K"], observed: Bool[Array, "T D"], partial: bool) -> Float[Array, "K D D"]:
        """sum_t w_tk Cov[e | e_o]: the covariance that `complete` leaves out."""

    @abstractmethod
    def sample(self, regime: Int[Array, ""], *, key: Key) -> Float[Array, " D"]:
        """One draw from N(0, Q_regime)."""

    @abstractmethod
    def precision_trace(self, moment: Float[Array, "K D D"]) -> Float[Array, ""]:
        """sum_k tr(Q_k^-1 M_k)."""


class DiagonalNoise(AbstractNoise):
    """Independent channels."""

    variance: Float[Array, "K D"]

    @classmethod
    def nearest(cls, covariance: Float[Array, "K D D"], *, floor: Float[Array, ""]) -> "AbstractNoise":
        """Each channel's variance, at least `floor`."""
        return cls(jnp.maximum(jnp.diagonal(covariance, axis1=1, axis2=2), floor))

    def log_density(
        self, residual: Float[Array, "T K D"], observed: Bool[Array, "T D"], partial: bool
    ) -> Float[Array, "T K"]:
        """The sum of the observed channels' log densities."""
        log_variance = LOG_2PI + jnp.log(self.variance)
        per_channel = -0.5 * (residual**2 / self.variance[None] + log_variance[None])
        return jnp.sum(jnp.where(observed[:, None], per_channel, 0.0), axis=-1)

    def complete(
        self, residual: Float[Array, "T K D"], observed: Bool[Array, "T D"], partial: bool
    ) -> Float[Array, "T K D"]:
        """A missing channel is expected to be where the regime predicts it."""
        return jnp.where(observed[:, None], residual, 0.0)

    def lost(self, weights: Float[Array, "T K"], observed: Bool[Array, "T D"], partial: bool) -> Float[Array, "K D D"]:
        """A missing channel keeps its whole variance."""
        missing_weight = einsum("tk,td->kd", weights, 1.0 - observed.astype(weights.dtype))
        return jax.vmap(jnp.diag)(missing_weight * self.variance)

    def sample(self, regime: Int[Array, ""], *, key: Key) -> Float[Array, " D"]:
        """Every channel on its own."""
        scale = jnp.sqrt(self.variance[regime])
        return scale * jax.random.normal(key, scale.shape, scale.dtype)

    def precision_trace(self, moment: Float[Array, "K D D"]) -> Float[Array, ""]:
        """sum_kd M_kdd / Q_kd."""
        return jnp.sum(jnp.diagonal(moment, axis1=1, axis2=2) / self.variance)


class FullNoise(AbstractNoise):
    """Correlated channels."""

    covariance: Float[Array, "K D D"]

    @classmethod
    def nearest(cls, covariance: Float[Array, "K D D"], *, floor: Float[Array, ""]) -> "AbstractNoise":
        """Eigenvalues clipped at `floor`: the constrained maximum of the Gaussian likelihood."""
        symmetric = 0.5 * (covariance + jnp.swapaxes(covariance, 1, 2))
        values, vectors = jnp.linalg.eigh(symmetric)
        return cls(einsum("kde,ke,kfe->kdf", vectors, jnp.maximum(values, floor), vectors))

    def log_density(
        self, residual: Float[Array, "T K D"], observed: Bool[Array, "T D"], partial: bool
    ) -> Float[Array, "T K"]:
        """One factorisation per regime where frames are whole, one per frame where some are not."""
        log_density = _partial_density if partial else _whole_density
        return log_density(self.covariance, residual, observed)

    def complete(
        self, residual: Float[Array, "T K D"], observed: Bool[Array, "T D"], partial: bool
    ) -> Float[Array, "T K D"]:
        """E[e_m | e_o] = Q_mo Q_oo^-1 e_o for the missing channels m."""
        if not partial:
            return residual
        precision = _observed_precision(self.covariance, observed)
        predicted = einsum("kde,tkef,tkf->tkd", self.covariance, precision, residual)
        return jnp.where(observed[:, None], residual, predicted)

    def lost(self, weights: Float[Array, "T K"], observed: Bool[Array, "T D"], partial: bool) -> Float[Array, "K D D"]:
        """sum_t w_tk (Q - Q_:o Q_oo^-1 Q_o:)."""
        if not partial:
            return jnp.zeros_like(self.covariance)
        precision = einsum("tk,tkde->kde", weights, _observed_precision(self.covariance, observed))
        explained = einsum("kde,kef,kfg->kdg", self.covariance, precision, self.covariance)
        return jnp.sum(weights, axis=0)[:, None, None] * self.covariance - explained

    def sample(self, regime: Int[Array, ""], *, key: Key) -> Float[Array, " D"]:
        """F w with Q = F F' and w white."""
        factor = jnp.linalg.cholesky(self.covariance[regime])
        return einsum("de,e->d", factor, jax.random.normal(key, factor.shape[:1], factor.dtype))

    def precision_trace(self, moment: Float[Array, "K D D"]) -> Float[Array, ""]:
        """sum_k tr(Q_k^-1 M_k)."""
        return jnp.sum(jnp.trace(jnp.linalg.solve(self.covariance, moment), axis1=1, axis2=2))


def _whole_density(covariance, residual, observed):
    factor = jnp.linalg.cholesky(covariance)
    identity = jnp.broadcast_to(jnp.eye(residual.shape[-1], dtype=residual.dtype), covariance.shape)
    whitener = jax.scipy.linalg.solve_triangular(factor, identity, lower=True)
    whitened = einsum("kde,tke->tkd", whitener, residual)
    log_scale = _half_log_determinant(factor) + 0.5 * residual.shape[-1] * LOG_2PI
    density = -0.5 * jnp.sum(whitened**2, axis=-1) - log_scale[None]
    return jnp.where(observed.all(axis=-1)[:, None], density, 0.0)


def _partial_density(covariance, residual, observed):
    seen = jnp.where(observed[:, None], residual, 0.0)
    factor = jnp.linalg.cholesky(_masked_covariance(covariance, observed))
    whitened = jax.scipy.linalg.solve_triangular(factor, seen[..., None], lower=True)[..., 0]
    channels = jnp.sum(observed, axis=-1, dtype=residual.dtype)[:, None]
    return -0.5 * (jnp.sum(whitened**2, axis=-1) + channels * LOG_2PI) - _half_log_determinant(factor)


def _masked_covariance(covariance, observed):
    """Q with the rows and columns of missing channels replaced by the identity's: what is left is Q_oo."""
    both = observed[:, :, None] & observed[:, None, :]
    identity = jnp.eye(observed.shape[-1], dtype=covariance.dtype)
    return jnp.where(both[:, None], covariance[None], identity[None, None])


def _observed_precision(covariance, observed):
    """Q_oo^-1, with zeros for the missing channels."""
    both = observed[:, :, None] & observed[:, None, :]
    return jnp.where(both[:, None], jnp.linalg.inv(_masked_covariance(covariance, observed)), 0.0)


def _half_log_determinant(factor):
    return jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)


class Covariance(StrEnum):
    """What a regime knows about its noise."""

    DIAGONAL = "diagonal"
    FULL = "full"


NOISE = {Covariance.DIAGONAL: DiagonalNoise, Covariance.FULL: FullNoise}
