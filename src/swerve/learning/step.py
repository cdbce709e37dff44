"""One pure update, and many of them in one compiled call."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from swerve.choosing.use import IN_USE
from swerve.inference.frames import Frames, Key
from swerve.learning.schedule import Schedule, knobs, learning_rate
from swerve.models.model import Knobs, Model, Terms, usage_entropy

VALUES_AT_ONCE = 2_500_000  # of all channels, when nothing but the bound is computed
ADAM = optax.scale_by_adam()
Share = Float[Array, ""] | float
STRETCHES = 5  # kinds of them: training hides 1, 2, 4, 8 or 16 frames in a row


class Restart(NamedTuple):
    """What makes one restart differ from another, apart from its parameters."""

    schedule: Schedule
    key: Key
    guide: Int[Array, ""]
    """Which of the guides (AR-HMM responsibilities) this restart follows."""
    source: Int[Array, ""]
    """Which of the sources of frames it reads."""


class TrainState(NamedTuple):
    """What changes from step to step."""

    system: Model
    adam: PyTree
    step: Int[Array, ""]
    skipped: Int[Array, ""]
    """Updates left out so far because they were not finite."""
    skipped_in_a_row: Int[Array, ""]


class TrainingData(NamedTuple):
    """The same N training windows as each source has them, and for every guide a preference over regimes at each frame.

    Recordings of numbers are one source. Of video, every code is one.
    """

    frames: Frames
    guides: Float[Array, "G N T K"]
    goes_on: Bool[Array, " N"] | None = None
    """Which windows end where the next one begins, in the same recording: training also sees what lies across."""

    def batch(self, restart: "Restart", picked: Int[Array, " B"], *, key: Key) -> tuple[Frames, Float[Array, "B T K"]]:
        """The picked windows, or those as long that begin at a random frame of them, as far as recordings go on."""
        _, count, length, _ = self.guides.shape

        def windows(leaf: Array, row: Int[Array, ""]) -> Array:
            if self.goes_on is None:
                return leaf[row, picked]
            both = jnp.concatenate([leaf[row, picked], leaf[row, jnp.minimum(picked + 1, count - 1)]], axis=1)
            return jax.vmap(lambda frames, begin: jax.lax.dynamic_slice_in_dim(frames, begin, length))(both, begins)

        if self.goes_on is not None:
            begins = jnp.where(self.goes_on[picked], jax.random.randint(key, picked.shape, 0, length), 0)
        return jax.tree.map(lambda leaf: windows(leaf, restart.source), self.frames), windows(
            self.guides, restart.guide
        )


def start(system: Model) -> TrainState:
    """A fresh state around the given parameters."""
    system = jax.tree.map(lambda leaf: leaf.astype(leaf.dtype), system)  # a weak type would compile all twice
    step, skipped, in_a_row = (jnp.zeros((), jnp.int32) for _ in range(3))  # donated: they must not alias
    moments = ADAM.init(system)  # pyright: ignore[reportArgumentType]
    return TrainState(system, moments, step, skipped, in_a_row)


class TrainingLog(NamedTuple):
    """What training maximises and its parts, in nats per frame, averaged over batch and steps."""

    objective: Float[Array, "*R"]
    elbo: Float[Array, "*R"]
    """As bent by temperature, tempered evidence and guidance."""
    tempering: Float[Array, "*R"]
    guidance: Float[Array, "*R"]
    uniformity: Float[Array, "*R"]
    balance: Float[Array, "*R"]


def batch_loss(
    system: Model, frames: Frames, guide: Float[Array, "B T K"], bent: Knobs, keys: Shaped[Array, " B"]
) -> tuple[Float[Array, ""], TrainingLog]:
    """Minus the objective, terms summed over time and averaged over the batch, and its parts for the log."""
    terms = jax.vmap(lambda f, g, k: system.terms(f, bent, g, key=k))(frames, guide, keys)
    elbo, tempering, guidance = terms.elbo.mean(), terms.tempering.mean(), terms.guidance.mean()
    length = terms.frames.mean()
    uniformity = -bent.uniformity * terms.uniform_kl.mean()
    balance = bent.balance * length * usage_entropy(terms.usage.sum(axis=0))
    objective = elbo + uniformity + balance
    log = TrainingLog(objective, elbo, tempering, guidance, uniformity, balance)
    return -objective, jax.tree.map(lambda part: part / length, log)


def update(state: TrainState, data: TrainingData, restart: Restart, batch_size: int) -> tuple[TrainState, TrainingLog]:
    """One step of Adam on a random batch; a non-finite update is skipped and counted."""
    pick_key, gap_key, draw_key = jax.random.split(jax.random.fold_in(restart.key, state.step), 3)
    picked = jax.random.randint(pick_key, (batch_size,), 0, data.guides.shape[1])
    batch, guide = data.batch(restart, picked, key=jax.random.fold_in(pick_key, 0))
    frames = hide(batch, restart.schedule.gap_rate, restart.schedule.channel_gap_rate, key=gap_key)
    keys = jax.random.split(draw_key, batch_size)
    bent = knobs(restart.schedule, state.step)
    gradient, log = jax.grad(batch_loss, has_aux=True)(state.system, frames, guide, bent, keys)

    norm = optax.tree.norm(gradient)
    finite = jnp.isfinite(norm)
    shrink = jnp.minimum(1.0, restart.schedule.clip / norm)
    direction, adam = ADAM.update(jax.tree.map(lambda g: g * shrink, gradient), state.adam)
    rate = learning_rate(restart.schedule, state.step)
    system = jax.tree.map(lambda p, d: p - rate * d, state.system, direction)

    system, adam = jax.tree.map(
        lambda new, old: jnp.where(finite, new, old), (system, adam), (state.system, state.adam)
    )
    bad = (~finite).astype(jnp.int32)
    moved = TrainState(system, adam, state.step + 1, state.skipped + bad, (state.skipped_in_a_row + 1) * bad)
    return moved, log


def hide(frames: Frames, rate: Share, channel_rate: Share, *, key: Key) -> Frames:
    """Treats a random share of what was observed as missing: of whole frames, and of single channels.

    It is hidden in stretches of several lengths, so that q learns how far a bridge carries (docs/decisions/0030).
    """
    frame_key, channel_key = jax.random.split(key)
    batch, length, channels = frames.observed.shape
    hidden = _stretches((batch, length, 1), rate, key=frame_key)
    hidden |= _stretches((batch, length, channels), channel_rate, key=channel_key)
    return frames._replace(observed=frames.observed & ~hidden)


def _stretches(shape: tuple[int, int, int], rate: Share, *, key: Key) -> Bool[Array, "B T D"]:
    """A share of about `rate`, in stretches of 1, 2, 4, ... frames, all equally often."""
    batch, length, channels = shape
    longest = 2 ** (STRETCHES - 1)
    begins = rate * STRETCHES / (2 * longest - 1)
    drawn = jax.random.uniform(key, (batch, longest - 1 + length, channels))  # some begin before the first frame
    kind = jnp.minimum(STRETCHES * drawn / jnp.maximum(begins, jnp.finfo(drawn.dtype).tiny), STRETCHES - 1)
    positions = jnp.arange(drawn.shape[1])[None, :, None]
    ends = jax.lax.cummax(jnp.where(drawn < begins, positions + jnp.left_shift(1, kind.astype(int)), 0), axis=1)
    return (ends > positions)[:, longest - 1 :]


def _advance(
    state: TrainState, data: TrainingData, restart: Restart, *, steps: int, batch_size: int
) -> tuple[TrainState, TrainingLog]:
    with jax.default_matmul_precision("highest"):
        state, logs = jax.lax.scan(lambda s, _: update(s, data, restart, batch_size), state, None, length=steps)
    return state, jax.tree.map(jnp.nanmean, logs)


@partial(jax.jit, static_argnames=("steps", "batch_size"), donate_argnames="state")
def advance(
    state: TrainState, data: TrainingData, restart: Restart, *, steps: int, batch_size: int
) -> tuple[TrainState, TrainingLog]:
    """Many updates of one restart in one compiled call."""
    return _advance(state, data, restart, steps=steps, batch_size=batch_size)


@partial(jax.jit, static_argnames=("steps", "batch_size"), donate_argnames="states")
def advance_together(
    states: TrainState, data: TrainingData, restarts: Restart, *, steps: int, batch_size: int
) -> tuple[TrainState, TrainingLog]:
    """Many updates of all restarts at once: on an accelerator they cost little more than one."""
    one = partial(_advance, steps=steps, batch_size=batch_size)
    return jax.vmap(one, in_axes=(0, None, 0))(states, data, restarts)


class HeldOut(NamedTuple):
    """What a person watches, on sequences that were not trained on."""

    bound: Float[Array, "*R"]
    """ELBO in nats per frame, nothing bent."""
    regimes_in_use: Float[Array, "*R"]
    mean_duration: Float[Array, "*R"]
    confidence: Float[Array, "*R"]
    in_use: Float[Array, "*R"]
    """How many regimes hold 1 % of the frames; `regimes_in_use`, the exponential of the entropy, draws the curve."""
    windows: Float[Array, "*R N"]
    """ELBO of every window, in nats."""


def _evaluate(system: Model, frames: Frames) -> HeldOut:
    with jax.default_matmul_precision("highest"):
        terms: Terms = for_every_sequence(lambda f, k: system.terms(f, Knobs(), key=k), frames)
    count, usage = terms.frames.sum(), terms.usage.sum(axis=0)
    return HeldOut(
        bound=terms.elbo.sum() / count,
        regimes_in_use=jnp.exp(usage_entropy(usage)),
        mean_duration=count / (terms.switches.sum() + len(frames.x)),
        confidence=terms.confidence.sum() / count,
        in_use=jnp.sum(usage >= IN_USE * usage.sum()).astype(float),
        windows=terms.elbo,
    )


def for_every_sequence(function: Callable, frames: Frames):
    """vmap over sequences and fixed keys, but a part of the batch at a time where the frames are video."""
    keys = jax.vmap(held_out_key)(jnp.arange(len(frames.x)))
    rows = max(1, VALUES_AT_ONCE // math.prod(frames.x.shape[1:]))
    if rows >= len(frames.x):
        return jax.vmap(function)(frames, keys)
    return jax.lax.map(lambda one: function(*one), (frames, keys), batch_size=rows)


def held_out_key(i: Int[Array, ""] | int) -> Key:
    """The noise with which the i-th sequence is always judged."""
    return jax.random.fold_in(jax.random.key(0), i)


evaluate = jax.jit(_evaluate)


@jax.jit
def evaluate_together(systems: Model, frames: Frames, sources: Int[Array, " R"]) -> HeldOut:
    """All restarts at once, each on the frames of its source."""
    return jax.vmap(lambda system, source: _evaluate(system, jax.tree.map(lambda a: a[source], frames)))(
        systems, sources
    )
