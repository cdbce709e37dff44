"""A point in the plane, moved by one of three nonlinear vector fields at a time (docs/boards.md)."""

import numpy as np
from jaxtyping import Float

from swerve_lab.boards.board import Board
from swerve_lab.boards.durations import draw_regimes

OSCILLATOR, PENDULUM, SWIRL = 0, 1, 2
HALF_STEP = 0.05
BORDER = 4.0
START = 1.5
MEAN_DURATION, LEAST_DURATION = 40, 8


def generate(n: int, *, seed: int, length: int = 200, noise: float = 0.02) -> Board:
    """n sequences as (x, y); `noise` is a share of the standard deviation of all clean coordinates."""
    rng = np.random.default_rng(seed)
    s = draw_regimes(n, rng, length=length, regimes=3, mean=MEAN_DURATION, least=LEAST_DURATION)
    clean = np.empty((n, length, 2))
    clean[:, 0] = rng.uniform(-START, START, (n, 2))
    for t in range(1, length):
        clean[:, t] = step(clean[:, t - 1], s[:, t])
    scale = noise * clean.std() if n else 0.0
    x = clean + scale * rng.standard_normal(clean.shape)
    return Board(name="fields", x=x, clean=clean, s=s, columns=("x", "y"))


def step(point: Float[np.ndarray, "N 2"], regime: np.ndarray) -> Float[np.ndarray, "N 2"]:
    """One frame: two Euler half-steps in the regime's field, each clipped to the border."""
    for _ in range(2):
        point = np.clip(point + HALF_STEP * velocity(point, regime), -BORDER, BORDER)
    return point


def velocity(point: Float[np.ndarray, "N 2"], regime: np.ndarray) -> Float[np.ndarray, "N 2"]:
    """The field of each point's regime: a van der Pol oscillator, a pendulum, a swirl drawn to a ring."""
    x, y = point[:, 0], point[:, 1]
    pull = 0.15 * (x**2 + y**2 - 2)
    fields = np.array(
        [
            (y, 1.5 * (1 - x**2) * y - x),
            (y, -3 * np.sin(1.5 * x)),
            (-y * (1 + 0.8 * np.sin(2 * x)) - pull * x, x * (1 + 0.8 * np.cos(2 * y)) - pull * y),
        ]
    )
    return fields[regime, :, np.arange(len(point))]
