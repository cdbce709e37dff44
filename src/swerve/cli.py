"""The command line. Every command is a thin wrapper around the Python API."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from swerve import api, boards, choosing, claim, demo, display, export, forecasting, reporting, reproduce
from swerve import run as runs
from swerve.budget import parse_duration
from swerve.config import Config
from swerve.data import published, tables
from swerve.data.columns import select_columns
from swerve.data.reading import Choices, Reading
from swerve.errors import InputError
from swerve.evaluation.scores import score
from swerve.fitted import DEFAULT_FUTURES, DEFAULT_QUANTILES, DEFAULT_SAMPLES, Run
from swerve.loading import load
from swerve.names import parse_names
from swerve.options import takes_reading
from swerve.recipes import RECIPES
from swerve.settings import read_toml, with_stickiness
from swerve.training.checkpoint import write_json
from swerve.types import Series

STOPPED = 130

app = typer.Typer(
    name="swerve",
    help="Swerve finds the regimes in time series: it learns how each regime moves and labels every frame.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="markdown",
)

Data = Annotated[
    list[Path],
    typer.Argument(
        help="CSV, TSV, Parquet, HDF5, NPZ, NPY, BVH or AMC files, or folders of them or of pictures. A row is a frame,"
        " a column is a channel; one recording per file unless there is a --sequence-column."
    ),
]


@app.command("demo")
def demo_command(
    seed: Annotated[int, typer.Option(help="Seed of the model's restarts; the data stay the same.")] = 0,
    out: Annotated[Path, typer.Option(help="Where the run, the scores and the report go.")] = Path("runs/demo"),
) -> None:
    """Trains on the bouncing ball, prints scores beside the oracle's and the AR-HMM's, writes a report page."""
    demo.run(seed, out)


@app.command()
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
    series = _read(data, reading)
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


@app.command("choose-regimes")
@takes_reading()
def choose_regimes_command(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder for choice.json, choice.png and what is needed to go on.")],
    first: Annotated[int, typer.Option("--from", help="Fewest regimes to try.")] = choosing.FIRST,
    last: Annotated[int, typer.Option("--to", help="Most regimes to try.")] = choosing.LAST,
    model: Annotated[str | None, typer.Option(help="snlds, the default; slds; arhmm, in seconds.")] = None,
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
    series = _read(data, Reading().but(**given))
    config = api.make_config(None, model, None, restarts, seed=seed, settings=settings or ())
    with _listening(config) as hears:
        choice = choosing.choose_regimes(series, config, first=first, last=last, out=out, **hears)
    picture = reporting.draw_choice(out, choice)
    display.print_choice(choice)
    display.console.print(f"Kept in {out}; drawn in {picture}. Next: swerve fit DATA --regimes {choice.regimes}")


@app.command()
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
    """
    fitted = load(run)
    series = _read(data, fitted.reading.but(**given))
    export.check_file_names(series)
    if consensus and viterbi:
        raise InputError("--consensus and --viterbi are two kinds of labels: choose one.")
    if consensus:
        found = fitted.consensus(series, samples=samples)
    else:
        with display.frames_progress(sum(map(len, series))) as show:
            found = fitted.segment(series, samples=samples, viterbi=viterbi, on_progress=show)
    labelled = export.write(
        out,
        series,
        found,
        formats=formats or export.DEFAULT_FORMATS,
        names=fitted.names if any(fitted.given_names) else (),
        frames_per_second=frames_per_second,
    )
    switches = sum(len(export.segments_of(one)) - 1 for one in labelled)
    display.console.print(f"{len(found)} recordings, {switches} change points, written to {out}.")


@app.command()
def name(
    run: Annotated[Path, typer.Argument(help="Folder of a fitted run.")],
    names: Annotated[
        list[str] | None, typer.Argument(help="NUMBER=NAME, as in `0=walk 1='sits still'`; without any, lists them.")
    ] = None,
) -> None:
    """Gives names to regimes. They are kept with the run and used wherever its regimes are shown."""
    fitted = api.name(run, parse_names(names)) if names else load(run)
    for regime, called in enumerate(fitted.names):
        display.console.print(f"{regime:>4}  {called}", highlight=False, markup=False)


