"""Rows as data: every file of experiments/ can be read, and a row that makes no sense is refused."""

import dataclasses
import json
from dataclasses import asdict
from pathlib import Path

import pytest

from swerve.errors import InputError
from swerve.settings.recipes import RECIPES, with_recipe
from swerve.settings.sections import Config
from swerve.settings.text import as_dict, from_dict
from swerve_lab.boards import catalog as boards
from swerve_lab.experiments.rows import (
    QUICK_CONFIG,
    QUICK_EXPERIMENT,
    TEST_SEED,
    TRAINING_SEED,
    UNTRAINED,
    Experiment,
    digest,
    quick,
    read_row,
    settings_then,
    was_edited,
)

EXPERIMENTS = Path(__file__).resolve().parents[3] / "experiments"
ROWS = sorted(EXPERIMENTS.glob("*/*.toml"))
BY_ROW = pytest.mark.parametrize("path", ROWS, ids=lambda path: f"{path.parent.name}/{path.stem}")


@BY_ROW
def test_every_row_can_be_read(path):
    experiment, config = read_row(path)
    assert experiment.row
    assert experiment.runs >= 1
    if experiment.model == "oracle":
        assert boards.find(experiment.board).oracle is not None
    elif experiment.model not in UNTRAINED:
        assert config.kind == experiment.model


@BY_ROW
def test_a_quick_row_is_the_same_row_with_less_of_everything(path):
    experiment, config = read_row(path)
    less, small = quick(experiment, config)
    assert (less.board, less.model, less.row, less.curve) == (
        experiment.board,
        experiment.model,
        experiment.row,
        experiment.curve,
    )
    assert (small.kind, small.model, small.posterior) == (config.kind, config.model, config.posterior)
    assert all(getattr(less, name) <= most for name, most in QUICK_EXPERIMENT.items())
    for part, limits in QUICK_CONFIG.items():
        for name, most in limits.items():
            value = getattr(getattr(small, part), name)
            assert (len(value) if isinstance(value, tuple) else value) <= most
    assert all(step % small.training.report_every == 0 and step <= small.training.steps for step in less.story)
    assert bool(less.story) == bool(experiment.story)


def test_every_board_has_all_three_rows_and_its_target():
    targets = {
        "reacher/{}": 94.0,
        "dubins/{}": 90.0,
        "dubins-positions/{}": 98.5,
        "dubins-positions/{}-0.1": 88.0,
        "fields/{}": 92.0,
    }
    for where, target in targets.items():
        chosen, config = read_row(EXPERIMENTS / f"{where.format('snlds')}.toml")
        assert (chosen.runs, chosen.single_runs) == (5, 16)
        assert 1 < config.training.restarts <= 16
        assert config.recipe == RECIPES["default"]
        short, paper = read_row(EXPERIMENTS / f"{where.format('snlds-paper-short')}.toml")
        assert (short.runs, paper.training.restarts, paper.recipe) == (5, 1, RECIPES["paper-short"])
        assert (chosen.board, chosen.target) == (short.board, short.target)
        assert chosen.target == target


def test_a_short_paper_schedule_keeps_the_shares_and_says_that_it_is_short():
    short, paper = RECIPES["paper-short"], RECIPES["paper"]
    assert short.cosine_end is None
    assert dataclasses.replace(short, name="paper", cosine_end=paper.cosine_end) == paper
    assert with_recipe(Config(), "paper").training.steps == 300_000
    assert with_recipe(Config(), "paper-short").training.steps < 300_000
    _, small = quick(Experiment(), with_recipe(Config(), "paper"))
    assert small.recipe == short


@pytest.mark.parametrize("name", [path.stem for path in ROWS if path.parent.name == "ablation"])
def test_an_ablation_departs_from_the_default_in_one_part(name):
    default, usual = read_row(EXPERIMENTS / "ablation" / "default.toml")
    experiment, config = read_row(EXPERIMENTS / "ablation" / f"{name}.toml")
    assert (experiment.board, experiment.target) == (default.board, default.target)
    assert experiment.runs >= 8
    changed = [
        part for part in ("model", "posterior", "recipe", "arhmm") if getattr(config, part) != getattr(usual, part)
    ]
    assert len(changed) == (name != "default")
    chooses = config.recipe.variants != usual.recipe.variants or name == "default"
    assert config.training.restarts == (len(config.recipe.variants) if chooses else 1)


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
        ('[recipe]\nname = "paper"\n[training]\nsteps = 20000', "is called paper-short"),
        ("[experiment]\ncurve = true", "follows one restart"),
        ("[experiment]\nstory = [250]", "follows one restart"),
        ("[experiment]\nstory = [300]\n[training]\nrestarts = 1", "every 250"),
        ("[experiment]\nstory = [6250]\n[training]\nrestarts = 1", "every 250"),
    ],
)
def test_rows_that_make_no_sense(tmp_path, text, message):
    (tmp_path / "row.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        read_row(tmp_path / "row.toml")


def test_an_edited_row_has_a_working_folder_of_its_own():
    experiment, config = Experiment(), Config()
    longer = dataclasses.replace(config, training=dataclasses.replace(config.training, steps=7))
    assert digest(experiment, config) == digest(experiment, Config())
    others = [dataclasses.replace(experiment, runs=2), dataclasses.replace(experiment, curve=True)]
    assert len({digest(one, config) for one in (experiment, *others)} | {digest(experiment, longer)}) == 4


def test_a_result_knows_whether_its_row_was_edited():
    experiment, config = Experiment(), Config()
    about = {"experiment": dataclasses.asdict(experiment), "config": as_dict(config)}
    stored = json.loads(json.dumps({**about, "seeds": {"training": TRAINING_SEED, "test": TEST_SEED}}))
    del stored["experiment"]["curve"]  # a result from before there were curves
    assert not was_edited(stored, experiment, config)
    assert was_edited(stored, dataclasses.replace(experiment, curve=True), config)
    assert was_edited(stored, experiment, dataclasses.replace(config, seed=1))
    assert was_edited({**stored, "seeds": {"training": TRAINING_SEED, "test": TEST_SEED - 1}}, experiment, config)


def test_a_setting_that_has_gone_since_is_passed_over_where_it_did_nothing():
    experiment, config = Experiment(), Config()
    seeds = {"training": TRAINING_SEED, "test": TEST_SEED}
    stored = {"experiment": asdict(experiment), "config": as_dict(config), "seeds": seeds}
    stored = json.loads(json.dumps(stored))
    stored["config"]["arhmm"]["ends_on_all"] = False
    assert from_dict(settings_then(stored)) == config
    assert not was_edited(stored, experiment, config)
    stored["config"]["arhmm"]["ends_on_all"] = True
    assert was_edited(stored, experiment, config)
