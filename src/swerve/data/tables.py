"""Files and data frames to recordings and back: the one way in, whatever kind of file it is."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from swerve.data import pose
from swerve.data.arrays import read_arrays
from swerve.data.columns import check_every_column_has_values, names_of, select_columns, unknown_column
from swerve.data.dataframes import read_data_frame
from swerve.data.delimited import read_delimited
from swerve.data.hdf5 import read_hdf5
from swerve.data.images import folders_of_frames
from swerve.data.parquet import read_parquet
from swerve.data.reading import RAW, Reading
from swerve.data.sampling import sampled
from swerve.data.table import LabelEncoder, Table, Texts, check_width, label_encoder
from swerve.data.times import check_same_rate, step_of
from swerve.data.writing import write_csv, write_npz
from swerve.errors import InputError
from swerve.types import Recording

__all__ = ["read", "read_frames", "write_csv", "write_npz"]

Found = list[Table] | list[Recording]
READERS: dict[str, Callable[[Path, Reading], Found]] = {
    ".csv": lambda path, reading: [read_delimited(path, reading)],
    ".tsv": lambda path, reading: [read_delimited(path, reading)],
    ".parquet": lambda path, reading: [read_parquet(path, reading)],
    ".h5": read_hdf5,
    ".hdf5": read_hdf5,
    ".npz": read_arrays,
    ".npy": read_arrays,
}
"""Who reads which files: tables, whose columns have roles, or recordings as they are."""
KINDS = f"{', '.join([*list(READERS)[:-1], *pose.SKELETONS])} or {list(READERS)[-1]}"


def read(paths: str | Path | Sequence[str | Path], reading: Reading | None = None) -> list[Recording]:
    """Recordings from files or folders: one per file, or one per value of the sequence column.

    Labels are the truth, for scoring only: whole numbers (unlabelled where missing or below 0), or names, which are
    numbered in sorted order. All files must have the same columns (by name where they have headers). In a NumPy file
    the label and time columns are arrays beside x, by default `s` and `times`. No view has seen them yet
    (`swerve.views.view.seen`).
    """
    reading = reading or Reading()
    files = _files([paths] if isinstance(paths, str | Path) else paths)
    found = [pose.read(file, reading) or READERS[file.suffix.lower()](file, reading) for file in files]
    return _assembled([(str(file), one) for file, one in zip(files, found, strict=True)], reading)


def read_frames(frames: Sequence[Any], reading: Reading | None = None) -> list[Recording]:
    """Recordings from data frames, whose columns have the same roles as those of files."""
    reading = reading or Reading()
    found = [read_data_frame(frame, reading, name=str(i)) for i, frame in enumerate(frames)]
    return _assembled([(one.where, [one]) for one in found], reading)


def notes(recordings: Sequence[Recording]) -> list[str]:
    """What was done to recordings that their owner may not expect."""
    return [
        f"{one.name}: {one.clock.inserted} frames are missing between its times and count as missing values."
        for one in recordings
        if one.clock is not None and one.clock.inserted
    ]


def remembered(reading: Reading, recordings: Sequence[Recording]) -> Reading:
    """The reading to keep with a model of these recordings: with the time between their frames."""
    steps = [step for one in recordings if (step := step_of(one.times)) is not None]
    return replace(reading, step=steps[0] if steps else None, may_lack=())


def resampled(recordings: Sequence[Recording], reading: Reading) -> list[Recording]:
    """Recordings that come without a file, sampled as one would be."""
    return [sampled(one, reading, f'Recording "{one.name}"') for one in recordings]


def _assembled(loaded: Sequence[tuple[str, Found]], reading: Reading) -> list[Recording]:
    labels = [one.labels for _, found in loaded for one in found if isinstance(one, Table) and one.labels is not None]
    encode = label_encoder(labels, reading.label_column)
    recordings: list[Recording] = []
    first = loaded[0][0]
    for where, found in loaded:
        for one in found:
            parts = _recordings(one, encode) if isinstance(one, Table) else [_chosen(one, reading)]
            whole = one.where if isinstance(one, Table) else where
            for part in parts:
                check_width(1 if part.image else part.x.shape[1], where)
                pose.check_same_joints(where, part.skeleton, first, recordings[0].skeleton if recordings else None)
                expected = recordings[0].columns if recordings else part.columns
                _check_same_columns(where, part.columns, first, expected)
                about = whole if len(parts) == len(found) == 1 else f'{whole}, recording "{part.name}"'
                recordings.append(sampled(_in_order(part, expected), reading, about))
    if reading.view == RAW:
        check(recordings, reading)
    return _with_unique_names(recordings)


def check(recordings: Sequence[Recording], reading: Reading) -> None:
    """Refuses recordings of several rates, or of another than the model's, and columns without any value."""
    _check_rates(recordings, reading)
    check_every_column_has_values(recordings)


