"""Settings from the command line, from TOML and from a saved run; wrong ones are refused by name."""

import json
from dataclasses import is_dataclass, replace
from typing import get_args, get_type_hints

import pytest

from swerve import api
from swerve.errors import InputError
from swerve.settings.recipes import RECIPES, with_recipe
from swerve.settings.sections import Config, ModelConfig, RungConfig, TrainingConfig, Variant
from swerve.settings.text import as_dict, from_dict, read_toml, to_options, to_toml, with_kind, with_setting


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("training.steps=20000", 20_000),
        ("recipe.learning_rate=1e-3", 1e-3),
        ("recipe.clip=5", 5.0),
        ("recipe.cosine_end=0.5", 0.5),
        ("model.dynamics=gru", "gru"),
        ('model.dynamics="linear"', "linear"),
        ("model.dynamics_residual=false", False),
        ("model.dynamics_hidden=[8, 4]", (8, 4)),
        ("model.emission_hidden=[]", ()),
        ("seed=7", 7),
        (" training.window = 50", 50),
    ],
)
def test_a_setting_changes_its_field_and_no_other(setting, value):
    changed = with_setting(Config(), setting)
    *path, name = setting.partition("=")[0].strip().split(".")
    section = getattr(changed, path[0]) if path else changed
    assert getattr(section, name) == value
    assert type(getattr(section, name)) is type(value)
    restored = replace(section, **{name: getattr(getattr(Config(), path[0]) if path else Config(), name)})
    assert (replace(changed, **{path[0]: restored}) if path else restored) == Config()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("training.stepps=3", ("training.stepps", "training.steps")),
        ("trainin.steps=3", ("trainin", "training")),
        ("model.dynamics=gruu", ("model.dynamics", "gruu", "gru")),
        ("training.steps", ("training.steps=20000",)),
        ("training=3", ("training", "section")),
        ("training.steps=many", ("training.steps", "int", "many")),
        ("training.steps=2.5", ("training.steps", "int")),
        ("training.steps=true", ("training.steps", "int")),
        ("recipe.clip=true", ("recipe.clip", "float")),
        ("recipe.clip=high", ("recipe.clip", "float")),
        ("model.dynamics_residual=1", ("model.dynamics_residual", "bool")),
        ("model.dynamics_hidden=3", ("model.dynamics_hidden", "list")),
        ("model.dynamics_hidden=[1, 'a']", ("model.dynamics_hidden", "int", "a")),
        ("recipe.cosine_end=never", ("recipe.cosine_end", "float")),
        ("training.rungs=[{share = 1}]", ("training.rungs.share",)),
        ("training.steps.more=1", ("training.steps", "int")),
        ("model.regimes=0", ("regimes", "at least 1")),
        ("training.restarts=0", ("restarts", "at least 1")),
        ("training.steps=0", ("steps", "at least 1")),
    ],
)
def test_a_wrong_setting_is_refused_by_name(setting, words):
    with pytest.raises(InputError) as refused:
        with_setting(Config(), setting)
    assert all(word in str(refused.value) for word in words)


