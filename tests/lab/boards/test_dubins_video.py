import numpy as np
import pytest
from hashing import content_hash

from swerve.choosing.scores import score
from swerve_lab.boards import catalog as boards
from swerve_lab.boards import dubins, dubins_video


def true_paths(board_seed, turns_per_step, n):
    return dubins.draw_paths(n, np.random.default_rng(board_seed), length=100, turns_per_step=turns_per_step)


def images(board):
    return board.x.reshape(*board.x.shape[:2], *board.image)


def test_the_constants():
    assert dubins_video.IMAGE == (28, 28)
    assert dubins_video.BLUR == 0.3
    assert dubins_video.WIDE_TURNS_PER_STEP == (0.01, 0.015)


@pytest.mark.parametrize(
    ("generate", "frozen"),
    [(dubins_video.generate, "1955fe4e0c4af0de"), (dubins_video.generate_wide, "bde4499012753f6c")],
)
def test_the_boards_are_frozen(generate, frozen):
    board = generate(20, seed=0)
    assert content_hash(board) == frozen
    assert (board.x.shape, board.x.dtype, board.image) == ((20, 100, 784), np.float32, (28, 28))
    assert board.x.min() >= 0 and board.x.max() <= 1


def test_a_point_between_pixels_is_shared_by_them():
    image = dubins_video.render(np.array([0.0, 0.5]))
    np.testing.assert_allclose(image[13, 13:15], image[13, 13], rtol=1e-6)  # left and right of x = 0
    assert image.argmax() // 28 == 13  # the row above the middle, since y > 0
    np.testing.assert_allclose(image[12, 13], image[14, 13], rtol=1e-6)
    assert image[13, 13] == pytest.approx(0.5 * 0.9044, rel=1e-3)  # half of P(|N(0, 0.3)| < 0.5)


def test_an_image_holds_all_of_a_point_away_from_the_edge():
    inside = np.random.default_rng(0).uniform(-12, 12, (1000, 2))
    np.testing.assert_allclose(dubins_video.render(inside).sum(axis=(1, 2)), 1, atol=1e-6)


def test_the_centroid_is_the_position_up_to_the_pull_of_the_pixels():
    """E[round(p + 0.3 N(0, 1))] = p - exp(-2 pi^2 0.3^2) sin(2 pi p) / pi + ..., p counted from a pixel's centre."""
    inside = np.random.default_rng(0).uniform(-12, 12, (1000, 2))
    drawn = dubins_video.render(inside).astype(float)
    right = drawn.sum(axis=1) @ dubins_video.CENTRES
    up = drawn.sum(axis=2) @ dubins_video.CENTRES[::-1]
    pull = np.exp(-2 * np.pi**2 * 0.3**2) * np.sin(2 * np.pi * (inside - 0.5)) / np.pi
    np.testing.assert_allclose(np.stack([right, up], axis=1), inside - pull, atol=1e-3)
    np.testing.assert_allclose(dubins_video.locate(drawn), inside, atol=1e-4)


def test_a_point_is_found_up_to_the_edge():
    points = np.random.default_rng(0).uniform(-14, 14, (1000, 2))
    np.testing.assert_allclose(dubins_video.locate(dubins_video.render(points)), points, atol=1e-3)


def test_the_images_show_the_paths_and_each_step_turns_as_its_regime_says():
    board = dubins_video.generate(50, seed=3)
    paths = true_paths(3, dubins.TURNS_PER_STEP, 50)
    np.testing.assert_array_equal(board.s, paths.s)
    found = dubins_video.locate(images(board))
    np.testing.assert_allclose(found, paths.positions, atol=1e-3)
    steps = np.diff(found, axis=1) @ np.array([1, 1j])
    turn = np.angle(steps[:, 1:] / steps[:, :-1]) / (2 * np.pi)
    for regime, (low, high) in enumerate([(0.0, 0.0), (0.1, 0.15), (-0.15, -0.1)]):
        seen = turn[board.s[:, 2:] == regime]
        assert low - 5e-3 < seen.min() and seen.max() < high + 5e-3


def test_the_same_seed_gives_the_same_video():
    first, again, other = (dubins_video.generate(2, seed=seed).x for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_wide_paths_differ_in_their_turn_rate_only():
    narrow, wide = (true_paths(0, rates, 300) for rates in (dubins.TURNS_PER_STEP, dubins_video.WIDE_TURNS_PER_STEP))
    steps = np.diff(wide.positions, axis=1) @ np.array([1, 1j])
    turn = np.abs(np.angle(steps[:, 1:] / steps[:, :-1])) / (2 * np.pi)
    turning = turn[wide.s[:, 2:] != dubins.STRAIGHT]
    assert 0.01 - 1e-9 <= turning.min() < turning.max() <= 0.015 + 1e-9
    assert turn[wide.s[:, 2:] == dubins.STRAIGHT].max() < 1e-9
    for paths in (narrow, wide):
        speed = np.linalg.norm(np.diff(paths.positions, axis=1), axis=-1)
        assert 0.1 - 1e-9 <= speed.min() < speed.max() <= 0.5 + 1e-9
        assert (paths.positions[:, 0] == 0).all() and np.abs(paths.positions).max() <= 14
        assert (np.diff(paths.s, axis=1) != 0).sum(axis=1).mean() == pytest.approx(3.5, abs=0.2)


@pytest.mark.parametrize("name", ["dubins", "dubins-wide"])
def test_the_oracle_sees_the_regimes_in_the_images(name):
    source = boards.find(name)
    board = source.generate(20, seed=3)
    scores = score(list(source.oracle(board)), list(board.s)).as_dict()
    assert scores["frame_f1"] >= 99.9 and scores["switch_f1_tol0"] >= 99


def test_no_sequences_and_one_frame_are_allowed():
    assert dubins_video.generate(0, seed=0).x.shape == (0, 100, 784)
    assert dubins_video.generate(3, seed=0, length=1).x.shape == (3, 1, 784)
