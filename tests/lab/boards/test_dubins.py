import numpy as np
import pytest
from hashing import content_hash

from swerve_lab.boards import dubins
from swerve_lab.boards.durations import draw_regimes


@pytest.fixture(scope="module")
def board():
    return dubins.positions(400, seed=1)


def headings(clean):
    steps = np.diff(clean, axis=1)
    return np.arctan2(steps[..., 1], steps[..., 0])


def test_the_board_is_frozen():
    assert content_hash(dubins.positions(20, seed=0)) == "abc86672cf374313"


def test_paths_start_at_the_centre_and_stay_in_the_image(board):
    assert board.x.shape == (400, 100, 2)
    assert np.all(board.clean[:, 0] == 0)
    assert np.abs(board.clean).max() <= 14
    assert np.abs(board.clean).max() > 13  # the border is really reached


def test_speed_is_constant_and_in_range(board):
    speed = np.linalg.norm(np.diff(board.clean, axis=1), axis=-1)
    np.testing.assert_allclose(speed, np.broadcast_to(speed[:, :1], speed.shape), atol=1e-12)
    assert speed.min() >= 0.1 and speed.max() <= 0.5


def test_each_step_turns_as_its_regime_says(board):
    turn = np.angle(np.exp(1j * np.diff(headings(board.clean), axis=1)))
    s = board.s[:, 2:]
    assert np.allclose(turn[s == dubins.STRAIGHT], 0, atol=1e-9)
    left, right = turn[s == dubins.LEFT], -turn[s == dubins.RIGHT]
    for turns in (left, right):
        assert turns.min() / (2 * np.pi) >= 0.1 - 1e-9
        assert turns.max() / (2 * np.pi) <= 0.15 + 1e-9


def test_one_path_has_one_turn_rate(board):
    turn = np.abs(np.angle(np.exp(1j * np.diff(headings(board.clean), axis=1))))
    turning = np.where(board.s[:, 2:] == dubins.STRAIGHT, np.nan, turn)
    some = ~np.isnan(turning).all(axis=1)
    np.testing.assert_allclose(np.nanmax(turning[some], axis=1), np.nanmin(turning[some], axis=1), atol=1e-9)


def test_durations_are_poisson_and_neighbours_differ():
    s = draw_regimes(4000, np.random.default_rng(0), length=400, regimes=3, mean=25, least=1)
    durations, pairs = [], set()
    for row in s:
        switches = np.flatnonzero(row[1:] != row[:-1]) + 1
        durations.extend(np.diff(switches)[:5])  # whole segments, early ones: the window cuts long ones off
        pairs |= {(int(row[t - 1]), int(row[t])) for t in switches}
    assert np.mean(durations) == pytest.approx(25, abs=0.3)
    assert np.var(durations) == pytest.approx(25, abs=1.5)
    assert pairs == {(i, j) for i in range(3) for j in range(3) if i != j}
    assert np.bincount(s[:, 0]) / 4000 == pytest.approx(np.full(3, 1 / 3), abs=0.03)


def test_noise_is_a_share_of_the_boards_deviation():
    board = dubins.positions(400, seed=1, noise=0.1)
    assert (board.x - board.clean).std() == pytest.approx(0.1 * board.clean.std(), rel=0.02)


def test_no_paths_and_one_frame_are_allowed():
    assert dubins.positions(0, seed=0).x.shape == (0, 100, 2)
    assert dubins.positions(3, seed=0, length=1).x.shape == (3, 1, 2)
