"""`swerve reproduce`: experiments as data. One TOML file per row; results as JSON with all that made them.

All runs of a row are trained side by side on one restart axis, each choosing among its own restarts by the
held-out bound. Working files lie under runs/reproduce, so that a stopped experiment goes on where it was.
"""

import dataclasses
import hashlib
import json
import platform
import subprocess
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from swerve import boards, display, story
from swerve.arhmm import ArHmm
from swerve.config import Config, merge, with_kind, with_recipe
from swerve.data.board import Board
from swerve.errors import InputError
from swerve.evaluation.scores import score
from swerve.fitting import Prepared, fit_arhmm, make_restarts, plan_of, prepare
from swerve.run import Run
from swerve.training import loop
from swerve.training.checkpoint import read_json, write_json
from swerve.training.restarts import pick
from swerve.training.step import System, TrainingData

WORK = Path("runs/reproduce")
UNTRAINED = ("oracle", "majority")
TRAINING_SEED, TEST_SEED = 4000, 4001
SCORES = ("frame_f1", "frame_f1_macro", "switch_f1_tol0", "switch_f1_tol5", "accuracy_merged", "nmi", "ari")
PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Experiment:
    """What a row is about; everything else in its file belongs to the config."""

    board: str = "bouncing-ball"
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


def run(name: str, folder: Path, *, show: bool, row: str | None) -> None:
    """Runs every row of an experiment that has no result yet, then prints the table."""
    source = folder / name
    files = sorted(source.glob("*.toml"))
    if not files:
        known = ", ".join(sorted(p.name for p in folder.glob("*") if list(p.glob("*.toml")))) or "none"
        raise InputError(f"There is no experiment '{name}' in {folder}; there are: {known}.")
    for path in files:
        result = folder / "results" / name / f"{path.stem}.json"
        if show or (row is not None and row not in path.stem):
            continue
        if result.is_file():
            _tell_if_edited(path, result)
            continue
        _run_row(name, path, result)
    print_table(folder / "results" / name, name)


def _tell_if_edited(path: Path, result: Path) -> None:
    experiment, config = read_row(path)
    stored = read_json(result)
    now = json.loads(json.dumps([asdict(experiment), asdict(config)]))
    if [stored["experiment"], stored["config"]] != now:
        display.errors.print(
            f"{result} was made with other settings than {path} and the defaults have now; delete it to run again."
        )


def print_table(folder: Path, name: str) -> None:
    """The stored rows, mean and standard deviation over runs."""

    rows = {}
    for path in sorted(folder.glob("*.json")):
        stored = read_json(path)
        label = f"{stored['board']}  {stored['model']}  {stored['row']}"
        rows[label] = {key: value["mean"] for key, value in stored["scores"].items() if value["mean"] is not None}
    if not rows:
        raise InputError(f"There are no stored results for '{name}' in {folder}.")
    display.print_scores(rows, f"{name}: mean over runs, percent")


def _run_row(name: str, path: Path, result: Path) -> None:
    experiment, config = read_row(path)
    display.console.print(f"[bold]{name}/{path.stem}[/]: {experiment.model}, {experiment.row}", highlight=False)
    began = time.perf_counter()
    board = boards.find(experiment.board)
    training = board.generate(experiment.training_sequences, seed=TRAINING_SEED)
    test = board.generate(experiment.test_sequences, seed=TEST_SEED)
    work = WORK / name / f"{path.stem}-{digest(experiment, config)}"
    work.mkdir(parents=True, exist_ok=True)
    details: list[dict[str, Any]] = [{}]
    if experiment.model == "oracle":
        assert board.oracle is not None
        found = {"": [_score(board.oracle(test), test)]}
    elif experiment.model == "majority":
        found = {"": [_score(np.zeros_like(test.s), test)]}
    elif experiment.story:
        prepared = prepare(training.series(), config)
        details = story.tell(prepared, config, test, experiment.story, result.with_suffix(".png"))
        found = {"": [details[-1]]}
    else:
        prepared = prepare(training.series(), config)
        runner = _run_arhmm if config.kind == "arhmm" else _run_snlds
        found, details = runner(prepared, config, experiment, test, work)
    for title, scores in found.items():
        stored = {
            "board": experiment.board,
            "model": experiment.model,
            "row": title or experiment.row,
            "scores": {key: _spread([None if one is None else one[key] for one in scores]) for key in SCORES},
            "success_rate": _success_rate(scores, experiment.target),
            "details": details,
            "experiment": asdict(experiment),
            "config": asdict(config),
            "seeds": {"training": TRAINING_SEED, "test": TEST_SEED, "runs": list(range(len(scores)))},
            "wall_seconds": round(time.perf_counter() - began, 1),
            **surroundings(),
        }
        target = result.with_name(f"{result.stem}{'-one-restart' if title else ''}.json")
        target.parent.mkdir(parents=True, exist_ok=True)
        write_json(target, stored)


def digest(experiment: Experiment, config: Config) -> str:
    """Tells the settings of a row apart, so that an edited row never goes on from another's checkpoint."""
    settings = json.dumps([asdict(experiment), asdict(config)], sort_keys=True)
    return hashlib.sha256(settings.encode()).hexdigest()[:8]


def read_row(path: Path) -> tuple[Experiment, Config]:
    """A row's file: the table [experiment] and settings of the config."""
    try:
        settings = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not valid TOML: {error}.") from None
    experiment = merge(Experiment(), settings.pop("experiment", {}), "experiment.")
    source = boards.find(experiment.board)
    if experiment.model == "oracle" and source.oracle is None:
        raise InputError(f"{path}: there is no oracle for '{experiment.board}'.")
    config = with_recipe(Config(), settings.get("recipe", {}).get("name", "default"))
    config = config if experiment.model in UNTRAINED else with_kind(config, experiment.model)
    return experiment, merge(config, settings)


