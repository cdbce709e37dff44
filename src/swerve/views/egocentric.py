"""Poses seen from the body itself: where it is and where it faces are taken out, and how fast both change is kept.

A pose is moved and turned in the ground plane alone, so that the body stands over the origin and faces one way: along z
in space with y up, along x in pictures. Heights stay as they are. docs/pose.md has the whole rule.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from swerve.errors import InputError
from swerve.types import Recording, Skeleton
from swerve.views.view import View

HIPS = ("hip", "hipjoint", "upleg", "upperleg", "thigh", "femur")
SHOULDERS = ("shoulder", "arm", "upperarm", "uparm", "clavicle", "humerus")
FRONT = ("neck", "head", "nose", "snout", "thorax")
BACK = ("tailbase", "tailstart", "tail", "abdomen", "rump", "hips", "hip")
HEAD = ("head", "headend", "neck", "skull")
FEET = ("foot", "ankle", "toes", "toebase", "toe")


@dataclass(frozen=True)
class Ground:
    """The axes of a pose. Forward and sideways span the ground, and angles count from forward to sideways."""

    forward: int
    sideways: int
    up: int | None = None
    """None for pictures, whose y points down: sideways is then to the right of the body, otherwise to its left."""

    @property
    def plane(self) -> list[int]:
        """Both axes of the ground."""
        return [self.forward, self.sideways]


@dataclass(frozen=True)
class Motion:
    """What is taken out of a pose: where the body stands on the ground and where it faces, in radians, unwrapped."""

    position: Float[np.ndarray, "T 2"]
    heading: Float[np.ndarray, " T"]
    height: Float[np.ndarray, " T"] | None
    seen: Bool[np.ndarray, " T"]
    """Whether any point of the frame was seen."""
    faced: Bool[np.ndarray, " T"]
    """Whether the points that give the heading were seen."""


class Egocentric(View):
    """Poses as the bodies themselves see them; the speeds of what was taken out are further channels.

    These are `body.forward`, `body.sideways` and, in space, `body.vertical`, in length per unit of time (per frame
    where times are unknown), and `body.turning` in radians. They belong to the step into a frame: the first has none.
    """

    name: ClassVar[str] = "egocentric"
    ground: Ground | None = eqx.field(static=True, default=None)
    """Learned from the recordings; without it, each has its own."""

    def learn(self, recordings, **_):
        return Egocentric(_ground(recordings))

    def read(self, recording):
        return _aligned(recording, _points(recording), self.ground or _ground([recording]))

    def settings(self):
        return {"ground": None if self.ground is None else asdict(self.ground)}

    @classmethod
    def blank(cls, settings: dict[str, Any]):
        return cls(None if settings["ground"] is None else Ground(**settings["ground"]))


def _points(series: Recording) -> Float[np.ndarray, "T J A"]:
    if series.skeleton is None:
        raise InputError(f'"{series.name}" is not a pose, so it has no heading to take out: leave out --egocentric.')
    place = {name: i for i, name in enumerate(series.columns)}
    chosen = [place[name] for name in series.skeleton.columns]
    return series.x[:, chosen].reshape(len(series), len(series.skeleton.joints), len(series.skeleton.axes))


def _ground(recordings: Sequence[Recording]) -> Ground:
    """Up is y, unless heads are further from feet along another axis, over all recordings."""
    poses = [_points(one) for one in recordings]
    if poses[0].shape[2] == 2:
        return Ground(forward=0, sideways=1)
    stature = [
        points[:, head] - np.mean([points[:, foot] for foot in feet], axis=0)
        for one, points in zip(recordings, poses, strict=True)
        for head, feet in _head_and_feet(one.skeleton)
    ]
    upright = np.concatenate(stature) if stature else np.zeros((0, 3))
    upright = upright[~np.isnan(upright).any(axis=1)]
    tall = np.median(upright, axis=0) if len(upright) else np.array([0.0, 1.0, 0.0])
    up = int(np.argmax(np.abs(tall)))
    after, last = (up + 1) % 3, (up + 2) % 3  # after x last = up: from above, angles count to the left
    return Ground(after, last, up) if tall[up] >= 0 else Ground(last, after, up)


def _head_and_feet(skeleton: Skeleton | None) -> Iterator[tuple[int, list[int]]]:
    if skeleton is not None:
        feet = [_find(skeleton, FEET, side) for side in ("left", "right")]
        head = _find(skeleton, HEAD)
        if head is not None and None not in feet:
            yield head, [foot for foot in feet if foot is not None]


def _aligned(series: Recording, points: Float[np.ndarray, "T J A"], ground: Ground) -> Recording:
    skeleton = series.skeleton
    assert skeleton is not None
    motion = motion_of(points, skeleton, ground)
    local = points.copy()
    local[..., ground.plane] = turned(points[..., ground.plane] - motion.position[:, None], -motion.heading[:, None])
    speeds = _speeds(motion, series.times)
    root = _root(skeleton)
    zero = set() if root is None else {f"{skeleton.joints[root]}.{skeleton.axes[axis]}" for axis in ground.plane}
    kept = [i for i, name in enumerate(skeleton.columns) if name not in zero]
    channels = [local.reshape(len(points), -1)[:, kept], *(speed[:, None] for speed in speeds.values())]
    columns = (*(skeleton.columns[i] for i in kept), *(f"body.{name}" for name in speeds))
    return replace(series, x=np.concatenate(channels, axis=1), columns=columns, image=None)


def motion_of(points: Float[np.ndarray, "T J A"], skeleton: Skeleton, ground: Ground) -> Motion:
    """Where the body is: its root, or the middle of all its points where none is the root of the others."""
    seen = np.all(~np.isnan(points), axis=2)
    whole = _bridged(points, seen) if seen.any() else np.zeros(points.shape)
    root = _root(skeleton)
    middle = whole[:, root] if root is not None and seen[:, root].any() else np.nanmean(whole, axis=1)
    heading, faced = _heading(whole[..., ground.plane], seen, skeleton, ground, middle[:, ground.plane])
    height = None if ground.up is None else middle[:, ground.up]
    return Motion(middle[:, ground.plane], heading, height, seen.any(axis=1), faced)


def _bridged(points: Float[np.ndarray, "T J A"], seen: Bool[np.ndarray, "T J"]) -> Float[np.ndarray, "T J A"]:
    """Unseen points where they are to be expected: they move with the middle of those that are seen.

    A frame without any point lies on a straight line between its neighbours. A point never seen stays NaN.
    """
    count = seen.sum(axis=1)
    total = np.where(seen[..., None], points, 0.0).sum(axis=1)
    middle = _filled(np.where(count > 0, 1.0, np.nan)[:, None] * total / np.maximum(1, count)[:, None])
    offsets = (points - middle[:, None]).reshape(len(points), -1)
    expected = middle[:, None] + _filled(offsets).reshape(points.shape)
    return np.where(seen[..., None], points, expected)


def _filled(values: Float[np.ndarray, "T C"]) -> Float[np.ndarray, "T C"]:
    """Gaps bridged by straight lines, ends held; a column without any value stays NaN."""
    filled = values.copy()
    for column in filled.T:
        known = ~np.isnan(column)
        if known.any() and not known.all():
            column[:] = np.interp(np.arange(len(column)), np.flatnonzero(known), column[known])
    return filled


def _heading(
    points: Float[np.ndarray, "T J 2"],
    seen: Bool[np.ndarray, "T J"],
    skeleton: Skeleton,
    ground: Ground,
    position: Float[np.ndarray, "T 2"],
) -> tuple[Float[np.ndarray, " T"], Bool[np.ndarray, " T"]]:
    """Square to the line between the hips, or the shoulders; else from back to front; else along the body."""
    to_front = np.pi / 2 if ground.up is None else -np.pi / 2
    ends = [(_find(skeleton, parts, "left"), _find(skeleton, parts, "right"), to_front) for parts in (HIPS, SHOULDERS)]
    for tip, end, turn in [*ends, (_find(skeleton, FRONT), _find(skeleton, BACK), 0.0)]:
        if tip is not None and end is not None and seen[:, tip].any() and seen[:, end].any():
            across = points[:, tip] - points[:, end]
            return np.unwrap(np.arctan2(across[:, 1], across[:, 0])) + turn, seen[:, tip] & seen[:, end]
    return _along_the_body(points, position), seen.sum(axis=1) > 1


def _along_the_body(points: Float[np.ndarray, "T J 2"], position: Float[np.ndarray, "T 2"]) -> Float[np.ndarray, " T"]:
    """The principal axis of the points, followed without flips; its front is where the body goes more often."""
    forward, sideways = np.moveaxis(points - np.nanmean(points, axis=1, keepdims=True), 2, 0)
    spread = np.nansum(forward**2 - sideways**2, axis=1)
    heading = np.unwrap(np.arctan2(2 * np.nansum(forward * sideways, axis=1), spread) / 2, period=np.pi)
    ahead = turned(np.diff(position, axis=0), -_between(heading))[:, 0].sum()
    return heading + np.pi if ahead < 0 else heading


def _speeds(motion: Motion, times: Float[np.ndarray, " T"] | None) -> dict[str, Float[np.ndarray, " T"]]:
    """Changes from frame to frame; a step's direction is seen from half-way between its two headings."""
    duration = np.ones(len(motion.heading) - 1) if times is None else np.diff(times)
    step = turned(np.diff(motion.position, axis=0), -_between(motion.heading))
    changes = {"forward": step[:, 0], "sideways": step[:, 1]}
    changes |= {} if motion.height is None else {"vertical": np.diff(motion.height)}
    changes["turning"] = np.diff(motion.heading)
    speeds = {}
    for name, change in changes.items():
        known = motion.seen & motion.faced if name == "turning" else motion.seen
        speed = np.where(known[1:] & known[:-1], change / duration, np.nan)
        speeds[name] = np.concatenate([[np.nan], speed])
    return speeds


