"""Resampling against sums over a fine grid, and exact cases by hand."""

import numpy as np
import pytest

from swerve.data import resampling
from swerve.data.reading import Reading
from swerve.data.resampling import nearest_frames, regular_grid, resample
from swerve.data.sampling import sampled, slice_of
from swerve.errors import InputError
from swerve.types import Recording


def brute_force_means(t, v, grid, close):
    """The mean of the joined-up values over each cell by a fine sum."""
    width = grid[1] - grid[0]
    means = []
    for centre in grid:
        fine = centre + width * (np.arange(4000) + 0.5) / 4000 - width / 2
        fine = fine[(fine > t[0]) & (fine < t[-1])]
        before = np.clip(np.searchsorted(t, fine) - 1, 0, len(t) - 2)
        fine = fine[t[before + 1] - t[before] <= close]
        means.append(np.interp(fine, t, v).mean() if len(fine) >= 1000 else np.nan)
    return np.array(means)


def test_averages_agree_with_a_fine_sum():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 30, 120))
    v = np.column_stack([1e3 + np.sin(t), rng.normal(size=120)])
    v[rng.random((120, 2)) < 0.2] = np.nan
    grid = regular_grid(t, 1.3, "walk")
    found = resample(v, t, grid, close=0.9, averaged=True)
    for j in range(2):
        seen = ~np.isnan(v[:, j])
        expected = brute_force_means(t[seen], v[seen, j], grid, 0.9)
        undecided = np.isnan(expected) != np.isnan(found[:, j])  # a cell covered just to the least share
        assert undecided.sum() <= 1
        np.testing.assert_allclose(found[~undecided, j], expected[~undecided], atol=2e-3)
    assert np.isnan(found).any() and not np.isnan(found).all()


def test_interpolation_is_linear_between_neighbours_and_nothing_across_gaps():
    t, v = np.array([0.0, 1, 2, 6, 7]), np.array([[0.0], [10], [20], [60], [70]])
    grid = np.arange(0, 7.5, 0.5)
    found = resample(v, t, grid, close=2.5, averaged=False)[:, 0]
    expected = np.where((grid <= 2) | (grid >= 6), 10 * grid, np.nan)
    np.testing.assert_allclose(found, expected)


def test_a_missing_value_between_two_seen_ones_is_bridged_and_a_longer_hole_is_not():
    v = np.array([0, np.nan, 2, np.nan, np.nan, 5, 6])[:, None]
    found = resample(v, np.arange(7.0), np.arange(0, 6.5, 0.5), close=2.5, averaged=False)[:, 0]
    np.testing.assert_allclose(found[:5], [0, 0.5, 1, 1.5, 2])
    assert np.isnan(found[5:10]).all()
    np.testing.assert_allclose(found[10:], [5, 5.5, 6])


@pytest.mark.parametrize("averaged", [True, False])
def test_columns_with_one_value_or_none(averaged):
    v = np.full((5, 2), np.nan)
    v[2, 0] = 3.0
    found = resample(v, np.arange(5.0), np.arange(0, 4.5, 0.5), close=2.5, averaged=averaged)
    assert found[4, 0] == 3.0 and np.isnan(np.delete(found[:, 0], 4)).all() and np.isnan(found[:, 1]).all()


def test_what_is_too_fast_for_the_new_rate_does_not_become_something_slow():
    t = np.arange(1000) / 100
    fast = np.sin(2 * np.pi * 24 * t)[:, None]  # every 5th frame of it looks like a wave of 4 per second
    down = sampled(Recording(fast, times=t), Reading(rate=20), "walk")
    assert np.abs(fast[::5]).max() > 0.9
    assert np.abs(down.x[1:-1]).max() < 0.15


def test_the_same_rate_changes_nothing():
    t = np.arange(50) / 10
    one = Recording(np.random.default_rng(0).normal(size=(50, 2)), times=t)
    np.testing.assert_array_equal(sampled(one, Reading(rate=10), "walk").x, one.x)


def test_labels_controls_rows_and_the_way_back():
    t = np.arange(12) / 10
    x = np.arange(12.0)[:, None]
    one = Recording(x, u=2 * x, s=np.arange(12) // 6, times=t, columns=("x",))
    down = sampled(one, Reading(rate=5), "walk")
    np.testing.assert_allclose(down.times, [0, 0.2, 0.4, 0.6, 0.8, 1.0])
    np.testing.assert_allclose(down.x[1:, 0], [2, 4, 6, 8, 10], atol=0.1)
    np.testing.assert_allclose(down.u, 2 * down.x)
    assert down.s.tolist() == [0, 0, 0, 1, 1, 1]
    assert down.rows.tolist() == [0, 2, 4, 6, 8, 10]
    assert down.clock.covered_by.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5]
    up = sampled(one, Reading(rate=20), "walk")
    assert len(up) == 23 and up.clock.covered_by.tolist() == list(range(0, 23, 2))
    np.testing.assert_allclose(up.x[:, 0], np.arange(23) / 2)


def test_labels_across_a_gap_are_unknown():
    one = Recording(np.ones((4, 1)), s=np.ones(4, int), times=np.array([0.0, 1, 9, 10]))
    assert sampled(one, Reading(rate=1), "walk").s.tolist() == [1, 1, 1, -1, -1, -1, -1, -1, 1, 1, 1]


@pytest.mark.parametrize(
    ("reading", "values", "covered_by"),
    [
        (Reading(skip=2), [2, 3, 4, 5, 6], [0, 0, 0, 1, 2, 3, 4]),
        (Reading(every=3), [0, 3, 6], [0, 1, 1, 1, 2, 2, 2]),
        (Reading(skip=1, every=4), [1, 5], [0, 0, 1, 1, 1, 1, 1]),
    ],
)
def test_frames_that_are_left_out_belong_to_the_next_one_kept(reading, values, covered_by):
    found = sampled(Recording(np.arange(7.0)[:, None], s=np.arange(7)), reading, "walk")
    assert found.x[:, 0].tolist() == found.rows.tolist() == found.s.tolist() == values
    assert found.clock.covered_by.tolist() == covered_by


def test_recordings_too_short_or_without_times_are_refused():
    one = Recording(np.ones((5, 1)), name="walk")
    with pytest.raises(InputError, match="walk has 5 frames, so 5 can not be skipped"):
        sampled(one, Reading(skip=5), "walk")
    with pytest.raises(InputError, match=r"no times to resample by: say which column .* --time-column"):
        sampled(one, Reading(rate=5), "walk")
    with pytest.raises(InputError, match=r"its 3 frames would become 2e.09"):
        regular_grid(np.array([0.0, 1.0, 2.0]), 1e9, "walk")


def test_nearest_frames():
    times = np.array([0.0, 1.0, 5.0])
    assert nearest_frames(times, np.array([-1, 0.4, 0.6, 2.9, 3.1, 9])).tolist() == [0, 0, 1, 1, 2, 2]
    assert nearest_frames(times[:1], np.zeros(2)).tolist() == [0, 0]
    assert resampling.closeness(1.0, 0.1) > resampling.closeness(1.0, 1.0) == 2.5


def test_a_part_takes_all_that_goes_with_it():
    one = Recording(np.arange(6.0)[:, None], s=np.arange(6), times=np.arange(6.0), rows=np.arange(10, 16))
    part = slice_of(one, slice(2, 4))
    assert part.s.tolist() == part.times.tolist() == [2, 3] and part.rows.tolist() == [12, 13]
