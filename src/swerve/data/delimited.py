"""Reads one CSV or TSV file into numbers, and says exactly where it can not."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from swerve.data.columns import unknown_column
from swerve.errors import InputError

MISSING = {"", "na"}  # besides what float() reads as nan
ROWS_AT_ONCE = 200  # few enough to stay in the processor's cache, which doubles the speed


@dataclass(frozen=True)
class Table:
    """One file: numbers by column, and the text of those columns that were asked for as text."""

    path: Path
    columns: tuple[str, ...]
    values: Float[np.ndarray, "T D"]
    texts: dict[str, list[str]]


class Row(NamedTuple):
    """One line of the file that is not blank."""

    line: int
    cells: list[str]


def read_delimited(path: Path, *, text_columns: Sequence[str] = ()) -> Table:
    """Comma, semicolon or tab, with or without a header; empty, NA and nan cells become NaN."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            delimiter = _delimiter(file.readline())
            file.seek(0)
            return _read(path, _rows(csv.reader(file, delimiter=delimiter)), text_columns)
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file in UTF-8.") from None
    except csv.Error as error:
        raise InputError(f"{path} can not be read as a table: {error}.") from None
    except OSError as error:
        raise InputError(f"{path} can not be opened: {error.strerror}.") from None


def is_missing(cell: str) -> bool:
    """Whether a cell stands for a missing value."""
    return cell.strip().lower() in MISSING or cell.strip().lower() == "nan"


def _read(path: Path, rows: Iterator[Row], text_columns: Sequence[str]) -> Table:
    first = next(rows, None)
    if first is None:
        raise InputError(f"{path} is empty.")
    if _is_header(first.cells):
        names, block = _names(path, first.cells), []
    else:
        names, block = _names(path, [""] * len(first.cells)), [first]
    for name in text_columns:
        if name not in names:
            raise unknown_column(name, names, str(path))

    texts: dict[str, list[str]] = {name: [] for name in text_columns}
    numbers = [name for name in names if name not in texts]
    blocks = []
    while block := block + list(islice(rows, ROWS_AT_ONCE)):
        cells = dict(zip(names, _columns(path, block, len(names)), strict=True))
        for name, collected in texts.items():
            collected.extend(cells[name])
        converted = [_numbers(path, name, cells[name], block) for name in numbers]
        blocks.append(np.stack(converted, axis=1) if converted else np.empty((len(block), 0)))
        block = []
    if not blocks:
        raise InputError(f"{path} has a header but no rows.")
    return Table(path, tuple(numbers), np.concatenate(blocks), texts)


def _rows(reader) -> Iterator[Row]:
    for cells in reader:
        if cells:
            yield Row(reader.line_num, cells)


def _delimiter(first_line: str) -> str:
    unquoted = re.sub(r'"[^"]*"', "", first_line)
    return next((one for one in "\t;," if one in unquoted), ",")


def _is_header(cells: list[str]) -> bool:
    return any(not is_missing(cell) and _float(cell) is None for cell in cells)


def _names(path: Path, cells: list[str]) -> tuple[str, ...]:
    names = tuple(cell.strip() or f"x{i}" for i, cell in enumerate(cells))
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InputError(f'{path}, line 1: two columns are called "{name}".')
    return names


def _columns(path: Path, rows: list[Row], expected: int) -> list[tuple[str, ...]]:
    for row in rows:
        if len(row.cells) != expected:
            raise InputError(f"{path}, line {row.line}: {len(row.cells)} columns where line 1 has {expected}.")
    return list(zip(*(row.cells for row in rows), strict=True))


def _numbers(path: Path, name: str, cells: tuple[str, ...], rows: list[Row]) -> Float[np.ndarray, " T"]:
    try:
        numbers = np.fromiter(map(float, cells), float, len(cells))
    except ValueError:
        numbers = np.array([_number(path, name, cell, row.line) for cell, row in zip(cells, rows, strict=True)])
    infinite = np.isinf(numbers)
    if infinite.any():
        line = rows[int(np.argmax(infinite))].line
        raise InputError(f'{path}, line {line}, column "{name}": the value is infinite.')
    return numbers


def _number(path: Path, name: str, cell: str, line: int) -> float:
    if is_missing(cell):
        return np.nan
    number = _float(cell)
    if number is None:
        raise InputError(f'{path}, line {line}, column "{name}": "{cell.strip()}" is not a number.')
    return number


def _float(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
