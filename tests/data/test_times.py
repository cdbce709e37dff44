import numpy as np
import pytest

from swerve.data import tables
from swerve.data.reading import Reading
from swerve.data.times import check_one_rate, parse_times, places_in_grid, seconds_of_dates
from swerve.errors import InputError


@pytest.fixture
def recording(tmp_path):
    """A file of times and one channel, read with whatever choices."""

    def read(times, name="walk.csv", **choices):
        lines = [f"{t},{i}" for i, t in enumerate(times)]
        (tmp_path / name).write_text("\n".join(["t,x", *lines, ""]))
        return tables.read(tmp_path / name, Reading(time_column="t", **choices))[0]

    return read


@pytest.fixture
def refused(recording):
    def message(times, **choices) -> str:
        with pytest.raises(InputError) as caught:
            recording(times, **choices)
        return str(caught.value).split("walk.csv", 1)[-1]

    return message


def test_times_are_kept_beside_the_measurements(recording):
    one = recording([0.5, 0.75, 1.0])
    assert one.columns == ("x",) and one.times.tolist() == [0.5, 0.75, 1.0]
    assert one.rows is None and one.clock is None


@pytest.mark.parametrize(
    "texts",
    [
        ["2024-05-01T12:00:00", "2024-05-01T12:00:00.1", "2024-05-01 12:00:00.2"],
        ["2024-05-01T12:00:00Z", "2024-05-01T14:00:00.1+02:00", "2024-05-01T12:00:00.2Z"],
    ],
)
def test_dates_become_seconds_since_the_first_frame(recording, texts):
    assert recording(texts).times.tolist() == [0.0, 0.1, 0.2]


def test_arrays_of_dates():
    dates = np.array(["1970-01-01T00:00:01.5", "NaT"], "datetime64[ns]")
    np.testing.assert_array_equal(seconds_of_dates(dates), [1.5, np.nan])
    assert parse_times(["1970-01-01T00:00:01.5"])[0].tolist() == [1.5]


def test_what_is_no_time_is_located(refused):
    assert ', line 3, column "t": "lunch" is no time' in refused(["2024-05-01T12:00:00", "lunch"])
    assert ', line 4, column "t": "lunch" is no time' in refused([1, 2, "lunch"])
    assert "row 1 (the first is row 0): has no time" in refused([0, "nan", 2])
    assert "row 2 (the first is row 0): has no time" in refused([0, 1, "inf"])


def test_unsorted_and_duplicated_times_are_located_with_their_values(refused):
    shown = refused([0, 1, 3, 2.5, 4])
    assert ", row 3 (the first is row 0): 2.5 is an earlier time than 3 in the row before: sort the rows" in shown
    assert ", row 2 (the first is row 0): 1 is the same time as 1" in refused([0, 1, 1, 2])


def test_missing_frames_are_inserted_as_missing(recording):
    one = recording([0, 0.1, 0.2, 0.5, 0.6, 0.7])
    np.testing.assert_array_equal(one.x[:, 0], [0, 1, 2, np.nan, np.nan, 3, 4, 5])
    np.testing.assert_allclose(one.times, np.arange(8) / 10)
    assert one.rows.tolist() == [0, 1, 2, 2, 2, 3, 4, 5]
    assert one.clock.covered_by.tolist() == [0, 1, 2, 5, 6, 7] and one.clock.inserted == 2
    assert tables.notes([one]) == ["walk: 2 frames are missing between its times and count as missing values."]


def test_a_tenth_of_frames_removed_leaves_the_others_in_place(recording):
    kept = np.flatnonzero(np.random.default_rng(0).random(500) > 0.2)
    one = recording(kept * 0.04)
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(one.x[:, 0])), kept - kept[0])


def test_jitter_is_no_gap(recording):
    times = np.arange(400) + np.random.default_rng(0).uniform(-0.3, 0.3, 400)
    assert len(recording(times)) == 400


def test_too_many_missing_frames_are_refused_with_the_widest_gap(refused):
    shown = refused([*range(20), *range(500, 520)])
    assert "(the widest gap, 481, comes after row 19): resample with --rate, or tell the parts apart" in shown


@pytest.mark.parametrize("ratio", [0.5, 1.25, 2, 7])
def test_two_rates_within_a_recording_are_refused(refused, ratio):
    times = np.cumsum([0.0, *[0.1] * 100, *[0.1 * ratio] * 100])
    shown = refused(times)
    assert f"frames 0.1 apart at first and {0.1 * ratio:g} apart around row" in shown
    assert f"with --rate {1 / max(0.1, 0.1 * ratio):.8g}." in shown


def test_two_rates_between_files_are_refused(recording, tmp_path):
    recording(np.arange(20) / 10, name="a.csv"), recording(np.arange(20) / 5, name="b.csv")
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    with pytest.raises(InputError, match=r'"b" has frames 0.2 apart, but "a" has one every 0.1: resample .* 10'):
        tables.read(files, Reading(time_column="t"))
    first, second = tables.read(files, Reading(time_column="t", rate=5))
    assert len(first) == 10 and len(second) == 20


def test_a_model_remembers_the_time_between_its_frames(recording):
    reading = tables.remembered(Reading(time_column="t", every=2), [recording(np.arange(20) / 10, every=2)])
    assert reading.step == pytest.approx(0.2)
    with pytest.raises(InputError, match=r"fitted to frames every 0.2: resample to one rate, .* --rate 10"):
        recording(np.arange(40) / 20, every=2, step=reading.step)


def test_places_without_gaps_are_their_numbers():
    assert places_in_grid(np.array([3.0, 4, 5]), np.arange(3), "walk").tolist() == [0, 1, 2]
    check_one_rate(np.arange(4.0), np.arange(4), "walk")
