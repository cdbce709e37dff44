"""The Dubins oracle finds what it knows the rules of."""

import numpy as np
import pytest

from swerve.data import dubins
from swerve.evaluation.dubins_oracle import Physics, _hazard, decode
from swerve.evaluation.scores import score


def physics(board):
    noise = max(float((board.x - board.clean).std()), 1e-3)
    return Physics(dubins.SPEED, dubins.TURNS_PER_STEP, dubins.MEAN_DURATION, noise)


@pytest.mark.parametrize(("noise", "frames", "switches"), [(0.0, 99.9, 99.0), (0.1, 85.0, 60.0)])
def test_it_is_nearly_always_right(noise, frames, switches):
    board = dubins.positions(8, seed=3, noise=noise)
    scores = score(list(decode(board.x, physics(board))), list(board.s)).as_dict()
    assert scores["frame_f1"] >= frames
    assert scores["switch_f1_tol0"] >= switches


def test_the_hazard_adds_up_to_the_durations():
    log_leave, log_stay = _hazard(25, 200)
    probability, alive = [], 1.0
    for age in range(1, 100):
        leave = 2 * np.exp(log_leave[age])
        np.testing.assert_allclose(leave + np.exp(log_stay[age]), 1.0, rtol=1e-6)
        probability.append(alive * leave)
        alive *= 1 - leave
    assert np.dot(np.arange(1, 100), probability) == pytest.approx(25.0, abs=0.01)
