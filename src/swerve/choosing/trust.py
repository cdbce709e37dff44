"""How far a fit may be trusted: whether restarts agree, which regimes are in use, and what may be wrong with it."""

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from sklearn.metrics import adjusted_rand_score

from swerve.choosing.matching import Confusion, Labels, Relabelling, merging, one_to_one
from swerve.choosing.use import in_use
from swerve.errors import InputError

AGREE = 0.9  # mean adjusted Rand index from which restarts tell the same story
DISAGREE = 0.8  # and below which they tell different ones
COLLAPSED = 0.98  # share of one regime that leaves nothing to the others
FLICKERING = 3.0  # frames that a segment should last on average
MUCH_STICKIER = 10.0  # times as long segments as were expected before: the remedy for flicker

Segmented = Sequence[Labels]
"""The labels of every recording, as one model has them."""


class Warned(NamedTuple):
    """Something that may be wrong with a fit, and what to do about it."""

    problem: str
    remedy: str


@dataclass(frozen=True)
class RegimeUse:
    """How one regime occurs. Durations are in frames; a segment cut off by the end of a recording counts as it is."""

    regime: int
    share: float
    segments: int
    mean_duration: float
    median_duration: float


@dataclass(frozen=True)
class Agreement:
    """Mean adjusted Rand index over pairs of restarts; None where there are no two to compare."""

    mean: float | None
    pairwise: tuple[float, ...] = ()
    """Restarts 0 and 1, 0 and 2, ..., 1 and 2, ...; the first is the chosen one."""
    sure: float | None = None
    """The share of the frames that all of them give to the same regime of the chosen one."""


@dataclass(frozen=True)
class Trust:
    """What a fit says about itself. No labels are used."""

    agreement: float | None
    restarts: int
    """Those compared: trained to the end, or of an AR-HMM's the better half."""
    pairs: int
    pairwise: tuple[float, ...]
    sure: float | None
    frames: int
    """That were looked at."""
    regimes: tuple[RegimeUse, ...]
    held_out: float | None
    """In nats per frame of standardised data, as Run.held_out; None for what was no number, as it comes from JSON."""
    held_out_in_data_units: float | None
    warnings: tuple[Warned, ...] = ()
    selection: dict[str, Any] | None = field(default=None)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "warnings": [one._asdict() for one in self.warnings]}

    @staticmethod
    def from_dict(stored: Any, where: object = "What is stored") -> "Trust":
        """The inverse of `as_dict`."""
        try:
            made = {
                "regimes": tuple(RegimeUse(**one) for one in stored["regimes"]),
                "warnings": tuple(Warned(**one) for one in stored["warnings"]),
                "pairwise": tuple(stored["pairwise"]),
            }
            return Trust(**{**stored, **made})
        except (KeyError, TypeError):
            raise InputError(f"{where} is damaged: it should hold what a fit says about itself.") from None


def naming(labels: Segmented, chosen: Segmented, regimes: int) -> Int[np.ndarray, " K"]:
    """For every regime of a restart the chosen one's regime that it stands for; K and above stand for none.

    One to one, so that most frames agree. A restart with more regimes in use is read through the chosen one's instead,
    each of its regimes by the one it overlaps most: two halves of one regime are no disagreement.
    """
    confusion = _confusion(labels, chosen, regimes)
    used, wanted = (np.count_nonzero(counts.sum(axis=axis)) for counts, axis in ((confusion, 1), (confusion, 0)))
    present = np.flatnonzero(confusion.any(axis=1))
    table = Confusion(confusion[present], present, np.arange(regimes))
    relabel: Relabelling = (merging if used > wanted else one_to_one)(table)
    names = regimes + np.arange(regimes)
    names[relabel.old] = relabel.new
    return names


def _confusion(labels: Segmented, chosen: Segmented, regimes: int) -> Int[np.ndarray, "K K"]:
    flat, other = np.concatenate(labels), np.concatenate(chosen)
    return np.bincount(flat * regimes + other, minlength=regimes**2).reshape(regimes, regimes)


