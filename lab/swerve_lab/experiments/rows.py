"""A row of an experiment as data: what its file says, and what tells it apart from other rows."""

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from swerve.errors import InputError
from swerve.settings import kinds
from swerve.settings.recipes import PARTS, shortened, with_recipe
from swerve.settings.sections import Config
from swerve.settings.text import as_dict, from_dict, merge, with_kind
from swerve_lab.boards import catalog as boards
from swerve_lab.boards.published import PUBLISHED

UNTRAINED = ("oracle", "majority")
NOT_REAL = "quick: not the real thing"
TRAINING_SEED, TEST_SEED = 5000, 5001
"""Of the boards' generators. Drawn anew whenever the recipe has changed, so that no row was tuned on its own data."""
GONE = (("arhmm", "lags_by_agreement", False), ("arhmm", "ends_on_all", False))
"""Settings that stored results may name and that are no more, at the value at which they did nothing."""


@dataclass(frozen=True)
class Experiment:
    """What a row is about; everything else in its file belongs to the config."""

    board: str = "bouncing-ball"
    """A board, or recordings that others have published."""
    model: str = "snlds"
    row: str = ""
    runs: int = 5
    single_runs: int = 0
    """Runs of the row with one restart, if more than `runs`."""
    target: float | None = None
    """Frame F1 from which a run counts as a success."""
    training_sequences: int = 2000
    test_sequences: int = 200
    story: tuple[int, ...] = ()
    """Steps at which a single restart is drawn; the picture lies beside the result."""
    folds: bool = False
    """A run for every take of published recordings: all others are trained on, and the take is scored."""
    missing_frames: float = 0.0
    """Share of all frames that are taken away at random, in training and in what is segmented."""
    missing_cells: float = 0.0
    """Share of the cells, a channel in a frame, that are taken away in bursts."""
    regimes_up_to: int = 0
    """Every fit chooses its number of regimes from 1 to this one; 0 takes the number given."""
    curve: bool = False
    """Keep how every run went: bound, frame F1 and correlation of the regimes' weights at every report."""


QUICK_EXPERIMENT = {"runs": 2, "single_runs": 2, "training_sequences": 200, "test_sequences": 50}
QUICK_CONFIG = {
    "training": {"steps": 100, "restarts": 2, "report_every": 50, "validation_limit": 32, "merging": 0.0},
    "code": {"steps": 100},
    "arhmm": {"lags": 1, "features": 1, "restarts": 2, "max_iterations": 20, "seed_windows": 50},
}
"""The most of everything that a quick row may have; of what is tried in turn, how many."""


def read_row(path: Path) -> tuple[Experiment, Config]:
    """A row's file: the table [experiment] and settings of the config."""
    try:
        settings = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not valid TOML: {error}.") from None
    experiment = merge(Experiment(), settings.pop("experiment", {}), "experiment.")
    published = experiment.board in PUBLISHED
    if experiment.model == "oracle" and (published or boards.find(experiment.board).oracle is None):
        raise InputError(f"{path}: there is no oracle for '{experiment.board}'.")
    if not published:
        boards.find(experiment.board)
    config = with_recipe(Config(), settings.get("recipe", {}).get("name", "default"))
    config = config if experiment.model in UNTRAINED else with_kind(config, experiment.model)
    config = merge(config, settings)
    _check(path, experiment, config)
    return experiment, config


def _check(path: Path, experiment: Experiment, config: Config) -> None:
    training, whole = config.training, PARTS["paper"]["training"]["steps"]
    if config.recipe.name == "paper" and training.steps < whole:
        raise InputError(f"{path}: with fewer than {whole} steps the paper's recipe is called paper-short.")
    if experiment.folds and experiment.board not in PUBLISHED:
        raise InputError(f"{path}: only published recordings have takes to hold out, not '{experiment.board}'.")
    if (experiment.story or experiment.curve) and training.restarts != 1:
        raise InputError(
            f"{path}: a story or curve follows one restart: set training.restarts to 1, not {training.restarts}."
        )
    if experiment.regimes_up_to and kinds.find(config.kind).by_steps:
        raise InputError(f"{path}: only rows of the AR-HMM choose their number of regimes, not '{config.kind}'.")
    if any(step % training.report_every or step > training.steps for step in experiment.story):
        raise InputError(f"{path}: not all of {list(experiment.story)} fall on a look every {training.report_every}.")


def quick(experiment: Experiment, config: Config) -> tuple[Experiment, Config]:
    """The same row in a minute or two: every count is cut to what a quick row may have."""
    whole, training = config.training.steps, QUICK_CONFIG["training"]
    steps, every = min(whole, training["steps"]), training["report_every"]
    looks = {min(steps, -(-step * steps // whole // every) * every) for step in experiment.story}
    recipe = shortened(config.recipe) if config.recipe.name == "paper" else config.recipe
    return (
        dataclasses.replace(_cut(experiment, QUICK_EXPERIMENT), story=tuple(sorted(looks))),
        dataclasses.replace(
            config, recipe=recipe, **{part: _cut(getattr(config, part), most) for part, most in QUICK_CONFIG.items()}
        ),
    )


def _cut(settings: Any, most: dict[str, Any]) -> Any:
    def less(value: Any, limit: Any) -> Any:
        return value[:limit] if isinstance(value, tuple) else min(value, limit)

    return dataclasses.replace(settings, **{name: less(getattr(settings, name), limit) for name, limit in most.items()})


def digest(experiment: Experiment, config: Config) -> str:
    """Tells the settings of a row apart, so that an edited row never goes on from another's checkpoint."""
    settings = json.dumps([asdict(experiment), as_dict(config), TRAINING_SEED, TEST_SEED], sort_keys=True)
    return hashlib.sha256(settings.encode()).hexdigest()[:8]


def was_edited(stored: Mapping[str, Any], experiment: Experiment, config: Config) -> bool:
    """Whether a result was made with other settings or data; what a row could not say then counts as not said."""
    about = {**asdict(Experiment()), **stored["experiment"]}
    seeds = stored["seeds"]["training"], stored["seeds"]["test"]
    now = json.loads(json.dumps(asdict(experiment))), (TRAINING_SEED, TEST_SEED)
    return (json.loads(json.dumps(about)), seeds) != now or not _same(settings_then(stored), config)


def _same(settings: dict[str, Any], config: Config) -> bool:
    """Settings that are known no more are no longer the same."""
    try:
        return from_dict(settings) == config
    except InputError:
        return False


def settings_then(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a result, without those that have gone since and that it left alone."""
    return {
        section: {name: one for name, one in value.items() if (section, name, one) not in GONE}
        if isinstance(value, dict)
        else value
        for section, value in stored["config"].items()
    }
