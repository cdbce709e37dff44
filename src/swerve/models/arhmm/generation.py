"""What an AR-HMM would produce: new sequences, and how a given one may go on."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from swerve.inference import messages
from swerve.inference.frames import Frames, Key
from swerve.models.arhmm.gaps import bridged
from swerve.models.arhmm.model import ArHmm, log_evidence
from swerve.models.arhmm.noise import einsum


class Sampled(NamedTuple):
    """One draw of x and s."""

    x: Float[Array, "T D"]
    s: Int[Array, " T"]


def sample(model: ArHmm, length: int, *, key: Key) -> Sampled:
    """A sequence from its first frame on."""
    start_key, regime_key, loop_key = jax.random.split(key, 3)
    s = jax.random.categorical(regime_key, model.log_initial)
    if model.lags == 0:
        past = jnp.zeros((0, model.weights.shape[1]))
        x = _emit(model, past, s, key=start_key)
    else:
        x = model.start_mean + model.start_noise.sample(jnp.asarray(0), key=start_key)
        past = jnp.tile(x[None], (model.lags, 1))
    rest = go_on(model, past, s, length - 1, key=loop_key)
    return jax.tree.map(lambda first, others: jnp.concatenate([first[None], others]), Sampled(x, s), rest)


def go_on(model: ArHmm, past: Float[Array, "lags D"], s: Int[Array, ""], length: int, *, key: Key) -> Sampled:
    """One draw of the frames that follow the regime s and the last frames, the latest first."""

    def step(carry, key):
        past, s = carry
        switch_key, emit_key = jax.random.split(key)
        s = jax.random.categorical(switch_key, model.log_transition[s])
        x = _emit(model, past, s, key=emit_key)
        return (jnp.concatenate([x[None], past])[: len(past)], s), Sampled(x, s)

    return jax.lax.scan(step, (past, s), jax.random.split(key, length))[1]


def log_regimes(model: ArHmm, frames: Frames) -> Float[Array, " K"]:
    """log p(s_T = k | x_1..x_T) at the last valid frame."""
    evidence = log_evidence(model, bridged(frames, model.start_mean, model.lags)) / model.temperature
    chain = (model.log_initial, model.log_transition, evidence, frames.valid)
    return messages.filter(*chain).log_filtered[-1]


def last_frames(model: ArHmm, frames: Frames) -> Float[Array, "lags D"]:
    """What the regimes will read of the frames up to the last valid one, the latest first."""
    filled = bridged(frames, model.start_mean, model.lags).x
    return filled[jnp.maximum(frames.valid.sum() - 1 - jnp.arange(model.lags), 0)]


def _emit(model: ArHmm, past: Float[Array, "lags D"], s: Int[Array, ""], *, key: Key) -> Float[Array, " D"]:
    bent = [] if model.waves is None else [model.waves(past[:1])[0]]
    window = jnp.concatenate([past.reshape(-1), jnp.ones(1), *bent])
    return einsum("dp,p->d", model.weights[s], window) + model.noise.sample(s, key=key)
