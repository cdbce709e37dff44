"""A refit under the numbers of an older model: which of its regimes is which of the old ones (docs/decisions/0024)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from sklearn.metrics import adjusted_rand_score

from swerve.choosing.matching import Labels, one_to_one, pooled_confusion

WEAK = 0.5  # a regime that keeps less of its frames is hardly the same one

Order = tuple[int | None, ...]
"""For every number the model's own regime that appears under it; None where the model has none."""


@dataclass(frozen=True)
class Alignment:
    """How a model's regimes appear, so that they keep the numbers of an older model's."""

    order: Order
    to: str
    """The older run, for people to read."""
    ari: float
    """Adjusted Rand index of the two segmentations of the same recordings, 1 at best."""
    same: float
    """Share of the frames that both call by the same number."""
    kept: tuple[float | None, ...]
    """Of each number's frames in the older segmentation, the share that has it still; None where it had no frame."""
    fresh: tuple[int, ...] = ()
    """Numbers of regimes that match no old one."""

    @property
    def agreement(self) -> str:
        """How well they agree."""
        return f"ARI {self.ari:.2f}, {100 * self.same:.0f} % of the frames keep their number"

    @property
    def doubts(self) -> list[str]:
        """Numbers that hardly mean what they did."""
        lost = [(k, share) for k, share in enumerate(self.kept) if share is not None and share < WEAK]
        words = [f"regime {k} kept {100 * share:.0f} % of its frames" for k, share in lost]
        return words + [f"regime {k} is new and matches no old one" for k in self.fresh]


def align(found: Sequence[Labels], old: Sequence[Labels], *, regimes: int, old_regimes: int, to: str) -> Alignment:
    """The one-to-one matching under which most frames keep their number.

    `found` are the model's own labels. Its regimes that match none take the numbers after the old ones, and what is
    left of the old numbers once those are used up: as many numbers as the larger model has are in play, never more.
    """
    confusion = pooled_confusion(found, old)
    pairs = one_to_one(confusion)
    occurs = {int(k) for k in pairs.old}
    matched = np.isin(pairs.new, confusion.true)
    number_of = {int(k): int(n) for k, n in zip(pairs.old[matched], pairs.new[matched], strict=True)}
    free = [k for k in range(max(regimes, old_regimes)) if k not in number_of.values()]
    free = [*(k for k in free if k >= old_regimes), *(k for k in free if k < old_regimes)]
    alone = sorted(set(range(regimes)) - set(number_of), key=lambda k: (k not in occurs, k))
    number_of |= dict(zip(alone, free, strict=False))
    own_of = {number: k for k, number in number_of.items()}
    order = tuple(own_of.get(number) for number in range(max(regimes, old_regimes)))
    ours, theirs = renumbered(np.concatenate(found), order), np.concatenate(old)
    return Alignment(
        order,
        to,
        ari=float(adjusted_rand_score(theirs, ours)),
        same=float(np.mean(ours == theirs)),
        kept=tuple(float(np.mean(ours[theirs == k] == k)) if np.any(theirs == k) else None for k in range(len(order))),
        fresh=tuple(sorted(number_of[k] for k in alone if k in occurs)),
    )


def renumbered(labels: Int[np.ndarray, "*shape"], order: Order) -> Int[np.ndarray, "*shape"]:
    """The model's own labels under their numbers."""
    numbers = np.full(1 + max(own for own in order if own is not None), -1)
    for number, own in enumerate(order):
        if own is not None:
            numbers[own] = number
    return numbers[labels]


def rearranged(probabilities: Float[np.ndarray, "*shape own"], order: Order) -> Float[np.ndarray, "*shape K"]:
    """A column for every number; zeros where the model has no regime."""
    nothing = np.zeros(probabilities.shape[:-1])
    return np.stack([nothing if own is None else probabilities[..., own] for own in order], axis=-1)
