"""A ball between two walls: one observed position, two regimes. What the demo shows.

The velocity flips *before* a step that would cross a wall, so that every step lies wholly in one regime.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

DOWN, UP = 0, 1


class Balls(NamedTuple):
    """Positions as they are seen and as they were, and the regimes."""

    x: Float[np.ndarray, "N T 1"]
    clean: Float[np.ndarray, "N T 1"]
    s: Int[np.ndarray, "N T"]


def draw(
    n: int,
    *,
    seed: int,
    length: int = 100,
    noise: float = 0.1,
    walls: float = 10.0,
    max_speed: float = 0.5,
) -> Balls:
    """n sequences between walls at 0 and `walls`; `noise` is the standard deviation of what is added to x."""
    rng = np.random.default_rng(seed)
    position = rng.uniform(0.0, walls, n)
    velocity = rng.uniform(-max_speed, max_speed, n)
    clean, s = simulate(position, velocity, length=length, walls=walls)
    clean = clean[..., None]
    return Balls(clean + noise * rng.standard_normal(clean.shape), clean, s)


def simulate(
    position: Float[np.ndarray, " N"], velocity: Float[np.ndarray, " N"], *, length: int, walls: float
) -> tuple[Float[np.ndarray, "N T"], Int[np.ndarray, "N T"]]:
    """Noise-free positions, and the regimes: s_t is the direction of the step from t-1 to t."""
    positions = np.empty((len(position), length))
    directions = np.empty((len(position), length), dtype=np.int32)
    positions[:, 0] = position
    directions[:, 0] = np.where(velocity > 0, UP, DOWN)
    for t in range(1, length):
        target = position + velocity
        velocity = np.where((target < 0) | (target > walls), -velocity, velocity)
        position = position + velocity
        positions[:, t] = position
        directions[:, t] = np.where(velocity > 0, UP, DOWN)
    return positions, directions
