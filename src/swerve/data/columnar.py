"""Columns that are arrays already, of data frames and HDF5 files: as numbers, as times, as text."""

from typing import Any

import numpy as np
from jaxtyping import Float

from swerve.data.table import TextCollector, Texts
from swerve.data.times import parse_times, seconds_of_dates
from swerve.errors import InputError


def as_numbers(values: np.ndarray) -> Float[np.ndarray, " T"] | None:
    """Floating-point numbers, None standing for a missing one; or nothing, if these are no numbers."""
    if values.dtype.kind == "f":
        return values if values.dtype.itemsize in (4, 8) else values.astype(float)
    if values.dtype.kind in "iub":
        return values.astype(float)
    if values.dtype.kind != "O":
        return None
    try:
        return np.array([np.nan if _is_nothing(value) else _number(value) for value in values], float)
    except (TypeError, ValueError):
        return None


def times_of(values: np.ndarray, name: str, where: str) -> tuple[Float[np.ndarray, " T"], bool]:
    """Times as numbers, and whether they were dates."""
    if values.dtype.kind == "M":
        return seconds_of_dates(values), True
    numbers = as_numbers(values)
    if numbers is not None:
        return numbers.astype(float), False
    try:
        return parse_times([str(value) for value in values])
    except ValueError:
        raise InputError(
            f'{where}, column "{name}": these are no times; times are all numbers, or all dates.'
        ) from None


def texts_of(values: np.ndarray) -> Texts:
    """Text, whatever it was; empty where nothing was."""
    collector = TextCollector()
    collector.add("" if _is_nothing(value) else value for value in values.tolist())
    return collector.texts()


def _is_nothing(value: Any) -> bool:
    """None, NaN, and pandas's own signs for a missing value."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _number(value: Any) -> float:
    if isinstance(value, str | bytes):
        raise TypeError("text is no number, even if it looks like one")
    return float(value)
