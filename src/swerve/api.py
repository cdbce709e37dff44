"""The same verbs as the command line, for Python: fit, segment, load."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from swerve import run
from swerve.config import Config, with_kind, with_recipe, with_setting
from swerve.data import tables
from swerve.errors import InputError
from swerve.run import DEFAULT_SAMPLES, Run
from swerve.training.loop import Report
from swerve.types import Segmentation, Series

load = run.load


def fit(
    data: Any,
    regimes: int = 3,
    *,
    model: str = "snlds",
    recipe: str = "default",
    restarts: int | None = None,
    steps: int | None = None,
    seed: int = 0,
    settings: Sequence[str] = (),
    out: str | Path | None = None,
    resume: bool = False,
    on_report: Callable[[Report], None] = lambda report: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Finds `regimes` regimes in recordings without labels.

    `data` is a file, several files, an array (T, D) or (N, T, D), a list of arrays, or a list of Series; NaN is
    a missing value. `settings` are strings such as "training.steps=20000". With `out` the run is kept in a folder.
    """
    config = make_config(regimes, model, recipe, restarts, steps, seed, settings)
    folder = None if out is None else Path(out)
    return run.fit(to_series(data), config, out=folder, resume=resume, on_report=on_report, should_stop=should_stop)


def segment(
    fitted: Run | str | Path, data: Any, *, samples: int = DEFAULT_SAMPLES, viterbi: bool = False
) -> list[Segmentation]:
    """The regimes of recordings, new or old, under a fitted model: one Segmentation per recording."""
    ready = fitted if isinstance(fitted, Run) else load(fitted)
    return ready.segment(to_series(data), samples=samples, viterbi=viterbi)


def make_config(
    regimes: int,
    model: str = "snlds",
    recipe: str = "default",
    restarts: int | None = None,
    steps: int | None = None,
    seed: int = 0,
    settings: Sequence[str] = (),
) -> Config:
    """A config from the few choices that most people make; `settings` reach everything else."""
    base = Config()
    config = replace(base, seed=seed, model=replace(base.model, regimes=regimes))
    config = with_kind(with_recipe(config, recipe), model)
    if restarts is not None:
        config = with_setting(config, f"training.restarts={restarts}")
        config = with_setting(config, f"arhmm.restarts={restarts}") if model == "arhmm" else config
    if steps is not None:
        config = with_setting(config, f"training.steps={steps}")
    for setting in settings:
        config = with_setting(config, setting)
    return config


def to_series(data: Any) -> list[Series]:
    """Whatever a person has as recordings."""
    if isinstance(data, Series):
        return [data]
    if isinstance(data, str | Path):
        return tables.read(data)
    if hasattr(data, "to_numpy"):
        frame = data
        columns = tuple(str(c) for c in getattr(frame, "columns", ()))
        return [Series(_matrix(frame.to_numpy()), columns=columns, name="0")]
    if hasattr(data, "ndim") and data.ndim <= 2:
        return [Series(_matrix(data), name="0")]
    try:
        items = list(data)
    except TypeError:
        raise InputError("Recordings are files, arrays of numbers, data frames, Series, or lists of them.") from None
    if not items:
        raise InputError("There are no recordings.")
    if all(isinstance(item, Series) for item in items):
        return items
    if all(isinstance(item, str | Path) for item in items):
        return tables.read(items)
    found = [to_series(item) for item in items]
    if any(len(one) != 1 for one in found):
        raise InputError("A recording must have the shape (frames, channels): a list holds one recording per item.")
    return [replace(one, name=str(i)) for i, (one,) in enumerate(found)]


def _matrix(values: Any) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise InputError("A recording must be an array of numbers.") from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"A recording must have the shape (frames, channels), not {array.shape}.")
    if np.isinf(array).any():
        raise InputError("A recording holds infinite values: mark missing values with NaN instead.")
    return array
