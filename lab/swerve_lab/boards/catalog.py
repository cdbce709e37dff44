"""The boards by name: how each is made, and what is known about it that no model may know."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Int

from swerve.errors import InputError
from swerve_lab.boards import bouncing_ball, dubins, dubins_oracle, dubins_video, fields, reacher
from swerve_lab.boards.ball_oracle import fit_bouncing_ball
from swerve_lab.boards.board import Board


@dataclass(frozen=True)
class Source:
    """A generator, whether it adds noise, and an oracle: labels from a board and the rules it was made by."""

    generate: Callable[..., Board]
    noisy: bool = True
    oracle: Callable[[Board], Int[np.ndarray, "N T"]] | None = None


def _decode_dubins(board: Board) -> Int[np.ndarray, "N T"]:
    noise = max(float(np.nanstd(board.x - board.clean)), 1e-3)
    physics = dubins_oracle.Physics(dubins.SPEED, dubins.TURNS_PER_STEP, dubins.MEAN_DURATION, noise)
    return dubins_oracle.decode(board.x, physics)


def _decode_video(board: Board, *, turns_per_step: tuple[float, float]) -> Int[np.ndarray, "N T"]:
    images = board.x.reshape(*board.x.shape[:2], *dubins_video.IMAGE)
    return dubins_oracle.read_turns(dubins_video.locate(images), min(turns_per_step))


BOARDS = {
    "bouncing-ball": Source(bouncing_ball.generate, oracle=lambda board: fit_bouncing_ball(board.x).s),
    "dubins": Source(
        dubins_video.generate,
        noisy=False,
        oracle=partial(_decode_video, turns_per_step=dubins.TURNS_PER_STEP),
    ),
    "dubins-wide": Source(
        dubins_video.generate_wide,
        noisy=False,
        oracle=partial(_decode_video, turns_per_step=dubins_video.WIDE_TURNS_PER_STEP),
    ),
    "dubins-positions": Source(dubins.positions, oracle=_decode_dubins),
    "fields": Source(fields.generate),
    "reacher": Source(reacher.generate, noisy=False, oracle=lambda board: reacher.follow_indicators(board.x)),
}


def find(name: str) -> Source:
    """A board by its name, with or without its noise at the end, as in `fields-0.1`."""
    if name in BOARDS:
        return BOARDS[name]
    base, _, end = name.rpartition("-")
    try:
        noise = float(end)
    except ValueError:
        noise = None
    if noise is None or base not in BOARDS or not BOARDS[base].noisy:
        raise InputError(f"There is no board '{name}'; there are {', '.join(BOARDS)}.")
    source = BOARDS[base]
    return Source(partial(source.generate, noise=noise), oracle=source.oracle)
