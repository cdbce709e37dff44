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
LLOYD_TRIES = 40  # from different blocks; cheap beside the EM that follows
NO_REGIME = -1

Labels = Int[np.ndarray, "N T"]


def guess(
    x: Float[np.ndarray, "N T D"],
    window: Float[np.ndarray, "N T P"],
    usable: Bool[np.ndarray, "N T"],
    regimes: int,
    restart: int,
    rng: np.random.Generator,
) -> Labels:
    """One restart in five clusters single frames, the others blocks by the regression that predicts them."""
    if np.sum(usable) <= regimes:
        return np.full(usable.shape, NO_REGIME, np.int32)
    turn = restart % (1 + len(BLOCK_WIDTHS))
    if turn == 0:
        return cluster_frames(x, usable, regimes, rng)
    return cluster_blocks(x, window, usable, regimes, min(BLOCK_WIDTHS[turn - 1], x.shape[1]), rng)


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
    rng: np.random.Generator,
) -> Labels:
    """K regressions, each block of `width` frames going to the one that predicts it best.

    Lloyd's algorithm on sum_t |e_t - V_k window_t|^2, with e the residual of one regression for all frames
    in units of its standard deviation. It begins with the regressions of K blocks that differ; the best try counts.
    """
    blocks = _block_moments(_common_residual(x, window, usable), window, usable, width)
    tries = [_lloyd(blocks, regimes, rng) for _ in range(LLOYD_TRIES)]
    nearest = min(tries, key=lambda one: one[0])[1]
    labels = np.full(usable.shape, NO_REGIME, np.int32)
    in_blocks = np.repeat(nearest.reshape(len(x), -1), width, axis=1)
    labels[:, : in_blocks.shape[1]] = in_blocks
    return labels


def _lloyd(blocks: "_Blocks", regimes: int, rng: np.random.Generator) -> tuple[float, Int[np.ndarray, " B"]]:
    """The loss that one try ends with, and the regression that each block went to."""
    centres = _spread_out(blocks, regimes, rng)
    losses, nearest = blocks.losses(centres), np.full(len(blocks.power), NO_REGIME)
    for _ in range(LLOYD_ITERATIONS):
        before, nearest = nearest, losses.argmin(axis=1)
        if np.array_equal(before, nearest):
            break
        centres = np.stack([blocks.pooled_regression(nearest == k) for k in range(regimes)])
        losses = blocks.losses(centres)
    return float(losses.min(axis=1).sum()), losses.argmin(axis=1)


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

    def pooled_regression(self, chosen: Bool[np.ndarray, " B"]) -> Float[np.ndarray, "D P"]:
        members = chosen.astype(self.window.dtype)
        moments = np.tensordot(members, self.window, 1) + self.ridge
        return np.linalg.solve(moments, np.tensordot(members, self.cross, 1).T).T

    def losses(self, centres: Float[np.ndarray, "K D P"]) -> Float[np.ndarray, "B K"]:
        """sum_t |e_t|^2 - 2 <C, V_k> + tr(V_k M V_k'), with C = `cross` and M = `window`."""
        blocks, count = len(self.power), len(centres)
        explained = self.cross.reshape(blocks, -1) @ centres.reshape(count, -1).T
        squares = (np.swapaxes(centres, 1, 2) @ centres).reshape(count, -1)
        return self.power[:, None] - 2 * explained + self.window.reshape(blocks, -1) @ squares.T


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


def _spread_out(blocks: _Blocks, regimes: int, rng: np.random.Generator):
    """K blocks' own regressions, each drawn in proportion to the loss that it would save (k-means++)."""
    own, own_loss = blocks.own
    chosen = [int(rng.integers(len(own)))]
    for _ in range(regimes - 1):
        saved = np.maximum(blocks.losses(own[chosen]).min(axis=1) - own_loss, 0) + 1e-12
        chosen.append(int(rng.choice(len(own), p=saved / saved.sum())))
    return own[chosen]
