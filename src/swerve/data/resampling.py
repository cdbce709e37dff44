"""Frames at other times: linear interpolation to a finer grid, averages over a coarser one, nothing across gaps."""

import numpy as np
from jaxtyping import Float, Int

from swerve.errors import InputError

CLOSE = 2.5  # neighbours at most so many steps apart are joined: one frame in between may be missing
MOST_FRAMES = 100  # for each frame that there is
LEAST_SHARE = 0.25  # of a grid cell that has to be covered
ROUNDING = 1e-3  # of a grid cell: dates in seconds are not exact


def regular_grid(times: Float[np.ndarray, " T"], rate: float | int, where: str) -> Float[np.ndarray, " G"]:
    """Times from the first to the last, 1 / rate apart."""
    count = np.floor((times[-1] - times[0]) * rate + ROUNDING) + 1
    if count > MOST_FRAMES * len(times):
        raise InputError(
            f"{where}: at a rate of {rate:g} its {len(times)} frames would become {count:.3g}: choose a lower --rate"
            " (frames per unit of the time column), or tell parts far from each other apart with --sequence-column."
        )
    return times[0] + np.arange(int(count)) / rate


def resample(
    values: Float[np.ndarray, "T D"],
    times: Float[np.ndarray, " T"],
    grid: Float[np.ndarray, " G"],
    *,
    close: float,
    averaged: bool,
) -> Float[np.ndarray, "G D"]:
    """Each column at the times of the grid; NaN where its observed neighbours are more than `close` apart.

    `averaged` gives the mean of the joined-up values over each grid cell, so that what is too fast for the grid does
    not show up as something slow.
    """
    result = np.empty((len(grid), values.shape[1]), values.dtype)
    for column, out in zip(values.T, result.T, strict=True):
        seen = ~np.isnan(column)
        t, v = (times, column) if seen.all() else (times[seen], column[seen])
        out[:] = (_means if averaged else _interpolated)(t, v.astype(float), grid, close)
    return result


def closeness(step: float, rate: float | int) -> float:
    """How far apart neighbours may be to be joined."""
    return CLOSE * max(step, 1 / rate / 2)


def nearest_frames(times: Float[np.ndarray, " T"], grid: Float[np.ndarray, " G"]) -> Int[np.ndarray, " G"]:
    """For each time of the grid the frame that is nearest to it."""
    after = np.clip(np.searchsorted(times, grid), 1, max(len(times) - 1, 1))
    if len(times) == 1:
        return np.zeros(len(grid), np.int64)
    earlier = grid - times[after - 1] <= times[after] - grid
    return (after - earlier).astype(np.int64)


def _interpolated(t: np.ndarray, v: np.ndarray, grid: np.ndarray, close: float) -> np.ndarray:
    if len(t) == 0:
        return np.full(len(grid), np.nan)
    nearest = nearest_frames(t, grid)
    met = np.abs(t[nearest] - grid) <= (ROUNDING * (grid[1] - grid[0]) if len(grid) > 1 else 0.0)
    if len(t) == 1:
        return np.where(met, v[0], np.nan)
    before = np.clip(np.searchsorted(t, grid, side="right") - 1, 0, len(t) - 2)
    apart = t[before + 1] - t[before]
    inside = (grid >= t[0]) & (grid <= t[-1]) & (apart <= close)
    share = (grid - t[before]) / apart
    between = (1 - share) * v[before] + share * v[before + 1]
    return np.where(met, v[nearest], np.where(inside, between, np.nan))


def _means(t: np.ndarray, v: np.ndarray, grid: np.ndarray, close: float) -> np.ndarray:
    """(integral of the joined-up values over a cell) / (how much of the cell they cover)."""
    if len(t) < 2 or len(grid) < 2:
        return _interpolated(t, v, grid, close)
    centre, width = v.mean(), grid[1] - grid[0]
    v = v - centre  # sums over long recordings stay small
    apart = np.diff(t)
    joined = apart <= close
    area = np.concatenate([[0.0], np.cumsum(np.where(joined, apart * (v[1:] + v[:-1]) / 2, 0.0))])
    length = np.concatenate([[0.0], np.cumsum(np.where(joined, apart, 0.0))])
    edges = np.clip(np.append(grid - width / 2, grid[-1] + width / 2), t[0], t[-1])
    before = np.clip(np.searchsorted(t, edges, side="right") - 1, 0, len(t) - 2)
    into = np.where(joined[before], edges - t[before], 0.0)
    slope = (v[before + 1] - v[before]) / apart[before]
    areas = np.diff(area[before] + into * (v[before] + into * slope / 2))
    lengths = np.diff(length[before] + into)
    enough = lengths >= LEAST_SHARE * width
    return np.where(enough, centre + areas / np.where(enough, lengths, 1.0), np.nan)
