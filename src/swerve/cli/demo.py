"""`swerve demo`: the bouncing ball from nothing to scores, pictures and a page in a few minutes."""

import dataclasses
from pathlib import Path

from swerve import api
from swerve.cli import ball, display
from swerve.cli.console import console, warn
from swerve.data import folder
from swerve.data.folder import Part
from swerve.data.trees import read_json, write_json
from swerve.errors import InputError
from swerve.learning.preparation import prepare
from swerve.runs import fit as runs
from swerve.runs import report as reporting
from swerve.runs.run import Run
from swerve.settings.sections import Config
from swerve.types import Recording

TRAINING_SEQUENCES, TEST_SEQUENCES = 2000, 200
TRAINING_SEED, TEST_SEED = 1000, 1001
SCORES = ("frame_f1", "switch_f1_tol0", "switch_f1_tol5")
ORACLE = {"frame_f1": 99.95, "switch_f1_tol0": 98.81, "switch_f1_tol5": 99.21, "nmi": 99.39, "ari": 99.80}
"""Scores of labels from the true physics on the test sequences, in percent; a test computes them anew."""


def recordings(count: int, *, seed: int) -> list[Recording]:
    """Balls with their regimes."""
    balls = ball.draw(count, seed=seed)
    both = zip(balls.x, balls.s, strict=True)
    return [Recording(x, s=s, name=f"ball-{i}", columns=("position",)) for i, (x, s) in enumerate(both)]


def demo_config(seed: int) -> Config:
    """SNLDS with three regimes where two are true. The ball flies straight: no time is spent on regimes that bend."""
    settings = ["training.window=100", "training.steps=3000", "arhmm.lags=[1, 2]", "arhmm.features=[0]"]
    return api.make_config(3, "snlds", seed=seed, settings=settings)


def run(seed: int, out: Path) -> dict[str, dict[str, float]]:
    """Trains, scores and reports; returns the scores of every row."""
    training = recordings(TRAINING_SEQUENCES, seed=TRAINING_SEED)
    _make_room(out, training)
    test = recordings(TEST_SEQUENCES, seed=TEST_SEED)
    console.print(
        f"Bouncing ball: {TRAINING_SEQUENCES} sequences to train on, {TEST_SEQUENCES} others to score; K = 3."
    )
    config = demo_config(seed)
    with display.working("fitting AR-HMMs"):
        arhmm = runs.fit(training, dataclasses.replace(config, kind="arhmm"))
    curve = reporting.FrameF1Curve(test)
    with display.stop_on_interrupt() as should_stop, display.training_progress(config.training.steps) as show:
        snlds = runs.fit(training, config, out=out, on_report=show, on_look=curve.look, should_stop=should_stop)
    rows = {
        "snlds": reporting.score_run(snlds, test),
        "arhmm": reporting.score_run(arhmm, test),
        "oracle": ORACLE,
    }
    _report(out, snlds, test, rows, curve.values, seed)
    return rows


def _report(out: Path, snlds: Run, test: list[Recording], rows, curve: list[float], seed: int) -> None:
    display.print_scores(rows, f"Bouncing ball, {TEST_SEQUENCES} held-out sequences, percent")
    short = {name: {key: row[key] for key in SCORES} for name, row in rows.items()}
    own = short.pop("snlds")
    about = {"seed": seed, "held_out_bound": snlds.held_out, "rows": rows, "frame_f1_curve": curve}
    write_json(out / Part.SCORES, {**own, **short, **about})
    shown = test[: reporting.EXAMPLES]
    inferred = snlds.infer(shown)
    reporting.save_examples(out, shown, inferred)
    page = reporting.write_report(
        out, snlds, shown, inferred, scores=rows, frame_f1=curve, title="Swerve demo: bouncing ball"
    )
    for warning in reporting.warnings(snlds, inferred):
        warn(warning.problem, warning.remedy)
    console.print(f"Scores: {out / Part.SCORES}   Report page: {page}")


def _make_room(out: Path, training: list[Recording]) -> None:
    """A demo is meant to be run again: an earlier one makes room, anything else is left alone."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not _is_demo(out, training):
        raise InputError(f"{out} already exists and is no demo: choose another --out.")
    folder.clear(out)


def _is_demo(out: Path, training: list[Recording]) -> bool:
    """Whether the folder holds a run on the demo's own data."""
    path = out / Part.RUN
    if not path.is_file():
        return False
    stored = read_json(path)
    config = demo_config(stored["config"]["seed"])
    return stored["data"] == runs.fingerprint(prepare(training, config))
