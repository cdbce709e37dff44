"""`swerve-lab reproduce`: experiments as data. One TOML file per row; results as JSON with all that made them.

All runs of a row are trained side by side on one restart axis, each choosing among its own restarts by the
held-out bound. Working files lie under runs/reproduce, so that a stopped experiment goes on where it was.
"""

import dataclasses
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from swerve.choosing.scores import regimes_that_occur, score
from swerve.cli.console import console, errors, note
from swerve.data.trees import read_json, write_json
from swerve.errors import InputError
from swerve.learning.fit import fit_by_search
from swerve.learning.preparation import Prepared, prepare
from swerve.learning.regimes import choose_by_search
from swerve.models.model import Model
from swerve.runs.run import with_model
from swerve.settings import kinds
from swerve.settings.sections import Config
from swerve.settings.text import as_dict, merge
from swerve_lab.boards import catalog as boards
from swerve_lab.boards import published
from swerve_lab.boards.board import Board, Recordings
from swerve_lab.boards.damage import Damage
from swerve_lab.experiments import story
from swerve_lab.experiments import tables as results
from swerve_lab.experiments.curves import CurveFile, look
from swerve_lab.experiments.repeats import (
    Repeats,
    View,
    as_numbers,
    choose,
    finished,
    make_repeats,
    restarts_of_runs,
    simplified,
    system_of,
    train,
)
from swerve_lab.experiments.rows import (
    NOT_REAL,
    TEST_SEED,
    TRAINING_SEED,
    UNTRAINED,
    Experiment,
    digest,
    quick,
    read_row,
    was_edited,
)

WORK, QUICK = Path("runs/reproduce"), Path("runs/quick")
SCORES = (
    *("frame_f1", "frame_f1_macro", "switch_f1_tol0", "switch_f1_tol5", "nmi", "ari"),
    *("accuracy_merged", "switch_f1_tol0_merged", "switch_f1_tol5_merged"),
)
PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "scikit-learn")


class Row(NamedTuple):
    """The scores of every run; with surplus regimes merged, and as they were before."""

    scores: list[Any]
    raw: list[Any] | None = None


def run(
    name: str, folder: Path, *, show: bool, row: str | None, in_minutes: bool = False, data: Path = published.DATA
) -> None:
    """Runs every row of an experiment that has no result yet, then prints its tables beside the paper's numbers.

    `data` is the folder of published recordings.

    `in_minutes` runs them cut short, all of it under runs/quick: to see that it works, not what it is worth.
    """
    stored = []
    for rows in results.folders(name, folder):
        kept = (QUICK if in_minutes else folder) / "results" / rows.name
        if not show:
            _run_rows(rows, kept, row, in_minutes, data)
            picture = results.draw_curves(kept)
            if picture is not None:
                console.print(f"Drew {picture}.")
        stored += results.read_stored(kept)
    if not stored:
        raise InputError(f"There are no stored results for '{name}'{' in ' + str(QUICK) if in_minutes else ''}.")
    results.print_tables(name, stored, results.read_tables(folder))


def _run_rows(rows: Path, kept: Path, row: str | None, in_minutes: bool, data: Path) -> None:
    for path in sorted(rows.glob("*.toml")):
        result = kept / f"{path.stem}.json"
        if row is not None and row not in path.stem:
            continue
        experiment, config = read_row(path)
        if in_minutes:
            experiment, config = quick(experiment, config)
        if not result.is_file():
            _run_row(path, experiment, config, result, in_minutes, data)
            jax.clear_caches()  # a process can hold the compiled code of a dozen rows, and not of twenty
        elif was_edited(read_json(result), experiment, config):
            errors.print(
                f"{result} was made with other settings than {path} and the defaults have now; delete it to run again."
            )