def _files(paths: Iterable[str | Path]) -> list[Path]:
    files = [file for path in map(Path, paths) for file in (_data_files_in(path) if path.is_dir() else [path])]
    if not files:
        raise InputError("No data file was given.")
    for file in files:
        if not file.exists():
            raise InputError(f"{file} does not exist.")
        if not (file.is_dir() or _is_data(file)):
            raise InputError(f"{file} is not a {KINDS} file.")
    return files


def _data_files_in(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.iterdir() if _is_data(file)) or folders_of_frames(folder)
    if not files:
        raise InputError(f"{folder} holds no {KINDS} file and no pictures.")
    return files


def _is_data(file: Path) -> bool:
    return file.suffix.lower() in READERS or pose.is_skeleton_file(file)


def _recordings(table: Table, encode: LabelEncoder) -> list[Recording]:
    whole = Recording(
        x=table.x,
        u=table.u,
        s=None if table.labels is None else encode(table.labels),
        name=table.name,
        columns=table.columns,
        times=table.times,
    )
    parts = [whole] if table.sequence is None else _split(whole, table.sequence)
    if not table.dates:
        return parts
    # since the first frame: seconds since 1970 are too large to be exact
    return [replace(one, times=np.round(one.times - one.times[0], 6)) for one in parts if one.times is not None]


def _split(whole: Recording, sequence: Texts) -> list[Recording]:
    """One recording per value, in order of first appearance; the rows of one need not be neighbours."""
    order = np.argsort(sequence.codes, kind="stable")
    bounds = np.searchsorted(sequence.codes[order], np.arange(len(sequence.names) + 1))
    parts = []
    for name, start, stop in zip(sequence.names, bounds[:-1], bounds[1:], strict=True):
        rows = order[start:stop]
        together = rows[-1] - rows[0] == len(rows) - 1
        chosen = slice(rows[0], rows[-1] + 1) if together else rows  # neighbours need no copy

        def part(values, chosen=chosen):
            return None if values is None else values[chosen]

        parts.append(
            replace(
                whole,
                x=whole.x[chosen],
                u=part(whole.u),
                s=part(whole.s),
                times=part(whole.times),
                rows=rows,
                name=name,
            )
        )
    return parts


def _chosen(series: Recording, reading: Reading) -> Recording:
    """A recording that came whole, with the columns that were asked for."""
    series = replace(series, columns=names_of(series))
    return select_columns([series], reading.columns_of_files)[0] if reading.columns_of_files else series


def _check_same_columns(where: str, columns: tuple[str, ...], first: str, expected: tuple[str, ...]) -> None:
    if columns == expected:
        return
    one, other = f"{first}, unlike {where},", f"{where}, unlike {first},"
    if first == where:
        one, other = f"The first recording in {where}, unlike another,", f"A recording in {where}, unlike the first,"
    theirs, ours = set(columns), set(expected)
    for name in columns:
        if name not in ours:
            raise unknown_column(name, expected, one)
    for name in expected:
        if name not in theirs:
            raise unknown_column(name, columns, other)


def _in_order(series: Recording, columns: tuple[str, ...]) -> Recording:
    if series.columns == columns:
        return series
    return replace(series, x=series.x[:, [series.columns.index(name) for name in columns]], columns=columns)


def _check_rates(recordings: Sequence[Recording], reading: Reading) -> None:
    steps = [(one.name, step) for one in recordings if (step := step_of(one.times)) is not None]
    for name, step in steps:
        where = f'Recording "{name}"'
        if reading.step is not None:
            whose = "but the model was fitted to frames every"
            check_same_rate(step, reading.step, whose, where, every=reading.every)
        check_same_rate(step, steps[0][1], f'but "{steps[0][0]}" has one every', where, every=reading.every)


def _with_unique_names(recordings: list[Recording]) -> list[Recording]:
    taken: set[str] = set()
    unique = []
    for series in recordings:
        name, copy = series.name, 2
        while name in taken:
            name, copy = f"{series.name}-{copy}", copy + 1
        taken.add(name)
        unique.append(replace(series, name=name))
    return unique
