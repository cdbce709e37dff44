"""Reads one CSV or TSV file into numbers, and says exactly where it can not."""

import csv
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
from jaxtyping import Float

from swerve.data.reading import Reading
from swerve.data.table import (
    Layout,
    Table,
    TextCollector,
    check_controls,
    check_width,
    is_missing,
    lay_out,
    not_numbers,
)
from swerve.data.times import parse_times, seconds
from swerve.errors import InputError

ROWS_AT_ONCE = 200  # few enough to stay in the processor's cache, which doubles the speed
LONGEST_LINE = 100_000_000  # characters; no table has a line like that
GROWTH = 1.25


class Row(NamedTuple):
    """One line of the file that is not blank."""

    line: int
    cells: list[str]


class GrowingArray:
    """Rows that arrive in pieces, in one array that grows in place: joining pieces would need twice the memory."""

    def __init__(self, width: int):
        self.values = np.empty((0, width))
        self.count = 0

    def add(self, columns: list[Float[np.ndarray, " n"]]) -> None:
        """More rows, column by column."""
        stop = self.count + len(columns[0])
        if stop > len(self.values):
            self.values.resize((max(stop, int(GROWTH * self.count)), self.values.shape[1]), refcheck=False)
        for j, column in enumerate(columns):
            self.values[self.count : stop, j] = column
        self.count = stop

    def whole(self) -> Float[np.ndarray, "T D"]:
        """All of them."""
        self.values.resize((self.count, self.values.shape[1]), refcheck=False)
        return self.values


def read_delimited(path: Path, reading: Reading) -> Table:
    """Comma, semicolon or tab, with or without a header; empty, NA and nan cells become NaN."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            delimiter = _delimiter(path, file)
            file.seek(0)
            return _read(path, _rows(csv.reader(file, delimiter=delimiter)), reading)
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file in UTF-8.") from None
    except csv.Error as error:
        raise InputError(f"{path} can not be read as a table: {error}.") from None
    except OSError as error:
        raise InputError(f"{path} can not be opened: {error.strerror}.") from None


def _read(path: Path, rows: Iterator[Row], reading: Reading) -> Table:
    first = next(rows, None)
    if first is None:
        raise InputError(f"{path} is empty.")
    if _is_header(first.cells):
        names, block = _names(first.cells), []
    else:
        names, block = _names([""] * len(first.cells)), [first]
    layout = lay_out(names, reading, str(path))
    places = {name: names.index(name) for name in layout.all}
    collected = _Collected(path, layout)
    while block := block + list(islice(rows, ROWS_AT_ONCE)):
        columns = _columns(path, block, len(names))
        collected.add({name: columns[place] for name, place in places.items()}, block)
        block = []
    if not collected.x.count:
        raise InputError(f"{path} has a header but no rows.")
    return check_controls(collected.table(), layout.controls)


class _Collected:
    """What was read so far."""

    def __init__(self, path: Path, layout: Layout):
        self.path, self.layout = path, layout
        self.x, self.u = GrowingArray(len(layout.measurements)), GrowingArray(len(layout.controls))
        self.times = GrowingArray(1)
        self.dates: bool | None = None
        self.sequence, self.labels = TextCollector(), TextCollector()

    def add(self, cells: dict[str, tuple[str, ...]], rows: list[Row]) -> None:
        layout = self.layout
        if not self.x.count:
            _check_text(self.path, layout, cells)
        for target, names in ((self.x, layout.measurements), (self.u, layout.controls)):
            if names:
                target.add([_numbers(self.path, name, cells[name], rows) for name in names])
        if layout.time is not None:
            self.times.add([self._times(layout.time, cells[layout.time], rows)])
        for target, name in ((self.sequence, layout.sequence), (self.labels, layout.label)):
            if name is not None:
                target.add(cells[name])

    def table(self) -> Table:
        layout = self.layout
        return Table(
            where=str(self.path),
            name=self.path.stem,
            columns=layout.measurements,
            x=self.x.whole(),
            u=self.u.whole() if layout.controls else None,
            times=self.times.whole()[:, 0] if layout.time else None,
            dates=bool(self.dates),
            sequence=self.sequence.texts() if layout.sequence else None,
            labels=self.labels.texts() if layout.label else None,
        )

    def _times(self, name: str, cells: tuple[str, ...], rows: list[Row]) -> Float[np.ndarray, " T"]:
        try:
            times, dates = parse_times(cells)
            alike = self.dates in (None, dates)
        except ValueError:
            alike = False
        if not alike:
            read = seconds if self.dates or (self.dates is None and _float(cells[0]) is None) else float
            row, cell = next((row, cell) for row, cell in zip(rows, cells, strict=True) if not _can(read, cell))
            raise InputError(
                f'{self.path}, line {row.line}, column "{name}": "{cell.strip()}" is no time; times are all numbers,'
                " or all dates like 2024-05-01T12:30:00.5."
            )
        self.dates = dates
        return times


def _check_text(path: Path, layout: Layout, cells: dict[str, tuple[str, ...]]) -> None:
    """Columns that hold nothing but text are named all at once, with what to do about them."""
    texts = []
    for name in (*layout.measurements, *layout.controls):
        filled = [cell for cell in cells[name] if not is_missing(cell)]
        if filled and all(_float(cell) is None for cell in filled):
            texts.append(name)
    if texts:
        raise not_numbers(texts, str(path))


def _rows(reader) -> Iterator[Row]:
    for cells in reader:
        if cells:
            yield Row(reader.line_num, cells)


def _delimiter(path: Path, file: TextIO) -> str:
    """The sign that comes as often in the first line as in the second, or at all.

    The first line also tells whether the table is far too wide, before the rest is read.
    """
    first, second = (re.sub(r'"[^"]*"', "", _next_line(file)) for _ in range(2))
    there = [one for one in "\t;," if one in first] or [","]
    found = next((one for one in there if first.count(one) == second.count(one)), there[0])
    check_width(first.count(found) + 1, f"{path} starts with a line that")
    return found


def _next_line(file: TextIO) -> str:
    """The next line that is not blank."""
    line = "\n"
    while line and not line.strip("\r\n"):
        line = file.readline(LONGEST_LINE)
    return line


def _is_header(cells: list[str]) -> bool:
    return any(not is_missing(cell) and _float(cell) is None and not _is_moment(cell) for cell in cells)


def _is_moment(cell: str) -> bool:
    """A date with a time of day: a date alone may well be a name."""
    return ":" in cell and _can(seconds, cell)


def _names(cells: list[str]) -> tuple[str, ...]:
    return tuple(cell.strip() or f"x{i}" for i, cell in enumerate(cells))


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
    return float(cell) if _can(float, cell) else None


def _can(read, cell: str) -> bool:
    try:
        read(cell)
    except ValueError:
        return False
    return True
