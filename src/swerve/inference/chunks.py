"""A recording of any length, chunk by chunk: the same numbers as in one go, and the memory of one chunk.

Every chunk needs what lies on both sides of it. A pass from right to left keeps, for each chunk, what the backward RNN
knows after it. A pass from left to right keeps where the draws of z and the messages over regimes stand before it. A
last pass from right to left computes each chunk again between its borders, and smooths.

The first frame stands alone. A chunk is a number of transitions: it has the frames that they lead to, and is entered
from the frame before them.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, Shaped

from swerve.inference import messages
from swerve.inference.frames import Frames, LogInitial

FramesBetween = Callable[[int, int], Frames]
"""(start, stop) -> these frames of a recording, padding where it has none: before its first and after its last."""
# What the passes cost, as shares of the work: to read back, to go onward, to smooth.
READING, GOING, SMOOTHING = 0.05, 0.45, 0.5


class First(NamedTuple):
    """The first frame, for each of M draws, and where the model then stands."""

    place: PyTree[Array]
    log_initial: LogInitial
    log_evidence: Float[Array, "M K"]
    entropy: Float[Array, " M"]


class Stretch(NamedTuple):
    """The chain over regimes in the frames of one chunk, for each of M draws, and where the model then stands."""

    place: PyTree[Array]
    log_transition: Float[Array, "M C K K"] | Float[Array, "M K K"]
    """Into every frame of the chunk."""
    log_evidence: Float[Array, "M C K"]
    entropy: Float[Array, "M C"]
    """H(q) of every frame; 0 without draws."""
    path: PyTree[Array]
    """What `expected` asks for, of the frame before the chunk and of its own."""


class AbstractWalk(eqx.Module):
    """A model on its way through one recording.

    The frames that it is given are those of a chunk, `before` frames in front of them and `after` behind them.
    """

    @property
    @abstractmethod
    def before(self) -> int:
        """How many frames in front of a chunk it reads."""

    @property
    @abstractmethod
    def after(self) -> int:
        """How many frames behind it."""

    @property
    @abstractmethod
    def first_frame_tells(self) -> bool:
        """Otherwise the first frame takes the regime of the second."""

    @abstractmethod
    def nothing_behind(self) -> PyTree[Array]:
        """What the pass from right to left knows after the last frame."""

    @abstractmethod
    def read_back(self, behind: PyTree[Array], frames: Frames) -> PyTree[Array]:
        """What it knows before the chunk, from what it knew after it."""

    @abstractmethod
    def begin(self, behind: PyTree[Array], frames: Frames, keys: Shaped[Array, " M"]) -> First:
        """The first frame, as if it were a chunk."""

    @abstractmethod
    def onward(
        self,
        place: PyTree[Array],
        behind: PyTree[Array],
        frames: Frames,
        first: Int[Array, ""],
        keys: Shaped[Array, " M"],
    ) -> Stretch:
        """A chunk whose first frame has this index, from the place where the model stands before it."""

    @abstractmethod
    def expected(self, path: PyTree[Array], marginals: Float[Array, "M rows K"]) -> Float[Array, "rows D"]:
        """x as the model expects it, averaged over draws."""


class Border(NamedTuple):
    """All that is known from the left, after some frame."""

    place: PyTree[Array]
    log_joint: Float[Array, "M K"]
    best: LogInitial
    """Of the most probable path under the potentials averaged over draws."""


class Found(NamedTuple):
    """What a model makes of a recording."""

    probabilities: Float[np.ndarray, "T K"]
    path: Int[np.ndarray, " T"]


def infer(
    walk: AbstractWalk,
    frames_between: FramesBetween,
    length: int,
    keys: Shaped[Array, " M"],
    *,
    chunk: int,
    on_expected: Callable[[int, np.ndarray], None] | None = None,
    on_progress: Callable[[float], None] = lambda share: None,
) -> Found:
    """Regime probabilities averaged over draws, and the most probable path.

    `on_expected` gets the expected observations of some frames with the index of the first of them, and of every
    frame at least once. `on_progress` hears which share of the work is done.
    """
    tour = _Tour(walk, frames_between, length, chunk)
    behinds, border, _ = tour.start(keys, lambda share: on_progress(READING * share))
    borders, origins = [], []
    for number, first in tour.chunks():
        borders.append(border)
        border, _, origin = _onward(walk, keys, border, behinds[number], tour.frames(first), first)
        origins.append(np.asarray(origin, np.int16))
        on_progress(READING + GOING * tour.share(number))
    label = jnp.argmax(border.best)
    future = jnp.zeros_like(border.log_joint)
    probabilities = np.empty((length, future.shape[1]), np.float32)
    path = np.empty(length, int)
    path[-1] = label
    for number, first in reversed(tour.chunks()):
        arrays = (borders[number], behinds[number], tour.frames(first), first, future)
        marginals, expected, future = _back(walk, keys, *arrays, expects=on_expected is not None)
        labels = np.asarray(_trace_back(label, jnp.asarray(origins[number], int)))
        label = labels[0]
        rows = slice(first - 1, min(first + chunk, length))
        probabilities[rows] = marginals[: rows.stop - rows.start]
        path[rows.start : rows.stop - 1] = labels[: rows.stop - rows.start - 1]
        if on_expected is not None:
            on_expected(rows.start, np.asarray(expected)[: rows.stop - rows.start])
        on_progress(READING + GOING + SMOOTHING * (1 - tour.share(number - 1)))
    if length > 1 and not walk.first_frame_tells:
        probabilities[0], path[0] = probabilities[1], path[1]
    return Found(probabilities, path)


def bound(
    walk: AbstractWalk, frames_between: FramesBetween, length: int, keys: Shaped[Array, " M"], *, chunk: int
) -> float:
    """log Z + H(q) in nats, averaged over draws: a bound on log p(x), or log p(x) itself where nothing is drawn."""
    tour = _Tour(walk, frames_between, length, chunk)
    behinds, border, entropy = tour.start(keys)
    total = np.asarray(entropy, float)
    for number, first in tour.chunks():
        border, gained, _ = _onward(walk, keys, border, behinds[number], tour.frames(first), first)
        total += np.asarray(gained, float)
    return float(np.mean(total + np.asarray(jax.nn.logsumexp(border.log_joint, axis=1), float)))


class _Tour(NamedTuple):
    """Which chunks there are and which frames each of them sees."""

    walk: AbstractWalk
    frames_between: FramesBetween
    length: int
    chunk: int

    def chunks(self) -> list[tuple[int, int]]:
        """The number of every chunk and the index of its first frame."""
        return list(enumerate(range(1, max(self.length, 2), self.chunk)))

    def share(self, number: int) -> float:
        """How much of the recording is done after this chunk."""
        return (number + 1) / len(self.chunks())

    def frames(self, first: int) -> Frames:
        return self.frames_between(first - self.walk.before, first + self.chunk + self.walk.after)

    def start(self, keys, on_progress: Callable[[float], None] = lambda share: None):
        """What lies behind every chunk, the border after the first frame, and what that frame adds to the bound."""
        behind, behinds = self.walk.nothing_behind(), []
        for number, first in reversed(self.chunks()):
            behinds.append(behind)
            behind = _read_back(self.walk, keys, behind, self.frames(first))
            on_progress(1 - self.share(number - 1))
        frames = self.frames_between(-self.walk.before, 1 + self.walk.after)
        return behinds[::-1], *_begin(self.walk, keys, behind, frames)


def _as_batch_of_one(function: Callable) -> Callable:
    """Compiled as `segment.infer_batch` compiles it: products of other shapes would be rounded in another way."""

    @partial(jax.jit, static_argnames="expects")
    def compiled(walk: AbstractWalk, keys: Shaped[Array, " M"], *own: PyTree[Array], **options: bool):
        with jax.default_matmul_precision("highest"):
            many = jax.vmap(lambda *one: function(walk, keys, *one, **options))
            return _rows(many(*_rows(own, None)), 0)

    return compiled


def _rows(tree: PyTree[Array], which: int | None) -> PyTree[Array]:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[which], tree)


@_as_batch_of_one
def _read_back(walk: AbstractWalk, keys, behind, frames: Frames) -> PyTree[Array]:
    return walk.read_back(behind, frames)


@_as_batch_of_one
def _begin(walk: AbstractWalk, keys, behind, frames: Frames) -> tuple[Border, Float[Array, " M"]]:
    first = walk.begin(behind, frames, keys)
    lost, log_joint = jax.vmap(messages.begin, in_axes=(None, 0))(first.log_initial, first.log_evidence)
    _, best = messages.begin(first.log_initial, first.log_evidence.mean(axis=0))
    return Border(first.place, log_joint, best), lost + first.entropy


@_as_batch_of_one
def _onward(
    walk: AbstractWalk, keys, border: Border, behind, frames: Frames, first
) -> tuple[Border, Float[Array, " M"], Int[Array, "C K"]]:
    """The border after a chunk, what the chunk adds to the bound, and where the best path comes from."""
    stretch = walk.onward(border.place, behind, frames, first, keys)
    valid = _inside(walk, frames.valid)
    over_draws = jax.vmap(partial(messages.onward, mask=valid))
    lost, log_joint = over_draws(border.log_joint, stretch.log_transition, stretch.log_evidence)
    average = (stretch.log_transition.mean(axis=0), stretch.log_evidence.mean(axis=0))
    best, origins = messages.best_onward(border.best, *average, valid)
    gained = lost + jnp.where(valid[None], stretch.entropy, 0.0).sum(axis=1)
    return Border(stretch.place, log_joint, best), gained, origins


@_as_batch_of_one
def _back(
    walk: AbstractWalk, keys, border: Border, behind, frames: Frames, first, future, *, expects: bool
) -> tuple[Float[Array, "rows K"], Float[Array, "rows D"] | None, Float[Array, "M K"]]:
    """Of the frame before a chunk and of its own: probabilities and expected observations. Then the future of both."""
    stretch = walk.onward(border.place, behind, frames, first, keys)
    smooth = jax.vmap(partial(messages.smooth_between, mask=_inside(walk, frames.valid)))
    marginals, future = smooth(border.log_joint, stretch.log_transition, stretch.log_evidence, future)
    expected = walk.expected(stretch.path, marginals) if expects else None
    return marginals.mean(axis=0), expected, future


_trace_back = jax.jit(messages.trace_back)


def _inside(walk: AbstractWalk, rows: Shaped[Array, " rows"]) -> Shaped[Array, " C"]:
    """Of rows that reach beyond the chunk, its own."""
    return rows[walk.before : len(rows) - walk.after]
