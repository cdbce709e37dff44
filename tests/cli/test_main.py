"""The command line: the whole path on files, and one sentence for every mistake."""

import csv
import errno
import itertools
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from jax.errors import JaxRuntimeError
from tiny import SETTINGS
from typer.testing import CliRunner

from swerve import api
from swerve.cli import demo, display
from swerve.cli import main as cli
from swerve.data import tables
from swerve.runs import fit as runs
from swerve.runs import report as reporting
from swerve_lab.boards.catalog import BOARDS

OPTIONS = ["-k", 2, *(word for setting in SETTINGS for word in ("--set", setting))]
COLUMNS = ["--sequence-column", "sequence", "--label-column", "s"]
COMMANDS = [one.name or one.callback.__name__ for one in cli.app.registered_commands]


pytestmark = pytest.mark.usefixtures("quick_compilation")


def swerve(*words) -> str:
    done = CliRunner().invoke(cli.app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


@pytest.fixture
def refuse(monkeypatch, capsys):
    """Runs `swerve` as from a shell, expects a refusal, and returns its one sentence."""

    def refusal(*words) -> str:
        monkeypatch.setattr(sys, "argv", ["swerve", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        shown = capsys.readouterr().err
        assert stopped.value.code == 2
        assert "Traceback" not in shown
        assert shown.startswith("Error: ")
        assert shown.count("\n") == 1
        assert shown.endswith((".\n", "?\n"))
        return shown

    return refusal


@pytest.fixture
def write(tmp_path):
    def file(name: str, *lines: str):
        path = tmp_path / name
        path.write_text("\n".join([*lines, ""]))
        return path

    return file


@pytest.fixture(scope="session")
def balls(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "balls.csv"
    shown = swerve("generate", "bouncing-ball", "--out", path, "--sequences", 5, "--seed", 3)
    assert "5 recordings of 100 frames" in shown
    return path


@pytest.fixture(scope="session")
def linear(balls, tmp_path_factory):
    """A folder with an AR-HMM, the cheapest model to try things on."""
    folder = tmp_path_factory.mktemp("runs") / "linear"
    swerve("fit", balls, "--out", folder, "--model", "arhmm", *OPTIONS, *COLUMNS)
    return folder


def check_labels(folder, names) -> None:
    changes = json.loads((folder / "change_points.json").read_text())
    assert set(changes) == set(names)
    assert {one.stem for one in folder.glob("*.csv")} == {*names, "segments"}
    for place, name in enumerate(names):
        with (folder / f"{name}.csv").open(newline="") as file:
            header, *rows = csv.reader(file)
        assert header == ["frame", "row", "regime", "p0", "p1"]
        assert [int(row[0]) for row in rows] == list(range(100))
        assert [int(row[1]) for row in rows] == list(range(100 * place, 100 * place + 100))
        regimes = np.array([int(row[-3]) for row in rows])
        probable = np.array([[float(cell) for cell in row[-2:]] for row in rows])
        np.testing.assert_allclose(probable.sum(axis=1), 1.0, atol=1e-5)
        np.testing.assert_array_equal(probable[np.arange(100), regimes], probable.max(axis=1))
        assert changes[name] == (np.flatnonzero(np.diff(regimes)) + 1).tolist()


def check_path(balls, folder, model: str) -> None:
    """Fit, segment, evaluate and report, each on the files of the one before."""
    run, labels = folder / "run", folder / "labels"
    shown = swerve("fit", balls, "--out", run, "--model", model, *OPTIONS, *COLUMNS)
    assert f"model {model}" in shown
    assert "regimes in them" in shown
    shown = swerve("segment", run, balls, "--out", labels, *COLUMNS)
    names = [f"ball-{i}" for i in range(5)]
    check_labels(labels, names)
    switches = sum(map(len, json.loads((labels / "change_points.json").read_text()).values()))
    assert f"5 recordings, {switches} change points" in shown

    evaluation = ["evaluate", labels, balls, "--sequence-column", "sequence"]
    scores = json.loads(swerve(*evaluation, "--json"))
    assert {"frame_f1", "switch_f1_tol0", "switch_f1_tol5", "nmi", "ari"} <= set(scores)
    assert 0 < scores["frame_f1"] <= 100
    assert f"{scores['frame_f1']:.1f}" in swerve(*evaluation)
    kept = json.loads((run / "scores.json").read_text())
    assert kept["rows"][model]["frame_f1"] == scores["frame_f1"]
    assert (kept["frame_f1_curve"] is None) == (model == "arhmm")

    swerve("report", run)
    check_report(run, history=model != "arhmm")
    swerve("report", run, balls, "--out", folder / "elsewhere", *COLUMNS)
    check_report(folder / "elsewhere", history=model != "arhmm")


def check_report(folder, *, history: bool) -> None:
    page = (folder / "report.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html")
    figures = {one.stem for one in (folder / "figures").glob("*.png")}
    expected = {*(f"regimes-{i}" for i in range(5)), "marginals", "reconstruction", "cards", "scores"}
    assert figures == expected | ({"training"} if history else set())
    still = [one for one in figures if one.startswith(reporting.STILL)]  # the others are for papers
    assert page.count("data:image/png;base64,") == len(still) > 0


@pytest.mark.slow
def test_the_whole_path_with_an_snlds(balls, tmp_path):
    check_path(balls, tmp_path, "snlds")


def test_the_whole_path_with_an_arhmm(balls, tmp_path):
    check_path(balls, tmp_path, "arhmm")


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


def test_a_time_budget_is_a_duration(balls, tmp_path, refuse):
    command = ["fit", balls, "--out", tmp_path / "run", *OPTIONS, *COLUMNS, "--time-budget"]
    assert "looks like 90s, 10m, 2h or 1h30m, not 'soon'" in refuse(*command, "soon")
    assert not (tmp_path / "run").exists()
    assert "too short to train a snlds: AR-HMMs instead" in swerve(*command, "20s")


def test_ctrl_c_before_anything_is_learned_stops_at_once():
    with display.stop_on_interrupt() as should_stop:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert not should_stop()
        signal.raise_signal(signal.SIGINT)
        assert should_stop()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_ends_with_a_word_and_its_own_exit_code(balls, tmp_path, monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "fit", interrupted)
    monkeypatch.setattr(sys, "argv", ["swerve", "fit", str(balls), "--out", str(tmp_path / "run"), *COLUMNS])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 130
    assert capsys.readouterr().err.strip() == "Stopped. What was kept goes on with --resume."


def test_a_full_disk_is_one_sentence_and_leaves_nothing_half_written(balls, tmp_path, refuse, monkeypatch):
    def no_space(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    shown = refuse("fit", balls, "--out", tmp_path / "run", "--model", "arhmm", *OPTIONS, *COLUMNS)
    assert "run.json: could not be written (No space left on device)." in shown
    assert not (tmp_path / "run").exists()


def test_a_disk_that_fills_up_leaves_a_run_to_resume(balls, tmp_path, refuse, monkeypatch):
    command = ["fit", balls, "--out", tmp_path / "run", "--model", "arhmm", *OPTIONS, *COLUMNS]
    whole, calls = os.fsync, itertools.count()

    def no_space(handle):
        if next(calls) >= 2:  # a file and its folder
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole(handle)

    monkeypatch.setattr(os, "fsync", no_space)
    assert "model.safetensors: could not be written" in refuse(*command)
    assert [one.name for one in (tmp_path / "run").iterdir()] == ["run.json"]
    monkeypatch.undo()
    swerve(*command, "--resume")


def test_a_folder_that_can_not_be_written_is_refused(balls, tmp_path, refuse, monkeypatch):
    def forbidden(self, *arguments, **options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "mkdir", forbidden)
    shown = refuse("fit", balls, "--out", tmp_path / "run", "--model", "arhmm", *OPTIONS, *COLUMNS)
    assert f"{tmp_path / 'run'}: Permission denied." in shown


def test_viterbi_labels(balls, linear, tmp_path):
    swerve("segment", linear, balls, "--out", tmp_path, "--viterbi", *COLUMNS)
    assert len(list(tmp_path.glob("ball-*.csv"))) == 5


def test_the_same_seed_writes_the_same_file(balls, tmp_path):
    swerve("generate", "bouncing-ball", "--out", tmp_path / "again.csv", "--sequences", 5, "--seed", 3)
    assert (tmp_path / "again.csv").read_bytes() == balls.read_bytes()


@pytest.mark.parametrize("board", list(BOARDS))
def test_boards_as_numpy_files(board, tmp_path):
    noise = ("--noise", 0.0) if BOARDS[board].noisy else ()
    swerve("generate", board, "--out", tmp_path / "new" / "board.npz", "--sequences", 2, *noise)
    first, second = tables.read(tmp_path / "new" / "board.npz")
    made = BOARDS[board].generate(2, seed=0)
    assert (len(first), first.x.shape) == (len(second), made.clean[0].shape)
    np.testing.assert_allclose(first.x, made.clean[0])
    np.testing.assert_array_equal(second.s, made.s[1])


def test_names_that_are_no_file_names_are_scored_too(write, linear, tmp_path):
    rows = [f"{name},{np.sin(t / 9):.4f},{int(t > 20)}" for name in ("a/b: 1", "../c d") for t in range(40)]
    data = write("odd.csv", "sequence,position,s", *rows)
    swerve("segment", linear, data, "--out", tmp_path / "labels", *COLUMNS)
    assert len(list((tmp_path / "labels").glob("*.csv"))) == 3
    assert sorted(json.loads((tmp_path / "labels" / "change_points.json").read_text())) == ["../c d", "a/b: 1"]
    swerve("evaluate", tmp_path / "labels", data, "--sequence-column", "sequence", "--json")


def test_a_constant_column_is_left_out_with_a_warning(balls, write, tmp_path):
    header, *rows = balls.read_text().splitlines()
    data = write("walk.csv", f"always,{header}", *(f"5.0,{row}" for row in rows))
    done = CliRunner().invoke(
        cli.app, [str(w) for w in ("fit", data, "--out", tmp_path / "run", "--model", "arhmm", *OPTIONS, *COLUMNS)]
    )
    assert done.exit_code == 0, done.output
    assert "These columns never change and were left out: always." in " ".join(done.stderr.split())
    assert runs.load(tmp_path / "run").columns == ("position",)
    swerve("segment", tmp_path / "run", data, "--out", tmp_path / "labels", *COLUMNS)
    swerve("report", tmp_path / "run")
    swerve("report", tmp_path / "run", data, "--out", tmp_path / "report", *COLUMNS)
    assert (tmp_path / "report" / "report.html").is_file()


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-k", "0"], "The number of regimes must be at least 1, not 0."),
        (["--restarts", "0"], "training.restarts must be at least 1, not 0."),
        (["--set", "training.stepz=5"], "Unknown setting 'training.stepz': did you mean 'training.steps'?"),
        (["--set", "trainin.steps=5"], "did you mean 'training'?"),
        (["--set", "training.steps=soon"], "'training.steps' must be of type int, not 'soon'."),
        (["--set", "training.steps"], "A setting looks like training.steps=20000"),
        (["--model", "slsd"], "There is no model 'slsd': did you mean 'slds'?"),
        (["--recipe", "papers"], "There is no recipe 'papers': did you mean 'paper'?"),
        (["--resume"], "holds no run to resume."),
    ],
)
def test_choices_that_make_no_sense(refuse, balls, tmp_path, options, message):
    assert message in refuse("fit", balls, "--out", tmp_path / "run", *COLUMNS, *options)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_another_run(refuse, balls, linear):
    again = ("fit", balls, "--out", linear, "--model", "arhmm", *OPTIONS, *COLUMNS)
    assert "already holds a run: choose another --out, or --resume" in refuse(*again)
    assert "holds another run (its config differs)" in refuse(*again, "--resume", "--seed", 1)


def test_a_folder_that_holds_something_else(refuse, balls, write, tmp_path):
    write("notes.txt", "mine")
    assert "not a run folder" in refuse("fit", balls, "--out", tmp_path, *COLUMNS)


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


def test_a_demo_does_not_write_over_a_file(refuse, write):
    assert "is no demo: choose another --out" in refuse("demo", "--out", write("notes.txt", "mine"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bouncing-bal", "--out", "x.csv"], "There is no board 'bouncing-bal'; there are bouncing-ball"),
        (["bouncing-ball", "--out", "x.csv", "--sequences", "0"], "--sequences must be at least 1, not 0."),
        (["bouncing-ball", "--out", "x.txt"], "x.txt must end in .csv or .npz."),
        (["bouncing-ball", "--out", "x.csv", "--seed", "-1"], "--seed must be at least 0, not -1."),
        (["reacher", "--out", "x.csv", "--noise", "0.1"], "The board 'reacher' has no noise to set."),
        (
            ["dubins", "--out", "x.csv", "--sequences", "1"],
            "x.csv: a table has no place for images; write video to a .npz file.",
        ),
    ],
)
def test_boards_that_make_no_sense(refuse, words, message):
    assert message in refuse("generate", *words)


def test_labels_that_do_not_belong_to_the_truth(refuse, write, balls):
    labels = write("labels.csv", "frame,regime,p0", "0,0,1.0", "1,0,1.0")
    assert "has no true regimes for the recording 'labels'" in refuse(
        "evaluate", labels, balls, "--sequence-column", "sequence"
    )
    short = write("truth.csv", "x,s", "0.0,1")
    assert "'labels' has 2 labels but 1 true ones." in refuse("evaluate", labels, short)
    assert 'has no column "regime"' in refuse("evaluate", short, short)
    assert 'has no column "truth"' in refuse("evaluate", labels, short, "--label-column", "truth")


def test_recordings_without_labels_are_not_passed_over(refuse, linear, balls, tmp_path):
    swerve("segment", linear, balls, "--out", tmp_path / "labels", *COLUMNS)
    (tmp_path / "labels" / "ball-3.csv").unlink()
    words = ("evaluate", tmp_path / "labels", balls, "--sequence-column", "sequence")
    assert "1 recordings of" in refuse(*words)
    assert "4 recordings" in swerve(*words, "--partial")


def test_a_truth_that_knows_nothing(refuse, write):
    labels = write("labels.csv", "frame,regime,p0", "0,0,1.0", "1,0,1.0")
    unknown = write("truth.csv", "x,s", "0.0,-1", "0.0,-1")
    assert "no frame whose true regime is known" in refuse("evaluate", labels, unknown)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "-1"], "The seed must be at least 0, not -1."),
        (["--set", "recipe.variants=[]"], "recipe.variants must not be empty."),
        (["--set", "arhmm.lags=[]"], "arhmm.lags must not be empty."),
        (["--set", "arhmm.lags=[0]", "--set", "arhmm.features=[5]"], "arhmm.lags must hold at least one lag."),
        (["--set", "arhmm.lags=[-1]"], "arhmm.lags must be at least 0"),
        (["--set", "model.switching_history=0"], "model.switching_history must be at least 1, not 0."),
        (["--set", "model.dynamics_hidden=[0]"], "model.dynamics_hidden must be at least 1"),
        (["--config", "."], "can not be read"),
    ],
)
def test_settings_that_make_no_sense(refuse, balls, tmp_path, words, message):
    assert message in refuse("fit", balls, "--out", tmp_path / "run", *words, *COLUMNS)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_config_file_gives_way_to_the_options(balls, write, tmp_path):
    settings = write("settings.toml", 'kind = "slds"', "seed = 7", "[model]", "regimes = 4")
    swerve("fit", balls, "--out", tmp_path / "run", "--config", settings, "--model", "arhmm", "--seed", 2, *COLUMNS)
    config = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert (config["kind"], config["seed"], config["model"]["regimes"]) == ("arhmm", 2, 4)


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


