"""`swerve demo`: the bouncing ball from nothing to scores, pictures and a page in a few minutes."""

import dataclasses
from pathlib import Path

from swerve import api, display, reporting
from swerve import run as runs
from swerve.config import Config
from swerve.data import bouncing_ball
from swerve.data.board import Board
from swerve.errors import InputError
from swerve.evaluation.oracle import fit_bouncing_ball
from swerve.evaluation.scores import score
from swerve.run import Run
from swerve.training.checkpoint import write_json
from swerve.training.loop import Report

TRAINING_SEQUENCES, TEST_SEQUENCES = 2000, 200
TRAINING_SEED, TEST_SEED = 1000, 1001
SCORES = ("frame_f1", "switch_f1_tol0", "switch_f1_tol5")


def demo_config(seed: int) -> Config:
    """SNLDS with three regimes where two are true."""
    return api.make_config(3, "snlds", seed=seed, settings=["training.window=100", "training.steps=3000"])


def run(seed: int, out: Path) -> dict[str, dict[str, float]]:
    """Trains, scores and reports; returns the scores of every row."""
    if out.exists() and not (out / runs.RUN_FILE).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} already exists and is no demo: choose another --out.")
    _clear(out)
    training = bouncing_ball.generate(TRAINING_SEQUENCES, seed=TRAINING_SEED).series()
    test = bouncing_ball.generate(TEST_SEQUENCES, seed=TEST_SEED)
    display.console.print(
        f"Bouncing ball: {TRAINING_SEQUENCES} sequences to train on, {TEST_SEQUENCES} others to score; K = 3."
    )
    config = demo_config(seed)
    arhmm = runs.fit(training, dataclasses.replace(config, kind="arhmm"))
    curve: list[float] = []
    with display.stop_on_interrupt() as should_stop, display.training_progress(config.training.steps) as show:

        def watch(report: Report) -> None:
            show(report)
            curve.append(_frame_f1_now(report, snlds_shell, test))

        snlds_shell = dataclasses.replace(arhmm, config=config)
        snlds = runs.fit(training, config, out=out, on_report=watch, should_stop=should_stop)
    rows = {
        "snlds": _scores(snlds, test),
        "arhmm": _scores(arhmm, test),
        "oracle": _score_labels(fit_bouncing_ball(test.x).s, test),
    }
    _report(out, snlds, test, rows, curve, seed)
    return rows


def _report(out: Path, snlds: Run, test: Board, rows, curve, seed: int) -> None:
    display.print_scores(rows, f"Bouncing ball, {TEST_SEQUENCES} held-out sequences, percent")
    short = {name: {key: row[key] for key in SCORES} for name, row in rows.items()}
    own = short.pop("snlds")
    write_json(out / "scores.json", {**own, **short, "seed": seed, "held_out_bound": snlds.held_out})
    shown = test.series()[: reporting.EXAMPLES]
    inferred = snlds.infer(shown)
    reporting.save_examples(out, shown, inferred)
    page = reporting.write_report(
        out, snlds, shown, inferred, scores=rows, frame_f1=curve, title="Swerve demo: bouncing ball"
    )
    for warning in reporting.warnings(snlds, inferred):
        display.errors.print(f"Warning: {warning}", style="yellow", highlight=False)
    display.console.print(f"Scores: {out / 'scores.json'}   Report page: {page}")


def _scores(fitted: Run, test: Board) -> dict[str, float]:
    return score([one.labels for one in fitted.segment(test.series())], list(test.s)).as_dict()


def _score_labels(labels, test: Board) -> dict[str, float]:
    return score(list(labels), list(test.s)).as_dict()


def _frame_f1_now(report: Report, shell: Run, test: Board) -> float:
    """The best restart's frame F1 at this moment: drawn as a curve, used for nothing else."""
    now = dataclasses.replace(shell, model=report.system)
    found = now.segment(test.series(), samples=1)
    return score([one.labels for one in found], list(test.s)).as_dict()["frame_f1"]


def _clear(out: Path) -> None:
    """A demo is meant to be run again: its own earlier files make room."""
    for name in (runs.RUN_FILE, runs.CHECKPOINT_FILE, runs.MODEL_FILE, runs.HISTORY_FILE, "scores.json"):
        (out / name).unlink(missing_ok=True)
    for name in ("report.html", "seeds.npz", reporting.EXAMPLES_FILE):
        (out / name).unlink(missing_ok=True)
    for picture in (out / "figures").glob("*.png"):
        picture.unlink()
    if (out / "figures").is_dir():
        (out / "figures").rmdir()
