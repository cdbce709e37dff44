"""What is done with a fitted run: labels, names, forecasts and reports."""

import csv
import json
import shutil

import numpy as np
import pytest
from shell import COLUMNS, OPTIONS, swerve

from swerve.runs import fit as runs

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_names_of_regimes(balls, linear, tmp_path, refuse):
    folder = tmp_path / "run"
    shutil.copytree(linear, folder)
    assert swerve("name", folder) == "0 regime 0 1 regime 1"
    assert swerve("name", folder, "0=<b>up", "1=$down") == "0 <b>up 1 $down"
    assert swerve("name", folder, "1=_down") == "0 <b>up 1 _down"
    swerve("report", folder)
    assert "<b>up" not in (folder / "report.html").read_text()
    assert "no regime 2: they are numbered from 0 to 1" in refuse("name", folder, "2=left")
    assert "0=walk" in refuse("name", folder, "up")
    assert "no run folder" in refuse("name", tmp_path / "nowhere")
    aligned = ["fit", balls, "--model", "arhmm", *OPTIONS, *COLUMNS, "--align-to", folder]
    shown = swerve(*aligned, "--out", tmp_path / "again", "--seed", 1)
    assert "aligned to" in shown
    assert "of the frames keep their number" in shown
    assert swerve("name", tmp_path / "again") == "0 <b>up 1 _down"


def test_viterbi_labels(balls, linear, tmp_path):
    swerve("segment", linear, balls, "--out", tmp_path, "--viterbi", *COLUMNS)
    assert len(list(tmp_path.glob("ball-*.csv"))) == 5


def test_names_that_are_no_file_names_are_scored_too(write, linear, tmp_path):
    rows = [f"{name},{np.sin(t / 9):.4f},{int(t > 20)}" for name in ("a/b: 1", "../c d") for t in range(40)]
    data = write("odd.csv", "sequence,position,s", *rows)
    swerve("segment", linear, data, "--out", tmp_path / "labels", *COLUMNS)
    assert len(list((tmp_path / "labels").glob("*.csv"))) == 3
    assert sorted(json.loads((tmp_path / "labels" / "change_points.json").read_text())) == ["../c d", "a/b: 1"]
    swerve("evaluate", tmp_path / "labels", data, "--sequence-column", "sequence", "--json")


def test_a_model_on_data_with_other_columns(refuse, linear, write, tmp_path):
    data = write("other.csv", "height", *map(str, range(10)))
    shown = refuse("segment", linear, data, "--out", tmp_path / "labels")
    assert "has the columns height, but the model was fitted to position." in shown
    assert not (tmp_path / "labels").exists()


def test_a_run_that_is_not_there(refuse, balls, tmp_path):
    assert "There is no run folder" in refuse("segment", tmp_path / "none", balls, "--out", tmp_path / "labels")
    assert "There is no run folder" in refuse("report", tmp_path / "none")
    assert "holds no finished model" in refuse("report", tmp_path)


def test_no_draws(refuse, balls, linear, tmp_path):
    shown = refuse("segment", linear, balls, "--out", tmp_path, "--samples", 0, *COLUMNS)
    assert "samples must be at least 1, not 0." in shown


def test_two_recordings_that_would_share_a_file(refuse, write, linear, tmp_path):
    rows = [f"{name},{t}" for name in ("a b", "a:b") for t in range(10)]
    data = write("both.csv", "sequence,position", *rows)
    shown = refuse("segment", linear, data, "--out", tmp_path / "labels", "--sequence-column", "sequence")
    assert "would share one file of labels" in shown
    assert not (tmp_path / "labels").exists()


@pytest.mark.parametrize("name", ["run.json", "history.json", "trust.json", "examples.npz"])
def test_damaged_files_are_named(refuse, linear, balls, tmp_path, name):
    broken = tmp_path / "run"
    shutil.copytree(linear, broken)
    (broken / name).write_bytes(b"{ not a")
    words = ("fit", balls, "--out", broken, "--resume", *COLUMNS) if name == "run.json" else ("report", broken)
    assert f"{name} is damaged" in refuse(*words)


def test_labels_that_can_not_be_written_are_not_computed(refuse, linear, balls, tmp_path, monkeypatch):
    monkeypatch.setattr(runs.Run, "segment", None)
    words = ("segment", linear, balls, *COLUMNS, "--out")
    assert "times: name their column" in refuse(*words, tmp_path / "labels", "--format", "elan")
    assert "There is no format 'csw': did you mean 'csv'?" in refuse(*words, tmp_path / "labels", "--format", "csw")
    (tmp_path / "notes.txt").write_text("mine")
    assert "is no folder that can be written to" in refuse(*words, tmp_path / "notes.txt" / "labels")


def test_forecasts_are_tables_and_pictures(balls, linear, tmp_path):
    shown = swerve("forecast", linear, balls, "--horizon", 6, "--out", tmp_path / "ahead", "--samples", 50, *COLUMNS)
    assert "5 recordings, 6 frames ahead" in shown
    assert len(list((tmp_path / "ahead").glob("*.png"))) == 5
    with (tmp_path / "ahead" / "ball-0.csv").open() as file:
        header, *rows = csv.reader(file)
    assert header == ["frame", "p0", "p1", "position 10%", "position 50%", "position 90%"]
    numbers = np.array(rows, float)
    np.testing.assert_array_equal(numbers[:, 0], np.arange(100, 106))
    np.testing.assert_allclose(numbers[:, 1:3].sum(axis=1), 1.0, atol=1e-5)
    assert (np.diff(numbers[:, 3:], axis=1) > 0).all()


def test_forecasts_that_can_not_be_made_are_refused(balls, linear, tmp_path, refuse):
    assert "horizon must be at least 1" in refuse(
        "forecast", linear, balls, "--horizon", 0, "--out", tmp_path / "ahead", *COLUMNS
    )
    assert "Quantiles lie between 0 and 1" in refuse(
        "forecast", linear, balls, "--horizon", 3, "--quantile", 90, "--out", tmp_path / "ahead", *COLUMNS
    )
    assert not (tmp_path / "ahead").exists()
