"""Recordings to tables that `swerve.data.tables.read` gives back unchanged."""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from swerve.data.atomic import whole_file
from swerve.data.columns import names_of
from swerve.errors import InputError
from swerve.types import Recording

UNLABELLED = -1


def write_csv(
    path: str | Path, series: Sequence[Recording], *, sequence_column: str = "sequence", label_column: str = "s"
) -> None:
    """One table with a header: the recording's name, its columns, controls u0, u1, ..., and labels if any."""
    if series[0].image is not None:
        raise InputError(f"{path}: a table has no place for images; write video to a .npz file.")
    labelled = any(one.s is not None for one in series)
    header = [sequence_column, *names_of(series[0]), *_control_names(series[0])]
    header += [label_column] if labelled else []
    _check(series, header)
    with whole_file(Path(path)) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for one in series:
            writer.writerows(_rows(one, labelled))


def write_npz(path: str | Path, series: Sequence[Recording]) -> None:
    """Arrays x, names, and columns, s, u, times, lengths where they say something; no pickled objects.

    x is (N, T, D), or (N, T, H, W) for images, whose columns need no names.
    """
    _check(series, [*names_of(series[0])])
    lengths = np.array([len(one) for one in series])
    x, image = _padded([one.x for one in series], np.nan), series[0].image
    arrays = {"names": np.array([one.name for one in series])}
    if image is None:
        arrays |= {"x": x, "columns": np.array(names_of(series[0]))}
    else:
        arrays["x"] = x.reshape(*x.shape[:2], *image)
    if any(one.s is not None for one in series):
        arrays["s"] = _padded([_labels(one) for one in series], UNLABELLED)
    if series[0].u is not None:
        arrays["u"] = _padded([one.u for one in series if one.u is not None], 0.0)
    if all(one.times is not None for one in series):
        arrays["times"] = _padded([one.times for one in series if one.times is not None], np.nan)
    if len(set(lengths.tolist())) > 1:
        arrays["lengths"] = lengths
    with whole_file(Path(path)) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _check(series: Sequence[Recording], header: list[str]) -> None:
    names = [one.name for one in series]
    for values, what in ((header, "columns"), (names, "recordings")):
        value, times = Counter(values).most_common(1)[0]
        if times > 1:
            raise InputError(f'Two {what} are called "{value}".')
    for one in series:
        if names_of(one) != names_of(series[0]) or _control_names(one) != _control_names(series[0]):
            raise InputError(f'"{one.name}" has other columns than "{series[0].name}".')


def _control_names(series: Recording) -> list[str]:
    return [] if series.u is None else [f"u{i}" for i in range(series.u.shape[1])]


def _labels(series: Recording) -> np.ndarray:
    return np.full(len(series), UNLABELLED) if series.s is None else series.s


def _rows(series: Recording, labelled: bool) -> Iterator[list]:
    x = series.x if series.u is None else np.concatenate([series.x, series.u], axis=1)
    # float() first: float32 written by repr of its float64 value reads back to the same bits
    numbers = x.astype(float).tolist()
    for values, label in zip(numbers, _labels(series).tolist(), strict=True):
        cells = ["" if value != value else repr(value) for value in values]
        yield [series.name, *cells, label] if labelled else [series.name, *cells]


def _padded(arrays: Sequence[np.ndarray], fill: float | int) -> np.ndarray:
    longest = max(len(array) for array in arrays)
    padded = np.full((len(arrays), longest, *arrays[0].shape[1:]), fill, dtype=arrays[0].dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return padded
