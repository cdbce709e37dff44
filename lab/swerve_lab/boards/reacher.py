"""A two-link arm that visits three of ten objects in turn (docs/boards.md).

A frame has 36 channels in the paper's order: indicator, x and y of ten objects; two joint angles; the tips of both
links.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from swerve_lab.boards.board import Board

OBJECTS, TARGETS, ABSENT = 10, 3, 5
FIRST, SECOND, THIRD, FINISHED = 0, 1, 2, 3
LINKS = (0.5, 0.5)
NEAREST, FARTHEST = 0.2, 0.95  # of an object from the shoulder: all are within reach
JOINT_SPEED = 0.12  # radians per frame, of each joint
ARRIVED = 0.05  # from the second tip to the target
COLUMNS = (
    *(f"{part}{i}" for i in range(OBJECTS) for part in ("target", "x", "y")),
    *("angle1", "angle2", "tip1x", "tip1y", "tip2x", "tip2y"),
)


class Scene(NamedTuple):
    """What does not move: where objects lie and in which order three of them are visited."""

    objects: Float[np.ndarray, "N 10 2"]
    visited: Int[np.ndarray, "N 3"]


class Parts(NamedTuple):
    """What the channels of a sequence stand for: shoulder, elbow and tip; objects; which still wait for the arm."""

    joints: Float[np.ndarray, "T 3 2"]
    objects: Float[np.ndarray, "T n 2"]
    waiting: Bool[np.ndarray, "T n"]


def generate(n: int, *, seed: int, length: int = 50) -> Board:
    """n sequences without noise: the indicator of a target drops to 0 in the frame in which the arm arrives."""
    rng = np.random.default_rng(seed)
    scene = draw_scene(n, rng)
    angles = rng.uniform(-np.pi, np.pi, (n, 2))
    phase = np.zeros(n, dtype=np.int32)
    goal = np.empty((n, 2))
    _aim(goal, angles, scene, phase, np.ones(n, bool))
    frames, s = [_frame(scene, angles, phase)], [phase]
    for _ in range(1, length):
        s.append(phase)
        moving = phase < FINISHED
        turn = np.clip(goal - angles, -JOINT_SPEED, JOINT_SPEED)
        angles = angles + np.where(moving[:, None], turn, 0.0)
        arrived = moving & (_distance(tips(angles)[1], scene, phase) < ARRIVED)
        phase = phase + arrived.astype(np.int32)
        _aim(goal, angles, scene, phase, arrived & (phase < FINISHED))
        frames.append(_frame(scene, angles, phase))
    x = np.stack(frames, axis=1)
    return Board(name="reacher", x=x, clean=x, s=np.stack(s, axis=1), columns=COLUMNS)


def draw_scene(n: int, rng: np.random.Generator) -> Scene:
    """Objects in a ring around the shoulder; five that are no targets lie at the origin instead."""
    order = rng.permuted(np.tile(np.arange(OBJECTS), (n, 1)), axis=1)
    visited = np.sort(order[:, :TARGETS], axis=1)
    radius = rng.uniform(NEAREST, FARTHEST, (n, OBJECTS))
    direction = rng.uniform(-np.pi, np.pi, (n, OBJECTS))
    objects = radius[..., None] * np.stack([np.cos(direction), np.sin(direction)], axis=-1)
    np.put_along_axis(objects, order[:, TARGETS : TARGETS + ABSENT, None], 0.0, axis=1)
    return Scene(objects, visited)


def tips(angles: Float[np.ndarray, "N 2"]) -> tuple[Float[np.ndarray, "N 2"], Float[np.ndarray, "N 2"]]:
    """Ends of the first and the second link; the second angle is relative to the first link."""
    first, second = angles[:, 0], angles.sum(axis=1)
    elbow = LINKS[0] * np.stack([np.cos(first), np.sin(first)], axis=1)
    return elbow, elbow + LINKS[1] * np.stack([np.cos(second), np.sin(second)], axis=1)


def reach(target: Float[np.ndarray, "N 2"], angles: Float[np.ndarray, "N 2"]) -> Float[np.ndarray, "N 2"]:
    """Joint angles that touch the target: of the two ways to bend the elbow, the one that is sooner there."""
    squared = (target**2).sum(axis=1)
    bend = np.arccos(np.clip((squared - LINKS[0] ** 2 - LINKS[1] ** 2) / (2 * LINKS[0] * LINKS[1]), -1, 1))
    ways = []
    for elbow in (bend, -bend):
        inner = np.arctan2(LINKS[1] * np.sin(elbow), LINKS[0] + LINKS[1] * np.cos(elbow))
        wanted = np.stack([np.arctan2(target[:, 1], target[:, 0]) - inner, elbow], axis=1)
        ways.append(angles + (wanted - angles + np.pi) % (2 * np.pi) - np.pi)  # the short way round
    farther = [np.abs(way - angles).max(axis=1) for way in ways]
    return np.where((farther[0] <= farther[1])[:, None], *ways)


def follow_indicators(x: Float[np.ndarray, "N T 36"]) -> Int[np.ndarray, "N T"]:
    """The board's oracle: the number of targets already reached in the frame before."""
    indicators = x[..., : 3 * OBJECTS : 3]
    reached = TARGETS - np.rint(indicators.sum(axis=-1)).astype(np.int32)
    return np.concatenate([np.zeros_like(reached[:, :1]), reached[:, :-1]], axis=1)


def parts(x: Float[np.ndarray, "T 36"]) -> Parts:
    """One sequence taken apart, without the objects that lie at the origin."""
    objects = x[:, : 3 * OBJECTS].reshape(len(x), OBJECTS, 3)
    objects = objects[:, objects[0, :, 1:].any(axis=1)]
    joints = np.concatenate([np.zeros((len(x), 2)), x[:, -4:]], axis=1).reshape(len(x), 3, 2)
    return Parts(joints, objects[..., 1:], objects[..., 0] > 0.5)


def _aim(goal, angles, scene: Scene, phase: Int[np.ndarray, " N"], which: Bool[np.ndarray, " N"]) -> None:
    """Sets the joint angles to strive for, in place."""
    target = scene.objects[which, scene.visited[which, phase[which]]]
    goal[which] = reach(target, angles[which])


def _distance(tip, scene: Scene, phase: Int[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    rows = np.arange(len(phase))
    target = scene.objects[rows, scene.visited[rows, np.minimum(phase, TARGETS - 1)]]
    return np.linalg.norm(tip - target, axis=1)


def _frame(scene: Scene, angles, phase: Int[np.ndarray, " N"]) -> Float[np.ndarray, "N 36"]:
    waiting = np.arange(TARGETS)[None] >= phase[:, None]
    indicators = np.zeros(scene.objects.shape[:2])
    np.put_along_axis(indicators, scene.visited, waiting.astype(float), axis=1)
    objects = np.concatenate([indicators[..., None], scene.objects], axis=-1).reshape(len(phase), 3 * OBJECTS)
    return np.concatenate([objects, angles, *tips(angles)], axis=1)
