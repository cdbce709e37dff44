import numpy as np
import pytest

from swerve.types import Segmentation
from swerve_lab.boards.naming import in_true_numbers


def segmentation(labels, regimes):
    labels = np.array(labels)
    return Segmentation(labels, np.eye(regimes)[labels] * 0.9 + 0.1 / regimes, np.arange(len(labels)))


def test_matched_regimes_take_the_true_numbers_and_others_follow_them():
    truth = [np.array([0, 0, 0, 1, 1]), np.array([1, 1, 0, 0, 0])]
    found = [segmentation([4, 4, 4, 2, 2], 5), segmentation([2, 2, 4, 4, 0], 5)]
    first, second = in_true_numbers(found, truth)
    assert first.labels.tolist() == [0, 0, 0, 1, 1]
    assert second.labels.tolist() == [1, 1, 0, 0, 2]
    for before, after in zip(found, (first, second), strict=True):
        np.testing.assert_array_equal(after.probabilities, before.probabilities[:, [4, 2, 0, 1, 3]])
        np.testing.assert_array_equal(after.probabilities.argmax(axis=1), after.labels)


def test_true_regimes_that_nobody_found_keep_their_numbers_free():
    (found,) = in_true_numbers([segmentation([0, 0, 1, 1], 2)], [np.array([0, 2, 3, 3])])
    assert found.labels.tolist() == [0, 0, 3, 3]
    assert found.probabilities.shape == (4, 4)
    np.testing.assert_array_equal(found.probabilities[:, 1:3], 0)


def test_one_matching_holds_for_all_sequences_and_skips_unlabelled_frames():
    truth = [np.array([0, 0, 0]), np.array([1, -1, -1])]
    first, second = in_true_numbers([segmentation([1, 1, 1], 2), segmentation([0, 1, 1], 2)], truth)
    assert first.labels.tolist() == [0, 0, 0]
    assert second.labels.tolist() == [1, 0, 0]


def test_sequences_must_be_the_same():
    with pytest.raises(ValueError, match="2 predicted labels"):
        in_true_numbers([segmentation([0, 1], 2)], [np.array([0, 1, 1])])
