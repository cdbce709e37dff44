"""`swerve demo`: the bouncing ball from nothing to scores, pictures and a page in a few minutes."""

import dataclasses
from pathlib import Path

from swerve import api, display, fitted, reporting
from swerve import run as runs
from swerve.claim import RUN_FILE
from swerve.config import Config
from swerve.data import bouncing_ball
from swerve.data.board import Board
from swerve.errors import InputError
from swerve.evaluation.oracle import fit_bouncing_ball
from swerve.evaluation.scores import score
from swerve.fitted import Run
from swerve.preparation import prepare
from swerve.training.checkpoint import read_json, write_json
from swerve.types import Series

TRAINING_SEQUENCES, TEST_SEQUENCES = 2000, 200
TRAINING_SEED, TEST_SEED = 1000, 1001
SCORES = ("frame_f1", "switch_f1_tol0", "switch_f1_tol5")


def demo_config(seed: int) -> Config:
    """SNLDS with three regimes where two are true. The ball flies straight: no time is spent on regimes that bend."""
    settings = ["training.window=100", "training.steps=3000", "arhmm.lags=[1, 2]", "arhmm.features=[0]"]
    return api.make_config(3, "snlds", seed=seed, settings=settings)


def run(seed: int, out: Path) -> dict[str, dict[str, float]]:
    """Trains, scores and reports; returns the scores of every row."""
    training = bouncing_ball.generate(TRAINING_SEQUENCES, seed=TRAINING_SEED).series()
    _make_room(out, training)
    test = bouncing_ball.generate(TEST_SEQUENCES, seed=TEST_SEED)
    display.console.print(
        f"Bouncing ball: {TRAINING_SEQUENCES} sequences to train on, {TEST_SEQUENCES} others to score; K = 3."
    )
    config = demo_config(seed)
    with display.working("fitting AR-HMMs"):
        arhmm = runs.fit(training, dataclasses.replace(config, kind="arhmm"))
    curve = reporting.FrameF1Curve(test.series())
    with display.stop_on_interrupt() as should_stop, display.training_progress(config.training.steps) as show:
        snlds = runs.fit(training, config, out=out, on_report=show, on_look=curve.look, should_stop=should_stop)
    rows = {
        "snlds": reporting.score_run(snlds, test.series()),
        "arhmm": reporting.score_run(arhmm, test.series()),
        "oracle": score(list(fit_bouncing_ball(test.x).s), list(test.s)).as_dict(),
    }
    _report(out, snlds, test, rows, curve.values, seed)
    return rows


def _report(out: Path, snlds: Run, test: Board, rows, curve: list[float], seed: int) -> None:
    display.print_scores(rows, f"Bouncing ball, {TEST_SEQUENCES} held-out sequences, percent")
    short = {name: {key: row[key] for key in SCORES} for name, row in rows.items()}
    own = short.pop("snlds")
    about = {"seed": seed, "held_out_bound": snlds.held_out, "rows": rows, "frame_f1_curve": curve}
    write_json(out / reporting.SCORES_FILE, {**own, **short, **about})
    shown = test.series()[: reporting.EXAMPLES]
    inferred = snlds.infer(shown)
    reporting.save_examples(out, shown, inferred)
    page = reporting.write_report(
        out, snlds, shown, inferred, scores=rows, frame_f1=curve, title="Swerve demo: bouncing ball"
    )
    for warning in reporting.warnings(snlds, inferred):
        display.errors.print(f"Warning: {warning.problem} {warning.remedy}", style="yellow", highlight=False)
    display.console.print(f"Scores: {out / reporting.SCORES_FILE}   Report page: {page}")


def _make_room(out: Path, training: list[Series]) -> None:
    """A demo is meant to be run again: an earlier one makes room, anything else is left alone."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not _is_demo(out, training):
        raise InputError(f"{out} already exists and is no demo: choose another --out.")
    for name in (RUN_FILE, runs.CHECKPOINT_FILE, fitted.MODEL_FILE, fitted.HISTORY_FILE, reporting.SCORES_FILE):
        (out / name).unlink(missing_ok=True)
    for name in (fitted.REGIMES_FILE, fitted.TRUST_FILE, fitted.RESTARTS_FILE, "report.html", "seeds.npz"):
        (out / name).unlink(missing_ok=True)
    (out / reporting.EXAMPLES_FILE).unlink(missing_ok=True)
    for picture in (out / "figures").glob("*.png"):
        picture.unlink()
    if (out / "figures").is_dir():
        (out / "figures").rmdir()


def _is_demo(out: Path, training: list[Series]) -> bool:
    """Whether the folder holds a run on the demo's own data."""
    path = out / RUN_FILE
    if not path.is_file():
        return False
    stored = read_json(path)
    config = demo_config(stored["config"]["seed"])
    return stored["data"] == runs.fingerprint(prepare(training, config))
