"""A model on whole recordings in their own units: short ones side by side, long ones chunk by chunk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from swerve.models import arhmm
from swerve.inference import chunks
from swerve.models.arhmm import ArHmm
from swerve.models.arhmm.prediction import expected
from swerve.models.arhmm.walk import ArHmmWalk
from swerve.inference.chunks import AbstractWalk
from swerve.models.snlds.model import CollapsedWalk, System
from swerve.data.windows import Standardizer, frames_between, to_frames
from swerve.models.arhmm.search import held_out_likelihood
from swerve.runs.segment import (
    MOST_FRAMES,
    MOST_VALUES,
    batch_rows,
    bucket_length,
    bucket_rows,
    chunk_length,
    draw_keys,
    fits_at_once,
    infer_batch,
    worthwhile_labels,
    worthwhile_labels_of_one,
)
from swerve.models.model import AbstractSystem
from swerve.learning.step import evaluate, held_out_key
from swerve.inference.frames import Frames, Key
from swerve.types import Segmentation, Recording


@dataclass(frozen=True)
class Inferred:
    """What a model makes of the frames that it sees: regimes, and x as it expects it, in the data's units."""

    labels: Int[np.ndarray, " T"]
    probabilities: Float[np.ndarray, "T K"]
    expected: Float[np.ndarray, "_ D"]
    """Empty where nobody asked for it."""
    name: str = ""

    def in_rows(self, recording: Recording, names: tuple[str, ...] = ()) -> Segmentation:
        """The regimes in the rows of the recording's file: each row has those of the frame that stands for it."""
        back = recording.way_back
        labels, probabilities = self.labels[back.covered_by], self.probabilities[back.covered_by]
        return Segmentation(labels, probabilities, back.rows, back.times, self.name, names)


@dataclass(frozen=True)
class Applied:
    """A model and the scale of the recordings it was fitted to; those it is given here have its columns."""

    model: AbstractSystem | ArHmm
    standardizer: Standardizer
    regimes: int

    def infer(
        self,
        series: Sequence[Recording],
        samples: int,
        *,
        viterbi: bool,
        expects: bool,
        on_progress: Callable[[float], None],
    ) -> list[Inferred]:
        """Regimes under the model's own numbers. `on_progress` hears how many frames are done.

        What is expected of a long recording takes as much memory as the recording: only where it is asked for.
        """
        done = 0.0
        results: dict[int, Inferred] = {}
        long = self._long(series)
        lengths = {i: bucket_length(len(one)) for i, one in enumerate(series) if i not in long}
        for length in sorted(set(lengths.values())):
            members = [i for i, bucket in lengths.items() if bucket == length]
            rows = batch_rows(length, series[0].x.shape[1])
            for begin in range(0, len(members), rows):
                batch = members[begin : begin + rows]
                results |= self._infer_batch(series, batch, length, samples, viterbi)
                done += sum(len(series[i]) for i in batch)
                on_progress(done)
        for i in long:
            size = len(series[i])
            tell = partial(_tell, on_progress, done, size)
            results[i] = self._infer_long(series[i], samples, viterbi, tell, expects=expects)
            done += size
        return [results[i] for i in range(len(series))]

    def bound(self, series: Sequence[Recording]) -> float:
        """The bound or exact log-likelihood in nats per frame of standardised data."""
        long = self._long(series)
        short = [one for i, one in enumerate(series) if i not in long]
        total = sum(self._long_bound(series[i], held_out_key(i)) for i in long)
        if short:
            frames = jax.tree.map(jnp.asarray, to_frames(self.standardizer.apply_to(short)))
            judge = held_out_likelihood if isinstance(self.model, ArHmm) else lambda *two: evaluate(*two).bound
            average = float(judge(self.model, frames))
            if not long:
                return average
            total += average * sum(map(len, short))
        return total / sum(map(len, series))

    def most_frames(self, channels: int) -> int | None:
        """The longest recording that the model takes; None for one that takes any."""
        return None if walk_of(self.model) is not None else min(MOST_FRAMES, MOST_VALUES // channels)

    def _long(self, series: Sequence[Recording]) -> list[int]:
        """Which recordings are walked through chunk by chunk."""
        if walk_of(self.model) is None:
            return []
        return [i for i, one in enumerate(series) if not fits_at_once(len(one), one.x.shape[1])]

    def _infer_long(self, one: Recording, samples: int, viterbi: bool, on_progress, *, expects: bool) -> Inferred:
        walk = walk_of(self.model)
        assert walk is not None
        expected = np.empty(one.x.shape if expects else (0, one.x.shape[1]))

        def keep(first: int, rows: np.ndarray) -> None:
            expected[first : first + len(rows)] = self.standardizer.invert(rows.astype(float))

        found = chunks.infer(
            walk,
            partial(frames_between, one, self.standardizer),
            len(one),
            draw_keys(samples),
            chunk=chunk_length(one.x.shape[1], self.regimes),
            on_expected=keep if expects else None,
            on_progress=on_progress,
        )
        labels = found.path if viterbi else worthwhile_labels_of_one(found.probabilities)
        return Inferred(labels, found.probabilities.astype(float), expected, one.name)

    def _long_bound(self, one: Recording, key: Key) -> float:
        walk = walk_of(self.model, looks_ahead=False)
        assert walk is not None
        chunk = chunk_length(one.x.shape[1], self.regimes)
        return chunks.bound(walk, partial(frames_between, one, self.standardizer), len(one), key[None], chunk=chunk)

    def _infer_batch(
        self, series: Sequence[Recording], batch: list[int], length: int, samples: int, viterbi: bool
    ) -> dict[int, Inferred]:
        frames = to_frames(self.standardizer.apply_to([series[i] for i in batch]), length=length)
        padding = bucket_rows(len(batch), length, series[0].x.shape[1]) - len(batch)
        frames = jax.tree.map(
            lambda a: jnp.asarray(np.concatenate([a, np.zeros((padding, *a.shape[1:]), a.dtype)])), frames
        )
        if isinstance(self.model, ArHmm):
            probabilities, paths, expected = _infer_arhmm(self.model, frames)
        else:
            probabilities, paths, expected = infer_batch(self.model, frames, samples=samples)
        labels = paths if viterbi else worthwhile_labels(probabilities, frames.valid)
        probabilities, labels, expected = (np.asarray(a) for a in (probabilities, labels, expected))
        results = {}
        for row, i in enumerate(batch):
            stop = len(series[i])
            probable = probabilities[row, :stop].astype(float)
            rebuilt = self.standardizer.invert(expected[row, :stop].astype(float))
            results[i] = Inferred(labels[row, :stop].astype(np.int64), probable, rebuilt, series[i].name)
        return results


def walk_of(model: AbstractSystem | ArHmm, *, looks_ahead: bool = True) -> AbstractWalk | None:
    """The model on its way through a recording of any length; None if it needs a recording as a whole.

    A likelihood of x may not look ahead of an AR-HMM's lags.
    """
    if isinstance(model, ArHmm):
        return ArHmmWalk(model, looks_ahead)
    return CollapsedWalk(model) if isinstance(model, System) else None


def _tell(on_progress: Callable[[float], None], done: float, size: int, share: float) -> None:
    on_progress(done + share * size)


@jax.jit
def _infer_arhmm(model: ArHmm, frames: Frames):
    def one(sequence):
        probable = arhmm.smooth(model, sequence)
        return probable, arhmm.viterbi(model, sequence), expected(model, sequence, probable)

    return jax.vmap(one)(frames)
