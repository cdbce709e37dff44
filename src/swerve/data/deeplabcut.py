"""Reads the tables of DeepLabCut: a header of rows (scorer, individuals, bodyparts, coords), then a row per frame."""

from collections.abc import Sequence
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
    height = next((i for i, row in enumerate(rows) if row.cells[0].strip() not in HEADER), len(rows))
    header = _header(path, rows[:height])
    body = rows[height:]
    if not body:
        raise InputError(f"{path} has a header but no rows.")
    width = len(header["scorer"])
    frames = frame_numbers(path, [row.cells[0] for row in body], [row.line for row in body])
    values = to_values(path, body, range(1, width + 1), width + 1)
    animals = header.get("individuals", [""] * width)
    names = list(dict.fromkeys(animals))
    return [_track(path, name, header, values, frames) for name in [n for n in names if n != NO_ANIMAL] or names]


def _header(path: Path, rows: Sequence[Row]) -> dict[str, list[str]]:
    """The rows by name, without the cell that names them."""
    header = {row.cells[0].strip(): [cell.strip() for cell in row.cells[1:]] for row in rows}
    for name in ("bodyparts", "coords"):
        if name not in header:
            raise InputError(f'{path}: a DeepLabCut table has a row "{name}" below "scorer".')
    width = len(header["scorer"])
    for name, cells in header.items():
        if len(cells) != width or not width:
            raise InputError(f'{path}: row "{name}" of the header has {len(cells)} cells where "scorer" has {width}.')
    return header


def _track(
    path: Path,
    animal: str,
    header: dict[str, list[str]],
    values: Float[np.ndarray, "N C"],
    frames: Int[np.ndarray, " N"],
) -> Track:
    animals = header.get("individuals", [animal] * values.shape[1])
    place: dict[tuple[str, str], int] = {}
    for i, what in enumerate(zip(header["bodyparts"], [name.lower() for name in header["coords"]], strict=True)):
        if animals[i] == animal and what in place:
            raise InputError(f'{path}: bodypart "{what[0]}" has two columns "{what[1]}".')
        if animals[i] == animal:
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