def test_too_little_memory_is_no_crash(refuse, linear, balls, tmp_path, monkeypatch):
    def starved(*_, **__):
        raise JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 4000000000000 bytes.")

    monkeypatch.setattr(runs.Run, "segment", starved)
    shown = refuse("segment", linear, balls, *COLUMNS, "--out", tmp_path / "labels")
    assert "There is not enough memory for this: fewer --regimes" in shown


def test_a_run_file_that_says_nothing_is_damaged(refuse, linear, balls, tmp_path):
    shutil.copytree(linear, tmp_path / "run")
    (tmp_path / "run" / "run.json").write_text("[]")
    assert "run.json is damaged" in refuse("fit", balls, "--out", tmp_path / "run", "--resume", *COLUMNS)


def test_a_place_where_nothing_can_be_written(refuse, balls, write):
    assert "Not a directory" in refuse("fit", balls, "--out", write("notes.txt", "mine") / "run", *COLUMNS)


def test_an_experiment_that_is_not_there(refuse, tmp_path):
    shown = refuse("reproduce", "bouncing-bal", "--experiments", tmp_path)
    assert "There is no experiment 'bouncing-bal'" in shown


@pytest.fixture(scope="session")
def walks(tmp_path_factory):
    """A run on a table with times, labels and a column to leave out, and tomorrow's table without labels."""
    folder = tmp_path_factory.mktemp("walks")
    regimes = np.arange(240) // 40 % 2
    times, place = np.arange(240) / 10, np.cumsum(1.0 - 2 * regimes)
    frame = pd.DataFrame({"t": times, "p": place, "note": "fine", "state": regimes})
    frame["p"] += np.random.default_rng(0).normal(size=240) / 10
    frame.to_csv(folder / "today.csv", index=False)
    frame.drop(columns="state").iloc[:150].to_parquet(folder / "tomorrow.parquet")
    roles = ("--time-column", "t", "--label-column", "state", "--column", "p", "--every", 2)
    swerve("fit", folder / "today.csv", "--out", folder / "run", "--model", "arhmm", *OPTIONS, *roles)
    return folder


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