@app.command()
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

    Recordings are read as those of the fit were; options given here win. Writes NAME.csv and NAME.png for each
    recording. Only snlds, slds and arhmm can be rolled forward.
    """
    fitted = load(run)
    reading = fitted.reading.but(**given)
    series = _read(data, reading)
    export.check_file_names(series)
    controls = None if future_controls is None else _controls(future_controls, reading.control_columns)
    found = fitted.forecast(
        series,
        horizon,
        quantiles=quantile or DEFAULT_QUANTILES,
        samples=samples,
        controls=controls,
        seed=seed,
    )
    forecasting.write_forecasts(out, fitted, series, found, [export.file_name(one.name) for one in series])
    display.console.print(f"{len(found)} recordings, {horizon} frames ahead, written to {out}.")


@app.command()
@takes_reading("sequence_column", "label_column", "columns", "key")
def evaluate(
    labels: Annotated[Path, typer.Argument(help="CSV of labels, or a folder written by `swerve segment`.")],
    truth: Annotated[Path, typer.Argument(help="CSV or NPZ with the true regimes of recordings of the same names.")],
    partial: Annotated[
        bool, typer.Option("--partial", help="Score the recordings that have labels, though others have none.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    *,
    given: Choices,
) -> None:
    """Scores a segmentation against the truth: frame F1, switch F1, NMI, ARI (docs/scores.md).

    True regimes are in the column (or NPZ array) `s`, unless `--label-column` says otherwise.
    """
    reading = Reading(label_column="s").but(**{"label_column": "s", **given})
    true = {one.name: one.s for one in tables.read(truth, reading)}
    predicted = _read_labels(labels)
    pairs = _pair(predicted, true, truth, partial)
    scores = score([p for p, _ in pairs], [t for _, t in pairs]).as_dict()
    if as_json:
        print(json.dumps(scores, indent=2))
    else:
        display.print_scores({str(labels): scores}, f"{len(pairs)} recordings, percent")


@app.command()
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
    """Draws a run: series with regime ribbons, marginals, reconstruction, training curves, and one HTML page."""
    fitted = load(run)
    if data:
        series, lengths = _read(data, fitted.reading.but(**given)), []
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
    display.console.print(f"Wrote {page} and {page.parent / 'figures'}.")


@app.command()
def generate(
    board: Annotated[str, typer.Argument(help=f"One of {', '.join(boards.BOARDS)}.")],
    out: Annotated[Path, typer.Option(help="File to write: .csv or .npz.")],
    sequences: Annotated[int, typer.Option(help="How many.")] = 200,
    seed: Annotated[int, typer.Option(help="The same seed gives the same file.")] = 0,
    noise: Annotated[float | None, typer.Option(help="Observation noise; each board has its own default.")] = None,
) -> None:
    """Writes a synthetic board with known regimes (column `s`); definitions in docs/boards.md."""
    source = boards.find(board)
    if sequences < 1:
        raise InputError(f"--sequences must be at least 1, not {sequences}.")
    if seed < 0:
        raise InputError(f"--seed must be at least 0, not {seed}.")
    if noise is not None and not source.noisy:
        raise InputError(f"The board '{board}' has no noise to set.")
    options = {} if noise is None else {"noise": noise}
    series = source.generate(sequences, seed=seed, **options).series()
    writers = {".csv": tables.write_csv, ".npz": tables.write_npz}
    if out.suffix not in writers:
        raise InputError(f"{out} must end in .csv or .npz.")
    out.parent.mkdir(parents=True, exist_ok=True)
    writers[out.suffix](out, series)
    display.console.print(f"Wrote {len(series)} recordings of {len(series[0])} frames to {out}.")


@app.command("reproduce")
def reproduce_command(
    name: Annotated[
        str,
        typer.Argument(
            help="table1 (ball and reacher), table2 (Dubins video), fields, dubins-positions, annealing, correlation,"
            " ablation, learning-story, salsa, mocap6, bees, robustness, or any other folder under experiments/."
        ),
    ],
    show: Annotated[bool, typer.Option("--show", help="Print the stored results without running anything.")] = False,
    row: Annotated[str | None, typer.Option(help="Only the rows whose name contains this.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Minutes on a CPU, under runs/quick: shows that it works, not the scores.")
    ] = False,
    experiments: Annotated[Path, typer.Option(help="The folder of experiments.")] = Path("experiments"),
    data: Annotated[Path, typer.Option(help="The folder of published recordings.")] = published.DATA,
) -> None:
    """Runs the rows of an experiment that have no result yet and prints its tables beside the paper's numbers.

    A result is a JSON file with scores, config, seeds, versions and commit. Ctrl-C saves; the same command goes on
    where it was. How experiments are stored: docs/experiments.md.
    """
    reproduce.run(name, experiments, show=show, row=row, in_minutes=quick, data=data)


def _read(data: list[Path], reading: Reading) -> list[Series]:
    series = tables.read(data, reading)
    for note in tables.notes(series):
        display.note(note)
    return series


def _controls(path: Path, columns: Sequence[str]) -> np.ndarray:
    """The control columns of one table, in the order in which the model reads them."""
    (future,) = select_columns(tables.read(path)[:1], columns)
    return future.x


@contextmanager
def _listening(config: Config) -> Iterator[dict[str, Any]]:
    """What a search for the number of regimes tells, and how it is stopped."""
    with display.stop_on_interrupt() as should_stop, display.training_progress(config.training.steps) as show:
        yield {"on_report": show, "on_note": show, "should_stop": should_stop}


def _read_labels(path: Path) -> dict[str, np.ndarray]:
    files = [file for file in path.glob("*.csv") if file.name != export.SEGMENTS] if path.is_dir() else [path]
    try:
        found = tables.read(sorted(files), Reading(columns=("regime",)))
    except InputError as error:
        raise InputError(f"{error} Labels are a file or folder written by swerve segment.") from None
    return {one.name: one.x[:, 0].astype(int) for one in found}


def _score_known(fitted: Run, series: list[Series], out: Path, curve: list[float]) -> None:
    """Where true regimes came with the data, they score the fit: on what it was fitted to."""
    known = [one for one in series if one.s is not None and (one.s >= 0).any()]
    if not known:
        return
    rows = {fitted.config.kind: reporting.score_run(fitted, known)}
    display.print_scores(rows, f"{len(known)} recordings with known regimes, percent")
    write_json(out / reporting.SCORES_FILE, {"rows": rows, "frame_f1_curve": curve or None})


def _pair(predicted: dict[str, np.ndarray], true: dict[str, np.ndarray | None], where: Path, partial: bool):
    if len(predicted) == len(true) == 1:
        true = dict(zip(predicted, true.values(), strict=True))
    true = {export.file_name(name): labels for name, labels in true.items()}  # `swerve segment` names its files so
    pairs = []
    for name, labels in predicted.items():
        truth = true.get(export.file_name(name))
        if truth is None:
            raise InputError(f"{where} has no true regimes for the recording '{name}'.")
        if len(truth) != len(labels):
            raise InputError(f"'{name}' has {len(labels)} labels but {len(truth)} true ones.")
        pairs.append((labels, truth))
    left_out = len(set(true) - {export.file_name(name) for name in predicted})
    if left_out and not partial:
        raise InputError(f"{left_out} recordings of {where} have no labels: give them too, or --partial.")
    if not any((truth >= 0).any() for _, truth in pairs):
        raise InputError(f"{where} has no frame whose true regime is known.")
    return pairs


def main() -> None:
    """Entry point: a user's mistake becomes one sentence and exit code 2."""
    try:
        app(standalone_mode=True)
    except InputError as error:
        display.errors.print(f"Error: {error}", style="bold red", highlight=False, soft_wrap=True, markup=False)
        sys.exit(2)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        display.errors.print(
            f"Error: {where}{error.strerror or error}.", style="bold red", soft_wrap=True, markup=False
        )
        sys.exit(2)
    except SystemExit as end:  # what Typer makes of Ctrl-C
        if end.code == STOPPED:
            display.errors.print("Stopped. What was kept goes on with --resume.")
        raise
