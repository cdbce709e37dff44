"""What skeleton files have in common: turning by angles, and joints to a recording."""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from swerve.errors import InputError
from swerve.types import Recording, Skeleton

AXES = "xyz"


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, packed by gzip or not."""
    try:
        opened = gzip.open if path.suffix.lower() == ".gz" else open
        with opened(path, "rt", encoding="utf-8-sig") as file:
            return file.read().split("\n")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file in UTF-8.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{path} can not be unpacked: it is damaged or was cut off.") from None
    except OSError as error:
        raise InputError(f"{path} can not be opened: {error.strerror}.") from None


def to_numbers(texts: Sequence[str], where: str) -> list[float]:
    """Finite numbers, or an error that names the first text that is none."""
    numbers = []
    for text in texts:
        try:
            number = float(text)
        except ValueError:
            number = np.nan
        if not np.isfinite(number):
            raise InputError(f'{where}: "{text}" is not a number.')
        numbers.append(number)
    return numbers


def turned(angles: Float[np.ndarray, "T N"], axes: str) -> Float[np.ndarray, "T 3 3"]:
    """R = R_first R_second ...: rotations by `angles` (radians) about the letters of `axes`, the last acting first."""
    turn = np.broadcast_to(np.eye(3), (len(angles), 3, 3))
    for angle, axis in zip(angles.T, axes, strict=True):
        turn = turn @ _about(AXES.index(axis), angle)
    return turn


def _about(axis: int, angle: Float[np.ndarray, " T"]) -> Float[np.ndarray, "T 3 3"]:
    after, last = (axis + 1) % 3, (axis + 2) % 3
    turn = np.zeros((len(angle), 3, 3))
    turn[:, axis, axis] = 1.0
    turn[:, after, after] = turn[:, last, last] = np.cos(angle)
    turn[:, last, after] = np.sin(angle)
    turn[:, after, last] = -np.sin(angle)
    return turn


def to_series(
    path: Path,
    points: Float[np.ndarray, "T J 3"],
    names: Sequence[str],
    parents: Sequence[int],
    on_parent: Sequence[bool],
    times: Float[np.ndarray, " T"] | None = None,
) -> Recording:
    """The recording of these joints, less those that can not leave their parents (docs/decisions/0020)."""
    if not np.isfinite(points).all():
        frame, joint = np.argwhere(~np.isfinite(points))[0][:2]
        raise InputError(f'{path}: joint "{names[joint]}" is infinitely far away in frame {frame + 1}.')
    kept = [joint for joint in range(len(names)) if not on_parent[joint]]
    place = {joint: i for i, joint in enumerate(kept)}

    def holds(joint: int) -> int:
        while joint >= 0 and joint not in place:
            joint = parents[joint]
        return place.get(joint, -1)

    skeleton = Skeleton(tuple(names[joint] for joint in kept), tuple(holds(parents[joint]) for joint in kept))
    x = points[:, kept].reshape(len(points), -1)
    name = path.name.removesuffix(".gz").rpartition(".")[0]
    return Recording(x=x, name=name, columns=skeleton.columns, times=times, skeleton=skeleton)