def test_a_full_disk_leaves_no_labels(refuse, linear, balls, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    shown = refuse("segment", linear, balls, "--out", tmp_path / "labels", *COLUMNS)
    assert shown == f"Error: {tmp_path / 'labels'}: could not be written (No space left on device).\n"
    assert "No space left" in refuse("generate", "bouncing-ball", "--out", tmp_path / "a.csv", "--sequences", 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["fit", "segment", "report"])
def test_every_choice_of_a_reading_is_an_option(command):
    shown = swerve(command, "--help")
    for option in (
        *("sequence-column", "label-column", "control-column", "time-column", "column", "key", "rate", "skip", "every"),
        *("least-likelihood", "egocentric"),
    ):
        assert f"--{option}" in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command):
    callback = next(one.callback for one in cli.app.registered_commands if command in (one.name, one.callback.__name__))
    shown = swerve(command, "--help")
    assert " ".join(callback.__doc__.split()[:5]) in shown
    assert "--help" in shown


def test_help_names_every_command():
    shown = swerve("--help")
    assert {"demo", "fit", "segment", "name", "evaluate", "report", "generate", "reproduce"} <= set(COMMANDS)
    assert all(command in shown for command in COMMANDS)
    assert "finds the regimes in time series" in shown


@pytest.mark.slow
def test_the_demo_scores_reports_and_can_be_run_again(monkeypatch, tmp_path, refuse):
    monkeypatch.setattr(demo, "TRAINING_SEQUENCES", 5)
    monkeypatch.setattr(demo, "TEST_SEQUENCES", 5)
    monkeypatch.setattr(demo, "demo_config", lambda seed: api.make_config(2, seed=seed, settings=SETTINGS))
    out = tmp_path / "demo"
    assert "oracle" in swerve("demo", "--out", out)
    first = (out / "scores.json").read_text()
    assert "oracle" in (out / "report.html").read_text()
    assert {"scores", "training"} <= {one.stem for one in (out / "figures").glob("*.png")}
    monkeypatch.setattr(reporting, "write_report", lambda *arguments, **options: out / "report.html")
    swerve("demo", "--out", out)
    assert (out / "scores.json").read_text() == first
    scores = json.loads(first)
    assert scores["oracle"]["frame_f1"] > 90
    assert {"frame_f1", "switch_f1_tol0", "switch_f1_tol5", "arhmm", "seed", "held_out_bound"} <= set(scores)
    (tmp_path / "notes.txt").write_text("mine")
    assert "is no demo" in refuse("demo", "--out", tmp_path)


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
