"""How recordings are read from files: options, what a run remembers of them, and files that make no sense."""

import h5py
import numpy as np
import pandas as pd
import pytest
from shell import swerve

from swerve import api
from swerve.runs import fit as runs

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.mark.parametrize("command", ["fit", "segment", "report"])
def test_every_choice_of_a_reading_is_an_option(command):
    shown = swerve(command, "--help")
    for option in (
        *("sequence-column", "label-column", "control-column", "time-column", "column", "key", "rate", "skip", "every"),
        *("least-likelihood", "egocentric"),
    ):
        assert f"--{option}" in shown


def test_new_recordings_are_read_like_those_of_the_fit(walks, tmp_path):
    formats = [word for one in ("csv", "parquet", "segments", "audacity", "elan") for word in ("--format", one)]
    swerve("segment", walks / "run", walks / "tomorrow.parquet", "--out", tmp_path / "labels", *formats)
    names = {one.name for one in (tmp_path / "labels").iterdir()}
    assert names == {"change_points.json", "segments.csv", *(f"tomorrow.{kind}" for kind in ("csv", "parquet"))} | {
        f"tomorrow.{kind}.txt" for kind in ("audacity", "elan")
    }
    labels = pd.read_csv(tmp_path / "labels" / "tomorrow.csv")
    assert list(labels.columns) == ["frame", "time", "regime", "p0", "p1"]
    assert labels["frame"].tolist() == list(range(150))
    np.testing.assert_allclose(labels["time"], np.arange(150) / 10)
    swerve("report", walks / "run", walks / "tomorrow.parquet", "--out", tmp_path / "report")


def test_an_option_given_again_wins(walks, refuse, tmp_path):
    again = ("segment", walks / "run", walks / "today.csv", "--out", tmp_path / "labels")
    shown = refuse(*again, "--every", 1)
    assert '"today" has frames 0.1 apart, but the model was fitted to frames every 0.2' in shown
    assert 'no column "nostate"' in refuse(*again, "--label-column", "nostate")
    assert "has the columns t, but the model was fitted to p" in refuse(*again, "--column", "t", "--time-column", "")
    assert not (tmp_path / "labels").exists()


def test_python_reads_like_the_command_line(walks):
    frame = pd.read_csv(walks / "today.csv")
    fitted = runs.load(walks / "run")
    (from_frame,), (from_file,) = api.segment(fitted, frame), api.segment(walks / "run", walks / "today.csv")
    np.testing.assert_array_equal(from_frame.labels, from_file.labels)
    assert len(from_file.labels) == 240


def test_a_file_that_is_not_there(refuse, tmp_path):
    assert "nowhere.csv does not exist." in refuse("fit", tmp_path / "nowhere.csv", "--out", tmp_path / "run")


def test_an_empty_file(refuse, write, tmp_path):
    path = write("empty.csv")
    path.write_text("")
    assert "empty.csv is empty." in refuse("fit", path, "--out", tmp_path / "run")


def test_an_empty_folder(refuse, tmp_path):
    (tmp_path / "data").mkdir()
    assert "holds no .csv" in refuse("fit", tmp_path / "data", "--out", tmp_path / "run")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,b", "1,2", "1,two", "3,4"], 'line 3, column "b": "two" is not a number.'),
        (["a,b", "1,2", "1,inf", "3,4"], 'line 3, column "b": the value is infinite.'),
        (["a,b", "1,2", "1,2,3", "3,4"], "line 3: 3 columns where line 1 has 2."),
        (["a,b", *["1,"] * 10], 'Column "b" holds no value at all'),
        (["a,b", "1,2", "2,3", "3,4"], "has 3 frames; at least 4 are needed."),
        (["a,b", *["1,2"] * 10], "Every column is constant"),
        (["a,b"], "has a header but no rows."),
    ],
)
def test_tables_that_make_no_sense(refuse, write, tmp_path, lines, message):
    assert message in refuse("fit", write("table.csv", *lines), "--out", tmp_path / "run", "--model", "arhmm")
    assert not (tmp_path / "run").exists()


def test_files_with_different_columns(refuse, write, tmp_path):
    one, other = write("one.csv", "a,speed", "1,2", "3,4"), write("other.csv", "a,sped", "1,2", "3,4")
    shown = refuse("fit", one, other, "--out", tmp_path / "run")
    assert 'has no column "sped": did you mean "speed"?' in shown


def test_a_column_that_is_not_there(refuse, balls, tmp_path):
    shown = refuse("fit", balls, "--out", tmp_path / "run", "--sequence-column", "sequenc")
    assert 'did you mean "sequence"?' in shown


def write_two_rates(folder):
    times = np.cumsum([0.0, *[0.1] * 40, *[0.2] * 40])
    pd.DataFrame({"t": times, "p": times}).to_csv(folder / "data.csv", index=False)
    return folder / "data.csv"


def write_hdf5(folder):
    with h5py.File(folder / "data.h5", "w") as file:
        file["trace"] = np.ones((5, 2))
    return folder / "data.h5"


def write_pickled(folder):
    np.savez(folder / "data.npz", x=np.array([{}, {}], dtype=object))
    return folder / "data.npz"


def write_wide(folder):
    (folder / "data.csv").write_text(",".join(["1"] * 1_000_000) + "\n")
    return folder / "data.csv"


def write_text(name: str, content: str):
    def write(folder):
        (folder / name).write_text(content)
        return folder / name

    return write


@pytest.mark.parametrize(
    ("write_data", "options", "message"),
    [
        (
            write_text("a.csv", "t,p\n0,1\n2,2\n1,3\n"),
            ["--time-column", "t"],
            "row 2 (the first is row 0): 1 is an earlier",
        ),
        (
            write_text("a.csv", "t,p\n0,1\n1,2\n1,3\n"),
            ["--time-column", "t"],
            "1 is the same time as 1 in the row before",
        ),
        (write_two_rates, ["--time-column", "t"], "frames 0.1 apart at first and 0.2 apart"),
        (write_hdf5, ["--key", "traces"], 'has no key "traces": it has "trace".'),
        (write_pickled, [], "holds Python objects; store plain numbers instead."),
        (write_wide, [], "has 1,000,000 columns, and at most 10,000 can be used"),
        (write_text("a.parquet", "no table"), [], "is not a Parquet file that can be read."),
        (write_text("a.csv", "who,p\nbee,1\n"), [], 'column "who" holds no numbers: choose the measurements'),
        (write_text("a.csv", "p\n1\n2\n"), ["--rate", "5"], "has no times to resample by"),
        (write_text("a.csv", "p\n1\n2\n"), ["--every", "0"], "can be kept from 1 on, not 0."),
        (write_text("a.csv", "p\n1\n2\n"), ["--skip", "2"], "has 2 frames, so 2 can not be skipped."),
    ],
)
def test_recordings_that_make_no_sense(refuse, tmp_path, write_data, options, message):
    data = write_data(tmp_path)
    assert message in refuse("fit", data, "--out", tmp_path / "run", "--model", "arhmm", *options)
    assert [one.name for one in tmp_path.iterdir()] == [data.name]
