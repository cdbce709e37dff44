"""Sums of exponentials in which -inf is an ordinary number: it stays, and its gradient is zero."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def finite(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """0 in place of -inf, which can not be subtracted from itself."""
    return jnp.where(x == -jnp.inf, 0.0, x)


def logsumexp(x: Float[Array, "..."], axis: int) -> Float[Array, "..."]:
    """log sum exp x; -inf, with a zero gradient, where every term is -inf."""
    top = jax.lax.stop_gradient(finite(x.max(axis=axis)))
    total = jnp.exp(x - jnp.expand_dims(top, axis)).sum(axis=axis)
    possible = total != 0
    return jnp.where(possible, jnp.log(jnp.where(possible, total, 1.0)) + top, -jnp.inf)


def normalize(x: Float[Array, "*shape K"]) -> Float[Array, "*shape K"]:
    """x - log sum_k exp x[k]; all -inf where every term is -inf."""
    return x - finite(logsumexp(x, axis=-1))[..., None]
