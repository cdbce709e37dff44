"""Sequences of regimes that last a random number of frames."""

import numpy as np
from jaxtyping import Int


def draw_regimes(
    n: int, rng: np.random.Generator, *, length: int, regimes: int, mean: int, least: int
) -> Int[np.ndarray, "n length"]:
    """Durations max(least, Poisson(mean)); the first regime is uniform, each next one uniform among the others."""
    durations = np.maximum(least, rng.poisson(mean, (n, length)))  # `length` of them always suffice
    changes = np.zeros((n, length), dtype=bool)
    ends = np.cumsum(durations, axis=1)
    row, segment = np.nonzero(ends < length)
    changes[row, ends[row, segment]] = True

    first = rng.integers(0, regimes, (n, 1))
    hop = rng.integers(1, regimes, (n, length))
    return ((first + np.cumsum(np.where(changes, hop, 0), axis=1)) % regimes).astype(np.int32)
