"""What a fit leaves besides the model: its scores, examples for reports, and words about it."""

from collections.abc import Sequence
from pathlib import Path

from swerve.cli import display
from swerve.cli.console import console, warn
from swerve.data.columns import select_columns
from swerve.data.folder import Part
from swerve.data.trees import write_json
from swerve.runs import report as reporting
from swerve.runs.infer import Inferred
from swerve.runs.run import Run
from swerve.types import Recording


def keep_scores(out: Path, fitted: Run, series: Sequence[Recording], curve: Sequence[float]) -> None:
    """Where true regimes came with the data, they score the fit: on what it was fitted to."""
    known = [one for one in series if one.s is not None and (one.s >= 0).any()]
    if not known:
        return
    rows = {fitted.config.kind: reporting.score_run(fitted, known)}
    display.print_scores(rows, f"{len(known)} recordings with known regimes, percent")
    write_json(out / Part.SCORES, {"rows": rows, "frame_f1_curve": list(curve) or None})


def keep_examples(out: Path, fitted: Run, series: Sequence[Recording]) -> list[Inferred]:
    """The first recordings with their regimes, for reports that get no recordings."""
    shown = series[: reporting.EXAMPLES]
    with display.frames_progress(sum(map(len, shown))) as show:
        inferred = fitted.infer(shown, on_progress=show)
    reporting.save_examples(out, select_columns(shown, fitted.columns), inferred)
    return inferred


def tell(fitted: Run, inferred: Sequence[Inferred]) -> None:
    """A summary, the regimes, and what may be wrong."""
    for name, value in reporting.summary(fitted, inferred):
        console.print(f"{name:>18}  {value}", highlight=False)
    if fitted.trust is not None:
        display.print_regimes(fitted.trust.regimes)
    for warning in reporting.warnings(fitted, inferred):
        warn(warning.problem, warning.remedy)
