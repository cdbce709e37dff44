"""Reads BVH motion capture: a hierarchy of joints and its angles become the positions of the joints.

Positions are in the file's own unit. A joint's channels turn it in the order in which they are listed,
R = R_first R_second R_third; a position channel takes the place of that coordinate of the OFFSET.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from swerve.data.kinematics import AXES, read_lines, to_numbers, to_series, turned
from swerve.errors import InputError
from swerve.types import Recording

FRAMES_AT_ONCE = 2000  # rotations take more memory than the positions they lead to
LONGEST_STEP = 1e6  # seconds between frames
CHANNELS = {f"{axis}{kind}" for axis in AXES for kind in ("position", "rotation")}


@dataclass(frozen=True)
class Joint:
    """One joint or End Site; `channels` such as "zrotation" take the next columns of the motion."""

    name: str
    parent: int
    offset: tuple[float, ...]
    channels: tuple[str, ...] = ()

    @property
    def on_parent(self) -> bool:
        """Whether it lies where its parent lies, whatever the motion."""
        moves = any(channel.endswith("position") for channel in self.channels)
        return self.parent >= 0 and not moves and not any(self.offset)


class Token(NamedTuple):
    """One word of the file."""

    text: str
    line: int


@dataclass
class _Open:
    """A joint whose brace is not closed yet."""

    name: str
    line: int
    parent: int
    is_end: bool = False
    index: int = -1
    offset: tuple[float, ...] | None = None
    channels: tuple[str, ...] = field(default=())


def read_bvh(path: Path) -> Recording:
    """The joints' positions, End Sites included, frame by frame; the times come from the frame time."""
    lines = read_lines(path)
    start = next((i for i, line in enumerate(lines) if line.strip().upper() == "MOTION"), None)
    if start is None:
        raise InputError(f"{path} has no line MOTION: it is not a BVH file, or it was cut off.")
    joints = _hierarchy(path, lines[:start])
    frames, frame_time, first = _motion_header(path, lines, start + 1)
    points = _motion(path, lines, first, frames, joints)
    return to_series(
        path,
        points,
        [joint.name for joint in joints],
        [joint.parent for joint in joints],
        [joint.on_parent for joint in joints],
        times=np.arange(frames) * frame_time,
    )


def positions(joints: Sequence[Joint], motion: Float[np.ndarray, "T C"]) -> Float[np.ndarray, "T J 3"]:
    """p_j = p_parent + G_parent t_j and G_j = G_parent R_j, with the local shift t_j and turn R_j of joint j."""
    points = np.empty((len(motion), len(joints), 3))
    turns: list[np.ndarray] = []
    column = 0
    with np.errstate(over="ignore", invalid="ignore"):  # what comes out infinite is refused by name
        for j, joint in enumerate(joints):
            values = motion[:, column : column + len(joint.channels)]
            column += len(joint.channels)
            shift, turn = _local(joint, values)
            if joint.parent < 0:
                points[:, j] = shift
            else:
                above = turns[joint.parent]
                points[:, j] = points[:, joint.parent] + np.einsum("tij,tj->ti", above, shift)
                turn = above if turn is None else above @ turn
            turns.append(np.broadcast_to(np.eye(3), (len(motion), 3, 3)) if turn is None else turn)
    return points


def _local(
    joint: Joint, values: Float[np.ndarray, "T C"]
) -> tuple[Float[np.ndarray, "T 3"], Float[np.ndarray, "T 3 3"] | None]:
    shift = np.tile(np.array(joint.offset), (len(values), 1))
    turning = []
    for i, channel in enumerate(joint.channels):
        if channel.endswith("position"):
            shift[:, AXES.index(channel[0])] = values[:, i]
        else:
            turning.append(i)
    if not turning:
        return shift, None
    return shift, turned(np.deg2rad(values[:, turning]), "".join(joint.channels[i][0] for i in turning))


def _hierarchy(path: Path, lines: Sequence[str]) -> list[Joint]:
    tokens = iter([Token(text, i + 1) for i, line in enumerate(lines) for text in _words(line)])
    first = next(tokens, None)
    if first is None or first.text.upper() != "HIERARCHY":
        raise InputError(f"{path}, line {first.line if first else 1}: a BVH file begins with the word HIERARCHY.")
    joints: list[Joint] = []
    stack: list[_Open] = []
    for token in tokens:
        where = f"{path}, line {token.line}"
        word = token.text.upper()
        if word == "ROOT" and not stack:
            stack.append(_opened(path, tokens, token, -1))
        elif not stack:
            raise InputError(f'{where}: "{token.text}" stands outside of every joint; braces do not match.')
        elif word == "}":
            _closed(path, stack.pop(), joints)
        elif stack[-1].is_end and word != "OFFSET":
            raise InputError(f'{where}: an End Site holds an OFFSET alone, not "{token.text}".')
        elif word in ("JOINT", "END"):
            stack.append(_opened(path, tokens, token, _placed(path, stack[-1], joints)))
        elif word == "OFFSET":
            stack[-1].offset = tuple(to_numbers(_texts(path, tokens, token, 3), where))
        elif word == "CHANNELS":
            stack[-1].channels = _channels(path, tokens, token)
        else:
            raise InputError(f'{where}: "{token.text}" is no part of a BVH hierarchy.')
    if stack:
        raise InputError(f'{path}, line {stack[-1].line}: the brace of joint "{stack[-1].name}" is never closed.')
    return _named(path, joints)


def _words(line: str) -> list[str]:
    return line.replace("{", " { ").replace("}", " } ").split()


