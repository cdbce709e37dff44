"""The ball of the demo; more of it, as a board, in tests/lab/boards/test_bouncing_ball.py."""

import numpy as np

from swerve.cli import ball


def test_a_hand_made_ball_turns_before_the_step_that_would_cross():
    positions, s = ball.simulate(np.array([0.7]), np.array([0.25]), length=6, walls=1.0)
    np.testing.assert_allclose(positions[0], [0.7, 0.95, 0.7, 0.45, 0.2, 0.45])
    assert s[0].tolist() == [ball.UP, ball.UP, ball.DOWN, ball.DOWN, ball.DOWN, ball.UP]


def test_a_ball_that_turns_at_once_keeps_its_first_direction_in_the_first_frame():
    _, s = ball.simulate(np.array([0.9]), np.array([0.25]), length=3, walls=1.0)
    assert s[0].tolist() == [ball.UP, ball.DOWN, ball.DOWN]
