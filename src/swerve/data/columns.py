"""Columns by name: which there are, which hold nothing, which say nothing."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from swerve.errors import InputError
from swerve.types import Recording


def default_names(count: int) -> tuple[str, ...]:
    """Names for columns that have none."""
    return tuple(f"x{i}" for i in range(count))


def pixel_names(image: tuple[int, int]) -> tuple[str, ...]:
    """Names for the columns of an image of this height and width; other shapes have other names."""
    height, width = image
    return tuple(f"pixel-{row}-{column}" for row in range(height) for column in range(width))


def unknown_column(name: str, known: Iterable[str], where: str, *, remedy: str = "") -> InputError:
    """The error for a column that does not exist, with the nearest that does."""
    known = list(known)
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    listed = ", ".join(f'"{one}"' for one in known[:12]) + (", ..." if len(known) > 12 else "")
    advice = f'did you mean "{nearest[0]}"?' if nearest else f"it has {listed}."
    return InputError(f'{where} has no column "{name}": {advice}{remedy}')


def select_columns(series: Sequence[Recording], columns: Sequence[str]) -> list[Recording]:
    """The same recordings with these columns of x only, in this order."""
    return [_select(one, tuple(columns)) for one in series]


def drop_constant_columns(series: Sequence[Recording]) -> tuple[list[Recording], tuple[str, ...]]:
    """Leaves out the columns that never change in any recording; returns their names to warn of.

    An image keeps all its pixels.
    """
    check_every_column_has_values(series)
    columns = names_of(series[0])
    low = np.min([_reduce(np.fmin, one) for one in series], axis=0)
    high = np.max([_reduce(np.fmax, one) for one in series], axis=0)
    dropped = tuple(name for name, constant in zip(columns, low == high, strict=True) if constant)
    if len(dropped) == len(columns):
        raise InputError("Every column is constant, so there is nothing to segment.")
    if not dropped or series[0].image is not None:
        return list(series), ()
    return select_columns(series, [name for name in columns if name not in dropped]), dropped


def check_every_column_has_values(series: Sequence[Recording]) -> None:
    """Refuses a column that is missing throughout all recordings; an image may have dead pixels."""
    seen = np.any([(~np.isnan(one.x)).any(axis=0) for one in series], axis=0)
    if not (seen.any() if series[0].image is not None else seen.all()):
        empty = names_of(series[0])[int(np.argmin(seen))]
        raise InputError(f'Column "{empty}" holds no value at all: leave it out or fill it.')


def names_of(series: Recording) -> tuple[str, ...]:
    """The columns' names, made up where there are none."""
    return series.columns or default_names(series.x.shape[1])


def _select(series: Recording, columns: tuple[str, ...]) -> Recording:
    known = names_of(series)
    if columns == known:
        return replace(series, columns=columns)
    for name in columns:
        if name not in known:
            raise unknown_column(name, known, series.name or "The recording")
    return replace(series, x=series.x[:, [known.index(name) for name in columns]], columns=columns, image=None)


def _reduce(extreme: np.ufunc, series: Recording) -> np.ndarray:
    """The extreme value of each column; +-inf where the whole column is missing, so that others decide."""
    values = extreme.reduce(series.x, axis=0)
    return np.where(np.isnan(values), np.inf if extreme is np.fmin else -np.inf, values)
