"""Commands that learn from recordings: `fit`, and `choose-regimes` before it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from swerve import api
from swerve.cli import display
from swerve.cli.reading import takes_reading
from swerve.cli.recordings import Data, read_recordings
from swerve.data.columns import select_columns
from swerve.data.reading import Choices, Reading
from swerve.data.trees import write_json
from swerve.learning import regimes as choosing
from swerve.learning.budget import parse_duration
from swerve.runs import claim
from swerve.runs import fit as runs
from swerve.runs import report as reporting
from swerve.runs.run import Run
from swerve.settings.recipes import RECIPES
from swerve.settings.sections import Config
from swerve.settings.text import read_toml, with_stickiness
from swerve.types import Recording


@takes_reading()
def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for the run; it must not hold another one.")],
    regimes: Annotated[
        str | None,
        typer.Option(
            "--regimes", "-k", help="Most regimes to use, 3 unless told; `auto` tries 1 to 6 first (choose-regimes)."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="auto, the default: arhmm or snlds, whichever explains held-out data better."
            " snlds: nonlinear regimes; slds: linear ones; arhmm: fast, no hidden state."
            " To compare with: gumbel, slds-em, rslds, svae, kvae, compile (docs/models.md)."
        ),
    ] = None,
    recipe: Annotated[str | None, typer.Option(help=f"How to train: {', '.join(RECIPES)}.")] = None,
    restarts: Annotated[int | None, typer.Option(help="Tries; the best held-out bound wins.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed and data give the same model.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any setting, as in `--set training.steps=20000`; repeatable."),
    ] = None,
    config_file: Annotated[
        Path | None, typer.Option("--config", help="TOML file of settings; the other options go on top of it.")
    ] = None,
    stickiness: Annotated[
        float | None, typer.Option(help="How many frames regimes are expected to last; 10 unless told.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
    align_to: Annotated[
        Path | None,
        typer.Option(help="Folder of an older run on the same columns: regimes keep its numbers and names."),
    ] = None,
    time_budget: Annotated[
        str | None,
        typer.Option(help="90s, 10m or 2h: measures how long a fit takes, then fits what there is time for."),
    ] = None,
    *,
    given: Choices,
) -> None:
    """Finds regimes in recordings without labels and keeps the model in a folder.

    Example: `swerve fit walk1.csv walk2.csv --regimes 3 --out runs/walks`. Empty cells and NaN are missing values.
    How recordings are read is remembered: `swerve segment` reads new ones alike. Ctrl-C saves; `--resume` goes on to
    the same result.
    """
    began = time.monotonic()
    seconds = None if time_budget is None else parse_duration(time_budget)
    reading = Reading().but(**given)
    series = read_recordings(data, reading)
    base = Config(kind="auto")
    base = read_toml(config_file, base) if config_file else base
    number = api.number_of_regimes(regimes)
    config = api.make_config(number, model, recipe, restarts, seed=seed, settings=settings or (), base=base)
    config = config if stickiness is None else with_stickiness(config, stickiness)
    if regimes == api.AUTO:
        with _listening(config) as hears:
            config, choice = api.settle_regimes(series, config, out=out, resume=resume, **hears)
        reporting.draw_choice(out / claim.CHOOSING_FOLDER, choice)
        display.print_choice(choice)
    fit_series = partial(
        runs.fit,
        series,
        config,
        out=out,
        resume=resume,
        reading=reading,
        align_to=align_to,
        time_budget=None if seconds is None else max(1.0, seconds - (time.monotonic() - began)),
        on_plan=display.note,
    )
    curve = reporting.FrameF1Curve(series)
    if config.kind == "arhmm":
        with display.working(f"fitting AR-HMMs with {', '.join(map(str, config.arhmm.lags))} lags"):
            fitted = fit_series()
    else:
        with display.stop_on_interrupt() as should_stop, display.training_progress(config.training.steps) as show:
            fitted = fit_series(on_report=show, on_look=curve.look, on_note=show, should_stop=should_stop)
    _score_known(fitted, series, out, curve.values)
    shown = select_columns(series[: reporting.EXAMPLES], fitted.columns)
    with display.frames_progress(sum(map(len, shown))) as show:
        inferred = fitted.infer(shown, on_progress=show)
    reporting.save_examples(out, shown, inferred)
    for name, value in reporting.summary(fitted, inferred):
        display.console.print(f"{name:>18}  {value}", highlight=False)
    if fitted.trust is not None:
        display.print_regimes(fitted.trust.regimes)
    for warning in reporting.warnings(fitted, inferred):
        display.errors.print(f"Warning: {warning.problem} {warning.remedy}", style="yellow", highlight=False)
    display.console.print(f"Kept in {out}. Next: swerve segment {out} DATA --out labels, swerve report {out}")


@takes_reading()
def choose_regimes_command(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for choice.json, choice.png and what is needed to go on.")],
    first: Annotated[int, typer.Option("--from", help="Fewest regimes to try.")] = choosing.FIRST,
    last: Annotated[int, typer.Option("--to", help="Most regimes to try.")] = choosing.LAST,
    model: Annotated[
        str | None,
        typer.Option(
            help="auto, the default: snlds, and slds where its restarts agree on no number; or one of these;"
            " arhmm, in seconds to minutes."
        ),
    ] = None,
    restarts: Annotated[int | None, typer.Option(help="Tries with every number of regimes; 4 unless told.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed and data give the same choice.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="Any setting; repeatable.")] = None,
    *,
    given: Choices,
) -> None:
    """How many regimes: the fewest within one standard error of the best held-out bound whose restarts agree.

    Example: `swerve choose-regimes walk1.csv walk2.csv --from 1 --to 8 --out regimes`. Ctrl-C saves; the same command
    goes on. What it means: docs/choosing-regimes.md.
    """
    series = read_recordings(data, Reading().but(**given))
    config = api.make_config(None, model, None, restarts, seed=seed, settings=settings or (), base=Config(kind="auto"))
    with _listening(config) as hears:
        choice = choosing.choose_regimes(series, config, first=first, last=last, out=out, **hears)
    picture = reporting.draw_choice(out, choice)
    display.print_choice(choice)
    fits = "" if choice.model in ("", "snlds") else f" --model {choice.model}"
    display.console.print(f"Kept in {out}; drawn in {picture}. Next: swerve fit DATA --regimes {choice.regimes}{fits}")


@contextmanager
def _listening(config: Config) -> Iterator[dict[str, Any]]:
    """What a search for the number of regimes tells, and how it is stopped."""
    with display.stop_on_interrupt() as should_stop, display.training_progress(config.training.steps) as show:
        yield {"on_report": show, "on_note": show, "should_stop": should_stop}


def _score_known(fitted: Run, series: list[Recording], out: Path, curve: list[float]) -> None:
    """Where true regimes came with the data, they score the fit: on what it was fitted to."""
    known = [one for one in series if one.s is not None and (one.s >= 0).any()]
    if not known:
        return
    rows = {fitted.config.kind: reporting.score_run(fitted, known)}
    display.print_scores(rows, f"{len(known)} recordings with known regimes, percent")
    write_json(out / reporting.SCORES_FILE, {"rows": rows, "frame_f1_curve": curve or None})
