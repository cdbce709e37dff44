from itertools import permutations

import numpy as np
import pytest

from swerve.choosing.matching import merging, one_to_one, pooled_confusion


def labels(*values: int) -> np.ndarray:
    return np.array(values)


def test_the_confusion_is_pooled_and_skips_unlabelled_frames():
    confusion = pooled_confusion([labels(5, 5, 3), labels(3, 9)], [labels(0, 2, 2), labels(2, -1)])
    assert confusion.predicted.tolist() == [3, 5, 9]
    assert confusion.true.tolist() == [0, 2]
    assert confusion.counts.tolist() == [[0, 2], [1, 1], [0, 0]]


def test_surplus_regimes_stay_unmatched_and_distinct():
    predicted, truth = labels(0, 0, 1, 2, 3, 3, 3), labels(0, 0, 0, 0, 1, 1, 1)
    matched = one_to_one(pooled_confusion([predicted], [truth]))(predicted)
    assert matched[[0, 1, 4, 5, 6]].tolist() == [0, 0, 1, 1, 1]
    assert matched[2] != matched[3] and min(matched[2], matched[3]) > 1


def test_merging_sends_every_regime_to_its_largest_overlap():
    predicted, truth = labels(0, 0, 1, 2, 3, 3, 3), labels(0, 0, 0, 0, 1, 1, 1)
    assert merging(pooled_confusion([predicted], [truth]))(predicted).tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_the_matching_is_optimal_not_greedy():
    # greedy takes the largest cell first and ends with 5 + 0 frames; the best is 4 + 4
    counts = [[5, 4], [4, 0]]
    predicted = np.repeat([0, 0, 1, 1], np.ravel(counts))
    truth = np.repeat([0, 1, 0, 1], np.ravel(counts))
    matched = one_to_one(pooled_confusion([predicted], [truth]))(predicted)
    assert (matched == truth).sum() == 8


@pytest.mark.parametrize("seed", range(20))
def test_no_permutation_agrees_on_more_frames(seed):
    rng = np.random.default_rng(seed)
    predicted, truth = rng.integers(0, 5, 60), rng.integers(0, 3, 60)
    matched = one_to_one(pooled_confusion([predicted], [truth]))(predicted)
    best = max(np.sum(np.array(order)[predicted] == truth) for order in permutations(range(5)))
    assert np.sum(matched == truth) == best


def test_labels_that_were_never_matched_are_refused():
    relabel = one_to_one(pooled_confusion([labels(0, 2)], [labels(0, 1)]))
    with pytest.raises(ValueError, match="does not occur"):
        relabel(labels(1))


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="sequence 1 has 2 predicted labels but 3"):
        pooled_confusion([labels(0), labels(0, 1)], [labels(0), labels(0, 1, 1)])
    with pytest.raises(ValueError, match="1 predicted sequences"):
        pooled_confusion([labels(0)], [labels(0), labels(1)])
    with pytest.raises(ValueError, match="no frame"):
        pooled_confusion([labels(0)], [labels(-1)])
