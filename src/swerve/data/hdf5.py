"""Reads HDF5 files: a dataset is a table, and so is a group of datasets of one length; a group of tables is several."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from swerve.data.columnar import as_numbers, texts_of, times_of
from swerve.data.columns import default_names
from swerve.data.reading import Reading
from swerve.data.table import Table, check_controls, check_width, lay_out, not_numbers
from swerve.errors import InputError, package

ROWS_AT_ONCE = 1 << 16
MOST_KEYS = 12


class Place(NamedTuple):
    """Where a column lies: a dataset, and which of its columns or fields, if it has several."""

    dataset: Any
    part: int | str | None

    def values(self, rows: slice = slice(None)) -> np.ndarray:
        """The column's values in some rows."""
        dataset = self.dataset
        if isinstance(self.part, int):
            return dataset[rows, self.part]
        values = (dataset.asstr() if dataset.dtype.kind == "O" and self.part is None else dataset)[rows]
        values = values if self.part is None else values[self.part]
        return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values


def read_hdf5(path: Path, reading: Reading) -> list[Table]:
    """The tables under `reading.key`, or in the whole file if there is no doubt which are meant."""
    h5py = package("h5py", "HDF5 files")
    try:
        with h5py.File(path, "r") as file:
            if reading.key is not None and reading.key not in file:
                raise InputError(f'{path} has no key "{reading.key}": it has {_keys(file)}.')
            node = file if reading.key is None else file[reading.key]
            found = _tables(path, node, h5py)
            return [_read(path, name, places, reading) for name, places in found.items()]
    except InputError:
        raise
    except Exception:  # damaged files fail in many ways
        raise InputError(f"{path} is not an HDF5 file that can be read.") from None


def _tables(path: Path, node: Any, h5py: Any) -> dict[str, dict[str, Place]]:
    """Columns by table; a table that is alone is named after its file."""
    if isinstance(node, h5py.Dataset):
        return {path.stem: _columns(path, node, alone=True)}
    children = _children(node)
    while len(children) == 1 and isinstance(only := next(iter(children.values())), h5py.Group):
        node, children = only, _children(only)
    groups = [child for child in children.values() if isinstance(child, h5py.Group)]
    if children and len(groups) == len(children):
        members = {name: _children(group) for name, group in children.items()}
        if all(_one_length(one, h5py) for one in members.values()):
            return {name: _joined(path, one) for name, one in members.items()}
    elif children and not groups:
        if _one_length(children, h5py):
            return {path.stem: _joined(path, children)}
        if len({child.shape[1:] for child in children.values()}) == 1 and all(c.ndim == 2 for c in children.values()):
            return {name: _columns(path, child, alone=True) for name, child in children.items()}
    if not children:
        raise InputError(f"{path} holds no dataset.")
    raise InputError(f"{path}: say with --key which table is meant; it has {_keys(node)}.")


def _children(group: Any) -> dict[str, Any]:
    """What a group holds, but for single values and links that lead nowhere."""
    return {name: child for name, child in group.items() if child is not None and getattr(child, "shape", None) != ()}


def _one_length(members: dict[str, Any], h5py: Any) -> bool:
    datasets = [one for one in members.values() if isinstance(one, h5py.Dataset)]
    return 0 < len(datasets) == len(members) and len({one.shape[0] for one in datasets}) == 1


def _joined(path: Path, datasets: dict[str, Any]) -> dict[str, Place]:
    alone = len(datasets) == 1
    columns: dict[str, Place] = {}
    for dataset in datasets.values():
        for name, place in _columns(path, dataset, alone=alone).items():
            if name in columns:
                raise InputError(f'{path}: two columns are called "{name}".')
            columns[name] = place
    return columns


def _columns(path: Path, dataset: Any, *, alone: bool) -> dict[str, Place]:
    """The columns of a dataset: by its attribute `columns`, by its fields, or by its own name and their numbers."""
    name = dataset.name.rpartition("/")[2]
    if dataset.dtype.names:
        return {field: Place(dataset, field) for field in dataset.dtype.names}
    if dataset.ndim not in (1, 2):
        raise InputError(f'{path}, "{dataset.name}": a table has 2 axes (time, columns), not {dataset.ndim}.')
    if dataset.ndim == 1:
        return {name: Place(dataset, None)}
    width = dataset.shape[1]
    check_width(width, f'{path}, "{dataset.name}"')
    made_up = [name] if width == 1 and not alone else [f"{name}{i}" for i in range(width)]
    names = _stored_names(dataset) or (default_names(width) if alone else made_up)
    if len(names) != width:
        raise InputError(f'{path}, "{dataset.name}": it names {len(names)} columns but has {width}.')
    return {str(one): Place(dataset, i) for i, one in enumerate(names)}


def _stored_names(dataset: Any) -> list[str]:
    stored = dataset.attrs.get("columns")
    return [] if stored is None else [one.decode() if isinstance(one, bytes) else str(one) for one in np.ravel(stored)]


def _read(path: Path, name: str, places: dict[str, Place], reading: Reading) -> Table:
    where = str(path)
    layout = lay_out(tuple(places), reading, where)
    rows = next(iter(places.values())).dataset.shape[0]
    if not rows:
        raise InputError(f"{where} has columns but no rows.")
    times, dates = times_of(places[layout.time].values(), layout.time, where) if layout.time else (None, False)
    table = Table(
        where=where,
        name=name,
        columns=layout.measurements,
        x=_side_by_side(places, layout.measurements, rows, where),
        u=_side_by_side(places, layout.controls, rows, where) if layout.controls else None,
        times=times,
        dates=dates,
        sequence=texts_of(places[layout.sequence].values()) if layout.sequence else None,
        labels=texts_of(places[layout.label].values()) if layout.label else None,
    )
    return check_controls(table, layout.controls)


def _side_by_side(places: dict[str, Place], names: Sequence[str], rows: int, where: str) -> Float[np.ndarray, "T D"]:
    """Filled some rows at a time: the table is in memory once."""
    texts = [name for name in names if as_numbers(places[name].values(slice(0, 1))) is None]
    if texts:
        raise not_numbers(texts, where)
    kinds = [as_numbers(places[name].values(slice(0, 1))).dtype for name in names]  # pyright: ignore
    table = np.empty((rows, len(names)), np.result_type(*kinds))
    by_dataset: dict[Any, list[int]] = {}
    for j, name in enumerate(names):
        by_dataset.setdefault(places[name].dataset, []).append(j)
    for dataset, members in by_dataset.items():
        for start in range(0, rows, ROWS_AT_ONCE):
            block = dataset[start : start + ROWS_AT_ONCE]
            for j in members:
                part = places[names[j]].part
                values = block if part is None else block[:, part] if isinstance(part, int) else block[part]
                table[start : start + len(block), j] = values
    if np.isinf(table).any():
        row, j = (int(i) for i in np.argwhere(np.isinf(table))[0])
        raise InputError(f'{where}, row {row}, column "{names[j]}": the value is infinite.')
    return table


def _keys(node: Any) -> str:
    found: list[str] = []
    node.visit(lambda name: found.append(name) if len(found) <= MOST_KEYS else True)
    listed = ", ".join(f'"{one}"' for one in found[:MOST_KEYS])
    return (listed or "none") + (", ..." if len(found) > MOST_KEYS else "")
