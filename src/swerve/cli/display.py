"""What a person sees in the terminal while Swerve works."""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.status import Status
from rich.table import Table

from swerve.choosing.regimes import Choice
from swerve.choosing.trust import RegimeUse
from swerve.cli.console import console, errors
from swerve.learning.budget import in_words
from swerve.learning.loop import Report

WORTH_A_BAR = 20_000  # frames
LONGEST_PAUSE = 3600.0  # seconds between reports that still tell how long the rest takes


@contextmanager
def training_progress(steps: int) -> Iterator[Callable[[Report | str], None]]:
    """A bar with step, rate, time left, best bound and regimes in use; before and after it, notes of what goes on."""
    columns = (
        TextColumn("[bold]training"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, speed_estimate_period=LONGEST_PAUSE) as progress:
        task = progress.add_task("seeding restarts and compiling", total=steps)
        reports = 0

        def show(report: Report | str) -> None:
            nonlocal reports
            if isinstance(report, str):
                progress.update(task, description=report)
                return
            if report.step < progress.tasks[0].completed:  # another training has begun
                reports = 0
            reports += 1
            if reports == 2 and report.step < report.steps:  # the first one took the time to compile, too
                left = (report.steps - report.step) / report.steps_per_second
                progress.console.print(f"  at most about {in_words(left)} of training to go", highlight=False)
            for message in report.messages:
                progress.console.print(f"  {message}", highlight=False)
            best = report.best
            progress.update(
                task,
                completed=report.step,
                total=report.steps,
                description=(
                    f"bound {report.bounds[best]:.3f} nats/frame  "
                    f"regimes in use {report.regimes_in_use[best]:.1f}  "
                    f"restarts {len(report.alive)}/{report.restarts}  "
                    f"{report.steps_per_second:.0f} steps/s"
                ),
            )

        yield show


@contextmanager
def frames_progress(frames: int) -> Iterator[Callable[[float], None]]:
    """A bar with frames, rate and time left; none where there is too little to do to be worth one."""
    columns = (
        TextColumn("[bold]segmenting"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f} frames"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("{task.fields[rate]}"),
    )
    with Progress(*columns, console=console, disable=frames < WORTH_A_BAR) as progress:
        task = progress.add_task("", total=frames, rate="compiling")

        def show(done: float | int) -> None:
            seconds = progress.tasks[0].elapsed or 0.0
            rate = f"{done / seconds:,.0f} frames/s" if seconds else ""
            progress.update(task, completed=done, rate=rate)

        yield show


def working(message: str) -> Status:
    """A spinner, for work that can not say how far it has come."""
    return console.status(message)


@contextmanager
def stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C asks to stop at the next report; the second one stops at once.

    So does the first one before anybody looked whether to stop: nothing was learned yet that could be lost.
    """
    asked = looked = False

    def ask(signum, frame):
        nonlocal asked
        if asked or not looked:
            raise KeyboardInterrupt
        asked = True
        errors.print("Stopping at the next checkpoint; press Ctrl-C again to stop at once.")

    def should_stop() -> bool:
        nonlocal looked
        looked = True
        return asked

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield should_stop
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def listening(steps: int) -> Iterator[dict[str, Any]]:
    """What trainings of so many steps tell, and how they are stopped."""
    with stop_on_interrupt() as should_stop, training_progress(steps) as show:
        yield {"on_report": show, "on_note": show, "should_stop": should_stop}


def print_regimes(regimes: Sequence[RegimeUse]) -> None:
    """Share and durations of every regime."""
    table = Table(title="regimes, durations in frames")
    for name in ("regime", "share", "segments", "mean", "median"):
        table.add_column(name, justify="right")
    for one in regimes:
        durations = (f"{one.mean_duration:.1f}", f"{one.median_duration:.1f}") if one.segments else ("", "")
        table.add_row(str(one.regime), f"{100 * one.share:.1f} %", str(one.segments), *durations)
    console.print(table)


def print_choice(choice: Choice) -> None:
    """Every number of regimes that was tried, and which was chosen."""
    table = Table(title=f"how many regimes ({choice.model})")
    for name in ("regimes", "held-out bound", "less the best", "agreement", "in use", ""):
        table.add_column(name, justify="right")
    for one in choice.tried:
        agreed = "" if one.agreement is None else f"{one.agreement:.2f}"
        mark = "chosen" if one.regimes == choice.regimes else ""
        behind = f"{one.behind:+.3f} ± {one.error:.3f}"
        table.add_row(str(one.regimes), f"{one.held_out:.3f}", behind, agreed, str(one.in_use), mark)
    console.print(table)
    console.print(choice.reason, highlight=False)


def print_scores(rows: Mapping[str, Mapping[str, float]], title: str) -> None:
    """Frame F1 and switch F1, a row per model, in percent."""
    table = Table(title=title)
    table.add_column("model")
    names = {
        "frame_f1": "frame F1",
        "switch_f1_tol0": "switch F1 (exact)",
        "switch_f1_tol5": "switch F1 (±5)",
        "nmi": "NMI",
        "ari": "ARI",
    }
    for name in names.values():
        table.add_column(name, justify="right")
    for model, scores in rows.items():
        table.add_row(model, *(f"{scores[name]:.1f}" if name in scores else "" for name in names))
    console.print(table)