def _run_row(path: Path, experiment: Experiment, config: Config, result: Path, in_minutes: bool, data: Path) -> None:
    name, remark = f"{path.parent.name}/{path.stem}", f" ({NOT_REAL})" if in_minutes else ""
    console.print(f"[bold]{name}[/]: {experiment.model}, {experiment.row}{remark}", highlight=False)
    began = time.perf_counter()
    work = work_folder(path, experiment, config, QUICK / "work" if in_minutes else WORK)
    work.mkdir(parents=True, exist_ok=True)
    origin = _origin(work)
    if experiment.model in UNTRAINED:
        tests = [test for _, test in data_of(experiment, data)]
        found, details = {"": Row([score_labels(_untrained_labels(experiment, test), test) for test in tests])}, [{}]
    else:
        pairs = data_of(experiment, data)
        tests = [test for _, test in pairs]
        views = [View(prepare(own := training.series(), config), test, own) for training, test in pairs]
        if experiment.story:
            [(prepared, test, _)] = views
            assert isinstance(test, Board)
            details = story.tell(prepared, config, test, experiment.story, result.with_suffix(".png"))
            found = {"": Row([details[-1]])}
        else:
            runner = _run_by_steps if kinds.find(config.kind).by_steps else _run_by_search
            found, details = runner(views, config, experiment, work)
    truth = [labels for test in tests for labels in test.s]
    now = surroundings()
    for title, (scores, raw) in found.items():
        stored = {
            "board": experiment.board,
            "model": experiment.model,
            "row": title or experiment.row,
            **({"quick": NOT_REAL} if in_minutes else {}),
            "scores": summary(scores),
            **({} if raw is None else {"scores_before_merging": summary(raw)}),
            "success_rate": _success_rate(scores, experiment.target),
            "regimes": {"true": regimes_that_occur(truth), "found": [_regimes(one) for one in scores]},
            "bound_f1_rank_correlation": None if title else results.rank_correlation(details),
            "details": details,
            "experiment": asdict(experiment),
            "config": as_dict(config),
            "seeds": {"training": TRAINING_SEED, "test": TEST_SEED, "runs": list(range(len(scores)))},
            "wall_seconds": round(time.perf_counter() - began, 1),
            **now,
            "finished_commit": now["commit"],
            **origin,
        }
        target = result.with_name(f"{result.stem}{'-one-restart' if title else ''}.json")
        target.parent.mkdir(parents=True, exist_ok=True)
        write_json(target, stored)


def data_of(experiment: Experiment, data: Path) -> Sequence[tuple[Board | Recordings, Board | Recordings]]:
    """What is trained on and what is scored, a pair for every fold; of published recordings without folds, all of both.

    The labels of what is trained on are never read.
    """
    if experiment.board in published.PUBLISHED:
        every = published.read(experiment.board, data)
        pairs = every.folds()[: experiment.runs] if experiment.folds else [(every, every)]
        if experiment.folds or not (experiment.missing_frames or experiment.missing_cells):
            return pairs
        lost = every.damaged(_damage(experiment), seed=TRAINING_SEED)
        return [(lost, lost)]
    board = boards.find(experiment.board)
    parts = (experiment.training_sequences, TRAINING_SEED), (experiment.test_sequences, TEST_SEED)
    training, test = (board.generate(count, seed=seed).damaged(_damage(experiment), seed=seed) for count, seed in parts)
    return [(training, test)]


def _damage(experiment: Experiment) -> Damage:
    return Damage(experiment.missing_frames, experiment.missing_cells)


def _untrained_labels(experiment: Experiment, test: Board | Recordings) -> list[Any]:
    """One label for all, or what an oracle says."""
    oracle = None if isinstance(test, Recordings) else boards.find(experiment.board).oracle
    if oracle is None or experiment.model == "majority" or isinstance(test, Recordings):
        return [np.zeros_like(labels) for labels in test.s]
    return list(oracle(test))


def work_folder(path: Path, experiment: Experiment, config: Config, under: Path) -> Path:
    """Where a row keeps what it needs to go on."""
    return under / path.parent.name / f"{path.stem}-{digest(experiment, config)}"


def _origin(work: Path) -> dict[str, Any]:
    """The commit that began a row's working files. What goes on from them with other code is still theirs."""
    kept = work / "origin.json"
    now = {key: value for key, value in surroundings().items() if key in ("commit", "uncommitted_changes")}
    if not kept.is_file():
        write_json(kept, now)
    origin = read_json(kept)
    if origin != now:
        note(f"going on from the working files of commit {origin['commit'][:7]}; delete {work} to begin anew")
    return origin