def _opened(path: Path, tokens: Iterator[Token], token: Token, parent: int) -> _Open:
    words = []
    for one in tokens:
        if one.text == "{":
            break
        words.append(one.text)
        if one.line != token.line:
            raise InputError(f'{path}, line {one.line}: "{{" must follow {token.text}, not "{one.text}".')
    else:
        raise InputError(f"{path}, line {token.line}: the file ends after {token.text}.")
    if token.text.upper() == "END":
        return _Open("", token.line, parent, is_end=True)
    if not words:
        raise InputError(f"{path}, line {token.line}: {token.text} has no name.")
    return _Open(" ".join(words), token.line, parent)


def _placed(path: Path, one: _Open, joints: list[Joint]) -> int:
    """The joint's index: it comes before its children, and its OFFSET and CHANNELS must too."""
    if one.index < 0:
        if one.offset is None:
            what = "the End Site" if one.is_end else f'joint "{one.name}"'
            raise InputError(f"{path}, line {one.line}: {what} has no OFFSET before what hangs on it.")
        one.index = len(joints)
        joints.append(Joint(one.name, one.parent, one.offset, one.channels))
    return one.index


def _closed(path: Path, one: _Open, joints: list[Joint]) -> None:
    joint = joints[_placed(path, one, joints)]
    if (joint.offset, joint.channels) != (one.offset, one.channels):
        raise InputError(f'{path}, line {one.line}: joint "{one.name}" has an OFFSET or CHANNELS after its children.')


def _channels(path: Path, tokens: Iterator[Token], token: Token) -> tuple[str, ...]:
    where = f"{path}, line {token.line}"
    (count,) = _texts(path, tokens, token, 1)
    if count not in ("0", "1", "2", "3", "4", "5", "6"):
        raise InputError(f'{where}: a joint has 0 to 6 channels, not "{count}".')
    names = _texts(path, tokens, token, int(count))
    channels = tuple(name.lower() for name in names)
    for name, channel in zip(names, channels, strict=True):
        if channel not in CHANNELS:
            raise InputError(f'{where}: "{name}" is no channel; there are Xposition, Xrotation and so on.')
        if channel.endswith("position") and channels.count(channel) > 1:
            raise InputError(f'{where}: channel "{name}" is listed twice.')
    return channels


def _texts(path: Path, tokens: Iterator[Token], token: Token, count: int) -> list[str]:
    """The next words, all on the line of their keyword."""
    found = list(islice(tokens, count))
    if len(found) < count or any(one.line != token.line for one in found):
        there = sum(one.line == token.line for one in found)
        raise InputError(f"{path}, line {token.line}: {token.text} needs {count} more words, but {there} follow.")
    return [one.text for one in found]


def _named(path: Path, joints: Sequence[Joint]) -> list[Joint]:
    """End Sites are named after the joints they end."""
    if not joints:
        raise InputError(f"{path}: the hierarchy has no ROOT.")
    names = [joint.name for joint in joints if joint.name]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f'{path}: two joints are called "{name}".')
    named: list[Joint] = []
    for joint in joints:
        name, copy = joint.name, 2
        if not name:
            stem = name = f"{joints[joint.parent].name}End"
            while name in names:
                name, copy = f"{stem}{copy}", copy + 1
            names.append(name)
        named.append(Joint(name, joint.parent, joint.offset, joint.channels))
    return named


def _motion_header(path: Path, lines: Sequence[str], start: int) -> tuple[int, float, int]:
    """The number of frames, the frame time, and the index of the line after them."""
    frames: int | None = None
    frame_time: float | None = None
    for i in range(start, len(lines)):
        key, colon, value = lines[i].partition(":")
        where = f"{path}, line {i + 1}"
        if colon and key.split() == ["Frames"]:
            (number,) = to_numbers([value.strip()], where)
            if number < 1 or number != round(number):
                raise InputError(f'{where}: the number of frames must be 1 or more, not "{value.strip()}".')
            frames = int(number)
        elif colon and key.split() == ["Frame", "Time"]:
            (frame_time,) = to_numbers([value.strip()], where)
            if not 0 < frame_time < LONGEST_STEP:
                raise InputError(f"{where}: the frame time, in seconds, must be above 0, not {value.strip()}.")
        elif lines[i].strip():
            raise InputError(f'{where}: "Frames:" and "Frame Time:" must follow MOTION.')
        if frames is not None and frame_time is not None:
            return frames, frame_time, i + 1
    raise InputError(f"{path} ends before its motion begins.")


def _motion(
    path: Path, lines: Sequence[str], first: int, frames: int, joints: Sequence[Joint]
) -> Float[np.ndarray, "T J 3"]:
    rows = [i for i in range(first, len(lines)) if lines[i].strip()]
    if len(rows) < frames:
        last = rows[-1] + 1 if rows else first
        raise InputError(f"{path}, line {last}: the file ends after {len(rows)} of {frames} frames: it was cut off.")
    if len(rows) > frames:
        raise InputError(f"{path}, line {rows[frames] + 1}: this is more than the {frames} frames announced above.")
    width = sum(len(joint.channels) for joint in joints)
    blocks = [rows[i : i + FRAMES_AT_ONCE] for i in range(0, frames, FRAMES_AT_ONCE)]
    return np.concatenate([positions(joints, _numbers(path, lines, block, width)) for block in blocks])


def _numbers(path: Path, lines: Sequence[str], rows: Sequence[int], width: int) -> Float[np.ndarray, "T C"]:
    numbers = np.empty((len(rows), width))
    for values, i in zip(numbers, rows, strict=True):
        cells = lines[i].split()
        if len(cells) != width:
            raise InputError(f"{path}, line {i + 1}: {len(cells)} values where the channels are {width}.")
        try:
            values[:] = cells
        except ValueError:
            values[:] = np.nan
        if not np.isfinite(values).all():
            values[:] = to_numbers(cells, f"{path}, line {i + 1}")
    return numbers
