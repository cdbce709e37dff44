"""First guesses for EM: which frames of a few sequences might belong together. Rough, quick, on the host."""

import warnings
from dataclasses import dataclass

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
    in units of its standard deviation. It begins with the regressions of K blocks that differ.
    """
    blocks = _block_moments(_common_residual(x, window, usable), window, usable, width)
    centres = _spread_out(blocks, regimes, rng)
    for _ in range(LLOYD_ITERATIONS):
        nearest = np.argmin(blocks.losses(centres), axis=1)
        centres = np.stack([blocks.pooled_regression(nearest == k) for k in range(regimes)])
    labels = np.full(usable.shape, NO_REGIME, np.int32)
    in_blocks = np.repeat(nearest.reshape(len(x), -1), width, axis=1)
    labels[:, : in_blocks.shape[1]] = in_blocks
    return labels


@dataclass(frozen=True)
class _Blocks:
    """Second moments of every block: what its loss under any regression is made of."""

    window: Float[np.ndarray, "B P P"]
    cross: Float[np.ndarray, "B D P"]
    power: Float[np.ndarray, " B"]
    ridge: Float[np.ndarray, "P P"]

    def own_regressions(self) -> Float[np.ndarray, "B D P"]:
        solution = np.linalg.solve(self.window + self.ridge, np.swapaxes(self.cross, 1, 2))
        return np.swapaxes(solution, 1, 2)

    def pooled_regression(self, chosen: Bool[np.ndarray, " B"]) -> Float[np.ndarray, "D P"]:
        moments = self.window[chosen].sum(axis=0) + self.ridge
        return np.linalg.solve(moments, self.cross[chosen].sum(axis=0).T).T

    def losses(self, centres: Float[np.ndarray, "K D P"]) -> Float[np.ndarray, "B K"]:
        """sum_t |e_t|^2 - 2 <C, V_k> + tr(V_k M V_k'), with C = `cross` and M = `window`."""
        explained = np.einsum("bdp,kdp->bk", self.cross, centres)
        squared = np.einsum("bpq,kpq->bk", self.window, np.swapaxes(centres, 1, 2) @ centres)
        return self.power[:, None] - 2 * explained + squared


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
    own = blocks.own_regressions()
    own_loss = blocks.power - np.sum(blocks.cross * own, axis=(1, 2))
    chosen = [int(rng.integers(len(own)))]
    for _ in range(regimes - 1):
        saved = np.maximum(blocks.losses(own[chosen]).min(axis=1) - own_loss, 0) + 1e-12
        chosen.append(int(rng.choice(len(own), p=saved / saved.sum())))
    return own[chosen]