def _run_by_search(data: Sequence[View], config: Config, experiment: Experiment, work: Path):
    """One run after the other; those that a stopped experiment had finished are not fitted again."""
    runs = []
    for seed in range(experiment.runs):
        done = work / f"run-{seed}.json"
        if not done.is_file():
            view = as_numbers(data[seed % len(data)], config, seed, work)
            own, choice = dataclasses.replace(config, seed=seed), {}
            if experiment.regimes_up_to:
                recordings = data[seed % len(data)].recordings
                chosen = choose_by_search(recordings, own, range(1, experiment.regimes_up_to + 1))
                own = merge(own, {"model": {"regimes": chosen.regimes}})
                choice = {"choice": chosen.as_dict()}
            found = fit_by_search(view.prepared, own)
            best, frames = found.models[0], int(view.prepared.validation.valid.sum())
            detail = {
                "held_out": float(found.windows[0].sum()) / frames,
                **best.facts(),
                "as_one": found.config.arhmm.channels_as_one,
                **choice,
            }
            write_json(done, {"scores": _score_model(best, view.prepared, found.config, view.board), "detail": detail})
        runs.append(read_json(done))
    return {"": Row([one["scores"] for one in runs])}, [one["detail"] for one in runs]


def _run_by_steps(data: Sequence[View], config: Config, experiment: Experiment, work: Path):
    """Each run chooses among its own restarts; its first restart, alone, is the row with one restart."""
    repeats = make_repeats([one.prepared for one in data], config, experiment, work)
    views = repeats.views(data)
    trained, curves = _train_with_curves(repeats, views, config, experiment, work)
    raw = {r: _score_model(system_of(trained, r), views[r].prepared, config, views[r].board) for r in trained.alive}
    choice = choose(trained, config, experiment)
    simple = simplified(repeats, {r: system_of(trained, r) for r in choice.standing}, config, work)
    scores = {}
    for r, one in simple.items():
        own = data[0] if repeats.codes else views[r]
        system = finished(repeats, r, one.system, own.prepared, config, work)
        scores[r] = _score_model(system, own.prepared, config, own.board)
    bounds = trained.history.latest("bound", list(range(sum(restarts_of_runs(config, experiment)))))
    details = [
        {
            "chosen": None if best is None else best - begin,
            "merges": [] if best is None else [merge._asdict() for merge in simple[best].merges],
            "restarts": [{"bound": float(bounds[r]), **{key: raw[r][key] for key in SCORES}} for r in own],
            **({"curve": curves[begin]} if begin in curves else {}),
        }
        for begin, own, best in zip(choice.begins, choice.own, choice.best, strict=True)
    ]

    def row(restarts: Sequence[int | None]) -> Row:
        return Row(*([None if r is None else one[r] for r in restarts] for one in (scores, raw)))

    rows = {"": row(choice.best[: experiment.runs])}
    if config.training.restarts > 1:
        rows[results.SINGLE] = row(choice.first)
    history = trained.history
    timing = {"training_seconds": round(history.seconds, 1), "trained_on": history.hardware}
    if len(history.elapsed) == len(history.step):
        timing["elapsed"] = dict(zip(map(str, history.step), np.round(history.elapsed, 1).tolist(), strict=True))
    return rows, [timing, *details]


def _train_with_curves(repeats: Repeats, views: Sequence[View], config: Config, experiment: Experiment, work: Path):
    if not experiment.curve:
        return train(repeats, config, work), {}

    def numbers_of(restart: int, system: Model, bound: float, step: int) -> dict[str, Any]:
        view = views[restart]
        return look(system, bound, step, view.prepared, config, view.board).numbers

    curve_file = CurveFile(work / "curve.json", numbers_of)
    trained = train(repeats, config, work, watch=curve_file.watch)
    return trained, curve_file.finish(trained)


def _score_model(model: Model, prepared: Prepared, config: Config, test: Board | Recordings) -> dict[str, float]:
    run = with_model(model, prepared, config, held_out=float("nan"))
    return score_labels([one.labels for one in run.segment(test.series())], test)


def score_labels(labels: Any, test: Board | Recordings) -> dict[str, float]:
    """All scores of one run."""
    return {**score(list(labels), list(test.s)).as_dict(), "regimes": regimes_that_occur(list(labels))}


def summary(scores: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Mean and spread of every score over runs."""
    return {key: _spread([None if one is None else one[key] for one in scores]) for key in SCORES}


def _success_rate(scores: Sequence[Mapping[str, Any] | None], target: float | None) -> float | None:
    """The share of runs whose frame F1 reaches the target; a run without a score does not."""
    if target is None:
        return None
    return sum(one is not None and one["frame_f1"] >= target for one in scores) / len(scores)


def _regimes(scores: Mapping[str, Any] | None) -> int | None:
    """None for a run that diverged, and for a story, which does not count them."""
    return None if scores is None else scores.get("regimes")


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
