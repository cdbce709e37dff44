"""Which model explains held-out windows best: compared window by window, in the data's own units."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from swerve.choosing.rule import Verdict, simplest
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

    The rule decides by errors alone: a bound is too low already, so that gains over the AR-HMM are worth something.
    `windows` has the simplest candidate first.
    """
    frames, names = np.asarray(lengths), list(windows)
    verdict = simplest(list(windows.values()), frames, order=range(len(names)))
    candidates = [
        {
            "model": kind,
            "held_out": float((own + jacobian).sum() / frames.sum()),
            "behind": float(verdict.change[i]),
            "error": float(verdict.error[i]),
            "seconds": round(float(seconds[kind]), 1),
            "verdict": "chosen" if i == verdict.chosen else "as good, less simple" if verdict.equal[i] else "worse",
        }
        for i, (kind, own) in enumerate(windows.items())
    ]
    return {
        "chosen": names[verdict.chosen],
        "windows": len(frames),
        "candidates": candidates,
        "reason": _reason(verdict, names, len(frames)),
    }


def alone(kind: str, why: str) -> dict[str, Any]:
    """The record where there was nothing to choose from."""
    return {"chosen": kind, "windows": 0, "candidates": [{"model": kind, "verdict": "chosen"}], "reason": why}


def _reason(verdict: Verdict, names: Sequence[str], windows: int) -> str:
    called = [kinds.find(name).called for name in names]
    winner, best = verdict.chosen, verdict.best
    chosen = kinds.find(names[winner]).subject
    if winner != best:
        change, error = verdict.change[winner], verdict.error[winner]
        return (
            f"{chosen} was chosen: {called[best]} explains held-out windows better by only {-change:.3f} +- {error:.3f}"
            " nats per frame, less than one standard error, and of models that can not be told apart the simplest wins."
        )
    others = [i for i in range(len(names)) if i != winner]
    if not others:
        return f"{chosen} was the only candidate."
    second = max(others, key=lambda i: verdict.change[i])
    change, error = verdict.change[second], verdict.error[second]
    few = (
        "" if verdict.enough else f" With {windows} held-out windows that is a weak reason: more recordings would tell."
    )
    return (
        f"{chosen} was chosen: it explains held-out windows better than {called[second]}"
        f" by {-change:.3f} +- {error:.3f} nats per frame.{few}"
    )
