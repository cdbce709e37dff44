"""Held-out bounds of two models on the same windows: how much they differ, and how sure that is."""

import numpy as np
from jaxtyping import Float, Int

FEWEST_WINDOWS = 8  # without which no difference between bounds means anything
NEVER = -1e9  # the change of a bound that is not finite any more


def paired_change(
    bound: Float[np.ndarray, " N"], reference: Float[np.ndarray, " N"], lengths: Int[np.ndarray, " N"]
) -> tuple[float, float]:
    """How much a bound differs from another on the same windows, in nats per frame, and the standard error of that."""
    per_frame = lengths.mean()
    difference = (bound - reference) / per_frame
    if not np.isfinite(difference).all():
        return NEVER, 0.0
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference)))
