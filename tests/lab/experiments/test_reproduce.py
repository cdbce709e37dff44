"""A small experiment runs to its table, and goes on after a stop."""

import json
from pathlib import Path

import pytest
from tiny import TINY_ROW, TINY_SIZES
from typer.testing import CliRunner

from swerve.errors import InputError
from swerve_lab import cli
from swerve_lab.experiments import reproduce
from swerve_lab.experiments.rows import TEST_SEED, TRAINING_SEED, read_row

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture
def experiments(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(reproduce, "WORK", tmp_path / "work")
    monkeypatch.setattr(reproduce, "QUICK", tmp_path / "quick")
    (tmp_path / "experiments" / "tiny").mkdir(parents=True)
    return tmp_path / "experiments"


def add(experiments: Path, model: str, runs: int, more: str = "") -> None:
    text = TINY_ROW.format(model=model, runs=runs) + more + TINY_SIZES
    (experiments / "tiny" / f"{model}.toml").write_text(text)


def swerve(*words) -> str:
    done = CliRunner().invoke(cli.app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def check_stored(path: Path, model: str, runs: int) -> dict:
    stored = json.loads(path.read_text())
    assert (stored["board"], stored["model"]) == ("bouncing-ball", model)
    assert set(stored["scores"]) == set(reproduce.SCORES)
    for spread in stored["scores"].values():
        assert len(spread["runs"]) == runs
        assert min(spread["runs"]) - 1e-3 <= spread["mean"] <= max(spread["runs"]) + 1e-3
        assert spread["sd"] >= 0
    assert 0 < stored["scores"]["frame_f1"]["mean"] <= 100
    assert set(stored["versions"]) == {"python", *reproduce.PACKAGES}
    assert stored["regimes"]["true"] == 2
    assert len(stored["regimes"]["found"]) == runs
    assert stored["commit"]
    assert stored["hardware"].startswith("cpu")
    assert stored["config"]["model"]["regimes"] == 2
    seeds = {"training": TRAINING_SEED, "test": TEST_SEED, "runs": list(range(runs))}
    assert stored["seeds"] == seeds
    return stored


def test_fast_rows_run_once_and_are_shown(experiments, monkeypatch):
    add(experiments, "arhmm", 2)
    add(experiments, "oracle", 1)
    results = experiments / "results" / "tiny"
    words = ("reproduce", "tiny", "--experiments", experiments)

    swerve(*words, "--row", "oracle")
    assert [one.stem for one in results.iterdir()] == ["oracle"]
    shown = swerve(*words)
    assert {one.stem for one in results.iterdir()} == {"arhmm", "oracle"}
    assert "arhmm" in shown and "oracle" in shown
    oracle = check_stored(results / "oracle.json", "oracle", 1)
    assert oracle["row"] == "a tiny oracle"
    assert oracle["regimes"]["found"] == [2]
    assert oracle["scores"]["frame_f1"]["mean"] > 90
    arhmm = check_stored(results / "arhmm.json", "arhmm", 2)
    assert arhmm["regimes"]["found"] == [2, 2]
    assert [(detail["lags"], detail["features"]) for detail in arhmm["details"]] == [(1, 0), (1, 0)]

    def fail(*arguments):
        raise AssertionError("a row with a result is not run again")

    monkeypatch.setattr(reproduce, "_run_row", fail)
    before = {one.name: one.read_bytes() for one in results.iterdir()}
    swerve(*words)
    shown = swerve(*words, "--show")
    assert f"{oracle['scores']['frame_f1']['mean']:.1f}" in shown
    assert {one.name: one.read_bytes() for one in results.iterdir()} == before


@pytest.mark.slow
def test_an_snlds_row_and_its_row_with_one_restart(experiments):
    add(experiments, "snlds", 1, more="single_runs = 3\ntarget = 10.0\n")
    reproduce.run("tiny", experiments, show=False, row=None)
    results = experiments / "results" / "tiny"
    assert {one.stem for one in results.iterdir()} == {"snlds", "snlds-one-restart"}
    chosen = check_stored(results / "snlds.json", "snlds", 1)
    single = check_stored(results / "snlds-one-restart.json", "snlds", 3)
    assert chosen["success_rate"] == single["success_rate"] == 1.0
    assert None not in chosen["regimes"]["found"] + single["regimes"]["found"]
    timing, detail, *others = chosen["details"]
    assert timing["training_seconds"] > 0
    assert [len(one["restarts"]) for one in (detail, *others)] == [2, 1, 1]
    assert chosen["bound_f1_rank_correlation"] in (-1.0, 1.0)
    assert single["bound_f1_rank_correlation"] is None
    assert chosen["row"] == "a tiny snlds"
    assert "one restart" in single["row"]
    for stored, restart in ((chosen, detail["chosen"]), (single, 0)):
        assert stored["scores"]["frame_f1"]["runs"][0] == round(detail["restarts"][restart]["frame_f1"], 3)


def test_the_share_of_runs_that_reach_the_target():
    scores = [{"frame_f1": 90.0}, {"frame_f1": 89.9}, None, {"frame_f1": 95.0}]
    assert reproduce._success_rate(scores, 90.0) == 0.5
    assert reproduce._success_rate(scores, None) is None


@pytest.mark.slow
def test_a_story_is_told_in_a_picture_and_scores(experiments):
    story = (
        TINY_ROW.format(model="snlds", runs=1)
        + "story = [10, 20]\n"
        + TINY_SIZES.replace("restarts = 2", "restarts = 1")
    )
    (experiments / "tiny" / "story.toml").write_text(story)
    reproduce.run("tiny", experiments, show=False, row=None)
    results = experiments / "results" / "tiny"
    stored = check_stored(results / "story.json", "snlds", 1)
    assert [look["step"] for look in stored["details"]] == [10, 20]
    assert stored["scores"]["frame_f1"]["mean"] == round(stored["details"][-1]["frame_f1"], 3)
    assert (results / "story.png").read_bytes().startswith(b"\x89PNG")


def test_showing_what_was_never_run(experiments):
    add(experiments, "oracle", 1)
    with pytest.raises(InputError, match="no stored results"):
        reproduce.run("tiny", experiments, show=True, row=None)


@pytest.mark.slow
def test_the_curves_of_a_stopped_row_are_those_of_one_that_never_stopped(experiments, monkeypatch):
    sizes = TINY_SIZES.replace("restarts = 2", "restarts = 1")
    text = TINY_ROW.format(model="snlds", runs=2) + "curve = true\n" + sizes
    (experiments / "tiny" / "curve.toml").write_text(text)
    results = experiments / "results" / "tiny"
    watch = reproduce.CurveFile.watch

    def stop(curve_file, report):
        watch(curve_file, report)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(reproduce.CurveFile, "watch", stop)
        with pytest.raises(KeyboardInterrupt):
            reproduce.run("tiny", experiments, show=False, row=None)
    assert not results.exists()
    reproduce.run("tiny", experiments, show=False, row=None)
    assert (results / "curves.png").read_bytes().startswith(b"\x89PNG")
    _, *details = check_stored(results / "curve.json", "snlds", 2)["details"]
    for detail in details:
        assert [point["step"] for point in detail["curve"]] == [10, 20]
        assert detail["curve"][-1]["bound"] == pytest.approx(detail["restarts"][0]["bound"])
        assert all(-1 <= point["weight_correlation"] <= 1 for point in detail["curve"])
    assert details[0]["curve"] != details[1]["curve"]

    (results / "curve.json").unlink()
    monkeypatch.setattr(reproduce, "WORK", experiments / "elsewhere")
    reproduce.run("tiny", experiments, show=False, row=None)
    assert check_stored(results / "curve.json", "snlds", 2)["details"][1:] == details


def test_a_stopped_arhmm_row_keeps_the_runs_it_had(experiments, monkeypatch):
    add(experiments, "arhmm", 2)
    fit, seeds = reproduce.fit_by_search, []

    def fit_once(prepared, config):
        seeds.append(config.seed)
        if seeds == [0, 1]:
            raise KeyboardInterrupt
        return fit(prepared, config)

    monkeypatch.setattr(reproduce, "fit_by_search", fit_once)
    with pytest.raises(KeyboardInterrupt):
        reproduce.run("tiny", experiments, show=False, row=None)
    reproduce.run("tiny", experiments, show=False, row=None)
    assert seeds == [0, 1, 1]
    check_stored(experiments / "results" / "tiny" / "arhmm.json", "arhmm", 2)


def test_quick_results_lie_apart_and_say_what_they_are(experiments, tmp_path):
    add(experiments, "oracle", 1)
    shown = swerve("reproduce", "tiny", "--quick", "--experiments", experiments)
    assert "quick: not the real thing" in shown
    assert not (experiments / "results").exists()
    assert not (tmp_path / "work").exists()
    stored = check_stored(tmp_path / "quick" / "results" / "tiny" / "oracle.json", "oracle", 1)
    assert stored["quick"] == "quick: not the real thing"
    assert "not the real thing" in swerve("reproduce", "tiny", "--quick", "--show", "--experiments", experiments)
    with pytest.raises(InputError, match="no stored results"):
        reproduce.run("tiny", experiments, show=True, row=None)


def test_a_table_is_several_folders(experiments):
    add(experiments, "oracle", 1)
    (experiments / "other").mkdir()
    (experiments / "other" / "majority.toml").write_text(TINY_ROW.format(model="majority", runs=1))
    (experiments / "tables.toml").write_text(
        '[tables]\ntable9 = ["tiny", "other"]\n[paper.bouncing-ball]\nkvae = { frame_f1 = [33.7, 7.5] }\n'
    )
    shown = swerve("reproduce", "table9", "--experiments", experiments)
    assert {one.parent.name for one in (experiments / "results").glob("*/*.json")} == {"tiny", "other"}
    assert "oracle" in shown and "majority" in shown and "kvae" in shown


def test_a_row_may_choose_its_number_of_regimes(experiments):
    add(experiments, "arhmm", 1, "regimes_up_to = 2\n")
    swerve("reproduce", "tiny", "--experiments", experiments)
    stored = json.loads((experiments / "results" / "tiny" / "arhmm.json").read_text())
    (detail,) = stored["details"]
    assert [one["regimes"] for one in detail["choice"]["tried"]] == [1, 2]
    assert stored["regimes"]["found"][0] <= detail["choice"]["regimes"]


def test_only_arhmms_choose_their_number_of_regimes_in_a_row(experiments):
    add(experiments, "snlds", 1, "regimes_up_to = 2\n")
    with pytest.raises(InputError, match="only rows of the AR-HMM"):
        read_row(experiments / "tiny" / "snlds.toml")
