"""Many segmentations as one."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from swerve.choosing import consensus as ensemble
from swerve.choosing.consensus import consensus

TRUTH = np.repeat([0, 1, 2, 0, 2, 1], 50)


def noisy(rng, share):
    """The truth under other names, with a share of the frames labelled at random."""
    labels = rng.permutation(3)[TRUTH]
    return np.where(rng.random(len(TRUTH)) < share, rng.integers(0, 3, len(TRUTH)), labels)


@pytest.mark.parametrize("compared", [4000, 100])
def test_errors_of_single_segmentations_average_out(compared, monkeypatch):
    monkeypatch.setattr(ensemble, "MOST_COMPARED", compared)
    rng = np.random.default_rng(0)
    every = np.stack([noisy(rng, 0.4) for _ in range(15)])
    alone = [adjusted_rand_score(TRUTH, one) for one in every]
    assert max(alone) < 0.6
    assert adjusted_rand_score(TRUTH, consensus(every, 3)) > 0.97


def test_segmentations_may_have_fewer_regimes_than_the_consensus():
    halves = np.stack([TRUTH == 0, TRUTH == 1]).astype(int)
    assert adjusted_rand_score(TRUTH, consensus(halves, 3)) == 1


def test_one_segmentation_is_its_own_consensus():
    assert adjusted_rand_score(TRUTH, consensus(TRUTH[None], 3)) == 1


def test_there_are_no_more_regimes_than_asked_for():
    rng = np.random.default_rng(1)
    assert len(np.unique(consensus(rng.integers(0, 5, (4, 200)), 2))) <= 2
