"""Parts that are taken away: as many as asked for, and nothing else changes."""

import numpy as np
import pytest

from swerve.errors import InputError
from swerve.types import Recording
from swerve_lab.boards import bouncing_ball
from swerve_lab.boards.board import Recordings
from swerve_lab.boards.damage import BURST, Damage

X = np.random.default_rng(0).normal(size=(2000, 6))


def test_frames_are_lost_whole_and_at_random():
    lost = np.isnan(Damage(frames=0.2).apply(X, np.random.default_rng(1)))
    assert np.array_equal(lost.any(axis=1), lost.all(axis=1))
    assert abs(lost.mean() - 0.2) < 0.03


def test_cells_are_lost_in_bursts():
    lost = np.isnan(Damage(cells=0.1).apply(X, np.random.default_rng(1)))
    assert 0.1 <= lost.mean() < 0.1 + BURST / X.size
    lengths = np.diff(np.flatnonzero(np.diff(np.pad(lost, ((1, 1), (0, 0))).T.ravel().astype(int))))[::2]
    assert lengths.min() >= BURST


def test_what_is_left_stays_as_it_was():
    damaged = Damage(0.2, 0.1).apply(X, np.random.default_rng(1))
    left = ~np.isnan(damaged)
    np.testing.assert_array_equal(damaged[left], X[left])
    assert Damage().apply(X, np.random.default_rng(1)) is X


def test_labels_stay_and_the_same_seed_takes_the_same():
    board = bouncing_ball.generate(3, seed=1)
    one, again, other = (board.damaged(Damage(0.2), seed=seed).x for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(np.isnan(one), np.isnan(other))
    recordings = Recordings("r", (Recording(X, s=np.zeros(len(X), int)),), ("r",)).damaged(Damage(0.2), seed=5)
    assert np.isnan(recordings.series()[0].x).any() and len(recordings.s[0]) == len(X)


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_all_can_not_be_lost(share):
    with pytest.raises(InputError, match="between 0 and 1"):
        Damage(frames=share)
