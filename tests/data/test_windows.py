import numpy as np
import pytest

from swerve.data.windows import Standardizer, cut_windows, split_validation, to_frames, windows_that_go_on
from swerve.errors import InputError
from swerve.types import Recording


def counting(length: int, name: str = "a") -> Recording:
    """Frame t holds the number t, so that a cut shows where it was made."""
    frames = np.arange(length)
    return Recording(x=frames[:, None].astype(float), u=-frames[:, None].astype(float), s=frames, name=name)


def spans(series: list[Recording]) -> list[tuple[int, int]]:
    return [(int(one.x[0, 0]), int(one.x[-1, 0]) + 1) for one in series]


def test_standardising_ignores_what_is_missing_and_inverts():
    x = [np.array([[1.0, 5.0], [3.0, np.nan]]), np.array([[np.nan, 9.0]])]
    standardizer = Standardizer.fit([Recording(x=one) for one in x])
    np.testing.assert_allclose(standardizer.mean, [2, 7])
    np.testing.assert_allclose(standardizer.scale, [1, 2])
    np.testing.assert_allclose(standardizer.apply(x[0]), [[-1, -1], [1, np.nan]])
    np.testing.assert_allclose(standardizer.invert(standardizer.apply(x[0])), x[0])
    np.testing.assert_allclose(standardizer.apply_to([Recording(x=x[1])])[0].x, [[np.nan, 1]])


def test_channels_that_never_change_or_never_appear_keep_scale_1():
    x = np.stack([np.full(7, 0.1), np.full(7, np.nan), np.arange(7) * 1e-9], axis=1)
    standardizer = Standardizer.fit([Recording(x)])
    assert standardizer.scale[:2].tolist() == [1, 1] and standardizer.scale[2] < 1e-8
    assert standardizer.mean[1] == 0


def test_standardised_data_has_mean_0_and_deviation_1():
    x = np.random.default_rng(0).normal(1e6, 3e-2, (1000, 2))
    z = Standardizer.fit([Recording(x)]).apply(x)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(z.std(axis=0), 1, atol=1e-6)


def test_all_pixels_of_an_image_share_one_mean_and_scale():
    x = np.random.default_rng(0).normal(5, [0.0, 1.0, 2.0, 3.0], (50, 4)).astype(np.float32)
    x[:, 1] = np.nan
    x[3, 2] = np.nan
    video = [Recording(x[:20], image=(2, 2)), Recording(x[20:], image=(2, 2))]
    standardizer = Standardizer.fit(video)
    np.testing.assert_allclose(standardizer.mean, np.full(4, np.nanmean(x)), rtol=1e-5)
    np.testing.assert_allclose(standardizer.scale, np.full(4, np.nanstd(x)), rtol=1e-5)
    assert [one.x.dtype for one in standardizer.apply_to(video)] == [np.float32] * 2
    assert Standardizer.fit([Recording(np.ones((5, 4)), image=(2, 2))]).scale.tolist() == [1, 1, 1, 1]


def test_frames_are_padded_and_gaps_are_masked():
    gap = Recording(x=np.array([[1.0, np.nan], [3.0, 4.0]]), name="gap")
    long = Recording(x=np.ones((3, 2)), name="long")
    frames = to_frames([gap, long], length=4)
    assert frames.x.shape == (2, 4, 2) and frames.x.dtype == np.float32
    assert frames.x[0].tolist() == [[1, 0], [3, 4], [0, 0], [0, 0]]
    assert frames.observed[0].tolist() == [[True, False], [True, True], [False, False], [False, False]]
    assert frames.valid.tolist() == [[True, True, False, False], [True, True, True, False]]
    assert frames.u.shape == (2, 4, 0)
    assert to_frames([gap, long]).x.shape == (2, 3, 2)


def test_controls_travel_with_their_frames():
    frames = to_frames([counting(2), counting(3)])
    assert frames.u[..., 0].tolist() == [[0, -1, 0], [0, -1, -2]]


def test_frames_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="3 frames does not fit into 2"):
        to_frames([counting(3)], length=2)
    with pytest.raises(InputError, match='"b" has 2 columns where others have 1'):
        to_frames([Recording(x=np.ones((2, 1))), Recording(x=np.ones((2, 2)), name="b")])
    with pytest.raises(InputError, match='"b" has 0 controls where others have 1'):
        to_frames([counting(2), Recording(x=np.ones((2, 1)), name="b")])
    with pytest.raises(InputError, match="missing control values"):
        to_frames([Recording(x=np.ones((2, 1)), u=np.full((2, 1), np.nan))])


@pytest.mark.parametrize(
    "frames, expected",
    [
        (7, [(0, 7)]),
        (10, [(0, 10)]),
        (20, [(0, 10), (10, 20)]),
        (25, [(0, 10), (10, 20), (20, 25)]),
        (24, [(0, 10), (10, 20), (14, 24)]),
        (11, [(0, 10), (1, 11)]),
    ],
)
def test_windows(frames, expected):
    assert spans(cut_windows([counting(frames)], 10)) == expected


@pytest.mark.parametrize("frames", range(1, 60, 7))
@pytest.mark.parametrize("length", [1, 2, 7, 16])
def test_windows_hold_every_frame_and_none_is_too_long_or_short(frames, length):
    windows = cut_windows([counting(frames)], length)
    assert set(np.concatenate([one.s for one in windows])) == set(range(frames))
    assert all(min(frames, length / 2) <= len(one) <= length for one in windows)


def test_a_window_goes_on_where_the_next_one_begins_in_the_same_recording():
    series = [counting(25), counting(24), counting(20), counting(7)]
    assert windows_that_go_on(series, 10).tolist() == [True, True, False, True, False, False, True, False, False]
    assert windows_that_go_on([counting(10), counting(7)], 10) is None


def test_windows_are_named_after_their_frames():
    names = [one.name for one in cut_windows([counting(4, "short"), counting(20, "long")], 10)]
    assert names == ["short", "long[0:10]", "long[10:20]"]


def test_whole_recordings_are_held_out_where_there_are_enough():
    series = [counting(3, str(i)) for i in range(20)]
    training, validation = split_validation(series, 0.2, seed=0)
    assert len(validation) == 4
    assert sorted(int(one.name) for one in training + validation) == list(range(20))
    again = split_validation(series, 0.2, seed=0)[1]
    other = split_validation(series, 0.2, seed=1)[1]
    assert [one.name for one in again] == [one.name for one in validation] != [one.name for one in other]


@pytest.mark.parametrize("fraction, held", [(0.01, 1), (0.99, 4)])
def test_neither_part_of_a_split_is_empty(fraction, held):
    training, validation = split_validation([counting(3)] * 5, fraction, seed=0)
    assert (len(training), len(validation)) == (5 - held, held)


def test_few_recordings_give_their_ends():
    training, validation = split_validation([counting(10), counting(40)], 0.25, seed=0)
    assert spans(training) == [(0, 8), (0, 30)] and spans(validation) == [(8, 10), (30, 40)]


def test_many_recordings_give_their_ends_when_asked():
    training, validation = split_validation([counting(40)] * 8, 0.25, seed=0, ends=True)
    assert spans(training) == [(0, 30)] * 8 and spans(validation) == [(30, 40)] * 8


def test_splits_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="between 0 and 1"):
        split_validation([counting(10)], 0.0, seed=0)
    with pytest.raises(InputError, match="too short"):
        split_validation([counting(1)], 0.5, seed=0)
    with pytest.raises(InputError, match="at least 1 frame"):
        cut_windows([counting(3)], 0)
