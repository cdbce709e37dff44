"""The one rule of choice: the simplest that held-out data can not tell from the best (docs/decisions/0031)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

SURE = 1.0  # standard errors by which a bound must fall behind to be called worse
WORTH = 0.05  # of what the best gains over the reference: what brings less is not missed
FEWEST_WINDOWS = 8  # windows, without which no difference between bounds means anything
NEVER = -1e9  # the change of a bound that is not finite any more


class Verdict(NamedTuple):
    """What held-out windows say of M candidates, by their positions."""

    chosen: int
    best: int
    """Of the usable ones, that with the highest bound."""
    change: Float[np.ndarray, " M"]
    """Every bound less the best one's, in nats per frame."""
    error: Float[np.ndarray, " M"]
    """Its standard error over windows."""
    worth: float
    """How far behind the best one, in nats per frame, a bound may be however sure that is."""
    equal: Bool[np.ndarray, " M"]
    """Who is as good as the best."""
    enough: bool
    """Whether there are windows enough to know errors."""


def simplest(
    bounds: Sequence[Float[np.ndarray, " N"]] | Float[np.ndarray, "M N"],
    frames: Int[np.ndarray, " N"],
    reference: Float[np.ndarray, " N"] | None = None,
    *,
    order: Sequence[Any] | Shaped[np.ndarray, " M"],
    usable: Sequence[bool] | Bool[np.ndarray, " M"] | None = None,
) -> Verdict:
    """The first by `order` with best - bound <= max(SURE standard errors, WORTH (best - reference)); ties by bound.

    All of it in nats per frame and over the same windows. `reference` is what gains are counted from; without one
    errors alone decide. Only the `usable` set the mark (all, if none is); others may still reach it, so that what must
    not be chosen comes last in `order`. A bound that is not finite in every window loses. Few windows tell no errors:
    what gains are worth decides alone, and without a reference the best wins.
    """
    windows = np.asarray(bounds, float)
    totals = np.where(np.isfinite(windows).all(axis=1), windows.sum(axis=1), -np.inf)
    marks = totals if usable is None else np.where(usable, totals, -np.inf)
    best = int(np.argmax(marks if np.isfinite(marks).any() else totals))
    change, error = np.transpose([paired_change(own, windows[best], frames) for own in windows])
    gain = 0.0 if reference is None else paired_change(windows[best], reference, frames)[0]
    worth = WORTH * max(0.0, gain)
    enough = windows.shape[1] >= FEWEST_WINDOWS
    allowed = np.maximum(SURE * error if enough else 0.0, worth)
    equal = (-change <= allowed) & np.isfinite(totals) & (enough or worth > 0)
    equal[best] = True
    chosen = min(np.flatnonzero(equal).tolist(), key=lambda one: (order[one], -totals[one]))
    return Verdict(chosen, best, change, error, worth, equal, enough)


def paired_change(
    bound: Float[np.ndarray, " N"], reference: Float[np.ndarray, " N"], frames: Int[np.ndarray, " N"]
) -> tuple[float, float]:
    """How much a bound differs from another on the same windows, in nats per frame, and the standard error of that."""
    difference = (bound - reference) / frames.mean()
    if not np.isfinite(difference).all():
        return NEVER, 0.0
    error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else 0.0
    return float(difference.mean()), float(error)
