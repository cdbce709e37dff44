import numpy as np
import pytest
from hashing import content_hash

from swerve_lab.boards import fields


@pytest.fixture(scope="module")
def board():
    return fields.generate(300, seed=1)


def test_the_board_is_frozen():
    assert content_hash(fields.generate(20, seed=0)) == "07d2f3e88ceced2d"


def test_the_fields_at_a_point_by_hand():
    point = np.tile([[0.5, -1.0]], (3, 1))
    found = fields.velocity(point, np.array([0, 1, 2]))
    pull = 0.15 * (0.25 + 1.0 - 2.0)
    swirl = (1.0 * (1 + 0.8 * np.sin(1.0)) - pull * 0.5, 0.5 * (1 + 0.8 * np.cos(-2.0)) + pull)
    expected = [(-1.0, 1.5 * 0.75 * -1.0 - 0.5), (-1.0, -3 * np.sin(0.75)), swirl]
    np.testing.assert_allclose(found, expected)


def test_each_frame_is_two_half_steps_in_its_own_field(board):
    before, after, s = board.clean[:, :-1].reshape(-1, 2), board.clean[:, 1:].reshape(-1, 2), board.s[:, 1:].ravel()
    middle = np.clip(before + 0.05 * fields.velocity(before, s), -4, 4)
    np.testing.assert_allclose(after, np.clip(middle + 0.05 * fields.velocity(middle, s), -4, 4))


def test_starts_borders_and_use(board):
    assert board.x.shape == (300, 200, 2)
    assert np.abs(board.clean[:, 0]).max() <= 1.5
    assert np.abs(board.clean).max() == 4.0
    assert np.bincount(board.s.ravel()) / board.s.size == pytest.approx(np.full(3, 1 / 3), abs=0.05)


def test_durations_are_at_least_eight(board):
    for row in board.s:
        switches = np.flatnonzero(np.diff(row)) + 1
        assert (np.diff([0, *switches]) >= 8).all()
    assert (np.diff(board.s, axis=1) != 0).sum(axis=1).mean() == pytest.approx(4.5, abs=0.3)


def test_noise_is_a_share_of_the_boards_deviation():
    board = fields.generate(200, seed=1, noise=0.1)
    assert (board.x - board.clean).std() == pytest.approx(0.1 * board.clean.std(), rel=0.02)


def test_no_sequences_are_allowed():
    assert fields.generate(0, seed=0).x.shape == (0, 200, 2)
