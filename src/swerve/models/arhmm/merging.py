"""First guesses for long regimes: stretches of a recording, joined two by two, the most alike first.

Two stretches are alike if one regression explains both nearly as well as each its own. With the conjugate prior
sigma^2 ~ IG(1, b), W | sigma^2 ~ N(persistence, sigma^2) the evidence of a stretch has a closed form (`_evidence`), and
joining gains log p(both) - log p(one) - log p(other).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln

WIDTHS = (20, 30, 10, 40)  # frames of a stretch; restarts take turns
MOST_STRETCHES = 250  # joining takes time that grows with their square
MOST_NUMBERS = 15_000  # that the regressions of all stretches read together
SHAPE = 1.0  # of the prior of the variances: as much as two frames tell
QUIETER = 0.15  # the prior's scale in units of the mean square of x_t - x_{t-1}, or of x_t without lags
NO_REGIME = -1


@dataclass(frozen=True)
class _Moments:
    """Sums over the frames of every stretch, in residuals e of x_t = x_{t-1} (of x_t = 0 without lags)."""

    window: Float[np.ndarray, "*B P P"]
    cross: Float[np.ndarray, "*B D P"]
    power: Float[np.ndarray, "*B D"]
    frames: Any
    scale: Float[np.ndarray, " D"]
    """Of the prior of the variances."""

    def __getitem__(self, which) -> "_Moments":
        return _Moments(self.window[which], self.cross[which], self.power[which], self.frames[which], self.scale)

    def __add__(self, other: "_Moments") -> "_Moments":
        return _Moments(
            self.window + other.window,
            self.cross + other.cross,
            self.power + other.power,
            self.frames + other.frames,
            self.scale,
        )

    def put(self, at: int, joined: "_Moments") -> None:
        self.window[at], self.cross[at] = joined.window, joined.cross
        self.power[at], self.frames[at] = joined.power, joined.frames


def merge_stretches(
    x: Float[np.ndarray, "N T D"],
    window: Float[np.ndarray, "N T P"],
    usable: Bool[np.ndarray, "N T"],
    regimes: int,
    width: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, "N T"]:
    """Labels of all frames of some stretches, which begin at a random frame; -1 elsewhere."""
    labels = np.full(usable.shape, NO_REGIME, np.int32)
    stretches = _cut(usable, width, int(rng.integers(width)))
    most = max(regimes, min(MOST_STRETCHES, MOST_NUMBERS // window.shape[-1]))
    if len(stretches) > most:
        stretches = [stretches[i] for i in np.sort(rng.choice(len(stretches), most, replace=False))]
    for (sequence, begin, stop), regime in zip(
        stretches, _join(_moments(x, window, usable, stretches), regimes), strict=True
    ):
        labels[sequence, begin:stop] = regime
    return labels


def _cut(usable: Bool[np.ndarray, "N T"], width: int, first: int) -> list[tuple[int, int, int]]:
    """(sequence, begin, stop) of stretches of about `width` frames; what is too short joins its neighbour."""
    found = []
    for sequence, frames in enumerate(usable):
        seen = np.flatnonzero(frames)
        if len(seen) == 0:
            continue
        end = int(seen[-1]) + 1
        inner = [cut for cut in range(first, end, width) if width // 2 <= cut <= end - width // 2]
        found += [(sequence, begin, stop) for begin, stop in zip([0, *inner], [*inner, end], strict=True)]
    return found


def _moments(x, window, usable, stretches) -> _Moments:
    channels, has_lags = x.shape[-1], window.shape[-1] > x.shape[-1]
    residual = (x - window[..., :channels] if has_lags else x).astype(float) * usable[..., None]
    window = window.astype(float) * usable[..., None]
    parts = [(residual[n, begin:stop], window[n, begin:stop]) for n, begin, stop in stretches]
    power = np.array([(e**2).sum(axis=0) for e, _ in parts])
    frames = np.array([usable[n, begin:stop].sum() for n, begin, stop in stretches], float)
    scale = QUIETER * power.sum(axis=0) / max(frames.sum(), 1.0) + 1e-9
    return _Moments(np.array([w.T @ w for _, w in parts]), np.array([e.T @ w for e, w in parts]), power, frames, scale)


def _evidence(moments: _Moments) -> Float[np.ndarray, " B"]:
    """log p of every group of frames with its parameters integrated out, up to what is the same for all.

    sum_d [-1/2 log |M + I| + a log b_d - a' log(b_d + r_d / 2) + log G(a') - log G(a)], a' = a + n/2, with r_d the
    residual square that the ridge regression leaves.
    """
    channels = moments.power.shape[-1]
    gram = moments.window + np.eye(moments.window.shape[-1])
    solved = np.linalg.solve(gram, np.swapaxes(moments.cross, -1, -2))
    left = np.maximum(moments.power - np.sum(moments.cross * np.swapaxes(solved, -1, -2), axis=-1), 1e-9)
    shape = SHAPE + moments.frames / 2
    spread = SHAPE * np.log(moments.scale) - shape[..., None] * np.log(moments.scale + left / 2)
    return (
        -0.5 * channels * np.linalg.slogdet(gram)[1]
        + spread.sum(axis=-1)
        + channels * (gammaln(shape) - gammaln(SHAPE))
    )


def _join(moments: _Moments, groups: int) -> Int[np.ndarray, " B"]:
    """Which group each stretch ends in: the two whose joining gains most become one, until `groups` are left."""
    count = len(moments.frames)
    member, alive, own = np.arange(count), np.ones(count, bool), _evidence(moments)
    gain = np.full((count, count), -np.inf)
    for one in range(count - 1):
        others = np.arange(one + 1, count)
        gain[one, others] = _evidence(moments[others] + moments[one]) - own[one] - own[others]
    while alive.sum() > groups:
        kept, gone = divmod(int(np.argmax(gain)), count)
        moments.put(kept, moments[kept] + moments[gone])
        member[member == gone], alive[gone] = kept, False
        gain[[kept, gone]], gain[:, [kept, gone]] = -np.inf, -np.inf
        own[kept] = _evidence(moments[[kept]])[0]
        others = np.flatnonzero(alive & (np.arange(count) != kept))
        gains = _evidence(moments[others] + moments[kept]) - own[kept] - own[others]
        gain[np.minimum(others, kept), np.maximum(others, kept)] = gains
    return np.unique(member, return_inverse=True)[1]
