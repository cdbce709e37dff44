"""Recordings of bodies and of pictures: which reader a file or folder belongs to."""

import csv
from pathlib import Path

from swerve.data.amc import read_amc
from swerve.data.bvh import read_bvh
from swerve.data.deeplabcut import is_deeplabcut, read_deeplabcut
from swerve.data.images import read_frames
from swerve.data.reading import Reading
from swerve.data.sleap import is_sleap, read_sleap_analysis, read_sleap_table
from swerve.data.tracking import Track, to_recordings
from swerve.errors import InputError
from swerve.types import Recording, Skeleton

SKELETONS = (".bvh", ".bvh.gz", ".amc")
TABLES = (".csv",)
HDF5 = (".h5", ".hdf5")


def is_skeleton_file(path: Path) -> bool:
    """Whether the name is one of motion capture."""
    return path.name.lower().endswith(SKELETONS)


def read(path: Path, reading: Reading) -> list[Recording] | None:
    """The recordings of motion capture, a tracker's table or a folder of pictures; None for any other file."""
    found = _read(path, reading)
    if found is None:
        return None
    for role in (reading.sequence_column, reading.label_column, reading.time_column, *reading.control_columns):
        if role is not None and role not in reading.may_lack:
            raise InputError(f'{path} has no column "{role}": its columns are the coordinates of points.')
    return found


def check_same_joints(where: str, skeleton: Skeleton | None, first: str, expected: Skeleton | None) -> None:
    """Refuses poses of different bodies together."""
    if skeleton is None or expected is None or set(skeleton.joints) == set(expected.joints):
        return
    more = [joint for joint in skeleton.joints if joint not in expected.joints]
    lost = [joint for joint in expected.joints if joint not in skeleton.joints]
    what = f'has a joint "{more[0]}", which {first} has not' if more else f'has no joint "{lost[0]}", unlike {first}'
    raise InputError(f"{where} {what}: recordings of one model have the same joints.")


def _read(path: Path, reading: Reading) -> list[Recording] | None:
    if path.is_dir():
        return [read_frames(path)]
    if path.name.lower().endswith((".bvh", ".bvh.gz")):
        return [read_bvh(path)]
    if path.suffix.lower() == ".amc":
        return [read_amc(path)]
    tracks = _tracks(path) if reading.key is None else None
    return None if tracks is None else to_recordings(path, tracks, float(reading.least_likelihood))


def _tracks(path: Path) -> list[Track] | None:
    if path.suffix.lower() in HDF5:
        return read_sleap_analysis(path)
    if path.suffix.lower() not in TABLES:
        return None
    first_row = _first_row(path)
    if is_deeplabcut(first_row):
        return read_deeplabcut(path)
    return read_sleap_table(path) if is_sleap(first_row) else None


def _first_row(path: Path) -> list[str]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return [cell.strip() for cell in next(csv.reader(file), [""])] or [""]
    except (OSError, UnicodeDecodeError, csv.Error):
        return [""]  # the reader of tables says what is wrong
