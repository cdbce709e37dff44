"""What drawings refuse: arrays of different sequences side by side would look fine and be wrong."""

from collections.abc import Mapping

import numpy as np


def check_shapes(rows: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> None:
    """Every row must have this shape; at least one there must be."""
    if not rows:
        raise ValueError("there is nothing to draw")
    for name, row in rows.items():
        if row.shape != shape:
            raise ValueError(f'"{name}" has the shape {row.shape}, not {shape}')
