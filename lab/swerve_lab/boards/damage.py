"""Recordings with parts taken away: whole frames here and there, and single channels for a while."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from swerve.errors import InputError

BURST = 10  # frames for which a channel is lost at a time


@dataclass(frozen=True)
class Damage:
    """The share of frames lost at random, and the share of cells (a channel in a frame) lost in bursts."""

    frames: float = 0.0
    cells: float = 0.0

    def __post_init__(self):
        if not (0 <= self.frames < 1 and 0 <= self.cells < 1):
            raise InputError(f"Shares to be lost lie between 0 and 1, not {self.frames} and {self.cells}.")

    def apply(self, x: Float[np.ndarray, "T D"], rng: np.random.Generator) -> Float[np.ndarray, "T D"]:
        """The same recording with NaN for what is lost."""
        if not (self.frames or self.cells):
            return x
        lost = (rng.random(len(x)) < self.frames)[:, None] | _bursts(x.shape, self.cells, rng)
        return np.where(lost, np.nan, x).astype(x.dtype)


def _bursts(shape: tuple[int, ...], share: float, rng: np.random.Generator) -> Bool[np.ndarray, "T D"]:
    """Runs of BURST frames in one channel, until the share is reached."""
    lost, length = np.zeros(shape, bool), min(BURST, shape[0])
    while lost.mean() < share:
        begin, channel = rng.integers(shape[0] - length + 1), rng.integers(shape[1])
        lost[begin : begin + length, channel] = True
    return lost
