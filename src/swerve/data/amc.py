"""Reads Acclaim motion capture: bones (ASF) and their angles (AMC) become the positions of the bones' ends.

A bone b stands in its own axes C_b and is turned within them by M_b, so G_b = G_parent C_b M_b C_b^-1, and its end
lies at p_b = p_parent + G_b (length direction). Angles act in the order in which they are listed: the first listed
turns first. Positions are in the file's own unit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from swerve.data.kinematics import read_lines, to_numbers, to_series, turned
from swerve.errors import InputError, nearest
from swerve.types import Recording

FRAMES_AT_ONCE = 2000  # rotations take more memory than the positions they lead to
TURNS, SHIFTS = ("rx", "ry", "rz"), ("tx", "ty", "tz")


@dataclass(frozen=True)
class Bone:
    """One bone; `dof` names its values in a frame of motion. The root has no length and may shift."""

    name: str
    direction: tuple[float, ...] = (0.0, 0.0, 0.0)
    length: float = 0.0
    axis: tuple[float, ...] = (0.0, 0.0, 0.0)
    axis_order: str = "xyz"
    dof: tuple[str, ...] = ()


@dataclass(frozen=True)
class Frame:
    """An ASF skeleton: bones from the root on, each after its parent, and the number that turns angles to radians."""

    bones: tuple[Bone, ...]
    parents: tuple[int, ...]
    position: tuple[float, ...]
    radians: float


@dataclass(frozen=True)
class _Line:
    number: int
    words: list[str]


def read_amc(path: Path) -> Recording:
    """The positions of the root and of the end of every bone; the bones are read from the .asf file beside it."""
    skeleton = read_asf(skeleton_file(path))
    motion = _motion(path, skeleton)
    blocks = [motion[i : i + FRAMES_AT_ONCE] for i in range(0, len(motion), FRAMES_AT_ONCE)]
    points = np.concatenate([positions(skeleton, block) for block in blocks])
    stays = [i > 0 and not any(bone.length * one for one in bone.direction) for i, bone in enumerate(skeleton.bones)]
    return to_series(path, points, [bone.name for bone in skeleton.bones], skeleton.parents, stays)


def skeleton_file(path: Path) -> Path:
    """The .asf file of a motion: of the same name, of its subject (07.asf for 07_01.amc), or the only one there."""
    beside = sorted(one for one in path.parent.iterdir() if one.suffix.lower() == ".asf")
    for stem in (path.stem, path.stem.rpartition("_")[0]):
        for one in beside:
            if stem and one.stem.lower() == stem.lower():
                return one
    if len(beside) == 1:
        return beside[0]
    there = f"there are {', '.join(one.name for one in beside)}" if beside else "there is none"
    raise InputError(f"{path} needs its skeleton, {path.stem}.asf, in the same folder: {there}.")


def positions(skeleton: Frame, motion: Float[np.ndarray, "T C"]) -> Float[np.ndarray, "T J 3"]:
    """p_b = p_parent + G_b (length direction), G_b = G_parent C_b M_b C_b^-1."""
    points = np.empty((len(motion), len(skeleton.bones), 3))
    turns: list[np.ndarray] = []
    column = 0
    with np.errstate(over="ignore", invalid="ignore"):  # what comes out infinite is refused by name
        for b, (bone, parent) in enumerate(zip(skeleton.bones, skeleton.parents, strict=True)):
            values = dict(zip(bone.dof, motion[:, column : column + len(bone.dof)].T, strict=True))
            column += len(bone.dof)
            turn = _turn(bone, values, skeleton.radians, len(motion))
            if parent < 0:
                shifts = [values.get(name, np.zeros(len(motion))) for name in SHIFTS]
                points[:, b] = np.stack(shifts, axis=1) + np.array(skeleton.position)[None]
            else:
                turn = turns[parent] @ turn
                points[:, b] = points[:, parent] + turn @ (bone.length * np.array(bone.direction))
            turns.append(turn)
    return points


def _turn(bone: Bone, values: dict[str, np.ndarray], radians: float, frames: int) -> Float[np.ndarray, "T 3 3"]:
    own = turned(radians * np.array(bone.axis)[None, ::-1], bone.axis_order[::-1])
    names = [name for name in reversed(bone.dof) if name in TURNS]
    angles = np.stack([values[name] for name in names], axis=1) if names else np.zeros((frames, 0))
    return own @ turned(radians * angles, "".join(name[1] for name in names)) @ own.transpose(0, 2, 1)


def read_asf(path: Path) -> Frame:
    """The skeleton: root, bones with their direction, length, axis and dof, and which hangs on which."""
    sections = _sections(path)
    for name in (":root", ":bonedata", ":hierarchy"):
        if name not in sections:
            raise InputError(f"{path} has no section {name}: it is not an ASF skeleton, or it was cut off.")
    units = {line.words[0].lower(): line.words[1:] for line in sections.get(":units", [])}
    degrees = (units.get("angle") or ["deg"])[0].lower() != "rad"
    root, position = _root(path, sections[":root"])
    bones = {bone.name: bone for bone in [root, *_bones(path, sections[":bonedata"])]}
    parents = _parents(path, sections[":hierarchy"], bones)
    order = ["root"]
    for name in order:
        order += [child for child, parent in parents.items() if parent == name]
    lost = next((name for name in bones if name not in order), None)
    if lost is not None:
        raise InputError(f'{path}: bone "{lost}" does not hang on the root (section :hierarchy).')
    return Frame(
        tuple(bones[name] for name in order),
        (-1, *(order.index(parents[name]) for name in order[1:])),
        position,
        np.pi / 180 if degrees else 1.0,
    )


def _sections(path: Path) -> dict[str, list[_Line]]:
    sections: dict[str, list[_Line]] = {}
    for i, text in enumerate(read_lines(path)):
        words = text.partition("#")[0].split()
        if words and words[0].startswith(":"):
            current = sections.setdefault(words[0].lower(), [])
        elif words and sections:
            current.append(_Line(i + 1, words))
    return sections


def _root(path: Path, lines: Sequence[_Line]) -> tuple[Bone, tuple[float, ...]]:
    dof: tuple[str, ...] = (*SHIFTS, *TURNS)
    position = axis = (0.0, 0.0, 0.0)
    axis_order = "xyz"
    for line in lines:
        key, values = line.words[0].lower(), line.words[1:]
        if key == "order":
            dof = _dof(path, line, TURNS + SHIFTS)
        elif key == "axis":
            axis_order = _axis_order(path, line, values)
        elif key == "position":
            position = _three(path, line, values)
        elif key == "orientation":
            axis = _three(path, line, values)
    return Bone("root", axis=axis, axis_order=axis_order, dof=dof), position


def _bones(path: Path, lines: Sequence[_Line]) -> Iterator[Bone]:
    names = {"root"}
    parts: dict[str, _Line] | None = None
    for line in lines:
        key = line.words[0].lower()
        if key == "begin":
            parts = {"begin": line}
        elif parts is None:
            raise InputError(f'{path}, line {line.number}: "{line.words[0]}" stands outside of begin and end.')
        elif key == "end":
            bone = _bone(path, parts)
            if bone.name in names:
                raise InputError(f'{path}, line {line.number}: two bones are called "{bone.name}".')
            names.add(bone.name)
            yield bone
            parts = None
        else:
            parts[key] = line
    if parts is not None:
        raise InputError(f"{path}, line {parts['begin'].number}: this bone has no end; the file may be cut off.")


def _bone(path: Path, parts: dict[str, _Line]) -> Bone:
    for key in ("name", "direction", "length"):
        if key not in parts or len(parts[key].words) < 2:
            raise InputError(f"{path}, line {parts['begin'].number}: this bone has no {key}.")
    axis, axis_order = (0.0, 0.0, 0.0), "xyz"
    if "axis" in parts:
        axis = _three(path, parts["axis"], parts["axis"].words[1:4])
        axis_order = _axis_order(path, parts["axis"], parts["axis"].words[4:])
    direction, length = parts["direction"], parts["length"]
    return Bone(
        name=parts["name"].words[1],
        direction=_three(path, direction, direction.words[1:]),
        length=to_numbers(length.words[1:2], f"{path}, line {length.number}")[0],
        axis=axis,
        axis_order=axis_order,
        dof=_dof(path, parts["dof"], TURNS) if "dof" in parts else (),
    )


def _three(path: Path, line: _Line, values: Sequence[str]) -> tuple[float, ...]:
    if len(values) != 3:
        raise InputError(f'{path}, line {line.number}: "{line.words[0]}" needs 3 numbers.')
    return tuple(to_numbers(values, f"{path}, line {line.number}"))


def _axis_order(path: Path, line: _Line, values: Sequence[str]) -> str:
    order = values[0].lower() if values else ""
    if sorted(order) != ["x", "y", "z"]:
        raise InputError(f"{path}, line {line.number}: the order of axes is XYZ or another order of these letters.")
    return order


def _dof(path: Path, line: _Line, known: tuple[str, ...]) -> tuple[str, ...]:
    dof = tuple(word.lower() for word in line.words[1:])
    for name in dof:
        if name not in known or dof.count(name) > 1:
            raise InputError(f'{path}, line {line.number}: "{name}" is not one of {", ".join(known)}, or stands twice.')
    return dof


def _parents(path: Path, lines: Sequence[_Line], bones: dict[str, Bone]) -> dict[str, str]:
    parents: dict[str, str] = {}
    for line in lines:
        if line.words[0].lower() in ("begin", "end"):
            continue
        for name in line.words:
            if name not in bones:
                raise InputError(f'{path}, line {line.number}: there is no bone "{name}"{nearest(name, bones)}')
        for child in line.words[1:]:
            if child in parents or child == "root":
                raise InputError(f'{path}, line {line.number}: bone "{child}" already hangs on another.')
            parents[child] = line.words[0]
    return parents


def _motion(path: Path, skeleton: Frame) -> Float[np.ndarray, "T C"]:
    """All values of a frame in the order of the bones; frames are numbered one after the other."""
    widths = {bone.name: len(bone.dof) for bone in skeleton.bones if bone.dof}
    frames: list[list[float]] = []
    frame: dict[str, list[float]] = {}
    last, started = 0, 0
    for i, text in enumerate(read_lines(path)):
        words = text.partition("#")[0].split()
        where = f"{path}, line {i + 1}"
        if not words or words[0].startswith(":"):
            continue
        if len(words) == 1 and words[0].isdecimal() and len(words[0]) < 12:
            if started:
                frames.append(_whole(path, frame, widths, last, started))
                if int(words[0]) != last + 1:
                    raise InputError(f"{where}: frame {words[0]} follows frame {last}; frames are missing.")
            frame, last, started = {}, int(words[0]), i + 1
        elif not started:
            raise InputError(f'{where}: a frame begins with its number, not "{words[0]}".')
        elif words[0] not in widths:
            raise InputError(f'{where}: the skeleton has no moving bone "{words[0]}"{nearest(words[0], widths)}')
        elif words[0] in frame or len(words) - 1 != widths[words[0]]:
            raise InputError(f'{where}: bone "{words[0]}" needs {widths[words[0]]} values, once in a frame.')
        else:
            frame[words[0]] = to_numbers(words[1:], where)
    if not started:
        raise InputError(f"{path} holds no frames.")
    frames.append(_whole(path, frame, widths, last, started))
    return np.array(frames)


def _whole(path: Path, frame: dict[str, list[float]], widths: dict[str, int], number: int, line: int) -> list[float]:
    for name in widths:
        if name not in frame:
            raise InputError(f'{path}, line {line}: frame {number} lacks bone "{name}"; the file may be cut off.')
    return [value for name in widths for value in frame[name]]
