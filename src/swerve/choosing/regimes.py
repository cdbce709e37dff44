"""The rule: the smallest number of regimes that is as good as the best of those whose restarts agree.

Held-out windows and labels in, a number and its reason out (docs/decisions/0023-choosing-regimes.md).
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from swerve.choosing.rule import simplest
from swerve.choosing.trust import AGREE, agreement
from swerve.choosing.use import used
from swerve.errors import InputError

DOUBT = " No number of regimes makes restarts agree, so that counted for nothing."


class Restarts(NamedTuple):
    """All restarts with the same number of regimes, the best bound first."""

    windows: list[Float[np.ndarray, " N"]]
    """The bound of every held-out window, in nats."""
    labels: list[Int[np.ndarray, " F"]]
    """Of the held-out frames."""
    straddles: bool = False
    """Whether a regime lives on windows that straddle a switch (docs/decisions/0013)."""


class Evidence(NamedTuple):
    """What restarts with the same number of regimes tell about that number."""

    windows: Float[np.ndarray, " N"]
    """The bound of every held-out window in nats, of the best restart."""
    agreement: float | None
    """Mean adjusted Rand index of the better half of the restarts; 1 for a single regime."""
    in_use: int
    """Regimes that hold 1 % of the held-out frames or more."""


@dataclass(frozen=True)
class Tried:
    """What was found with one number of regimes."""

    regimes: int
    held_out: float
    """Bound or likelihood of the best restart, in nats per frame of standardised data."""
    behind: float
    """The number's held-out bound less the best one's, window by window, in nats per frame."""
    error: float
    """The standard error of that."""
    agreement: float | None
    """Mean adjusted Rand index of the better half of the restarts; 1 for a single regime."""
    in_use: int
    """Regimes that hold 1 % of the held-out frames or more."""


@dataclass(frozen=True)
class Choice:
    """How many regimes, and why."""

    regimes: int
    reason: str
    tried: tuple[Tried, ...]
    model: str = ""
    """What the regimes were, whose bounds these are."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(stored: dict[str, Any]) -> "Choice":
        """The inverse of `as_dict`."""
        return Choice(**{**stored, "tried": tuple(Tried(**one) for one in stored["tried"])})


def weighed(found: dict[int, Restarts]) -> dict[int, Evidence]:
    """What restarts tell about every number of regimes."""
    return {
        regimes: Evidence(one.windows[0], agreed_by(one, regimes), used(one.labels[0]))
        for regimes, one in found.items()
    }


def decide(
    found: dict[int, Evidence], lengths: Int[np.ndarray, " N"], *, model: str = "", consensus: bool = False
) -> Choice:
    """The smallest number that held-out windows can not tell from the best of those whose restarts agree.

    Gains are counted from a single regime, where that was tried. Fewer regimes that explain as much are not passed over
    because they are harder to find: agreement is asked of the number that sets the mark, and a smaller one may reach
    it. Of none is it asked where the model is to be a consensus of its restarts.
    """
    if not found:
        raise InputError("No number of regimes could be trained on these recordings: look for extreme values.")
    agreeing = [] if consensus else _agreeing(found)
    doubt = " The model is a consensus of its restarts, which need not agree." if consensus else DOUBT
    numbers = sorted(found)
    verdict = simplest(
        [found[regimes].windows for regimes in numbers],
        lengths,
        found[1].windows if 1 in found else None,
        order=numbers,
        usable=[regimes in agreeing for regimes in numbers],
    )
    tried = tuple(
        Tried(k, float(found[k].windows.sum() / lengths.sum()), float(change), float(error), *found[k][1:])
        for k, change, error in zip(numbers, verdict.change, verdict.error, strict=True)
    )
    chosen, best = tried[verdict.chosen], numbers[verdict.best]
    return Choice(chosen.regimes, _reason(chosen, best, tried, "" if agreeing else doubt), tried, model)


def decide_in_turn(searches: Iterable[tuple[str, dict[int, Evidence]]], lengths: Int[np.ndarray, " N"]) -> Choice:
    """The first search in which restarts agree on some number decides, or else the first that found anything.

    Each is named after its model. No later one is begun than is needed: `searches` may be a generator.
    """
    choices, undecided = [], []
    for model, found in searches:
        if found:
            choices.append(_after(undecided, decide(found, lengths, model=model)))
        if _agreeing(found):
            return choices[-1]
        undecided.append(f"Restarts of {model} agree on no number" if found else f"All restarts of {model} diverged")
    return choices[0] if choices else decide({}, lengths)


def _after(undecided: Sequence[str], choice: Choice) -> Choice:
    """The same, which says why the searches before it did not decide."""
    if not undecided:
        return choice
    remark = f"{' and '.join(undecided)}, so {choice.model} was asked (--model {choice.model} fits it). "
    return dataclasses.replace(choice, reason=remark + choice.reason)


def _agreeing(found: dict[int, Evidence]) -> list[int]:
    """The numbers whose restarts agree. A single regime in use is none of them: there is nothing to disagree about."""
    return [k for k, one in found.items() if min(k, one.in_use) > 1 and (one.agreement or 0.0) >= AGREE]


def agreed_by(one: Restarts, regimes: int) -> float | None:
    """Of the better half of the restarts, at least two."""
    if regimes == 1:
        return 1.0
    half = max(2, math.ceil(len(one.labels) / 2))
    most = max(int(labels.max()) for labels in one.labels) + 1
    return agreement([[labels] for labels in one.labels[:half]], most).mean


def _reason(chosen: Tried, best: int, tried: Sequence[Tried], doubt: str) -> str:
    if chosen.regimes == best:
        gain = f"{best} regimes have the best held-out bound"
    else:
        nearly = "nearly " if chosen.behind < -chosen.error else ""
        gain = (
            f"{chosen.regimes} regimes explain held-out windows {nearly}as well as {best}"
            f" ({chosen.behind:+.3f} +- {chosen.error:.3f} nats per frame)"
        )
    shown = ""
    if not doubt and chosen.agreement is not None:
        verdict = "agree" if chosen.agreement >= AGREE else "do not agree; try more of them"
        shown = f" and their restarts {verdict} ({chosen.agreement:.2f})"
    at_end = best == tried[-1].regimes and best > 1 and chosen.regimes == best
    more = " It is the largest number tried: try more." if at_end else ""
    return f"{gain}{shown}.{doubt}{more}"
