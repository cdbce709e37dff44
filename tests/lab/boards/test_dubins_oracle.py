"""The Dubins oracle finds what it knows the rules of."""

import numpy as np
import pytest

from swerve.choosing.scores import score
from swerve_lab.boards import catalog as boards
from swerve_lab.boards import dubins
from swerve_lab.boards.damage import Damage
from swerve_lab.boards.dubins_oracle import Physics, _hazard, decode, read_turns


def physics(board):
    noise = max(float((board.x - board.clean).std()), 1e-3)
    return Physics(dubins.SPEED, dubins.TURNS_PER_STEP, dubins.MEAN_DURATION, noise)


@pytest.mark.parametrize(("noise", "frames", "switches"), [(0.0, 99.9, 99.0), (0.1, 85.0, 60.0)])
def test_it_is_nearly_always_right(noise, frames, switches):
    board = dubins.positions(8, seed=3, noise=noise)
    scores = score(list(decode(board.x, physics(board))), list(board.s)).as_dict()
    assert scores["frame_f1"] >= frames
    assert scores["switch_f1_tol0"] >= switches


def test_what_is_missing_is_no_evidence():
    """One coordinate of a frame still counts, and labels cover frames of which nothing was seen."""
    board = dubins.positions(8, seed=3, noise=0.01).damaged(Damage(0.2, 0.1), seed=3)
    seen = ~np.isnan(board.x)
    assert (seen[..., 0] != seen[..., 1]).any() and not seen.any(axis=2).all()
    scores = score(list(boards.find("dubins-positions").oracle(board)), list(board.s)).as_dict()
    assert scores["frame_f1"] >= 99.0


def test_one_coordinate_alone_is_weak_evidence_and_no_wrong_one():
    board = dubins.positions(40, seed=3, noise=0.01)
    x = board.x.copy()
    x[:, :5, 1] = np.nan
    scores = score(list(decode(x, physics(board))), list(board.s)).as_dict()
    assert scores["frame_f1"] >= 99.3


def test_turns_are_read_off_clean_paths_but_for_the_first_two_frames():
    board = dubins.positions(50, seed=3, noise=0.0)
    read = read_turns(board.x, dubins.TURNS_PER_STEP[0])
    np.testing.assert_array_equal(read[:, 2:], board.s[:, 2:])
    np.testing.assert_array_equal(read[:, :2], np.repeat(board.s[:, 2:3], 2, axis=1))


def test_the_hazard_adds_up_to_the_durations():
    log_leave, log_stay = _hazard(25, 200)
    probability, alive = [], 1.0
    for age in range(1, 100):
        leave = 2 * np.exp(log_leave[age])
        np.testing.assert_allclose(leave + np.exp(log_stay[age]), 1.0, rtol=1e-6)
        probability.append(alive * leave)
        alive *= 1 - leave
    assert np.dot(np.arange(1, 100), probability) == pytest.approx(25.0, abs=0.01)
