"""The one rule of choice: who is as good as the best, and which of these is taken."""

import numpy as np
import pytest

from swerve.choosing.rule import FEWEST_WINDOWS, NEVER, SURE, WORTH, paired_change, simplest

WINDOWS, LENGTH = 16, 10
FRAMES = np.full(WINDOWS, LENGTH)
WAVER = np.where(np.arange(WINDOWS) % 2, 1.0, -1.0)
"""Differences that go up and down from window to window, and nowhere on the whole."""
ERROR = 1 / np.sqrt(WINDOWS - 1)


def bounds(*per_frame, waver=0.0):
    """Windows with these bounds per frame, all but the last candidate's with a standard error against it."""
    steady = np.repeat(LENGTH * np.array(per_frame, float)[:, None], WINDOWS, axis=1)
    steady[:-1] += LENGTH * waver * WAVER
    return steady


def chosen(windows, order=None, **options):
    return simplest(windows, FRAMES, order=range(len(windows)) if order is None else order, **options).chosen


def test_the_first_that_lags_by_less_than_a_standard_error_is_chosen():
    assert chosen(bounds(-0.9 * SURE * ERROR, 0.0, waver=1.0)) == 0
    assert chosen(bounds(-1.1 * SURE * ERROR, 0.0, waver=1.0)) == 1


def test_a_sure_loss_counts_only_if_it_is_worth_something():
    reference = np.full(WINDOWS, -LENGTH * 1.0)
    assert chosen(bounds(-0.9 * WORTH, 0.0), reference=reference) == 0
    assert chosen(bounds(-1.1 * WORTH, 0.0), reference=reference) == 1
    assert simplest(bounds(-0.1, 0.0), FRAMES, reference, order=[0, 1]).worth == pytest.approx(WORTH)


def test_without_a_reference_or_a_gain_over_it_errors_alone_decide():
    close = bounds(-1e-3, 0.0)
    assert chosen(close) == 1
    assert chosen(close, reference=close[1]) == 1
    assert chosen(close, reference=close[1] + 5.0) == 1
    assert chosen(close, reference=np.full(WINDOWS, -np.inf)) == 1


def test_the_verdict_tells_how_far_behind_everyone_is():
    verdict = simplest(bounds(-0.5, 0.2, 0.0, waver=1.0), FRAMES, order=[0, 1, 2])
    assert verdict.best == 1
    np.testing.assert_allclose(verdict.change, [-0.7, 0.0, -0.2], atol=1e-12)
    np.testing.assert_allclose(verdict.error, [0.0, 0.0, ERROR], atol=1e-12)
    assert verdict.equal.tolist() == [False, True, True]
    assert verdict.enough and verdict.worth == 0.0


def test_of_equals_with_the_same_place_in_the_order_the_higher_bound_wins():
    windows = bounds(-0.1, 0.1, 0.0, waver=1.0)
    assert chosen(windows, order=[1, 1, 1]) == 1
    assert chosen(windows, order=[(1, False), (1, True), (1, False)]) == 2
    assert chosen(np.tile(windows[:1], (3, 1)), order=[1, 1, 1]) == 0


def test_a_bound_that_is_not_finite_loses_even_where_it_comes_first():
    for broken in (np.nan, np.inf, -np.inf):
        windows = bounds(0.0, 0.0)
        windows[0, 3] = broken
        verdict = simplest(windows, FRAMES, order=[0, 1])
        assert verdict.chosen == verdict.best == 1
        assert verdict.change[0] == NEVER and not verdict.equal[0]
    assert chosen(np.full((2, WINDOWS), np.nan)) == 0


def test_few_windows_tell_no_errors_and_the_best_wins_by_more_than_it_is_worth():
    windows, few, reference = bounds(-0.9 * WORTH, 0.0, waver=1.0), FEWEST_WINDOWS - 1, np.full(WINDOWS, -LENGTH * 1.0)
    assert simplest(windows[:, : few + 1], FRAMES[: few + 1], order=[0, 1]).chosen == 0
    verdict = simplest(windows[:, :few], FRAMES[:few], order=[0, 1])
    assert verdict.chosen == 1 and not verdict.enough
    steady = bounds(-0.9 * WORTH, 0.0), bounds(-1.1 * WORTH, 0.0)
    for count in (1, few):
        judged = [simplest(one[:, :count], FRAMES[:count], reference[:count], order=[0, 1]).chosen for one in steady]
        assert judged == [0, 1]


def test_a_single_candidate_is_chosen_whatever_it_is_worth():
    for windows in (bounds(1.0), np.full((1, WINDOWS), np.nan), bounds(1.0)[:, :1]):
        verdict = simplest(windows, FRAMES[: windows.shape[1]], order=[0])
        assert (verdict.chosen, verdict.best, verdict.equal.tolist()) == (0, 0, [True])


def test_only_the_usable_set_the_mark_and_others_may_reach_it():
    windows = bounds(-0.5, 0.0, 1.0)
    assert simplest(windows, FRAMES, order=[0, 1, 2], usable=[True, True, False]).best == 1
    assert chosen(windows, usable=[True, True, False]) == 1
    assert chosen(windows, usable=[True, True, False], order=[1, 2, 0]) == 2
    assert chosen(windows, usable=[False, False, False]) == 2
    windows[1] = np.nan
    assert chosen(windows, usable=[False, True, False]) == 2


def test_windows_of_unequal_lengths_count_by_their_frames():
    frames = np.tile([5, 20], WINDOWS // 2)
    verdict = simplest([0.0 * frames, 0.3 * frames], frames, 0.0 * frames, order=[0, 1])
    assert verdict.change[0] == pytest.approx(-0.3)
    assert verdict.worth == pytest.approx(0.3 * WORTH)
    change, error = paired_change(np.array([10.0, 22.0, 30.0]), np.array([11.0, 20.0, 31.0]), np.array([10, 10, 10]))
    assert change == pytest.approx(0.0)
    assert error == pytest.approx(np.std([-0.1, 0.2, -0.1], ddof=1) / np.sqrt(3))


def random_case(seed):
    rng = np.random.default_rng(seed)
    windows = rng.normal(size=(6, 1)) + rng.normal(size=(6, 20))
    return windows, rng.integers(5, 30, 20), rng.normal(size=20) - 2, rng.integers(0, 3, 6), rng.random(6) < 0.7, rng


@pytest.mark.parametrize("seed", range(20))
def test_how_candidates_are_numbered_changes_nothing(seed):
    windows, frames, reference, order, usable, rng = random_case(seed)
    first = simplest(windows, frames, reference, order=order, usable=usable)
    turn = rng.permutation(len(windows))
    other = simplest(windows[turn], frames, reference, order=order[turn], usable=usable[turn])
    assert (turn[other.chosen], turn[other.best]) == (first.chosen, first.best)
    assert (other.equal == first.equal[turn]).all()


@pytest.mark.parametrize("seed", range(20))
def test_who_falls_behind_is_not_chosen_for_it_and_the_order_is_kept(seed):
    windows, frames, reference, order, usable, _ = random_case(seed)
    first = simplest(windows, frames, reference, order=order, usable=usable)
    for one in set(range(len(windows))) - {first.chosen, first.best}:
        worse = windows.copy()
        worse[one] -= 1.0
        assert simplest(worse, frames, reference, order=order, usable=usable).chosen == first.chosen
    assert order[first.chosen] == order[first.equal].min()
    units = simplest(3 * windows, frames, 3 * reference, order=order, usable=usable)
    assert (units.equal == first.equal).all(), "the rule knows no unit"
