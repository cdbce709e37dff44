"""First guesses for EM: which frames of a few sequences might belong together. Rough, quick, on the host."""

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

BLOCK_WIDTHS = (
    10,
    20,
    40,
    5,
)  # frames; regimes that last from a moment to minutes all find a start that fits
LLOYD_ITERATIONS = 20
NO_REGIME = -1

Labels = Int[np.ndarray, "N T"]


def guess(
    x: Float[np.ndarray, "N T D"],
    window: Float[np.ndarray, "N T P"],
    usable: Bool[np.ndarray, "N T"],
    regimes: int,
    restart: int,
    tries: int,
    rng: np.random.Generator,
) -> Labels:
    """One restart in five clusters single frames, the others blocks by the regression that predicts them."""
    if np.sum(usable) <= regimes:
        return np.full(usable.shape, NO_REGIME, np.int32)
    turn = restart % (1 + len(BLOCK_WIDTHS))
    if turn == 0:
        return cluster_frames(x, usable, regimes, rng)
    return cluster_blocks(x, window, usable, regimes, min(BLOCK_WIDTHS[turn - 1], x.shape[1]), tries, rng)


def cluster_frames(
    x: Float[np.ndarray, "N T D"], usable: Bool[np.ndarray, "N T"], regimes: int, rng: np.random.Generator
) -> Labels:
    """k-means of [x_t, x_t - x_{t-1}], each standardised."""
    difference = np.diff(x, axis=1, prepend=x[:, :1])
    features = np.concatenate([x, difference], axis=-1)[usable]
    features = (features - features.mean(axis=0)) / (features.std(axis=0) + 1e-6)
    labels = np.full(usable.shape, NO_REGIME, np.int32)
    k_means = KMeans(regimes, n_init="auto", random_state=int(rng.integers(2**31)))  # auto: one k-means++ start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct frames than regimes: no harm here
        labels[usable] = k_means.fit_predict(features)
    return labels


def cluster_blocks(
    x: Float[np.ndarray, "N T D"],
    window: Float[np.ndarray, "N T P"],
    usable: Bool[np.ndarray, "N T"],
    regimes: int,
    width: int,
    tries: int,
    rng: np.random.Generator,
) -> Labels:
    """K regressions, each block of `width` frames going to the one that predicts it best.

    Lloyd's algorithm on sum_t |e_t - V_k window_t|^2, with e the residual of one regression for all frames
    in units of its standard deviation. It begins with the regressions of K blocks that differ; the best try counts.
    """
    blocks = _block_moments(_common_residual(x, window, usable), window, usable, width)
    nearest = _best_of_lloyd(blocks, regimes, tries, rng)
    labels = np.full(usable.shape, NO_REGIME, np.int32)
    in_blocks = np.repeat(nearest.reshape(len(x), -1), width, axis=1)
    labels[:, : in_blocks.shape[1]] = in_blocks
    return labels


def _best_of_lloyd(blocks: "_Blocks", regimes: int, tries: int, rng: np.random.Generator) -> Int[np.ndarray, " B"]:
    """The regression that each block goes to, after the try with the least loss. All tries in large matrix products."""
    centres = _spread_out(blocks, regimes, tries, rng)
    for _ in range(LLOYD_ITERATIONS):
        nearest = blocks.losses(centres).argmin(axis=2)
        centres = blocks.pooled_regressions(nearest[..., None] == np.arange(regimes))
    losses = blocks.losses(centres)
    best = losses.min(axis=2).sum(axis=0).argmin()
    return losses[:, best].argmin(axis=1)


@dataclass(frozen=True)
class _Blocks:
    """Second moments of every block: what its loss under any regression is made of."""

    window: Float[np.ndarray, "B P P"]
    cross: Float[np.ndarray, "B D P"]
    power: Float[np.ndarray, " B"]
    ridge: Float[np.ndarray, "P P"]

    @cached_property
    def own(self) -> tuple[Float[np.ndarray, "B D P"], Float[np.ndarray, " B"]]:
        """Every block's own regression and the loss it leaves."""
        solution = np.linalg.solve(self.window + self.ridge, np.swapaxes(self.cross, 1, 2))
        regressions = np.swapaxes(solution, 1, 2)
        return regressions, self.power - np.sum(self.cross * regressions, axis=(1, 2))

    def pooled_regressions(self, members: Bool[np.ndarray, "B tries K"]) -> Float[np.ndarray, "tries K D P"]:
        """The regression of all members of every group together."""
        blocks, channels, width = self.cross.shape
        sums = members.reshape(blocks, -1).T.astype(self.window.dtype)
        moments = (sums @ self.window.reshape(blocks, -1)).reshape(-1, width, width) + self.ridge
        crossed = (sums @ self.cross.reshape(blocks, -1)).reshape(-1, channels, width)
        solution = np.linalg.solve(moments, np.swapaxes(crossed, 1, 2))
        return np.swapaxes(solution, 1, 2).reshape(*members.shape[1:], channels, width)

    def losses(self, centres: Float[np.ndarray, "*groups D P"]) -> Float[np.ndarray, "B *groups"]:
        """sum_t |e_t|^2 - 2 <C, V> + tr(V M V') for every regression V, with C = `cross` and M = `window`."""
        blocks, groups = len(self.power), centres.shape[:-2]
        flat = centres.reshape(-1, *centres.shape[-2:])
        explained = self.cross.reshape(blocks, -1) @ flat.reshape(len(flat), -1).T
        squares = (np.swapaxes(flat, 1, 2) @ flat).reshape(len(flat), -1)
        losses = self.power[:, None] - 2 * explained + self.window.reshape(blocks, -1) @ squares.T
        return losses.reshape(blocks, *groups)


def _common_residual(x, window, usable):
    rows = window[usable]
    common, *_ = np.linalg.lstsq(rows, x[usable], rcond=None)
    residual = x - window @ common
    return residual / (np.sqrt(np.mean(residual[usable] ** 2, axis=0)) + 1e-9)


def _block_moments(residual, window, usable, width) -> _Blocks:
    residual, window = (_cut(array * usable[..., None], width) for array in (residual, window))
    window_moments = np.swapaxes(window, 1, 2) @ window
    typical = np.trace(window_moments.mean(axis=0)) / window.shape[-1]
    return _Blocks(
        window=window_moments,
        cross=np.swapaxes(residual, 1, 2) @ window,
        power=np.sum(residual**2, axis=(1, 2)),
        ridge=(1e-5 * typical + 1e-12) * np.eye(window.shape[-1]),
    )


def _cut(array, width):
    """(N, T, C) -> (blocks, width, C); the frames after the last whole block are left out."""
    whole = array[:, : array.shape[1] // width * width]
    return whole.reshape(-1, width, array.shape[-1])


def _spread_out(
    blocks: _Blocks, regimes: int, tries: int, rng: np.random.Generator
) -> Float[np.ndarray, "tries K D P"]:
    """For every try K blocks' own regressions, each drawn in proportion to the loss that it would save (k-means++)."""
    own, own_loss = blocks.own
    chosen = [rng.integers(len(own), size=tries)]
    least = blocks.losses(own[chosen[0]])
    for _ in range(regimes - 1):
        saved = np.cumsum(np.maximum(least - own_loss[:, None], 0) + 1e-12, axis=0)
        reached = rng.uniform(size=tries) * saved[-1] < saved
        chosen.append(reached.argmax(axis=0))
        least = np.minimum(least, blocks.losses(own[chosen[-1]]))
    return np.stack([own[picked] for picked in chosen], axis=1)
