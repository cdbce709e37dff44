"""Labels in the frames and times of the file, in every format, and nothing of them after a failure."""

import csv
import errno
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from swerve.data import atomic
from swerve.data.reading import Reading
from swerve.data.sampling import sampled
from swerve.errors import InputError
from swerve.report import export
from swerve.runs.infer import Inferred
from swerve.types import Recording, Segmentation


def segmentation(labels, *, times=None, rows=None, names=()) -> Segmentation:
    labels = np.array(labels)
    rows = np.arange(len(labels)) if rows is None else rows
    return Segmentation(labels, np.where(np.eye(2)[labels] > 0, 0.9, 0.1), rows, times, "walk", names)


def in_rows(one: Recording, labels) -> Segmentation:
    labels = np.array(labels)
    return Inferred(labels, np.eye(2)[labels], one.x, one.name).in_rows(one)


def walk(frames: int, **fields) -> Recording:
    return Recording(np.arange(float(frames))[:, None], name="walk", columns=("x",), **fields)


def table(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_a_recording_as_it_is(tmp_path):
    export.write(tmp_path / "labels", [segmentation([0, 0, 1, 1])])
    assert {one.name for one in (tmp_path / "labels").iterdir()} == {"walk.csv", "segments.csv", "change_points.json"}
    rows = table(tmp_path / "labels" / "walk.csv")
    assert rows[0] == ["frame", "regime", "p0", "p1"] and rows[3] == ["2", "1", "0.100000", "0.900000"]
    assert table(tmp_path / "labels" / "segments.csv") == [
        ["recording", "start_frame", "end_frame", "regime", "confidence"],
        ["walk", "0", "1", "0", "0.9000"],
        ["walk", "2", "3", "1", "0.9000"],
    ]
    assert json.loads((tmp_path / "labels" / "change_points.json").read_text()) == {"walk": [2]}


def test_frames_that_a_model_did_not_see_have_the_regime_of_the_frame_that_covers_them():
    one = sampled(walk(8, times=np.arange(8) / 4), Reading(skip=1, every=3), "walk")
    found = in_rows(one, [0, 1, 0])
    assert found.labels.tolist() == [0, 0, 1, 1, 1, 0, 0, 0]
    assert found.times.tolist() == (np.arange(8) / 4).tolist() and found.rows.tolist() == list(range(8))


def test_resampled_and_missing_frames_lead_back_to_the_file():
    times = np.array([0.0, 0.1, 0.2, 0.5, 0.6])
    one = sampled(walk(5, times=times), Reading(), "walk")
    found = in_rows(one, [0, 0, 0, 1, 1, 1, 0])
    assert found.labels.tolist() == [0, 0, 0, 1, 0]
    assert [(s.start_frame, s.end_frame, s.start_time, s.end_time) for s in export.segments_of(found)] == [
        (0, 2, 0.0, 0.5),
        (3, 3, 0.5, 0.6),
        (4, 4, 0.6, pytest.approx(0.7)),
    ]
    down = sampled(walk(9, times=np.arange(9) / 10), Reading(rate=5), "walk")
    assert in_rows(down, [0, 0, 1, 1, 1]).labels.tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1]


def test_rows_are_told_where_a_file_holds_several_recordings(tmp_path):
    rows, times, names = np.array([1, 3, 5]), np.array([0.0, 0.5, 1.0]), ("rest", 'run "fast", far')
    export.write(tmp_path, [segmentation([1, 1, 0], rows=rows, times=times, names=names)])
    assert table(tmp_path / "walk.csv")[1:3] == [
        ["0", "1", "0.0", "1", 'run "fast", far', "0.100000", "0.900000"],
        ["1", "3", "0.5", "1", 'run "fast", far', "0.100000", "0.900000"],
    ]
    header, first, last = table(tmp_path / "segments.csv")
    assert header == [
        *("recording", "start_frame", "end_frame", "start_row", "end_row", "start_time", "end_time", "regime"),
        *("name", "confidence"),
    ]
    assert first == ["walk", "0", "1", "1", "3", "0.0", "1.0", "1", 'run "fast", far', "0.9000"]
    assert last[:7] == ["walk", "2", "2", "5", "5", "1.0", "1.5"]


def test_text_for_annotators(tmp_path):
    found = segmentation([0, 0, 1, 1], times=np.array([10.0, 10.5, 11.0, 11.5]), names=("a\tb",))
    export.write(tmp_path, [found], formats=("audacity", "elan"))
    assert (tmp_path / "walk.audacity.txt").read_text() == "10.000000\t11.000000\ta b\n11.000000\t12.000000\t1\n"
    header, first, _ = (tmp_path / "walk.elan.txt").read_text().splitlines()
    assert header.split("\t")[:3] == ["Tier", "Begin Time - ss.msec", "End Time - ss.msec"]
    assert first == "regimes\t10.000\t11.000\t1.000\ta b"
    assert not (tmp_path / "walk.csv").exists()


def test_frames_per_second_give_times_to_recordings_without(tmp_path):
    export.write(tmp_path, [segmentation([0, 1])], formats=["audacity"], frames_per_second=20.0)
    assert (tmp_path / "walk.audacity.txt").read_text().startswith("0.000000\t0.050000\t0\n")


def test_parquet_holds_what_csv_holds(tmp_path):
    found = segmentation([0, 1, 1, 0, 0], times=np.arange(5.0), rows=np.arange(5, 10), names=("rest", "run"))
    export.write(tmp_path, [found], formats=("csv", "parquet"))
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "walk.parquet"), pd.read_csv(tmp_path / "walk.csv"), check_dtype=False
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"formats": ("audacty",)}, "There is no format 'audacty': did you mean 'audacity'?"),
        ({"formats": ("csv", "elan")}, "Labels for elan are in seconds, and recording 'walk' has no times: name"),
        ({"frames_per_second": 0.0}, "must be above 0, not 0.0"),
    ],
)
def test_what_can_not_be_written_leaves_nothing(tmp_path, options, message):
    with pytest.raises(InputError) as refused:
        export.write(tmp_path / "new" / "labels", [segmentation([0, 1])], **options)
    assert message in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_names_that_can_not_be_files(tmp_path):
    assert export.file_name("../a b/c") == "_a_b_c" and export.file_name("...") == "recording"
    with pytest.raises(InputError, match="would share one file"):
        export.check_file_names([Recording(np.ones((2, 1)), name=name) for name in ("a b", "a:b")])
    with pytest.raises(InputError, match=r"'segments.csv' and 'segments' would share one file"):
        export.check_file_names([Recording(np.ones((2, 1)), name="segments")])


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("there", [True, False])
def test_a_full_disk_leaves_the_old_files_and_no_new_ones(tmp_path, monkeypatch, there):
    labels = tmp_path / "some" / "labels"
    if there:
        export.write(labels, [segmentation([0, 1])])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr(atomic, "_force_to_disk", full)
    with pytest.raises(OSError, match="No space left"):
        export.write(labels, [segmentation([1, 1, 0])])
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert there or list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_while_a_table_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "_rows", full)
    with pytest.raises(OSError, match="No space left"):
        export.write(tmp_path / "labels", [segmentation([1, 1, 0])])
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_open_to_others_like_any_other(tmp_path):
    export.write(tmp_path / "labels", [segmentation([0, 1])])
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "labels").stat().st_mode == (tmp_path / "plain").stat().st_mode
