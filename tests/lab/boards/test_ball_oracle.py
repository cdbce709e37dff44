import numpy as np
import pytest

from swerve.choosing.scores import score
from swerve_lab.boards import bouncing_ball
from swerve_lab.boards.ball_oracle import fit_bouncing_ball


@pytest.fixture(scope="module")
def board():
    return bouncing_ball.generate(300, seed=0)


@pytest.fixture(scope="module")
def fit(board):
    return fit_bouncing_ball(board.x)


def test_its_scores_are_the_ceiling_of_the_board(board, fit):
    result = score(list(fit.s), list(board.s)).as_dict()
    assert result["frame_f1"] > 99.9
    assert result["switch_f1_tol0"] > 98.4
    assert result["switch_f1_tol5"] > 99.2


def test_nothing_fits_better_than_it_not_even_the_truth(board, fit):
    fitted = ((board.x[..., 0] - fit.clean) ** 2).sum(axis=1)
    true = ((board.x - board.clean) ** 2).sum(axis=(1, 2))
    assert np.all(fitted <= true + 1e-9)


def test_the_fitted_course_obeys_the_physics(fit):
    steps = np.diff(fit.clean, axis=1)
    assert fit.clean.min() >= -1e-9 and fit.clean.max() <= 10 + 1e-9
    np.testing.assert_allclose(np.abs(steps), np.broadcast_to(np.abs(fit.velocity[:, None]), steps.shape))
    assert np.array_equal(steps > 0, fit.s[:, 1:] == 1)
    turns = fit.s[:, 2:] != fit.s[:, 1:-1]
    one_more = fit.clean[:, 1:-1] + steps[:, :-1]
    assert np.all(((one_more <= 1e-9) | (one_more >= 10 - 1e-9))[turns])


def test_without_noise_it_is_exact():
    board = bouncing_ball.generate(200, seed=1, noise=0.0)
    fit = fit_bouncing_ball(board.x)
    np.testing.assert_allclose(fit.clean, board.clean[..., 0], atol=1e-6)
    assert np.array_equal(fit.s[:, 1:], board.s[:, 1:])


def test_it_fits_around_missing_frames(board):
    x = board.x[:100].copy()
    x[np.random.default_rng(0).random(x.shape) < 0.5] = np.nan
    fit = fit_bouncing_ball(x)
    assert np.mean(fit.s == board.s[:100]) > 0.998
    assert np.sqrt(np.mean((fit.clean - board.clean[:100, :, 0]) ** 2)) < 0.05


def test_a_sequence_without_any_frame_still_gets_labels(board):
    fit = fit_bouncing_ball(np.full((1, 20, 1), np.nan))
    assert fit.s.shape == (1, 20) and np.isfinite(fit.clean).all()


def test_up_and_down_are_mirror_images(board, fit):
    mirrored = fit_bouncing_ball(10 - board.x)
    assert np.array_equal(mirrored.s, 1 - fit.s)


def test_other_walls_lengths_and_speeds():
    board = bouncing_ball.generate(30, seed=2, length=150, noise=0.05, walls=4.0, max_speed=0.3)
    fit = fit_bouncing_ball(board.x, walls=4.0, max_speed=0.3)
    assert np.mean(fit.s == board.s) > 0.995


def test_one_frame_is_too_few():
    with pytest.raises(ValueError, match="two frames"):
        fit_bouncing_ball(np.zeros((1, 1, 1)))
