"""Scores of a segmentation against the truth, all in percent (definitions and examples: docs/scores.md)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from swerve.choosing.matching import Labels, merging, one_to_one, pooled_confusion
from swerve.choosing.use import used


@dataclass(frozen=True)
class F1:
    """Precision, recall and their harmonic mean, in percent."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class LabelScores:
    """What depends on how predicted regimes were matched to true ones."""

    frame_f1: float
    frame_macro: F1
    switch_tol0: F1
    switch_tol5: F1


@dataclass(frozen=True)
class Scores:
    """All scores of one test set: under the one-to-one matching, after merging, and free of matching."""

    matched: LabelScores
    merged: LabelScores
    nmi: float
    ari: float

    def as_dict(self) -> dict[str, float]:
        """Flat names for tables and JSON."""
        one, other = self.matched, self.merged
        return {
            "frame_f1": one.frame_f1,
            "frame_f1_macro": one.frame_macro.f1,
            "frame_precision_macro": one.frame_macro.precision,
            "frame_recall_macro": one.frame_macro.recall,
            "switch_f1_tol0": one.switch_tol0.f1,
            "switch_precision_tol0": one.switch_tol0.precision,
            "switch_recall_tol0": one.switch_tol0.recall,
            "switch_f1_tol5": one.switch_tol5.f1,
            "switch_precision_tol5": one.switch_tol5.precision,
            "switch_recall_tol5": one.switch_tol5.recall,
            "accuracy_merged": other.frame_f1,
            "frame_f1_macro_merged": other.frame_macro.f1,
            "switch_f1_tol0_merged": other.switch_tol0.f1,
            "switch_f1_tol5_merged": other.switch_tol5.f1,
            "nmi": self.nmi,
            "ari": self.ari,
        }


def score(predicted: Sequence[Labels], truth: Sequence[Labels]) -> Scores:
    """Scores of a whole test set: one label sequence per recording, truth below 0 where unlabelled."""
    confusion = pooled_confusion(predicted, truth)
    match, merge = one_to_one(confusion), merging(confusion)
    matched = [match(labels) for labels in predicted]
    merged = [merge(labels) for labels in predicted]
    every_true = np.concatenate(truth)
    labelled = every_true >= 0
    every_predicted = np.concatenate(matched)
    pair = every_true[labelled], every_predicted[labelled]
    return Scores(
        matched=label_scores(matched, truth),
        merged=label_scores(merged, truth),
        nmi=100.0 * float(normalized_mutual_info_score(*pair)),
        ari=100.0 * float(adjusted_rand_score(*pair)),
    )


def regimes_that_occur(labels: Sequence[Labels]) -> int:
    """How many regimes hold more than stray frames, of those that are labelled."""
    return used(np.concatenate(labels))


def label_scores(predicted: Sequence[Labels], truth: Sequence[Labels]) -> LabelScores:
    """Scores of labels that already carry the true regimes' numbers."""
    every_true, every_predicted = np.concatenate(truth), np.concatenate(predicted)
    labelled = every_true >= 0
    every_true, every_predicted = every_true[labelled], every_predicted[labelled]
    return LabelScores(
        frame_f1=100.0 * float(np.mean(every_predicted == every_true)),
        frame_macro=frame_macro(every_predicted, every_true),
        switch_tol0=switch_f1(predicted, truth, tolerance=0),
        switch_tol5=switch_f1(predicted, truth, tolerance=5),
    )


def frame_macro(predicted: Labels, truth: Labels) -> F1:
    """The plain mean over true regimes of each regime's precision, recall and F1."""
    each = [_one_regime(predicted == regime, truth == regime) for regime in np.unique(truth)]
    mean = np.mean([[one.precision, one.recall, one.f1] for one in each], axis=0)
    return F1(*map(float, mean))


def switch_f1(predicted: Sequence[Labels], truth: Sequence[Labels], *, tolerance: int) -> F1:
    """F1 of switch times; counts are pooled over sequences, and a switch is matched at most once."""
    hits = found = wanted = 0
    for labels, true in zip(predicted, truth, strict=True):
        for run in _labelled_runs(true):
            predicted_switches, true_switches = switch_times(labels[run]), switch_times(true[run])
            hits += count_matches(predicted_switches, true_switches, tolerance)
            found += len(predicted_switches)
            wanted += len(true_switches)
    return _from_counts(hits, found, wanted)


def switch_times(labels: Labels) -> Labels:
    """Frames t whose regime differs from that of frame t - 1."""
    return np.flatnonzero(labels[1:] != labels[:-1]) + 1


def count_matches(predicted: Labels, truth: Labels, tolerance: int) -> int:
    """Size of a maximum one-to-one matching of sorted times at most `tolerance` apart.

    The two earliest times, if close enough, belong to some maximum matching; otherwise the earlier of them
    is too early for everything that is left.
    """
    i = j = matches = 0
    while i < len(predicted) and j < len(truth):
        if abs(int(predicted[i]) - int(truth[j])) <= tolerance:
            i, j, matches = i + 1, j + 1, matches + 1
        elif predicted[i] < truth[j]:
            i += 1
        else:
            j += 1
    return matches


def _labelled_runs(truth: Labels) -> Iterator[slice]:
    """Maximal runs of labelled frames: an unlabelled gap cuts a sequence in two."""
    padded = np.concatenate([[False], truth >= 0, [False]])
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        yield slice(int(start), int(stop))


def _one_regime(predicted: Bool[np.ndarray, " F"], truth: Bool[np.ndarray, " F"]) -> F1:
    return _from_counts(int(np.sum(predicted & truth)), int(predicted.sum()), int(truth.sum()))


def _from_counts(hits: int, found: int, wanted: int) -> F1:
    """Nothing to find and nothing invented is a perfect score."""
    if not found and not wanted:
        return F1(100.0, 100.0, 100.0)
    precision = 100.0 * hits / found if found else 0.0
    recall = 100.0 * hits / wanted if wanted else 0.0
    return F1(precision, recall, 200.0 * hits / (found + wanted))
