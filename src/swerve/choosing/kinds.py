"""Which model explains held-out windows best: compared window by window, in the data's own units."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from swerve.choosing.rule import FEWEST_WINDOWS, paired_change
from swerve.data.windows import Standardizer
from swerve.inference.frames import Frames
from swerve.settings import kinds


def data_units(standardizer: Standardizer, frames: Frames) -> Float[np.ndarray, " N"]:
    """What to add to log p of every standardised window: -sum of log(scale) over its observed values.

    p(x) = p((x - mean) / scale) / scale for each number.
    """
    observed = np.asarray(frames.observed & frames.valid[..., None])
    return -np.sum(observed * np.log(standardizer.scale)[None, None], axis=(1, 2))


def select(
    windows: Mapping[str, Float[np.ndarray, " N"]],
    lengths: Sequence[int] | np.ndarray,
    seconds: Mapping[str, float],
    *,
    jacobian: Float[np.ndarray, " N"],
) -> dict[str, Any]:
    """The record of a choice: the winner, every candidate with its numbers, and why, in words.

    The highest held-out bound wins; of those lower by less than one standard error of the paired difference, the
    simplest. With too few windows nothing is called equal. `windows` has the simplest candidate first.
    """
    frames = np.asarray(lengths)
    totals = {kind: np.nan_to_num(own, nan=-np.inf).sum() for kind, own in windows.items()}
    best = max(totals, key=lambda kind: totals[kind])
    changes = {kind: _change(own, windows[best], frames) for kind, own in windows.items()}
    enough = len(frames) >= FEWEST_WINDOWS
    equals = [kind for kind, (change, error) in changes.items() if kind == best or (enough and change > -error)]
    winner = equals[0]
    candidates = [
        {
            "model": kind,
            "held_out": float((own + jacobian).sum() / frames.sum()),
            "behind": changes[kind][0],
            "error": changes[kind][1],
            "seconds": round(float(seconds[kind]), 1),
            "verdict": "chosen" if kind == winner else "as good, less simple" if kind in equals else "worse",
        }
        for kind, own in windows.items()
    ]
    return {
        "chosen": winner,
        "windows": len(frames),
        "candidates": candidates,
        "reason": _reason(winner, best, changes, len(frames), enough),
    }


def alone(kind: str, why: str) -> dict[str, Any]:
    """The record where there was nothing to choose from."""
    return {"chosen": kind, "windows": 0, "candidates": [{"model": kind, "verdict": "chosen"}], "reason": why}


def _change(own: np.ndarray, best: np.ndarray, frames: np.ndarray) -> tuple[float, float]:
    if own is best:
        return 0.0, 0.0
    return paired_change(own, best, frames) if len(frames) > 1 else (float((own - best).sum() / frames.sum()), 0.0)


def _reason(winner: str, best: str, changes: Mapping[str, tuple[float, float]], windows: int, enough: bool) -> str:
    chosen = kinds.find(winner).subject
    if winner != best:
        change, error = changes[winner]
        return (
            f"{chosen} was chosen: {kinds.find(best).called} explains held-out windows better by only {-change:.3f}"
            f" +- {error:.3f}"
            " nats per frame, less than one standard error, and of models that can not be told apart the simplest wins."
        )
    others = [kind for kind in changes if kind != winner]
    if not others:
        return f"{chosen} was the only candidate."
    second = max(others, key=lambda kind: changes[kind][0])
    change, error = changes[second]
    few = "" if enough else f" With {windows} held-out windows that is a weak reason: more recordings would tell."
    return (
        f"{chosen} was chosen: it explains held-out windows better than {kinds.find(second).called} by {-change:.3f}"
        f" +- {error:.3f}"
        f" nats per frame.{few}"
    )
