"""The frames that a model sees: without the first, at regular times, each so-many-th; and the way back to the file."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from swerve.data.reading import Reading
from swerve.data.resampling import ROUNDING, closeness, nearest_frames, regular_grid, resample
from swerve.data.table import UNLABELLED
from swerve.data.times import check_one_rate, check_order, places_in_grid, step_of
from swerve.errors import InputError
from swerve.types import Clock, Recording

Places = Float[np.ndarray, " T"]


def sampled(series: Recording, reading: Reading, where: str) -> Recording:
    """The recording as a model sees it. If that is not as the file has it, `clock` leads back.

    A frame that is left out belongs to the next one that is kept: the regime of a frame is the one that moved the
    system there from the frame before.
    """
    if len(series) <= reading.skip:
        raise InputError(f"{where} has {len(series)} frames, so {reading.skip} can not be skipped.")
    rows = np.arange(len(series)) if series.rows is None else series.rows
    kept = slice_of(replace(series, rows=rows), slice(reading.skip, None))
    regular, places = _regular(kept, reading, where)
    inserted = 0 if reading.rate is not None else len(regular) - len(kept)
    if reading.skip == 0 and reading.every == 1 and reading.rate is None and not inserted:
        return series
    result = slice_of(regular, slice(None, None, reading.every))
    covered_by = np.ceil(places / reading.every - ROUNDING).astype(np.int64)
    skipped = np.zeros(reading.skip, np.int64)
    covered_by = np.concatenate([skipped, np.minimum(covered_by, len(result) - 1)])
    return replace(result, clock=Clock(rows, series.times, covered_by, inserted))


def slice_of(series: Recording, chosen: slice) -> Recording:
    """Some frames of a recording, with all that goes with them."""

    def part(values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else values[chosen]

    return replace(
        series,
        x=series.x[chosen],
        u=part(series.u),
        s=part(series.s),
        times=part(series.times),
        rows=part(series.rows),
        clock=None,
    )


def _regular(series: Recording, reading: Reading, where: str) -> tuple[Recording, Places]:
    """The recording at regular times, and where in it the frames of the file lie."""
    assert series.rows is not None
    as_it_is = series, np.arange(float(len(series)))
    if series.times is None:
        if reading.rate is not None:
            raise InputError(f"{where} has no times to resample by: say which column they are in with --time-column.")
        return as_it_is
    check_order(series.times, series.rows, where)
    if len(series) < 2:
        return as_it_is
    if reading.rate is not None:
        return _resampled(series, reading.rate, where)
    check_one_rate(series.times, series.rows, where)
    places = places_in_grid(series.times, series.rows, where)
    if places[-1] == len(series) - 1:
        return as_it_is
    return _without_gaps(series, places)


def _without_gaps(series: Recording, places: Int[np.ndarray, " T"]) -> tuple[Recording, Places]:
    """Missing frames where the times leave room for them. Controls, which must be complete, are interpolated."""
    assert series.rows is not None and series.times is not None
    count = int(places[-1]) + 1
    all_places = np.arange(count)
    x = np.full((count, series.x.shape[1]), np.nan, series.x.dtype)
    x[places] = series.x
    s = None
    if series.s is not None:
        s = np.full(count, UNLABELLED, np.int64)
        s[places] = series.s
    u = series.u
    if u is not None:
        u = np.stack([np.interp(all_places, places, column) for column in u.T], axis=1)
    before = np.searchsorted(places, all_places, side="right") - 1
    times = np.interp(all_places, places, series.times)
    filled = replace(series, x=x, u=u, s=s, times=times, rows=series.rows[before])
    return filled, places.astype(float)


def _resampled(series: Recording, rate: float | int, where: str) -> tuple[Recording, Places]:
    assert series.rows is not None and series.times is not None
    times = series.times
    step = step_of(times) or 1 / rate
    grid = regular_grid(times, rate, where)
    close, averaged = closeness(step, rate), 1 / rate > 1.001 * step
    nearest = nearest_frames(times, grid)
    u, s = series.u, series.s
    if u is not None:
        u = resample(u, times, grid, close=np.inf, averaged=averaged)
    if s is not None:
        s = np.where(np.abs(times[nearest] - grid) <= close / 2, s[nearest], UNLABELLED)
    x = resample(series.x, times, grid, close=close, averaged=averaged)
    at_new_times = replace(series, x=x, u=u, s=s, times=grid, rows=series.rows[nearest])
    return at_new_times, (times - times[0]) * rate
