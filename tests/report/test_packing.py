"""What the page's script is given: right within a level, small, and honest about what it leaves out."""

import json
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest
from pages import SKELETON, poses, recording, stays, videos, walks

from swerve.report import packing
from swerve.report.packing import LEVELS, MISSING, packed


def decoded(text, kind):
    return np.frombuffer(b64decode(text), kind)


def values(page, i, key="x"):
    one = page["recordings"][i]
    levels = decoded(one[key], "<u2").reshape(len(page["columns"]), one["frames"]).astype(float)
    low, high = np.array(page["low"]), np.array(page["high"])
    return np.where(levels == MISSING, np.nan, low[:, None] + levels / LEVELS * (high - low)[:, None]).T


def test_values_come_back_within_half_a_level():
    (one, two) = walks(channels=2)
    one.recording.x[5:9, 1] = np.nan
    page = packed([one, two])
    for i, before in enumerate((one, two)):
        after, level = values(page, i), (np.array(page["high"]) - page["low"]) / LEVELS
        assert (np.isnan(after) == np.isnan(before.recording.x)).all()
        assert np.nanmax(np.abs(after - before.recording.x) / level) <= 0.501
    assert page["columns"] == ["channel 0", "channel 1"] and page["plane"] == (0, 1)


def test_labels_chances_truth_times_and_rows_come_back():
    frames = 50
    truth = np.where(np.arange(frames) < 5, -1, 2)
    x = np.zeros((frames, 1))
    one = recording(x, truth=truth, times=1.7e9 + np.arange(frames) / 7, rows=np.arange(frames) * 6 + 1)
    page = packed([one])
    record = page["recordings"][0]
    np.testing.assert_array_equal(decoded(record["labels"], "<u2"), stays(frames))
    np.testing.assert_array_equal(decoded(record["truth"], "<u2"), np.where(truth < 0, MISSING, truth))
    np.testing.assert_array_equal(decoded(record["times"], "<f8"), one.recording.times)
    np.testing.assert_array_equal(decoded(record["rows"], "<i4"), one.recording.rows)
    chances = decoded(record["probabilities"], "u1").reshape(frames, 3) / 255
    np.testing.assert_allclose(chances, one.probabilities, atol=1 / 255)
    assert page["notes"] == [] and page["plane"] is None


def test_six_long_recordings_make_a_page_of_less_than_ten_megabytes():
    page = packed(walks(5000, 30, 6))
    assert len(json.dumps(page)) < 10e6
    assert page["notes"] == [] and page["recordings"][0]["expected"]


def test_what_is_left_out_is_said():
    page = packed([replace(one, length=9000) for one in walks(30, 50)])
    assert len(page["columns"]) == packing.MOST_COLUMNS + 2  # and the plane's
    assert any("Of 50 columns" in note for note in page["notes"])
    assert sum("the first 30 of 9,000 frames" in note for note in page["notes"]) == 2


def test_too_many_frames_are_cut_and_the_expectation_goes_first(monkeypatch):
    monkeypatch.setattr(packing, "MOST_BYTES", 2600)
    short, long = walks(100, 2)[0], walks(900, 2)[0]
    page = packed([short, replace(long, recording=replace(long.recording, name="long"))])
    assert [one["frames"] for one in page["recordings"]] == [100, 271]  # 7 bytes a frame
    assert all(one["expected"] is None for one in page["recordings"])
    assert any("expects is left out" in note for note in page["notes"])
    assert any("Of long, the first 271 of 900 frames" in note for note in page["notes"])


def test_the_channels_shown_first_tell_regimes_apart_and_differ():
    rng = np.random.default_rng(1)
    labels = stays(600)
    x = rng.standard_normal((600, 20))
    x[:, 7] += 5 * labels
    x[:, 8] = x[:, 7] + 0.01 * rng.standard_normal(600)
    x[:, 13] += np.where(labels == 0, 3, 0)
    shown = packed([recording(x, labels=labels)])["shown"]
    assert 13 in shown and len({7, 8} & set(shown)) == 1


def test_joints_know_their_channels():
    page = packed(poses())
    assert page["skeleton"]["channels"] == list(range(12)) and page["skeleton"]["axes"] == 3
    (one,) = poses()
    kept = [i for i, name in enumerate(SKELETON.columns) if name != "head.y"]
    columns = tuple(SKELETON.columns[i] for i in kept)
    fewer = replace(
        one,
        recording=replace(one.recording, x=one.recording.x[:, kept], columns=columns),
        expected=one.expected[:, kept],
    )
    assert packed([fewer])["skeleton"]["channels"] == [0, 1, 2, 3, -1, *range(4, 11)]


def test_images_are_thinned_to_fit(monkeypatch):
    (film,) = videos(60, 10)
    page = packed([film])
    images = decoded(page["recordings"][0]["images"], "u1").reshape(60, 10, 10)
    np.testing.assert_array_equal(images, np.rint(255 * film.recording.x).reshape(60, 10, 10))
    assert page["columns"] == ["component 1", "component 2", "component 3"]
    monkeypatch.setattr(packing, "MOST_IMAGE_BYTES", 1000)
    monkeypatch.setattr(packing, "LARGEST_IMAGE", 5)
    page = packed([film])
    assert page["image"] == {"height": 5, "width": 5, "every": 3}
    assert "every 3rd is shown" in " ".join(page["notes"]) and "1/2 of their size" in " ".join(page["notes"])


@pytest.mark.parametrize("x", [np.full((30, 2), np.nan), np.ones((30, 3)), np.zeros((1, 1))])
def test_odd_recordings_are_packed_without_numbers_that_json_lacks(x):
    json.dumps(packed([recording(x)]), allow_nan=False)
