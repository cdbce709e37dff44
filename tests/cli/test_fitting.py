"""`swerve fit`: from files to a run, and one sentence for every mistake."""

import csv
import json
import shutil

import numpy as np
import pytest
from shell import COLUMNS, OPTIONS, swerve
from typer.testing import CliRunner

from swerve.cli import main as cli
from swerve.runs import fit as runs
from swerve.runs import report as reporting

pytestmark = pytest.mark.usefixtures("quick_compilation")


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


def test_a_time_budget_is_a_duration(balls, tmp_path, refuse):
    command = ["fit", balls, "--out", tmp_path / "run", *OPTIONS, *COLUMNS, "--time-budget"]
    assert "looks like 90s, 10m, 2h or 1h30m, not 'soon'" in refuse(*command, "soon")
    assert not (tmp_path / "run").exists()
    assert "too short to train a snlds: AR-HMMs instead" in swerve(*command, "20s")


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


@pytest.mark.slow
def test_a_config_file_gives_way_to_the_options(balls, write, tmp_path):
    settings = write("settings.toml", 'kind = "slds"', "seed = 7", "[model]", "regimes = 4")
    swerve("fit", balls, "--out", tmp_path / "run", "--config", settings, "--model", "arhmm", "--seed", 2, *COLUMNS)
    config = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert (config["kind"], config["seed"], config["model"]["regimes"]) == ("arhmm", 2, 4)


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


def test_a_folder_that_holds_another_run(refuse, balls, linear):
    again = ("fit", balls, "--out", linear, "--model", "arhmm", *OPTIONS, *COLUMNS)
    assert "already holds a run: choose another --out, or --resume" in refuse(*again)
    assert "holds another run (its config differs)" in refuse(*again, "--resume", "--seed", 1)


def test_a_folder_that_holds_something_else(refuse, balls, write, tmp_path):
    write("notes.txt", "mine")
    assert "not a run folder" in refuse("fit", balls, "--out", tmp_path, *COLUMNS)


def test_a_run_file_that_says_nothing_is_damaged(refuse, linear, balls, tmp_path):
    shutil.copytree(linear, tmp_path / "run")
    (tmp_path / "run" / "run.json").write_text("[]")
    assert "run.json is damaged" in refuse("fit", balls, "--out", tmp_path / "run", "--resume", *COLUMNS)


def test_a_place_where_nothing_can_be_written(refuse, balls, write):
    assert "Not a directory" in refuse("fit", balls, "--out", write("notes.txt", "mine") / "run", *COLUMNS)
