"""Commands that learn from recordings: `demo`, `fit`, and `choose-regimes` before it."""

import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from swerve.cli.console import console, note
from swerve.cli.reading import Data, takes_reading
from swerve.data.reading import Choices, Reading
from swerve.settings.defaults import FEWEST_REGIMES, MOST_REGIMES
from swerve.settings.kinds import AUTO, find
from swerve.settings.recipes import RECIPES


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the model's restarts; the data stay the same.")] = 0,
    out: Annotated[Path, typer.Option(help="Where the run, the scores and the report go.")] = Path("runs/demo"),
) -> None:
    """Trains on a bouncing ball, prints scores beside the oracle's and the AR-HMM's, writes a report page.

    It takes a few minutes and needs no data. Open `runs/demo/report.html` afterwards; next, `swerve fit` on recordings
    of your own.
    """
    from swerve.cli.demo import run

    run(seed, out)


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
            " Systems of others to compare with come with swerve-lab (docs/models.md)."
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
    Ctrl-C saves; `--resume` goes on to the same result.

    Next: `swerve segment runs/walks walk1.csv --out labels` writes the regime of every frame, and reads new recordings
    as those of the fit; `swerve report runs/walks` draws them.
    """
    from swerve import api
    from swerve.cli import display, outcome
    from swerve.cli.recordings import read_recordings
    from swerve.data.folder import Part
    from swerve.learning.budget import parse_duration
    from swerve.runs import fit as runs
    from swerve.runs import report
    from swerve.runs.infer import Looks
    from swerve.settings.sections import Config
    from swerve.settings.text import read_toml, with_stickiness

    began = time.monotonic()
    seconds = None if time_budget is None else parse_duration(time_budget)
    reading = Reading().but(**given)
    series = read_recordings(data, reading)
    base = Config(kind=AUTO)
    base = read_toml(config_file, base) if config_file else base
    number = api.number_of_regimes(regimes)
    config = api.make_config(number, model, recipe, restarts, seed=seed, settings=settings or (), base=base)
    config = config if stickiness is None else with_stickiness(config, stickiness)
    if regimes == AUTO:
        with display.listening(config.training.steps) as hears:
            config, choice = api.settle_regimes(series, config, out=out, resume=resume, **hears)
        report.draw_choice(out / Part.CHOOSING, choice)
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
        on_plan=note,
        looks=Looks(),
    )
    curve = report.FrameF1Curve(series)
    if config.kind != AUTO and not find(config.kind).by_steps:
        with display.working(f"looking for regimes with {config.kind}"):
            fitted = fit_series()
    else:
        with display.listening(config.training.steps) as hears:
            fitted = fit_series(on_look=curve.look, **hears)
    outcome.keep_scores(out, fitted, series, curve.values)
    outcome.tell(fitted, outcome.keep_examples(out, fitted, series))
    console.print(f"Kept in {out}. Next: swerve segment {out} DATA --out labels, swerve report {out}")


@takes_reading()
def choose_regimes(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for choice.json, choice.png and what is needed to go on.")],
    first: Annotated[int, typer.Option("--from", help="Fewest regimes to try.")] = FEWEST_REGIMES,
    last: Annotated[int, typer.Option("--to", help="Most regimes to try.")] = MOST_REGIMES,
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

    Next: `swerve fit walk1.csv walk2.csv --regimes NUMBER --out runs/walks`.
    """
    from swerve import api
    from swerve.cli import display
    from swerve.cli.recordings import read_recordings
    from swerve.learning import regimes
    from swerve.runs import report
    from swerve.settings.sections import Config

    series = read_recordings(data, Reading().but(**given))
    config = api.make_config(None, model, None, restarts, seed=seed, settings=settings or (), base=Config(kind=AUTO))
    with display.listening(config.training.steps) as hears:
        choice = regimes.choose_regimes(series, config, first=first, last=last, out=out, **hears)
    picture = report.draw_choice(out, choice)
    display.print_choice(choice)
    fits = "" if choice.model in ("", Config().kind) else f" --model {choice.model}"
    console.print(f"Kept in {out}; drawn in {picture}. Next: swerve fit DATA --regimes {choice.regimes}{fits}")
