import numpy as np
import pytest
from hashing import content_hash

from swerve.cli.ball import UP
from swerve_lab.boards import bouncing_ball


@pytest.fixture(scope="module")
def board():
    return bouncing_ball.generate(500, seed=3)


def test_the_board_is_frozen():
    assert content_hash(bouncing_ball.generate(20, seed=0)) == "33493ae68cdfb260"


def test_each_step_lies_wholly_in_its_regime(board):
    steps = np.diff(board.clean[..., 0], axis=1)
    assert np.array_equal(steps > 0, board.s[:, 1:] == UP)
    speed = np.abs(steps)
    np.testing.assert_allclose(speed, np.broadcast_to(speed[:, :1], speed.shape), atol=1e-12)


def test_start_walls_speed_and_noise_are_as_documented(board):
    assert board.x.shape == (500, 100, 1)
    assert board.clean.min() >= 0 and board.clean.max() <= 10
    speed = np.abs(np.diff(board.clean[:, :2, 0], axis=1))
    assert speed.max() <= 0.5 and speed.mean() == pytest.approx(0.25, abs=0.02)
    assert board.clean[:, 0].mean() == pytest.approx(5, abs=0.4)
    assert (board.x - board.clean).std() == pytest.approx(0.1, abs=0.002)
    assert board.s[:, 0].mean() == pytest.approx(0.5, abs=0.07)


def test_a_turn_happens_only_where_one_more_step_would_cross(board):
    clean = board.clean[..., 0]
    velocity = np.diff(clean, axis=1)
    one_more = clean[:, 1:-1] + velocity[:, :-1]
    crosses = (one_more < 0) | (one_more > 10)
    assert np.array_equal(crosses, board.s[:, 2:] != board.s[:, 1:-1])


def test_other_constants_are_respected():
    board = bouncing_ball.generate(50, seed=0, length=30, noise=0.0, walls=4.0, max_speed=1.0)
    assert board.x.shape == (50, 30, 1)
    assert board.x.max() <= 4 and np.array_equal(board.x, board.clean)


def test_seeds_differ_and_repeat(board):
    assert np.array_equal(board.x, bouncing_ball.generate(500, seed=3).x)
    assert not np.array_equal(board.x, bouncing_ball.generate(500, seed=4).x)


def test_series_carry_truth_names_and_columns(board):
    series = board.series()
    assert len(series) == len(board) == 500
    assert series[7].name == "ball-7" and series[7].columns == ("position",)
    assert series[7].s is not None and np.array_equal(series[7].s, board.s[7])
