"""The same verbs as the command line, for Python: fit, segment, load."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from swerve.choosing.regimes import Choice
from swerve.data import folder as claim
from swerve.data import tables
from swerve.data.arrays import MOST_COLOURS
from swerve.data.columns import pixel_names
from swerve.data.dataframes import is_data_frame
from swerve.data.folder import Part
from swerve.data.reading import Choices, Reading
from swerve.errors import InputError
from swerve.learning import regimes as choosing
from swerve.learning.budget import parse_duration
from swerve.learning.loop import Report
from swerve.runs import fit as run
from swerve.runs import loading
from swerve.runs.run import Run
from swerve.settings import kinds
from swerve.settings.defaults import DEFAULT_SAMPLES
from swerve.settings.recipes import with_recipe
from swerve.settings.sections import Config
from swerve.settings.text import with_kind, with_setting, with_stickiness
from swerve.types import Recording, Segmentation
from swerve.views.view import seen

AUTO = kinds.AUTO
load = loading.load


def fit(
    data: Any,
    regimes: int | str | None = None,
    *,
    model: str | None = None,
    recipe: str | None = None,
    restarts: int | None = None,
    steps: int | None = None,
    seed: int | None = None,
    settings: Sequence[str] = (),
    stickiness: float | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    align_to: Run | str | Path | None = None,
    time_budget: str | float | None = None,
    on_report: Callable[[Report], None] = lambda report: None,
    should_stop: Callable[[], bool] = lambda: False,
    **choices: Unpack[Choices],
) -> Run:
    """Finds `regimes` regimes (3 unless told, "auto" to let held-out windows choose) in recordings without labels.

    `data` is a file, several files, a data frame, several data frames, an array (T, D) or (N, T, D), video
    (N, T, height, width), a list of arrays (T, D), or of `Recording`; NaN is a missing value. `choices` say how
    files and data frames are read, as in time_column="t" (`swerve.data.reading.Reading` lists them all); the model
    remembers them. `settings` are strings such as "training.steps=20000". With `out` the run is kept in a folder.
    Regimes take the numbers and names of those of an older run on the same columns (`align_to`). A `time_budget` such
    as "10m" or 600 (seconds) fits what it allows. Unless `model` is named, the one that explains held-out windows best
    is kept (`Run.selection`). `stickiness` is how many frames regimes are expected to last.
    """
    number = number_of_regimes(regimes)
    config = make_config(number, model, recipe, restarts, steps, seed, settings, base=Config(kind="auto"))
    config = config if stickiness is None else with_stickiness(config, stickiness)
    folder = None if out is None else Path(out)
    reading = Reading().but(**choices)
    series = to_series(data, reading, **choices)
    if regimes == AUTO:
        hears = {"on_report": on_report, "should_stop": should_stop}
        config, _ = settle_regimes(series, config, out=folder, resume=resume, **hears)
    fitted = run.fit(
        series,
        config,
        out=folder,
        resume=resume,
        reading=reading,
        on_report=on_report,
        should_stop=should_stop,
        align_to=align_to,
        time_budget=None if time_budget is None else parse_duration(str(time_budget)),
    )
    if fitted.dropped:
        warnings.warn(f"These columns never change and were left out: {', '.join(fitted.dropped)}.", stacklevel=2)
    return fitted


def number_of_regimes(given: int | str | None) -> int | None:
    """None where it is left open."""
    if given is None or given == AUTO:
        return None
    try:
        return int(given)
    except ValueError:
        raise InputError(f"The number of regimes is a whole number or '{AUTO}', not '{given}'.") from None


def settle_regimes(
    series: Sequence[Recording], config: Config, *, out: Path | None, resume: bool, **hears: Any
) -> tuple[Config, Choice]:
    """The config with the number of regimes that held-out windows and the agreement of restarts choose."""
    if out is not None:
        claim.check(out, resume)
    folder = None if out is None else out / Part.CHOOSING
    choice = choosing.choose_regimes(series, config, out=folder, **hears)
    return replace(config, model=replace(config.model, regimes=choice.regimes)), choice


def segment(
    fitted: Run | str | Path,
    data: Any,
    *,
    samples: int = DEFAULT_SAMPLES,
    viterbi: bool = False,
    on_progress: Callable[[float], None] = lambda frames: None,
    **choices: Unpack[Choices],
) -> list[Segmentation]:
    """The regimes of recordings, new or old, under a fitted model: one Segmentation per recording.

    Files and data frames are read as those of the fit were; `choices` made anew win. They may be of any length;
    `on_progress` hears how many frames are done.
    """
    ready = fitted if isinstance(fitted, Run) else load(fitted)
    series = to_series(data, ready.reading.but(**choices), **choices)
    return ready.segment(series, samples=samples, viterbi=viterbi, on_progress=on_progress)


def name(fitted: Run | str | Path, names: Mapping[int, str]) -> Run:
    """The run with some of its regimes named; a folder keeps the names for everyone who opens it later."""
    if isinstance(fitted, Run):
        return fitted.with_names(names)
    named = load(fitted).with_names(names)
    named.save_names(Path(fitted))
    return named


def make_config(
    regimes: int | None = None,
    model: str | None = None,
    recipe: str | None = None,
    restarts: int | None = None,
    steps: int | None = None,
    seed: int | None = None,
    settings: Sequence[str] = (),
    *,
    base: Config | None = None,
) -> Config:
    """A config from the few choices that most people make; None keeps what `base` says, `settings` reach all else."""
    config = Config() if base is None else base
    config = config if recipe is None else with_recipe(config, recipe)
    config = config if model is None else with_kind(config, model)
    if regimes is not None:
        config = replace(config, model=replace(config.model, regimes=regimes))
    if seed is not None:
        config = replace(config, seed=seed)
    if restarts is not None:
        config = with_setting(config, f"training.restarts={restarts}")
        if config.kind != kinds.AUTO:
            config = with_setting(config, f"{kinds.find(config.kind).tries}={restarts}")
    if steps is not None:
        config = with_setting(config, f"training.steps={steps}")
    for setting in settings:
        config = with_setting(config, setting)
    return config


def to_series(data: Any, reading: Reading | None = None, **choices: Unpack[Choices]) -> list[Recording]:
    """Whatever a person has as recordings. `choices` are those among `reading` that were made just now.

    What a model remembers of columns is of no use to an array; a choice that can not be met is refused.
    """
    reading = Reading().but(**choices) if reading is None else reading
    if _is_files(data):
        series = tables.read(data, reading)
    elif is_data_frame(data):
        series = tables.read_frames([data], reading)
    elif isinstance(data, list | tuple) and data and all(is_data_frame(one) for one in data):
        series = tables.read_frames(data, reading)
    else:
        return _without_columns(data, reading, choices)
    for note in tables.notes(series):
        warnings.warn(note, stacklevel=3)
    return seen(series, reading)


def _without_columns(data: Any, reading: Reading, choices: Choices) -> list[Recording]:
    """Arrays may lose frames; a Recording is as its owner made it."""
    series = _recordings(data)
    named = [name for name, value in choices.items() if value and name not in ("skip", "every")]
    if named:
        raise InputError(f"Only files and data frames have columns to name: {named[0]} means nothing here.")
    return series if _is_series(data) else seen(tables.resampled(series, reading), reading)


def _is_series(data: Any) -> bool:
    return all(isinstance(one, Recording) for one in (data if isinstance(data, list | tuple) else [data]))


def _recordings(data: Any) -> list[Recording]:
    if isinstance(data, Recording):
        return [data]
    if isinstance(data, str | Path | Mapping):
        raise InputError("Recordings are all files, or all arrays, data frames or Recordings, and no dictionaries.")
    if hasattr(data, "ndim") and data.ndim <= 2:
        return [Recording(_matrix(data), name="0")]
    if hasattr(data, "ndim") and data.ndim == 4:
        return _videos(data)
    try:
        items = list(data)
    except TypeError:
        raise InputError(
            "Recordings are files, arrays of numbers, data frames, Recordings, or lists of them."
        ) from None
    if not items:
        raise InputError("There are no recordings.")
    if all(isinstance(item, Recording) for item in items):
        return items
    found = [_recordings(item) for item in items]
    if any(len(one) != 1 for one in found):
        raise InputError(
            "A recording must have the shape (frames, channels): a list holds one recording per item."
            " A video is a Recording with the pixels of each frame in a row and image=(height, width)."
        )
    return [replace(one, name=str(i)) for i, (one,) in enumerate(found)]


def _is_files(data: Any) -> bool:
    items = data if isinstance(data, list | tuple) and data else [data]
    return all(isinstance(item, str | Path) for item in items)


def _videos(images: Any) -> list[Recording]:
    """(recordings, frames, height, width), the pixels of each frame in one row."""
    count, frames, height, width = images.shape
    if width <= MOST_COLOURS:
        raise InputError(
            "An array of four axes is video (recordings, frames, height, width),"
            f" and {images.shape} looks like colours on the last axis: give one channel, such as the brightness."
        )
    flat = np.asarray(images).reshape(count, frames, -1)
    columns = pixel_names((height, width))
    return [Recording(_matrix(x), name=str(i), columns=columns, image=(height, width)) for i, x in enumerate(flat)]


def _matrix(values: Any) -> np.ndarray:
    try:
        array = np.ma.asarray(values, dtype=float).filled(np.nan)
    except (TypeError, ValueError):
        raise InputError("A recording must be an array of numbers.") from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"A recording must have the shape (frames, channels), not {array.shape}.")
    if np.isinf(array).any():
        raise InputError("A recording holds infinite values: mark missing values with NaN instead.")
    return array
