"""When frames were taken: read from numbers or dates, checked for order, gaps and rate."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from jaxtyping import Float, Int

from swerve.errors import InputError

GAP = 1.75  # in steps: less is jitter
SAME_RATE = 1.15  # ratio of the time between frames within a recording
SAME_RATE_BETWEEN = 1.05  # and between recordings
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_times(cells: Sequence[str]) -> tuple[Float[np.ndarray, " T"], bool]:
    """Numbers as they are, ISO date-times as seconds since 1970, and whether they were dates. ValueError otherwise."""
    try:
        return np.fromiter(map(float, cells), float, len(cells)), False
    except ValueError:
        return np.fromiter(map(seconds, cells), float, len(cells)), True


def seconds(cell: str) -> float:
    """Seconds since 1970 of an ISO date-time; one without a time zone counts as UTC."""
    moment = datetime.fromisoformat(cell.strip())
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH).total_seconds()


def seconds_of_dates(dates: np.ndarray) -> Float[np.ndarray, " T"]:
    """Seconds since 1970 of an array of dates; NaN for those that are missing."""
    exact = dates.astype("datetime64[us]")
    return np.where(np.isnat(exact), np.nan, exact.astype(np.int64) / 1e6)


def check_order(times: Float[np.ndarray, " T"], rows: Int[np.ndarray, " T"], where: str) -> None:
    """Every frame has a time, later than the one before."""
    if not np.isfinite(times).all():
        raise InputError(f"{where}, row {rows[int(np.argmin(np.isfinite(times)))]} (the first is row 0): has no time.")
    apart = np.diff(times)
    if (apart <= 0).any():
        t = int(np.argmax(apart <= 0)) + 1
        what, remedy = (
            ("the same time as", "keep one of the two")
            if apart[t - 1] == 0
            else ("an earlier time than", "sort the rows by time")
        )
        raise InputError(
            f"{where}, row {rows[t]} (the first is row 0): {_number(times[t])} is {what} {_number(times[t - 1])} in the"
            f" row before: {remedy}, or tell recordings apart with --sequence-column."
        )


def step_of(times: Float[np.ndarray, " T"] | None) -> float | None:
    """The usual time between two frames."""
    return None if times is None or len(times) < 2 else float(np.median(np.diff(times)))


def check_one_rate(times: Float[np.ndarray, " T"], rows: Int[np.ndarray, " T"], where: str) -> None:
    """Refuses a recording whose frames come at one rate here and at another there."""
    apart = np.diff(times)
    size = max(min(max(len(apart) // 2, 15), 50), len(apart) // 100)
    count = len(apart) // size
    if count < 2:
        return
    steps = np.median(apart[: count * size].reshape(count, size), axis=1)
    other = np.abs(np.log(steps / steps[0])) > np.log(SAME_RATE)
    if other.any():
        first = int(np.argmax(other))
        raise two_rates(
            f"{where} has frames {_number(steps[0])} apart at first and {_number(steps[first])} apart"
            f" around row {rows[first * size + size // 2]}",
            max(steps[0], steps[first]),
        )


def check_same_rate(step: float, expected: float, whose: str, where: str, *, every: int = 1) -> None:
    """Refuses a recording with another time between frames than another, or than those a model was fitted to.

    Both are the times between frames that are kept, each so-many-th.
    """
    if abs(np.log(step / expected)) > np.log(SAME_RATE_BETWEEN):
        raise two_rates(f"{where} has frames {_number(step)} apart, {whose} {_number(expected)}", expected / every)


def two_rates(what: str, step: float) -> InputError:
    """The error for two sampling rates, with the way out."""
    return InputError(f"{what}: resample to one rate, for example with --rate {_number(1 / step)}.")


def places_in_grid(times: Float[np.ndarray, " T"], rows: Int[np.ndarray, " T"], where: str) -> Int[np.ndarray, " T"]:
    """The number of each frame if none were missing; a gap of two steps lacks one frame."""
    apart = np.diff(times) / (step_of(times) or 1.0)
    steps = np.where(apart < GAP, 1.0, np.round(apart))
    lacking = steps.sum() - len(steps)
    if lacking > len(times):
        widest = int(np.argmax(apart))
        raise InputError(
            f"{where}: between its {len(times)} rows {lacking:.3g} more would be needed for regular times (the widest"
            f" gap, {_number(times[widest + 1] - times[widest])}, comes after row {rows[widest]}): resample with"
            " --rate, or tell the parts apart with --sequence-column."
        )
    return np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)


def _number(value: float) -> str:
    return f"{value:.8g}"