def _between(heading: Float[np.ndarray, " T"]) -> Float[np.ndarray, " steps"]:
    return (heading[1:] + heading[:-1]) / 2


def turned(vectors: Float[np.ndarray, "*N 2"], angle: Float[np.ndarray, "*M"]) -> Float[np.ndarray, "*N 2"]:
    """Vectors of the ground turned from forward towards sideways."""
    cos, sin = np.cos(angle), np.sin(angle)
    forward, sideways = vectors[..., 0], vectors[..., 1]
    return np.stack([cos * forward - sin * sideways, sin * forward + cos * sideways], axis=-1)


def _root(skeleton: Skeleton) -> int | None:
    """The joint that all others hang on."""
    roots = [joint for joint, parent in enumerate(skeleton.parents) if parent < 0]
    return roots[0] if len(roots) == 1 else None


def _find(skeleton: Skeleton, parts: Sequence[str], side: str = "") -> int | None:
    """The joint of this part of the body: LeftUpLeg, lhipjoint, hip_L, mixamorig:LeftArm, Bip01 L Thigh."""
    names = [re.sub(r"^bip\d*|[^a-z0-9]", "", joint.rpartition(":")[2].lower()) for joint in skeleton.joints]
    for part in parts:
        for spelled in (side + part, part + side, side[:1] + part, part + side[:1]):
            if spelled in names:
                return names.index(spelled)
    return None
