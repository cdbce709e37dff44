"""Lags that reach into gaps: what they read there, and what can still be told from it (docs/decisions/0029).

A missing value is *bridged* from both sides; where the gap is too long for that, the last value seen is carried
forward. Only short gaps leave a value *known*, and a value tells of its regime only if its own channel's lags are
known.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from swerve.inference.bridges import bridge
from swerve.inference.frames import Frames


class Filled(NamedTuple):
    """One sequence as the lags read it; with a leading axis, a batch of them."""

    x: Float[Array, "*batch T D"]
    """Without any missing value."""
    observed: Bool[Array, "*batch T D"]
    known: Bool[Array, "*batch T D"]
    """What lags may be trusted with."""
    tells: Bool[Array, "*batch T D"]
    """Observed, and read with lags that are known."""
    valid: Bool[Array, "*batch T"]


def carried(frames: Frames, before_first: Float[Array, " D"], lags: int) -> Filled:
    """Missing values replaced by the channel's last observed one, or by `before_first` when there is none.

    Only the past fills a lag, so that p(x_t | past) stays a density of what was observed given what was observed
    before it, and the product over t a proper likelihood. For that every value observed has to tell.
    """
    positions = jnp.arange(frames.x.shape[0])[:, None]
    last_seen = jax.lax.cummax(jnp.where(frames.observed, positions, -1), axis=0)
    x = jnp.take_along_axis(frames.x, jnp.maximum(last_seen, 0), axis=0)
    everywhere = jnp.ones_like(frames.observed)
    return _filled(frames, jnp.where(last_seen >= 0, x, before_first[None]), everywhere, lags)


def bridged(frames: Frames, before_first: Float[Array, " D"], lags: int) -> Filled:
    """The better picture of a recording that is there as a whole: both sides fill a gap."""
    found = bridge(frames)
    x = jnp.where(found.reached, found.x, carried(frames, before_first, lags).x)
    return _filled(frames, x, found.known, lags)


def lags_known(known: Bool[Array, "rows D"], lags: int) -> Bool[Array, "T D"]:
    """Whether all lags of a channel are known; `known` begins `lags` frames before the first that is asked about."""
    length = known.shape[0] - lags
    every = jnp.ones_like(known[:length])
    for lag in range(1, lags + 1):
        every &= known[lags - lag : lags - lag + length]
    return every


def _filled(frames: Frames, x: Float[Array, "T D"], known: Bool[Array, "T D"], lags: int) -> Filled:
    """The first frame stands in for those before it, and tells nothing itself where there are lags."""
    told = frames.observed & lags_known(jnp.concatenate([jnp.repeat(known[:1], lags, axis=0), known]), lags)
    return Filled(x, frames.observed, known, told.at[0].set(told[0] & (lags == 0)), frames.valid)
