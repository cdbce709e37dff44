"""Rows that have been run, as models again: what figures are drawn from."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from swerve.data.trees import read_json
from swerve.errors import InputError
from swerve.learning.fit import fit_by_search
from swerve.learning.preparation import Prepared, prepare
from swerve.models.model import Model
from swerve.runs.run import Run, with_model
from swerve.settings import kinds
from swerve.settings.sections import Config
from swerve_lab.boards import published
from swerve_lab.boards.board import Board, Recordings
from swerve_lab.experiments import repeats, reproduce
from swerve_lab.experiments.rows import UNTRAINED, Experiment, read_row, was_edited


class Finished(NamedTuple):
    """A row's test sequences, the model of its first run, and its stored result."""

    test: Board | Recordings
    run: Run
    stored: dict[str, Any]


def load(path: Path, data: Path = published.DATA) -> Finished:
    """Reads a row's working files; what is missing there, and any AR-HMM, is fitted again."""
    experiment, config = read_row(path)
    result = path.parents[1] / "results" / path.parent.name / f"{path.stem}.json"
    work = reproduce.work_folder(path, experiment, config, reproduce.WORK)
    _check(path, experiment, config, result, work)
    pairs = reproduce.data_of(experiment, data)
    folds = [prepare(training.series(), config) for training, _ in pairs]
    stored = read_json(result)
    if not kinds.find(config.kind).by_steps:
        found = fit_by_search(folds[0], dataclasses.replace(config, seed=0))
        model, config = found.models[0], found.config
    else:
        model = _first(folds, config, experiment, work, stored)
    return Finished(pairs[0][1], with_model(model, folds[0], config, held_out=float("nan")), stored)


def _check(path: Path, experiment: Experiment, config: Config, result: Path, work: Path) -> None:
    if experiment.model in UNTRAINED or experiment.story:
        raise InputError(f"{path} keeps no model.")
    if not result.is_file():
        raise InputError(f"{path} has not been run yet.")
    if was_edited(read_json(result), experiment, config):
        raise InputError(f"{path} was run with other settings than it has now.")
    if kinds.find(config.kind).by_steps and not (work / repeats.CHECKPOINT).is_file():
        raise InputError(f"{path} has a result, but its working files are not in {work}.")


def _first(
    folds: Sequence[Prepared], config: Config, experiment: Experiment, work: Path, stored: dict[str, Any]
) -> Model:
    """With the choices that were stored: those that would be made today may be others."""
    runs = repeats.make_repeats(folds, config, experiment, work)
    trained = repeats.train(runs, config, work)
    chosen = [run["chosen"] for run in stored["details"] if "chosen" in run]
    choice = repeats.made_before(chosen, trained, config, experiment)
    best = choice.best[0]
    if best is None:
        raise InputError(f"All restarts of the first run in {work} diverged.")
    systems = {restart: repeats.system_of(trained, restart) for restart in choice.standing}
    simple = repeats.simplified(runs, systems, config, work)[best].system
    return repeats.finished(runs, best, simple, folds[0], config, work)
