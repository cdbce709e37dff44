"""Which regimes count: those that hold 1 % of the frames or more. One that hardly occurs is no regime in use."""

import numpy as np
from jaxtyping import Bool, Int, Shaped

IN_USE = 0.01  # share of the frames


def in_use(frames: Shaped[np.ndarray, " K"]) -> Bool[np.ndarray, " K"]:
    """Which regimes are; `frames`: how many each of them holds, or their share."""
    return frames >= IN_USE * frames.sum()


def used(labels: Int[np.ndarray, "..."]) -> int:
    """How many regimes are in use; a label below 0 is none."""
    return int(in_use(np.bincount(labels[labels >= 0])).sum())
