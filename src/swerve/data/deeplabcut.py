"""Reads the tables of DeepLabCut: a header of rows (scorer, individuals, bodyparts, coords), then a row per frame."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from swerve.data.tracking import Row, Track, frame_numbers, read_rows, to_values
from swerve.errors import InputError

HEADER = ("scorer", "individuals", "bodyparts", "coords")
NO_ANIMAL = "single"  # what points are filed under that belong to none of several animals


def is_deeplabcut(first_row: Sequence[str]) -> bool:
    """Whether a table with this first row is one of DeepLabCut's."""
    return first_row[0] == HEADER[0]


def read_deeplabcut(path: Path) -> list[Track]:
    """One track per individual; points that belong to no animal are left out where there are animals."""
    rows = read_rows(path)
    header = _header(path, rows)
    width = len(header["scorer"])
    values, heads = to_values(path, rows, range(1, width + 1), width + 1, texts=[0])
    frames = frame_numbers(path, [cells[0] for _, cells in heads], [line for line, _ in heads])
    names = list(dict.fromkeys(header["individuals"]))
    return [_track(path, name, header, values, frames) for name in [n for n in names if n != NO_ANIMAL] or names]


def _header(path: Path, rows: Iterator[Row]) -> dict[str, list[str]]:
    """The rows down to that of the coordinates, by name and without the cell that names them."""
    header: dict[str, list[str]] = {}
    for row in rows:
        name, *cells = (cell.strip() for cell in row.cells)
        if name not in HEADER or name in header:
            raise InputError(f'{path}, line {row.line}: the header has the rows {", ".join(HEADER)}, not "{name}".')
        header[name] = cells
        if len(cells) != len(header["scorer"]) or not cells:
            raise InputError(f"{path}, line {row.line}: {len(cells)} cells where line 1 has {len(header['scorer'])}.")
        if name == HEADER[-1]:
            break
    for name in ("bodyparts", "coords"):
        if name not in header:
            raise InputError(f'{path}: a DeepLabCut table has a row "{name}" below "scorer".')
    return {"individuals": [""] * len(header["scorer"])} | header


def _track(
    path: Path,
    animal: str,
    header: dict[str, list[str]],
    values: Float[np.ndarray, "N C"],
    frames: Int[np.ndarray, " N"],
) -> Track:
    place: dict[tuple[str, str], int] = {}
    for i, what in enumerate(zip(header["bodyparts"], [name.lower() for name in header["coords"]], strict=True)):
        if header["individuals"][i] != animal:
            continue
        if what in place:
            raise InputError(f'{path}: bodypart "{what[0]}" has two columns "{what[1]}".')
        place[what] = i
    joints = tuple(dict.fromkeys(joint for joint, _ in place))
    axes = ("x", "y", "z") if (joints[0], "z") in place else ("x", "y")
    for joint in joints:
        for axis in axes:
            if (joint, axis) not in place:
                raise InputError(f'{path}: bodypart "{joint}" has no column "{axis}".')
    points = values[:, [place[joint, axis] for joint in joints for axis in axes]]
    scored = all((joint, "likelihood") in place for joint in joints)
    scores = values[:, [place[joint, "likelihood"] for joint in joints]] if scored else None
    return Track(animal, joints, axes, frames, points.reshape(len(frames), len(joints), len(axes)), scores)
