"""What a model says beyond the regimes of a sequence: its hidden states, sequences of its own, and possible futures."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from swerve.inference import messages
from swerve.inference.frames import Frames, Key
from swerve.models.arhmm import ArHmm
from swerve.models.arhmm import generation as ar
from swerve.models.model import Knobs
from swerve.models.snlds.bound import regime_chain
from swerve.models.snlds.model import System

PATHS = 40  # of the hidden states up to now; from the end of each, several futures start


class Sequence(NamedTuple):
    """One draw of x and s."""

    x: Float[Array, "T D"]
    s: Int[Array, " T"]


class Futures(NamedTuple):
    """Draws of the frames that follow a sequence, and how probable each regime is in them."""

    x: Float[Array, "S H D"]
    probabilities: Float[Array, "H K"]


@partial(jax.jit, static_argnames="samples")
def mean_states(system: System, frames: Frames, *, samples: int, key: Key) -> Float[Array, "T L"]:
    """E_q[z_t | x], by the average of q's means over draws of the states before."""

    def one(i):
        draw, _, _ = regime_chain(system.model, system.posterior, frames, Knobs(), key=jax.random.fold_in(key, i))
        return draw.mean

    with jax.default_matmul_precision("highest"):
        return jax.vmap(one)(jnp.arange(samples)).mean(axis=0)


@jax.jit
def sequence(model: System | ArHmm, u: Float[Array, "T U"], *, key: Key) -> Sequence:
    """A draw from p(x, s), one frame per row of u."""
    with jax.default_matmul_precision("highest"):
        drawn = ar.sample(model, len(u), key=key) if isinstance(model, ArHmm) else model.model.sample(u, key=key)
    return Sequence(drawn.x, drawn.s)


@partial(jax.jit, static_argnames="samples")
def futures(model: System | ArHmm, frames: Frames, u: Float[Array, "H U"], *, samples: int, key: Key) -> Futures:
    """Draws from p(x_{T+1}..x_{T+H}, s_{T+1}..s_{T+H} | x_1..x_T), one frame per row of u."""
    with jax.default_matmul_precision("highest"):
        if isinstance(model, ArHmm):
            return _futures_of_arhmm(model, frames, u, samples, key)
        return _futures_of_system(model, frames, u, samples, key)


def _futures_of_arhmm(model: ArHmm, frames: Frames, u: Float[Array, "H U"], samples: int, key: Key) -> Futures:
    """The regimes follow their chain whatever x does, so that their probabilities are exact: p(s_T | x) A^h."""
    log_now, past = ar.log_regimes(model, frames), ar.last_frames(model, frames)

    def one(key):
        regime_key, future_key = jax.random.split(key)
        s = jax.random.categorical(regime_key, log_now)
        return ar.go_on(model, past, s, len(u), key=future_key).x

    def step(now, _):
        after = now @ jnp.exp(model.log_transition)
        return after, after

    _, probabilities = jax.lax.scan(step, jnp.exp(log_now), None, length=len(u))
    return Futures(jax.vmap(one)(jax.random.split(key, samples)), probabilities)


def _futures_of_system(system: System, frames: Frames, u: Float[Array, "H U"], samples: int, key: Key) -> Futures:
    """z_1..z_T ~ q, s_T ~ p(s_T | x, z), and from there on the model alone."""
    model = system.model
    paths = min(PATHS, samples)
    each = -(-samples // paths)

    def of_path(key):
        draw_key, future_key = jax.random.split(key)
        draw, chain, _ = regime_chain(model, system.posterior, frames, Knobs(), key=draw_key)
        log_now = messages.filter(*chain).log_filtered[-1]

        def one(key):
            regime_key, future_key = jax.random.split(key)
            s = jax.random.categorical(regime_key, log_now)
            return model.go_on(model.moment(frames, draw.z, s), u, key=future_key)

        return jax.vmap(one)(jax.random.split(future_key, each))

    drawn = jax.vmap(of_path)(jax.random.split(key, paths))
    x, s = (leaf.reshape(paths * each, *leaf.shape[2:]) for leaf in (drawn.x, drawn.s))
    return Futures(x, jax.nn.one_hot(s, model.regimes).mean(axis=0))
