"""The story of one restart: how the marginals of a sequence find its regimes while training goes on."""

from pathlib import Path

import numpy as np

from swerve.cli import display
from swerve.errors import InputError
from swerve.learning.fit import fit_system
from swerve.learning.loop import Report
from swerve.learning.preparation import Prepared
from swerve.report import figures
from swerve.runs.run import Run
from swerve.settings.sections import Config
from swerve.settings.text import merge
from swerve_lab.boards.board import Board
from swerve_lab.experiments.curves import look

SWITCHES = 2  # the sequence shown has at least this many


def tell(prepared: Prepared, config: Config, test: Board, steps: tuple[int, ...], picture: Path) -> list[dict]:
    """Trains one restart, draws the marginals at `steps`, and returns the scores at every look."""
    series = test.series()
    shown = int(np.argmax((np.diff(test.s, axis=1) != 0).sum(axis=1) >= SWITCHES))
    looks: list[dict] = []
    marginals: dict[int, np.ndarray] = {}
    runs: list[Run] = []

    with display.stop_on_interrupt() as should_stop, display.training_progress(config.training.steps) as show:

        def watch(report: Report) -> None:
            show(report)
            now = look(report.system, report.bounds[report.best], report.step, prepared, config, test)
            looks.append(now.numbers)
            if report.step in steps:
                marginals[report.step] = now.found[shown].probabilities
            runs[:] = [now.run]

        unmerged = merge(config, {"training": {"merging": 0.0}})
        trained = fit_system(prepared, unmerged, on_report=watch, should_stop=should_stop)
    if not trained.finished:
        raise InputError("Stopped; a story is told from its beginning.")
    figure = figures.learning_story(
        series[shown].x,
        runs[0].infer([series[shown]])[0].expected,
        test.s[shown],
        marginals,
        np.array([one["step"] for one in looks]),
        -np.array([one["bound"] for one in looks]),
        np.array([one["frame_f1"] for one in looks]) / 100,
        title=f"{series[shown].name}, recipe {config.recipe.name}",
    )
    picture.parent.mkdir(parents=True, exist_ok=True)
    figures.save(figure, picture)
    return looks