def _run_arhmm(prepared: Prepared, config: Config, experiment: Experiment, test: Board, work: Path):
    scores, details = [], []
    for seed in range(experiment.runs):
        candidates = fit_arhmm(prepared, dataclasses.replace(config, seed=seed))
        scores.append(_score_model(candidates[0].model, prepared, config, test))
        details.append({"held_out": candidates[0].held_out, "lags": candidates[0].lags})
    return {"": scores}, details


def train_runs(prepared: Prepared, config: Config, experiment: Experiment, work: Path) -> loop.Trained:
    """All restarts of all runs on one axis, none dropped; goes on from `work` if it was stopped."""
    states, restarts, guides = _seeded(prepared, config, experiment, work)
    plan = dataclasses.replace(plan_of(config), rungs=())
    with display.stop_on_interrupt() as stop, display.training_progress(plan.steps) as show:
        trained = loop.train(
            plan,
            states,
            restarts,
            TrainingData(prepared.training, guides),
            prepared.validation,
            checkpoint=work / "training.safetensors",
            on_report=show,
            should_stop=stop,
        )
    if not trained.finished:
        raise InputError("Stopped; run the same command again to go on.")
    return trained


def _run_snlds(prepared: Prepared, config: Config, experiment: Experiment, test: Board, work: Path):
    """Each run chooses among its own restarts; its first restart, alone, is the row with one restart."""
    trained = train_runs(prepared, config, experiment, work)
    ends = np.cumsum(restarts_of_runs(config, experiment)).tolist()
    bounds = trained.history.latest("bound", list(range(ends[-1])))
    place = {restart: position for position, restart in enumerate(trained.alive)}
    chosen, single, details = [], [], []
    for begin, end in zip([0, *ends], ends, strict=False):
        own = range(begin, end)
        every = {r: _score_model(pick(trained.systems, place[r]), prepared, config, test) for r in own if r in place}
        living = sorted(every)
        best = living[loop.choose(trained.history, living)] if living else None
        chosen.append(None if best is None else every[best])
        single.append(every.get(own[0]))
        details.append(
            {
                "chosen": None if best is None else best - own[0],
                "restarts": [
                    {"bound": float(bounds[r]), **{key: every[r][key] for key in SCORES}} for r in sorted(every)
                ],
            }
        )
    rows = {"": chosen[: experiment.runs]}
    if config.training.restarts > 1:
        rows["one restart at the recipe's central values"] = single
    timing = {"training_seconds": round(trained.history.seconds, 1), "trained_on": trained.history.hardware}
    return rows, [timing, *details]


def restarts_of_runs(config: Config, experiment: Experiment) -> list[int]:
    """How many restarts every run has: beyond those that choose among several, some have but the central one."""
    singles = max(0, experiment.single_runs - experiment.runs)
    return [config.training.restarts] * experiment.runs + [1] * singles


def _seeded(prepared: Prepared, config: Config, experiment: Experiment, work: Path):
    """The restarts of all runs on one axis."""
    parts = []
    for seed, restarts in enumerate(restarts_of_runs(config, experiment)):
        own = merge(config, {"training": {"restarts": restarts}})
        seeds = work / f"seeds-{seed}.npz"
        parts.append(make_restarts(prepared, own, key=jax.random.key(seed), cache=seeds, on_note=display.note))
    first_guides = np.cumsum([0] + [len(guides) for _, _, guides in parts[:-1]])
    states = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *[part[0] for part in parts])
    moved = [r._replace(guide=r.guide + int(o)) for (_, r, _), o in zip(parts, first_guides, strict=True)]
    restarts = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *moved)
    return states, restarts, jnp.concatenate([part[2] for part in parts])


def _score_model(model: System | ArHmm, prepared: Prepared, config: Config, test: Board) -> dict[str, float]:
    run = Run(
        config,
        model,
        prepared.columns,
        prepared.controls,
        prepared.standardizer,
        held_out=float("nan"),
        image=prepared.image,
    )
    return _score([one.labels for one in run.segment(test.series())], test)


def _score(labels: Any, test: Board) -> dict[str, float]:
    return score(list(labels), list(test.s)).as_dict()


def _success_rate(scores: Sequence[Mapping[str, Any] | None], target: float | None) -> float | None:
    """The share of runs whose frame F1 reaches the target; a run without a score does not."""
    if target is None:
        return None
    return sum(one is not None and one["frame_f1"] >= target for one in scores) / len(scores)


def _spread(values: list[float | None]) -> dict[str, Any]:
    """Over the runs that have a score; a run whose restarts all diverged has None."""
    scored = [value for value in values if value is not None]
    return {
        "mean": round(float(np.mean(scored)), 3) if scored else None,
        "sd": round(float(np.std(scored, ddof=1)), 3) if len(scored) > 1 else 0.0,
        "runs": [None if value is None else round(float(value), 3) for value in values],
    }


def surroundings(*peers: str) -> dict[str, Any]:
    """Versions, commit and hardware of a result; `peers` are packages it is compared with."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else "unknown"

    device = jax.devices()[0]
    return {
        "versions": {"python": platform.python_version(), **{name: version(name) for name in (*PACKAGES, *peers)}},
        "commit": git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(git("status", "--porcelain", "--", "src")),
        "hardware": f"{device.platform}: {device.device_kind}",
    }
