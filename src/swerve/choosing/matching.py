"""Which predicted regime stands for which true one: decided once for a whole test set (docs/scores.md)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from scipy.optimize import linear_sum_assignment

Labels = Int[np.ndarray, " _"]


@dataclass(frozen=True)
class Confusion:
    """counts[i, j]: labelled frames with predicted regime `predicted[i]` and true regime `true[j]`."""

    counts: Int[np.ndarray, "P Q"]
    predicted: Int[np.ndarray, " P"]
    true: Int[np.ndarray, " Q"]


@dataclass(frozen=True)
class Relabelling:
    """Predicted regime `old[i]` becomes `new[i]`; unmatched regimes become numbers above every true one."""

    old: Int[np.ndarray, " P"]
    new: Int[np.ndarray, " P"]

    def __call__(self, labels: Labels) -> Labels:
        """The labels of one sequence, renamed."""
        if not np.isin(labels, self.old).all():
            raise ValueError("a label does not occur in the predictions that were matched")
        return self.new[np.searchsorted(self.old, labels)]


def pooled_confusion(predicted: Sequence[Labels], truth: Sequence[Labels]) -> Confusion:
    """One table over all sequences; frames whose truth is negative are unlabelled and not counted."""
    _check_lengths(predicted, truth)
    every_predicted, every_true = np.concatenate(predicted), np.concatenate(truth)
    old, row = np.unique(every_predicted, return_inverse=True)
    labelled = every_true >= 0
    if not labelled.any():
        raise ValueError("no frame of the truth is labelled")
    true, column = np.unique(every_true[labelled], return_inverse=True)
    counts = np.bincount(row[labelled] * len(true) + column, minlength=len(old) * len(true))
    return Confusion(counts.reshape(len(old), len(true)), old, true)


def one_to_one(confusion: Confusion) -> Relabelling:
    """The assignment of at most one predicted to each true regime under which most frames agree."""
    rows, columns = linear_sum_assignment(confusion.counts, maximize=True)
    overlap = confusion.counts[rows, columns] > 0
    return _relabelling(confusion, rows[overlap], columns[overlap])


def merging(confusion: Confusion) -> Relabelling:
    """Each predicted regime becomes the true regime it overlaps most (the lowest, if several)."""
    rows = np.flatnonzero(confusion.counts.any(axis=1))
    return _relabelling(confusion, rows, confusion.counts[rows].argmax(axis=1))


def _relabelling(confusion: Confusion, rows: Labels, columns: Labels) -> Relabelling:
    above_every_true = confusion.true.max() + 1
    new = above_every_true + np.arange(len(confusion.predicted))
    new[rows] = confusion.true[columns]
    return Relabelling(confusion.predicted, new)


def _check_lengths(predicted: Sequence[Labels], truth: Sequence[Labels]) -> None:
    if len(predicted) != len(truth):
        raise ValueError(f"{len(predicted)} predicted sequences can not be scored against {len(truth)} true ones")
    for i, (one, other) in enumerate(zip(predicted, truth, strict=True)):
        if len(one) != len(other):
            raise ValueError(f"sequence {i} has {len(one)} predicted labels but {len(other)} true ones")