def as_toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {as_toml(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value)


ODD = Config(
    kind="slds",
    seed=3,
    model=ModelConfig(regimes=5, dynamics="linear", dynamics_hidden=(8, 4), switching_reads_x=False),
    recipe=replace(Config().recipe, cosine_end=0.7, variants=(Variant(fewer_regimes=2, balance=0.5),)),
    training=TrainingConfig(steps=10, rungs=(RungConfig(0.2, 0.9), RungConfig(0.6, 0.1))),
)


def test_a_toml_file_holds_a_whole_config(tmp_path):
    path = tmp_path / "odd.toml"
    path.write_text("\n".join(f"{name} = {as_toml(value)}" for name, value in as_dict(ODD).items()))
    assert read_toml(path, Config()) == ODD


def test_a_toml_file_changes_only_what_it_names(tmp_path):
    path = tmp_path / "some.toml"
    path.write_text("seed = 4\n[training]\nsteps = 5\n")
    expected = replace(ODD, seed=4, training=replace(ODD.training, steps=5))
    assert read_toml(path, ODD) == expected


def test_a_toml_file_that_names_a_recipe_starts_from_it(tmp_path):
    path = tmp_path / "paper.toml"
    path.write_text('[recipe]\nname = "paper"\nclip = 7\n[training]\nsteps = 50\n')
    found = read_toml(path, Config())
    assert found.recipe == replace(RECIPES["paper"], clip=7.0)
    assert (found.training.steps, found.posterior.start) == (50, "origin")


@pytest.mark.parametrize(
    ("text", "word"),
    [("steps = = 3", "TOML"), ("[training]\nstep = 3", "training.steps"), ('[recipe]\nname = "papr"', "paper")],
)
def test_a_broken_toml_file_is_refused(tmp_path, text, word):
    path = tmp_path / "broken.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=word):
        read_toml(path, Config())


def test_a_toml_file_that_is_not_there_or_not_text_is_refused_by_name(tmp_path):
    for content in (None, b"\xff\xfe\x00"):
        path = tmp_path / "absent.toml"
        if content:
            path.write_bytes(content)
        with pytest.raises(InputError, match=r"absent\.toml"):
            read_toml(path, Config())


@pytest.mark.parametrize("config", [Config(), ODD, with_recipe(Config(), "paper")], ids=["default", "odd", "paper"])
def test_from_dict_is_the_inverse_of_asdict(config):
    assert from_dict(as_dict(config)) == config
    assert from_dict(json.loads(json.dumps(as_dict(config)))) == config
    assert is_dataclass(from_dict(as_dict(config)).recipe.variants[0])


@pytest.mark.parametrize("name", [*RECIPES])
def test_a_recipe_brings_what_belongs_to_it(name):
    found = with_recipe(Config(), name)
    assert found.recipe == RECIPES[name]
    assert found.recipe.name == name
    if name.startswith("paper"):
        assert found.training.restarts == 1
        assert found.posterior.start == "origin"
        assert not found.model.dynamics_residual
        assert not found.model.switching_reads_z
        assert (found.model.dynamics == "gru") == (name == "paper-ball")
    else:
        assert (found == Config()) == (name == "default")
    assert with_recipe(found, "default") == Config()


def test_a_linear_system_has_linear_parts():
    found = with_kind(replace(Config(), model=ModelConfig(emission_hidden=(4,))), "slds")
    assert (found.kind, found.model.dynamics, found.model.emission_hidden) == ("slds", "linear", ())


@pytest.mark.parametrize(("change", "nearest"), [(with_recipe, "paper"), (with_kind, "snlds")])
def test_an_unknown_name_is_answered_with_the_nearest(change, nearest):
    with pytest.raises(InputError, match=f"did you mean '{nearest}'"):
        change(Config(), nearest[:-1])


@pytest.mark.parametrize("kind", get_args(get_type_hints(Config)["kind"]))
@pytest.mark.parametrize("recipe", ["default", "paper-ball"])
def test_settings_written_are_settings_read(kind, recipe, tmp_path):
    settings = ["arhmm.lags=[1]", "recipe.variants=[{fewer_regimes = 1}, {balance = 0.5}]", 'posterior.start="origin"']
    config = api.make_config(4, kind, recipe, restarts=3, seed=7, settings=settings)
    (tmp_path / "again.toml").write_text(to_toml(config))
    assert read_toml(tmp_path / "again.toml", Config()) == config
    words = to_options(config)
    given = dict(zip(words[::2], words[1::2], strict=True))
    again = [value for option, value in zip(words[::2], words[1::2], strict=True) if option == "--set"]
    regimes, seed = int(given["--regimes"]), int(given["--seed"])
    assert api.make_config(regimes, given["--model"], given.get("--recipe"), seed=seed, settings=again) == config


def test_a_recipe_takes_its_settings_away_again():
    many = with_recipe(Config(), "many-channels")
    assert many.arhmm.consensus and many.arhmm.channels_as_one and many.arhmm.lags == (0, 1, 2)
    paper = with_recipe(many, "paper")
    assert paper == with_recipe(Config(), "paper")
    assert with_recipe(paper, "default") == Config()
