"""Dubins paths: a point drives at constant speed and goes straight, left or right (docs/boards.md)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from swerve_lab.boards.board import Board
from swerve_lab.boards.durations import draw_regimes

STRAIGHT, LEFT, RIGHT = 0, 1, 2
TURN_SIGN = np.array([0.0, 1.0, -1.0])  # by regime

SPEED = (0.1, 0.5)  # pixels per step
TURNS_PER_STEP = (0.1, 0.15)  # turn rate / 2 pi
MEAN_DURATION = 25  # steps in one regime
HALF_IMAGE = 14.0  # pixels from the centre of a 28 x 28 image to its edge


@dataclass(frozen=True)
class Paths:
    """Noise-free paths that stay in the image: what positions and video are made from."""

    positions: Float[np.ndarray, "N T 2"]
    s: Int[np.ndarray, "N T"]


def positions(n: int, *, seed: int, length: int = 100, noise: float = 0.01) -> Board:
    """n paths as (x, y) in pixels; `noise` is a share of the standard deviation of all clean coordinates."""
    rng = np.random.default_rng(seed)
    paths = draw_paths(n, rng, length=length)
    clean = paths.positions
    scale = noise * clean.std() if n else 0.0
    x = clean + scale * rng.standard_normal(clean.shape)
    return Board(name="dubins", x=x, clean=clean, s=paths.s, columns=("x", "y"))


def draw_paths(
    n: int, rng: np.random.Generator, *, length: int, turns_per_step: tuple[float, float] = TURNS_PER_STEP
) -> Paths:
    """n paths from the centre of the image; one that would leave the image is drawn again from the start."""
    found: list[Paths] = []
    missing = n
    while missing:
        candidates = _propose(missing, rng, length, turns_per_step)
        inside = np.all(np.abs(candidates.positions) <= HALF_IMAGE, axis=(1, 2))
        found.append(Paths(candidates.positions[inside], candidates.s[inside]))
        missing -= int(inside.sum())
    if not found:
        return Paths(np.empty((0, length, 2)), np.empty((0, length), dtype=np.int32))
    return Paths(np.concatenate([paths.positions for paths in found]), np.concatenate([paths.s for paths in found]))


def _propose(n: int, rng: np.random.Generator, length: int, turns_per_step: tuple[float, float]) -> Paths:
    """heading_t = heading_{t-1} + turn_rate * sign(s_t), then a straight step of `speed` along heading_t."""
    speed = rng.uniform(*SPEED, n)
    turn_rate = 2 * np.pi * rng.uniform(*turns_per_step, n)
    heading = rng.uniform(0, 2 * np.pi, n)
    s = draw_regimes(n, rng, length=length, regimes=3, mean=MEAN_DURATION, least=1)

    turns = turn_rate[:, None] * TURN_SIGN[s[:, 1:]]
    headings = heading[:, None] + np.cumsum(turns, axis=1)
    steps = speed[:, None, None] * np.stack([np.cos(headings), np.sin(headings)], axis=-1)
    start = np.zeros((n, 1, 2))
    return Paths(np.concatenate([start, np.cumsum(steps, axis=1)], axis=1), s)
