"""Tables to recordings and back: CSV, TSV, NPZ and NPY files of the user's own."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from swerve.data.arrays import read_arrays
from swerve.data.columns import check_every_column_has_values, unknown_column
from swerve.data.delimited import Table, is_missing, read_delimited
from swerve.data.writing import write_csv, write_npz
from swerve.errors import InputError
from swerve.types import Series

__all__ = ["read", "write_csv", "write_npz"]

DELIMITED = (".csv", ".tsv")
ARRAYS = (".npz", ".npy")
KINDS = ".csv, .tsv, .npz or .npy"
UNLABELLED = -1

LabelEncoder = Callable[[list[str]], Int[np.ndarray, " T"]]


@dataclass(frozen=True)
class Roles:
    """The columns that are not measurements."""

    sequence: str | None
    label: str | None
    controls: tuple[str, ...]

    def __post_init__(self):
        named = [name for name in (self.sequence, self.label, *self.controls) if name is not None]
        for name in named:
            if named.count(name) > 1:
                raise InputError(f'Column "{name}" can not have two roles.')

    @property
    def texts(self) -> list[str]:
        """Columns that need not hold numbers."""
        return [name for name in (self.sequence, self.label) if name is not None]


def read(
    paths: str | Path | Sequence[str | Path],
    *,
    sequence_column: str | None = None,
    label_column: str | None = None,
    control_columns: Sequence[str] = (),
) -> list[Series]:
    """Recordings from files or folders: one per file, or one per value of `sequence_column`.

    `label_column` is the truth, for scoring only: whole numbers (unlabelled where missing or below 0), or
    names, which are numbered in sorted order. `control_columns` become u. All files must have the same
    columns (by name where they have headers). In a NumPy file `label_column` names an array, by default `s`.
    """
    roles = Roles(sequence_column, label_column, tuple(control_columns))
    files = _files([paths] if isinstance(paths, str | Path) else paths)
    loaded = [_load(file, roles) for file in files]
    encode = _label_encoder([one for one in loaded if isinstance(one, Table)], roles.label)
    recordings: list[Series] = []
    for file, one in zip(files, loaded, strict=True):
        found = _recordings(one, roles, encode) if isinstance(one, Table) else one
        _check_same_columns(file, found[0].columns, files[0], (recordings or found)[0].columns)
        recordings += [_in_order(series, (recordings or found)[0].columns) for series in found]
    check_every_column_has_values(recordings)
    return _with_unique_names(recordings)


def _files(paths: Iterable[str | Path]) -> list[Path]:
    files = [file for path in map(Path, paths) for file in (_data_files_in(path) if path.is_dir() else [path])]
    if not files:
        raise InputError("No data file was given.")
    for file in files:
        if not file.exists():
            raise InputError(f"{file} does not exist.")
        if file.suffix.lower() not in DELIMITED + ARRAYS:
            raise InputError(f"{file} is not a {KINDS} file.")
    return files


def _data_files_in(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in DELIMITED + ARRAYS)
    if not files:
        raise InputError(f"{folder} holds no {KINDS} file.")
    return files


def _load(path: Path, roles: Roles) -> Table | list[Series]:
    if path.suffix.lower() in DELIMITED:
        return read_delimited(path, text_columns=roles.texts)
    if roles.sequence or roles.controls:
        raise InputError(f'{path}: a NumPy file has no columns to name; store controls as an array "u".')
    return read_arrays(path, label_key=roles.label)


def _recordings(table: Table, roles: Roles, encode: LabelEncoder) -> list[Series]:
    x, u, columns = _measurements_and_controls(table, roles.controls)
    whole = Series(
        x=x,
        u=u,
        s=encode(table.texts[roles.label]) if roles.label else None,
        name=table.path.stem,
        columns=columns,
    )
    return _split(whole, table.texts[roles.sequence]) if roles.sequence else [whole]


def _measurements_and_controls(
    table: Table, controls: tuple[str, ...]
) -> tuple[Float[np.ndarray, "T D"], Float[np.ndarray, "T U"] | None, tuple[str, ...]]:
    for name in controls:
        if name not in table.columns:
            raise unknown_column(name, table.columns, str(table.path))
    columns = tuple(name for name in table.columns if name not in controls)
    if not columns:
        raise InputError(f"{table.path} has no column of measurements.")
    x = table.values[:, [table.columns.index(name) for name in columns]]
    if not controls:
        return x, None, columns
    u = table.values[:, [table.columns.index(name) for name in controls]]
    if np.isnan(u).any():
        missing = controls[int(np.isnan(u).any(axis=0).argmax())]
        raise InputError(f'{table.path}: control column "{missing}" has missing values.')
    return x, u, columns


def _split(whole: Series, sequence: list[str]) -> list[Series]:
    """One recording per value, in order of first appearance; the rows of one need not be neighbours."""
    rows: dict[str, list[int]] = {}
    for row, value in enumerate(sequence):
        rows.setdefault(value.strip(), []).append(row)
    return [
        replace(
            whole,
            x=whole.x[chosen],
            u=None if whole.u is None else whole.u[chosen],
            s=None if whole.s is None else whole.s[chosen],
            name=value,
        )
        for value, chosen in rows.items()
    ]


def _label_encoder(tables: Sequence[Table], column: str | None) -> LabelEncoder:
    """One numbering for all files: the labels themselves if they are whole numbers, else sorted names."""
    texts = {cell.strip() for table in tables for cell in table.texts.get(column or "", [])}
    texts = {text for text in texts if not is_missing(text)}
    try:
        codes = {text: float(text) for text in texts}
    except ValueError:
        codes = {text: code for code, text in enumerate(sorted(texts))}
    for text, code in codes.items():
        if code != np.round(code) or np.isinf(code):
            raise InputError(f'Label column "{column}" holds {text}: labels are whole numbers or names.')

    def encode(cells: list[str]) -> Int[np.ndarray, " T"]:
        return np.array([codes.get(cell.strip(), UNLABELLED) for cell in cells], dtype=np.int64)

    return encode


def _check_same_columns(file: Path, columns: tuple[str, ...], first: Path, expected: tuple[str, ...]) -> None:
    for name in columns:
        if name not in expected:
            raise unknown_column(name, expected, f"{first}, unlike {file},")
    for name in expected:
        if name not in columns:
            raise unknown_column(name, columns, f"{file}, unlike {first},")


def _in_order(series: Series, columns: tuple[str, ...]) -> Series:
    if series.columns == columns:
        return series
    return replace(series, x=series.x[:, [series.columns.index(name) for name in columns]], columns=columns)


def _with_unique_names(recordings: list[Series]) -> list[Series]:
    taken: set[str] = set()
    unique = []
    for series in recordings:
        name, copy = series.name, 2
        while name in taken:
            name, copy = f"{series.name}-{copy}", copy + 1
        taken.add(name)
        unique.append(replace(series, name=name))
    return unique
