"""Experiments as data: every file can be read, and a small experiment runs to its table."""

import dataclasses
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from swerve import boards, cli, reproduce
from swerve.errors import InputError

EXPERIMENTS = Path(__file__).resolve().parents[1] / "experiments"
ROWS = sorted(EXPERIMENTS.glob("*/*.toml"))

EXPERIMENT = """
[experiment]
board = "bouncing-ball"
model = "{model}"
row = "a tiny {model}"
runs = {runs}
training_sequences = 5
test_sequences = 5
"""
SIZES = """
[model]
regimes = 2
state_size = 2
dynamics_hidden = [4]
switching_hidden = [4]

[posterior]
encoder_size = 4
causal_size = 4

[training]
steps = 20
report_every = 10
restarts = 2
batch_size = 4
window = 40
validation_share = 0.2

[arhmm]
lags = [1]
features = [0]
restarts = 1
max_iterations = 5
"""


pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture
def experiments(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(reproduce, "WORK", tmp_path / "work")
    (tmp_path / "experiments" / "tiny").mkdir(parents=True)
    return tmp_path / "experiments"


def add(experiments: Path, model: str, runs: int, more: str = "") -> None:
    text = EXPERIMENT.format(model=model, runs=runs) + more + SIZES
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
    assert stored["commit"]
    assert stored["hardware"].startswith("cpu")
    assert stored["config"]["model"]["regimes"] == 2
    seeds = {"training": reproduce.TRAINING_SEED, "test": reproduce.TEST_SEED, "runs": list(range(runs))}
    assert stored["seeds"] == seeds
    return stored


def test_there_are_experiments():
    assert ROWS


@pytest.mark.parametrize("path", ROWS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_row_can_be_read(path):
    experiment, config = reproduce.read_row(path)
    source = boards.find(experiment.board)
    assert experiment.row
    assert experiment.runs >= 1
    if experiment.model == "oracle":
        assert source.oracle is not None
    elif experiment.model not in reproduce.UNTRAINED:
        assert config.kind == experiment.model


def test_quick_rows_run_once_and_are_shown(experiments, monkeypatch):
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
    assert oracle["scores"]["frame_f1"]["mean"] > 90
    arhmm = check_stored(results / "arhmm.json", "arhmm", 2)
    assert [detail["lags"] for detail in arhmm["details"]] == [1, 1]

    def fail(*arguments):
        raise AssertionError("a row with a result is not run again")

    monkeypatch.setattr(reproduce, "_run_row", fail)
    before = {one.name: one.read_bytes() for one in results.iterdir()}
    swerve(*words)
    shown = swerve(*words, "--show")
    assert f"{oracle['scores']['frame_f1']['mean']:.1f}" in shown
    assert {one.name: one.read_bytes() for one in results.iterdir()} == before


def test_an_snlds_row_and_its_row_with_one_restart(experiments):
    add(experiments, "snlds", 1, more="single_runs = 3\ntarget = 10.0\n")
    reproduce.run("tiny", experiments, show=False, row=None)
    results = experiments / "results" / "tiny"
    assert {one.stem for one in results.iterdir()} == {"snlds", "snlds-one-restart"}
    chosen = check_stored(results / "snlds.json", "snlds", 1)
    single = check_stored(results / "snlds-one-restart.json", "snlds", 3)
    assert chosen["success_rate"] == single["success_rate"] == 1.0
    timing, detail, *others = chosen["details"]
    assert timing["training_seconds"] > 0
    assert [len(one["restarts"]) for one in (detail, *others)] == [2, 1, 1]
    assert chosen["row"] == "a tiny snlds"
    assert "one restart" in single["row"]
    for stored, restart in ((chosen, detail["chosen"]), (single, 0)):
        assert stored["scores"]["frame_f1"]["runs"][0] == round(detail["restarts"][restart]["frame_f1"], 3)


def test_the_share_of_runs_that_reach_the_target():
    scores = [{"frame_f1": 90.0}, {"frame_f1": 89.9}, None, {"frame_f1": 95.0}]
    assert reproduce._success_rate(scores, 90.0) == 0.5
    assert reproduce._success_rate(scores, None) is None


def test_a_story_is_told_in_a_picture_and_scores(experiments):
    story = (
        EXPERIMENT.format(model="snlds", runs=1) + "story = [10, 20]\n" + SIZES.replace("restarts = 2", "restarts = 1")
    )
    (experiments / "tiny" / "story.toml").write_text(story)
    reproduce.run("tiny", experiments, show=False, row=None)
    results = experiments / "results" / "tiny"
    stored = check_stored(results / "story.json", "snlds", 1)
    assert [look["step"] for look in stored["details"]] == [10, 20]
    assert stored["scores"]["frame_f1"]["mean"] == round(stored["details"][-1]["frame_f1"], 3)
    assert (results / "story.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("steps", "restarts", "message"), [([10], 2, "follows one restart"), ([15], 1, "every 10"), ([30], 1, "every 10")]
)
def test_a_story_that_can_not_be_told(experiments, steps, restarts, message):
    sizes = SIZES.replace("restarts = 2", f"restarts = {restarts}")
    text = EXPERIMENT.format(model="snlds", runs=1) + f"story = {steps}\n" + sizes
    (experiments / "tiny" / "story.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        reproduce.run("tiny", experiments, show=False, row=None)


def test_showing_what_was_never_run(experiments):
    add(experiments, "oracle", 1)
    with pytest.raises(InputError, match="no stored results"):
        reproduce.run("tiny", experiments, show=True, row=None)


def test_unknown_experiments_name_the_known(experiments):
    add(experiments, "oracle", 1)
    with pytest.raises(InputError, match="there are: tiny"):
        reproduce.run("tinny", experiments, show=False, row=None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[experiment", "is not valid TOML"),
        ('[experiment]\nbord = "bouncing-ball"', "did you mean 'experiment.board'"),
        ('[experiment]\nboard = "pool"', "There is no board 'pool'"),
        ('[experiment]\nboard = "reacher-0.1"', "There is no board 'reacher-0.1'"),
        ('[experiment]\nboard = "fields-0.1"\nmodel = "oracle"', "there is no oracle for 'fields-0.1'"),
        ('[experiment]\nmodel = "snlsd"', "did you mean 'snlds'"),
        ('[recipe]\nname = "papper"', "did you mean 'paper'"),
        ("[training]\nstep = 5", "did you mean 'training.steps'"),
    ],
)
def test_rows_that_make_no_sense(tmp_path, text, message):
    (tmp_path / "row.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        reproduce.read_row(tmp_path / "row.toml")


def test_an_edited_row_has_a_working_folder_of_its_own():
    experiment, config = reproduce.Experiment(), reproduce.Config()
    longer = dataclasses.replace(config, training=dataclasses.replace(config.training, steps=7))
    assert reproduce.digest(experiment, config) == reproduce.digest(experiment, reproduce.Config())
    assert reproduce.digest(experiment, longer) != reproduce.digest(experiment, config)
    assert reproduce.digest(dataclasses.replace(experiment, runs=2), config) != reproduce.digest(experiment, config)
