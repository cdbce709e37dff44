"""Bridges over gaps: what a channel was probably like where nobody looked, told from both sides.

A cubic where a gap is short, a line where it is longer; over what is longer still, and at the ends of a recording,
there is no bridge (docs/decisions/0029 and 0030).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from swerve.inference.frames import Frames

KNOWN = 3  # missing values in a row that leave them known
BRIDGED = 30  # that are bridged at all
REACH = BRIDGED + 2  # frames on either side that a bridge may depend on


class Bridged(NamedTuple):
    """One sequence with its gaps bridged."""

    x: Float[Array, "T D"]
    """Arbitrary where it is not reached."""
    reached: Bool[Array, "T D"]
    """Observed, or on a bridge."""
    known: Bool[Array, "T D"]
    """Observed, or on a bridge so short that it may be trusted like a value."""


def bridge(frames: Frames) -> Bridged:
    """Both sides fill a gap.

    Between x_a and x_b the cubic has at a the slope of the parabola through x_{a-1}, x_a and x_b, and at b that of the
    one through x_a, x_b and x_{b+1}; that of the chord where x_{a-1} or x_{b+1} is missing.
    """
    x, observed = frames.x, frames.observed
    positions, far = jnp.arange(x.shape[0])[:, None], 2 * x.shape[0] + 2 * REACH
    before = jax.lax.cummax(jnp.where(observed, positions, -far), axis=0)
    after = jax.lax.cummin(jnp.where(observed, positions, far), axis=0, reverse=True)
    width = after - before
    short = width <= KNOWN + 1
    last, following = _at(x, before), _at(x, after)
    chord = (following - last) / jnp.maximum(width, 1)

    def slope(step: Float[Array, "T D"], seen: Bool[Array, "T D"]) -> Float[Array, "T D"]:
        return jnp.where(seen & short, (width * step + chord) / (width + 1), chord)

    leaving = slope(last - _at(x, before - 1), (before > 0) & _at(observed, before - 1))
    arriving = slope(_at(x, after + 1) - following, (after < len(x) - 1) & _at(observed, after + 1))
    way = (positions - before) / jnp.maximum(width, 1)
    bend = (1 - way) * (leaving - chord) - way * (arriving - chord)
    crossing = last + way * (following - last) + way * (1 - way) * width * bend
    reached = observed | (width <= BRIDGED + 1)
    return Bridged(jnp.where(observed, x, crossing), reached, observed | short)


def _at(array: Float[Array, "T D"] | Bool[Array, "T D"], rows: Int[Array, "T D"]):
    return jnp.take_along_axis(array, jnp.clip(rows, 0, array.shape[0] - 1), axis=0)
