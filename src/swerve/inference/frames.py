"""Sequences as networks and recursions see them, and the shapes of what is known about their regimes."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

Key = PRNGKeyArray

LogInitial = Float[Array, " K"]
# The evidence, which names the number of frames, comes after the transitions: so this can not say "T-1".
LogTransition = Float[Array, "steps K K"] | Float[Array, "K K"]
LogEvidence = Float[Array, "T K"]
FrameMask = Bool[Array, " T"]


class Frames(NamedTuple):
    """One sequence as the networks see it; with a leading axis, a batch of them.

    A *padded* frame (`valid` False) does not exist. A *missing* value (`observed` False in a valid frame)
    exists but was not seen. Both hold zeros in `x`.
    """

    x: Float[Array, "*batch T D"]
    observed: Bool[Array, "*batch T D"]
    valid: Bool[Array, "*batch T"]
    u: Float[Array, "*batch T U"]

    def blanked(self) -> "Frames":
        """The same frames with zeros wherever nothing was observed, whatever stood there (NaN too)."""
        observed = self.observed & self.valid[..., None]
        x = jnp.where(observed, self.x, 0.0)
        u = jnp.where(self.valid[..., None], self.u, 0.0)
        return Frames(x, observed, self.valid, u)
