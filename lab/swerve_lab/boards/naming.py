"""Found regimes under the numbers of the true ones, so that one colour can stand for both."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Int

from swerve.choosing.matching import Labels, one_to_one, pooled_confusion
from swerve.types import Segmentation


def in_true_numbers(found: Sequence[Segmentation], truth: Sequence[Labels]) -> list[Segmentation]:
    """One matching for all sequences; regimes that match no true one get the numbers after the true ones."""
    numbers = _numbers(found, truth)
    return [_renamed(one, numbers) for one in found]


def _numbers(found: Sequence[Segmentation], truth: Sequence[Labels]) -> Int[np.ndarray, " K"]:
    match = one_to_one(pooled_confusion([one.labels for one in found], truth))
    true_regimes = max(int(one.max(initial=-1)) for one in truth) + 1
    numbers = np.full(found[0].probabilities.shape[1], -1)
    matched = match.new < true_regimes
    numbers[match.old[matched]] = match.new[matched]
    others = np.flatnonzero(numbers < 0)
    numbers[others] = true_regimes + np.arange(len(others))
    return numbers


def _renamed(one: Segmentation, numbers: Int[np.ndarray, " K"]) -> Segmentation:
    probabilities = np.zeros((len(one.labels), numbers.max() + 1))
    probabilities[:, numbers] = one.probabilities
    return replace(one, labels=numbers[one.labels], probabilities=probabilities)
