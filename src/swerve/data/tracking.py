"""What animal trackers find: the points of one individual, frame by frame, and how far each can be trusted."""

import csv
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from swerve.errors import InputError
from swerve.types import Recording, Skeleton

MOST_FRAMES = 10_000_000  # a wrong frame number must not fill the memory
MISSING = ("", "na", "nan")


@dataclass(frozen=True)
class Track:
    """One individual in the frames that the file speaks of, in order; NaN where a point was not seen."""

    name: str
    joints: tuple[str, ...]
    axes: tuple[str, ...]
    frames: Int[np.ndarray, " N"]
    points: Float[np.ndarray, "N J A"]
    scores: Float[np.ndarray, "N J"] | None = None
    parents: tuple[int, ...] = ()


class Row(NamedTuple):
    """One line of a table that is not blank."""

    line: int
    cells: list[str]


def to_recordings(path: Path, tracks: Sequence[Track], least_likelihood: float) -> list[Recording]:
    """One recording per individual, from the first frame to the last in which any point of it is seen.

    A frame that the file leaves out is missing, and so is a point whose score is below `least_likelihood`; a point
    without a score is trusted.
    """
    found = [_series(path, track, least_likelihood, alone=len(tracks) == 1) for track in tracks]
    recordings = [one for one in found if one is not None]
    if not recordings:
        raise InputError(
            f"{path}: no point is ever seen; a point counts from a likelihood of {least_likelihood} on"
            " (--least-likelihood)."
        )
    return recordings


def _series(path: Path, track: Track, least_likelihood: float, *, alone: bool) -> Recording | None:
    points = track.points.copy()
    if track.scores is not None:
        points[track.scores < least_likelihood] = np.nan
    points[np.isnan(points).any(axis=2)] = np.nan
    seen = np.flatnonzero(~np.isnan(points).all(axis=(1, 2)))
    if not len(seen):
        return None
    first, last = int(track.frames[seen[0]]), int(track.frames[seen[-1]])
    x = np.full((last - first + 1, len(track.joints) * len(track.axes)), np.nan)
    x[track.frames[seen] - first] = points[seen].reshape(len(seen), -1)
    skeleton = Skeleton(track.joints, track.parents or (-1,) * len(track.joints), track.axes)
    return Recording(
        x=x,
        name=path.stem if alone else f"{path.stem}-{track.name}",
        columns=skeleton.columns,
        rows=np.arange(first, last + 1) if first else None,
        skeleton=skeleton,
    )


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a table of commas."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            for cells in reader:
                if cells:
                    yield Row(reader.line_num, cells)
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file in UTF-8.") from None
    except csv.Error as error:
        raise InputError(f"{path} can not be read as a table: {error}.") from None
    except OSError as error:
        raise InputError(f"{path} can not be opened: {error.strerror}.") from None


def to_values(
    path: Path, rows: Iterable[Row], columns: Sequence[int], width: int, *, texts: Sequence[int]
) -> tuple[Float[np.ndarray, "N C"], list[tuple[int, list[str]]]]:
    """These columns as numbers, empty cells NaN; and of every row the line and the cells of the columns of text."""
    values, heads = array("d"), []
    for row in rows:
        if len(row.cells) != width:
            raise InputError(f"{path}, line {row.line}: {len(row.cells)} columns where the header has {width}.")
        heads.append((row.line, [row.cells[column].strip() for column in texts]))
        values.extend([_number(path, row, column) for column in columns])
    if not heads:
        raise InputError(f"{path} has a header but no rows.")
    return np.array(values).reshape(len(heads), len(columns)), heads


def _number(path: Path, row: Row, column: int) -> float:
    cell = row.cells[column]
    try:
        number = float(cell)
    except ValueError:
        if cell.strip().lower() not in MISSING:
            raise InputError(f'{path}, line {row.line}: "{cell.strip()}" is not a number.') from None
        return np.nan
    if number in (np.inf, -np.inf):
        raise InputError(f"{path}, line {row.line}: a value is infinite.")
    return number


def frame_numbers(path: Path, cells: Sequence[str], lines: Sequence[int]) -> Int[np.ndarray, " N"]:
    """The numbers of the frames, each once and in order."""
    frames: list[int] = []
    for cell, line in zip(cells, lines, strict=True):
        if not cell.isdecimal() or len(cell) > 12 or int(cell) >= MOST_FRAMES:
            raise InputError(f'{path}, line {line}: "{cell}" is not the number of a frame.')
        if frames and int(cell) <= frames[-1]:
            raise InputError(f"{path}, line {line}: frame {int(cell)} stands after frame {frames[-1]}.")
        frames.append(int(cell))
    return np.array(frames)
