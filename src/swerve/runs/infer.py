"""A model on whole recordings in their own units: short ones side by side, long ones chunk by chunk."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from swerve.data.windows import Standardizer, frames_between, to_frames
from swerve.inference import chunks
from swerve.inference.frames import Frames
from swerve.learning.step import held_out_key
from swerve.models.model import Model
from swerve.runs.segment import (
    MOST_FRAMES,
    MOST_VALUES,
    batch_rows,
    bound_batch,
    bucket_length,
    bucket_rows,
    chunk_length,
    draw_keys,
    fits_at_once,
    infer_batch,
    worthwhile_labels,
    worthwhile_labels_of_one,
)
from swerve.types import Recording, Segmentation


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


class Looks:
    """What models made of recordings while they were fitted: no model infers the same recording twice.

    Recordings are told apart by identity, so this is only for as long as nobody may change them.
    """

    def __init__(self):
        self._kept: dict[tuple[int, int], tuple[Model, Recording, Inferred]] = {}

    def of(
        self,
        model: Model,
        series: Sequence[Recording],
        infer: Callable[[list[Recording]], list[Inferred]],
        *,
        expects: bool,
    ) -> list[Inferred]:
        """What was kept of these, and of all others what `infer` says now."""

        def known(one: Recording) -> bool:
            kept = self._kept.get((id(model), id(one)))
            return kept is not None and (not expects or len(kept[2].expected) == len(one))

        new = [one for one in series if not known(one)]
        for one, found in zip(new, infer(new) if new else [], strict=True):
            self._kept[id(model), id(one)] = model, one, found
        return [self._kept[id(model), id(one)][2] for one in series]


@dataclass(frozen=True)
class Applied:
    """A model and the scale of the recordings it was fitted to; those it is given here have its columns."""

    model: Model
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
        for length, batch in self._batches(series, long):
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
        """In nats per frame of standardised data; what one recording adds depends on nothing but itself."""
        long = self._long(series)
        total = sum(self._long_bound(series[i]) for i in long)
        for length, batch in self._batches(series, long):
            total += float(bound_batch(self.model, self._frames(series, batch, length)).sum())
        return total / sum(map(len, series))

    def most_frames(self, channels: int) -> int | None:
        """The longest recording that the model takes; None for one that takes any."""
        return None if self.model.walk() is not None else min(MOST_FRAMES, MOST_VALUES // channels)

    def _long(self, series: Sequence[Recording]) -> list[int]:
        """Which recordings are walked through chunk by chunk."""
        if self.model.walk() is None:
            return []
        return [i for i, one in enumerate(series) if not fits_at_once(len(one), one.x.shape[1])]

    def _batches(self, series: Sequence[Recording], long: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
        """Recordings that are computed together, and the length to which they are padded."""
        lengths = {i: bucket_length(len(one)) for i, one in enumerate(series) if i not in long}
        for length in sorted(set(lengths.values())):
            members = [i for i, bucket in lengths.items() if bucket == length]
            rows = batch_rows(length, series[0].x.shape[1])
            for begin in range(0, len(members), rows):
                yield length, members[begin : begin + rows]

    def _frames(self, series: Sequence[Recording], batch: Sequence[int], length: int) -> Frames:
        """Standardised and padded, in number too, so that few shapes are ever compiled."""
        frames = to_frames(self.standardizer.apply_to([series[i] for i in batch]), length=length)
        padding = bucket_rows(len(batch), length, series[0].x.shape[1]) - len(batch)
        return jax.tree.map(
            lambda a: jnp.asarray(np.concatenate([a, np.zeros((padding, *a.shape[1:]), a.dtype)])), frames
        )

    def _infer_long(self, one: Recording, samples: int, viterbi: bool, on_progress, *, expects: bool) -> Inferred:
        walk = self.model.walk()
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

    def _long_bound(self, one: Recording) -> float:
        walk = self.model.walk(ahead=False)
        assert walk is not None
        chunk = chunk_length(one.x.shape[1], self.regimes)
        return chunks.bound(
            walk, partial(frames_between, one, self.standardizer), len(one), held_out_key(0)[None], chunk=chunk
        )

    def _infer_batch(
        self, series: Sequence[Recording], batch: list[int], length: int, samples: int, viterbi: bool
    ) -> dict[int, Inferred]:
        frames = self._frames(series, batch, length)
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


def _tell(on_progress: Callable[[float], None], done: float, size: int, share: float) -> None:
    on_progress(done + share * size)
