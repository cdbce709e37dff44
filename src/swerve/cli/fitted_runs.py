"""Commands that use a fitted run: `segment`, `name`, `forecast` and `report`."""

from pathlib import Path
from typing import Annotated

import typer

from swerve.cli.console import console
from swerve.cli.reading import Data, takes_reading
from swerve.data.reading import Choices
from swerve.errors import InputError
from swerve.settings.defaults import DEFAULT_FUTURES, DEFAULT_QUANTILES, DEFAULT_SAMPLES


@takes_reading()
def segment(
    run: Annotated[Path, typer.Argument(help="Folder of a fitted run.")],
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for the labels.")],
    samples: Annotated[int, typer.Option(help="Draws of the hidden states to average over.")] = DEFAULT_SAMPLES,
    viterbi: Annotated[bool, typer.Option("--viterbi", help="The most probable path instead of these labels.")] = False,
    consensus: Annotated[
        bool, typer.Option("--consensus", help="The regimes that most restarts vote for, and how many agree.")
    ] = False,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            help="What to write; may be repeated. csv, parquet: a row per frame; segments: a row per segment;"
            " audacity, elan: text that these programs import. By default csv and segments.",
        ),
    ] = None,
    frames_per_second: Annotated[
        float | None, typer.Option(help="For times in labels, where recordings have none.")
    ] = None,
    *,
    given: Choices,
) -> None:
    """Labels every frame of recordings, new or old, with a fitted model.

    Recordings are read as those of the fit were; options given here win. Writes NAME.csv (a row per frame of the file:
    regime, a probability per regime) for each recording, segments.csv (start, end, regime, confidence) and
    change_points.json. Frames that were left out or resampled away get the regime of the frame that covers them. Labels
    are those of which most frames are expected to be right, at a small price for every switch, so that they do not
    flicker.

    Example: `swerve segment runs/walks tomorrow.csv --out labels --format csv --format audacity`.

    Next, where true regimes are known: `swerve evaluate labels tomorrow.csv`.
    """
    from swerve.cli import display
    from swerve.cli.recordings import read_recordings
    from swerve.report import export
    from swerve.runs.loading import load

    fitted = load(run)
    series = read_recordings(data, fitted.reading.but(**given))
    if consensus and viterbi:
        raise InputError("--consensus and --viterbi are two kinds of labels: choose one.")
    formats = formats or list(export.DEFAULT_FORMATS)
    export.check(out, series, formats=formats, frames_per_second=frames_per_second)
    if consensus:
        found = fitted.consensus(series, samples=samples)
    else:
        with display.frames_progress(sum(map(len, series))) as show:
            found = fitted.segment(series, samples=samples, viterbi=viterbi, on_progress=show)
    export.write(out, found, formats=formats, frames_per_second=frames_per_second)
    switches = sum(len(one.change_points) for one in found)
    console.print(f"{len(found)} recordings, {switches} change points, written to {out}.")


def name(
    run: Annotated[Path, typer.Argument(help="Folder of a fitted run.")],
    names: Annotated[
        list[str] | None, typer.Argument(help="NUMBER=NAME, as in `0=walk 1='sits still'`; without any, lists them.")
    ] = None,
) -> None:
    """Gives names to regimes. They are kept with the run and used wherever its regimes are shown.

    Example: `swerve name runs/walks 0=walk 1='sits still'`; then `swerve report runs/walks` shows them.
    """
    from swerve import api
    from swerve.runs.names import parse_names

    fitted = api.name(run, parse_names(names)) if names else api.load(run)
    for regime, called in enumerate(fitted.names):
        console.print(f"{regime:>4}  {called}", highlight=False, markup=False)


@takes_reading()
def forecast(
    run: Annotated[Path, typer.Argument(help="Folder of a fitted run.")],
    data: Data,
    horizon: Annotated[int, typer.Option(help="How many frames to look ahead.")],
    out: Annotated[Path, typer.Option(help="Folder for the tables and pictures.")],
    quantile: Annotated[list[float] | None, typer.Option(help="Of the futures; repeatable; 0.1, 0.5 and 0.9.")] = None,
    samples: Annotated[int, typer.Option(help="Futures to draw.")] = DEFAULT_FUTURES,
    seed: Annotated[int, typer.Option(help="The same seed gives the same futures.")] = 0,
    future_controls: Annotated[
        Path | None, typer.Option(help="Table of the control columns in the frames to come, where the model reads any.")
    ] = None,
    *,
    given: Choices,
) -> None:
    """Says how recordings may go on: regime probabilities and quantiles of every column, frame by frame.

    Example: `swerve forecast runs/walks walk1.csv --horizon 50 --out ahead`. Recordings are read as those of the fit
    were; options given here win. Writes NAME.csv and NAME.png for each recording. Only snlds, slds and arhmm can be
    rolled forward.
    """
    from swerve.cli.recordings import read_recordings
    from swerve.data import tables
    from swerve.data.columns import select_columns
    from swerve.report import export
    from swerve.runs import forecasts
    from swerve.runs.loading import load

    fitted = load(run)
    reading = fitted.reading.but(**given)
    series = read_recordings(data, reading)
    export.check_file_names(series)
    controls = None
    if future_controls is not None:
        (future,) = select_columns(tables.read(future_controls)[:1], reading.control_columns)
        controls = future.x
    found = fitted.forecast(
        series,
        horizon,
        quantiles=quantile or DEFAULT_QUANTILES,
        samples=samples,
        controls=controls,
        seed=seed,
    )
    forecasts.write_forecasts(out, fitted, series, found, [export.file_name(one.name) for one in series])
    console.print(f"{len(found)} recordings, {horizon} frames ahead, written to {out}.")


@takes_reading()
def report(
    run: Annotated[Path, typer.Argument(help="Folder of a fitted run.")],
    data: Annotated[
        list[Path] | None, typer.Argument(help="Recordings to show; by default some it was fitted to.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write; by default into the run's folder.")] = None,
    *,
    given: Choices,
) -> None:
    """Draws a run: series with regime ribbons, marginals, reconstruction, training curves, and one HTML page.

    Example: `swerve report runs/walks`, then open `runs/walks/report.html`.
    """
    from swerve.cli import display
    from swerve.cli.recordings import read_recordings
    from swerve.runs import report as reporting
    from swerve.runs.loading import load

    fitted = load(run)
    if data:
        series, lengths = read_recordings(data, fitted.reading.but(**given)), []
        with display.frames_progress(sum(map(len, series))) as show:
            inferred = fitted.infer(series, on_progress=show)
    else:
        series, inferred = reporting.load_examples(run, fitted.columns)
        lengths = reporting.example_lengths(run)
    scores, curve = reporting.load_scores(run)
    page = reporting.write_report(
        out or run,
        fitted,
        series,
        inferred,
        scores=scores,
        frame_f1=curve,
        title=f"Swerve: {run.name}",
        lengths=lengths,
    )
    console.print(f"Wrote {page} and {page.parent / 'figures'}.")
