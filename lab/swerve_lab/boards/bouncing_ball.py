"""A ball between two walls: one observed position, two regimes (docs/boards.md)."""

from typing import Any

from swerve.cli.ball import draw
from swerve_lab.boards.board import Board


def generate(n: int, *, seed: int, **options: Any) -> Board:
    """n sequences; the options are those of `swerve.cli.ball.draw`."""
    return Board("ball", *draw(n, seed=seed, **options), columns=("position",))