def agreement(restarts: Sequence[Segmented], regimes: int) -> Agreement:
    """How alike the restarts' segmentations are; the first restart is the chosen one, whose names the others take."""
    if len(restarts) < 2:
        return Agreement(None)
    chosen = restarts[0]
    named = [np.concatenate(chosen)]
    named += [naming(one, chosen, regimes)[np.concatenate(one)] for one in restarts[1:]]
    pairwise = tuple(float(adjusted_rand_score(a, b)) for a, b in itertools.combinations(named, 2))
    sure = float(np.mean(np.all([one == named[0] for one in named], axis=0)))
    return Agreement(float(np.mean(pairwise)), pairwise, sure)


def consensus(named: Sequence[Labels], regimes: int) -> tuple[Labels, Float[np.ndarray, " T"]]:
    """The regime that most restarts vote for, frame by frame, and their share; the first breaks a draw.

    The labels carry the chosen one's names already; votes for regimes it does not have count for nothing.
    """
    votes = np.stack(named)
    counts = np.stack([(votes == k).sum(axis=0) for k in range(regimes)], axis=1) + 0.5 * np.eye(regimes)[votes[0]]
    labels = counts.argmax(axis=1)
    return labels, np.mean(votes == labels[None], axis=0)


def uses(labels: Segmented, regimes: int) -> tuple[RegimeUse, ...]:
    """Share, segments and durations of every regime."""
    frames = max(1, sum(map(len, labels)))
    durations: list[list[int]] = [[] for _ in range(regimes)]
    for one in labels:
        borders = [0, *(np.flatnonzero(np.diff(one)) + 1).tolist(), len(one)]
        for begin, end in itertools.pairwise(borders):
            durations[int(one[begin])].append(end - begin)
    return tuple(
        RegimeUse(
            k,
            sum(own) / frames,
            len(own),
            float(np.mean(own)) if own else 0.0,
            float(np.median(own)) if own else 0.0,
        )
        for k, own in enumerate(durations)
    )


def warnings(
    regimes: Sequence[RegimeUse],
    agreed: float | None,
    *,
    stickiness: float,
    finished: bool = True,
    dropped: Sequence[str] = (),
    remarks: Sequence[Warned] = (),
    too_few: str = "",
) -> tuple[Warned, ...]:
    """What may be wrong, in plain words, each with its remedy.

    `stickiness`: how long segments were expected to last. `remarks`: what was found out about the recordings.
    `too_few`: why more regimes may be needed, if so.
    """
    found = []
    if not finished:
        found.append(Warned("Training was stopped early.", "Go on with --resume."))
    if dropped:
        found.append(
            Warned(
                f"These columns never change and were left out: {', '.join(dropped)}.",
                "Nothing to do, unless they should change: then look at the files.",
            )
        )
    found += remarks
    asked, shares = len(regimes), [one.share for one in regimes]
    segments = sum(one.segments for one in regimes)
    if asked > 1 and segments:
        used = in_use(np.array(shares)).sum()
        if max(shares) > COLLAPSED:
            found.append(
                Warned(
                    f"One regime holds {100 * max(shares):.0f} % of the frames: the others explain next to nothing.",
                    "Try more --restarts or fewer --regimes; it may also be that there is only one regime.",
                )
            )
        elif used < asked:
            found.append(
                Warned(
                    f"Only {used} of {asked} regimes are in use: these recordings need no more.",
                    f"Fit with --regimes {used}, or let swerve choose-regimes look.",
                )
            )
        mean = sum(one.segments * one.mean_duration for one in regimes) / segments
        if mean < FLICKERING:
            found.append(
                Warned(
                    f"Regimes flicker: a segment lasts {mean:.1f} frames on average.",
                    f"Try --stickiness {MUCH_STICKIER * stickiness:.0f}, or fewer --regimes.",
                )
            )
    if agreed is not None and agreed < DISAGREE:
        found.append(
            Warned(
                f"Restarts disagree (adjusted Rand index {agreed:.2f}): other regimes explain the recordings as well.",
                "Try more --restarts, or another --regimes (swerve choose-regimes); swerve segment --consensus"
                " tells which frames they agree on.",
            )
        )
    if too_few:
        found.append(Warned(too_few, f"Try --regimes {asked + 1}, or let swerve choose-regimes look."))
    return tuple(found)
