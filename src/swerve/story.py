"""The story of one restart: how the marginals of a sequence find its regimes while training goes on."""

from pathlib import Path

import numpy as np

from swerve import display
from swerve.config import Config
from swerve.data.board import Board
from swerve.errors import InputError
from swerve.evaluation.scores import score
from swerve.fitting import Prepared, fit_snlds
from swerve.report import figures
from swerve.run import Run
from swerve.training.loop import Report

SWITCHES = 2  # the sequence shown has at least this many


def tell(prepared: Prepared, config: Config, test: Board, steps: tuple[int, ...], picture: Path) -> list[dict]:
    """Trains one restart, draws the marginals at `steps`, and returns the scores at every look."""
    settings = config.training
    if settings.restarts != 1:
        raise InputError(f"A story follows one restart: set training.restarts to 1, not {settings.restarts}.")
    if any(step % settings.report_every or step > settings.steps for step in steps):
        raise InputError(f"Not all of {list(steps)} fall on a look every {settings.report_every} steps.")
    series = test.series()
    shown = int(np.argmax((np.diff(test.s, axis=1) != 0).sum(axis=1) >= SWITCHES))
    looks: list[dict] = []
    marginals: dict[int, np.ndarray] = {}
    runs: list[Run] = []

    with display.stop_on_interrupt() as should_stop, display.training_progress(settings.steps) as show:

        def watch(report: Report) -> None:
            show(report)
            bound = report.bounds[report.best]
            now = Run(
                config,
                report.system,
                prepared.columns,
                prepared.controls,
                prepared.standardizer,
                bound,
                image=prepared.image,
            )
            found = now.segment(series, samples=1)
            looks.append(
                {"step": report.step, "bound": bound, **score([one.labels for one in found], list(test.s)).as_dict()}
            )
            if report.step in steps:
                marginals[report.step] = found[shown].probabilities
            runs[:] = [now]

        trained = fit_snlds(prepared, config, on_report=watch, should_stop=should_stop)
    if not trained.finished:
        raise InputError("Stopped; a story is told from its beginning.")
    figure = figures.learning_story(
        series[shown].x,
        runs[0].infer([series[shown]])[0].expected,
        test.s[shown],
        marginals,
        np.array([look["step"] for look in looks]),
        -np.array([look["bound"] for look in looks]),
        np.array([look["frame_f1"] for look in looks]) / 100,
        title=f"{series[shown].name}, recipe {config.recipe.name}",
    )
    picture.parent.mkdir(parents=True, exist_ok=True)
    figures.save(figure, picture)
    return looks
