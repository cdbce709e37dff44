"""Fit an autoregressive HMM: several starts, EM from each, the best by the training objective."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from swerve.inference.frames import Frames, Key
from swerve.models.arhmm import em, merging, starts
from swerve.models.arhmm.gaps import Filled, bridged
from swerve.models.arhmm.model import ArHmm, seen_in_part
from swerve.models.arhmm.noise import NOISE, Covariance
from swerve.models.arhmm.waves import Waves, fit_waves

CHUNK_NUMBERS = 2**24  # intermediate numbers that one chunk of sequences may hold
START_FRAMES = 20_000  # a first guess needs no more frames
START_NUMBERS = 10**8  # nor more second moments in all its blocks together
TRIES_BENT = 100  # first guesses per start where regimes bend; straight ones find their way, and differ more, from one


@dataclass(frozen=True)
class ArHmmOptions:
    """What to fit, and how. `ridge` and `variance_floor` expect data in standardised units.

    features: nonlinear features of the last frame that the regimes read; 0 for linear regimes.
    stickiness: pseudo-count of every regime's transitions to itself, beside the data's own.
    variance_floor: least variance of the noise in any direction, the same for all regimes.
    ridge: pseudo-observations that pull the weights towards x_t = x_{t-1}.
    pseudo_count: of every transition and first regime; keeps them possible.
    temperature: what the evidence of a frame is divided by; above 1, first guesses come from merging stretches.
    tolerance: EM stops when an iteration gains less, in nats per frame.
    """

    regimes: int
    lags: int = 1
    features: int = 0
    stickiness: float = 300.0
    covariance: Covariance = Covariance.DIAGONAL
    restarts: int = 5
    variance_floor: float = 1e-4
    ridge: float = 1e-3
    pseudo_count: float = 0.1
    temperature: float = 1.0
    tolerance: float = 1e-4
    max_iterations: int = 200


class ArHmmFit(NamedTuple):
    """The best restart by the training objective, and all of them (leading axis R) for the caller to judge.

    `objectives`: final log-likelihood plus log-prior; `trace`: the same by iteration, NaN after the last.
    """

    model: ArHmm
    log_likelihood: Float[Array, ""]
    best: int
    models: ArHmm
    log_likelihoods: Float[Array, " R"]
    objectives: Float[Array, " R"]
    trace: Float[Array, "R iterations"]
    iterations: Int[Array, " R"]


def fit(frames: Frames, options: ArHmmOptions, *, key: Key) -> ArHmmFit:
    """argmax over W, Q, pi, A of sum_n log p(x_n) + log p(W, A, pi): the best of several EM runs.

    `frames` holds N sequences, padded to one length; their controls are not used. A second fit of the same
    shapes compiles nothing.
    """
    return _fit(frames, options, partial(_first_models, restarts=options.restarts, key=key))


def fit_from_labels(frames: Frames, labels: Int[np.ndarray, "N T"], options: ArHmmOptions) -> ArHmmFit:
    """EM from one first guess at the regimes of all frames; -1 guesses nothing."""

    def only(blank: ArHmm, filled: Filled, prior: em.Prior) -> ArHmm:
        return jax.tree.map(lambda leaf: leaf[None], _from_labels(blank, filled, labels, prior))

    return _fit(frames, options, only)


def _fit(frames: Frames, options: ArHmmOptions, first_models: Callable[[ArHmm, Filled, em.Prior], ArHmm]) -> ArHmmFit:
    prior = _prior(options, frames.x.dtype)
    waves = _waves(frames, options)
    blank, filled = _prepare(
        frames,
        prior.floor,
        waves,
        regimes=options.regimes,
        lags=options.lags,
        covariance=options.covariance,
        temperature=options.temperature,
    )
    partly_seen = seen_in_part(frames)
    runs = _run_all(
        first_models(blank, filled, prior),
        _chunked(filled, size=_sequences_per_chunk(filled, options, partly_seen)),
        prior,
        jnp.asarray(options.tolerance, frames.x.dtype),
        max_iterations=options.max_iterations,
        partial=partly_seen,
        in_turn=_one_restart_at_a_time(),
    )
    return _choose(runs)


def _one_restart_at_a_time() -> bool:
    """On a GPU restarts share the launches of the time loops; on a CPU there is nothing to share."""
    return jax.default_backend() == "cpu"


@partial(jax.jit, static_argnames=("max_iterations", "partial", "in_turn"))
def _run_all(first, chunks, prior, tolerance, *, max_iterations, partial, in_turn):
    """EM from every first model (leading axis R)."""

    def one(model):
        return em.run(model, chunks, prior, tolerance=tolerance, max_iterations=max_iterations, partial=partial)

    return jax.lax.map(one, first) if in_turn else jax.vmap(one)(first)


def _choose(runs: em.Run) -> ArHmmFit:
    best = int(np.argmax(np.nan_to_num(runs.objective, nan=-np.inf)))  # where none is finite, the caller can tell
    return ArHmmFit(
        model=jax.tree.map(lambda leaf: leaf[best], runs.model),
        log_likelihood=runs.log_likelihood[best],
        best=best,
        models=runs.model,
        log_likelihoods=runs.log_likelihood,
        objectives=runs.objective,
        trace=runs.trace,
        iterations=runs.iterations,
    )


def _prior(options: ArHmmOptions, dtype) -> em.Prior:
    """As arrays, so that another strength compiles nothing."""
    return em.Prior(
        stickiness=jnp.asarray(options.stickiness, dtype),
        pseudo_count=jnp.asarray(options.pseudo_count, dtype),
        ridge=jnp.asarray(options.ridge, dtype),
        floor=jnp.asarray(options.variance_floor, dtype),
    )


@partial(jax.jit, static_argnames=("regimes", "lags", "covariance", "temperature"))
def _prepare(
    frames: Frames,
    floor,
    waves: Waves | None,
    *,
    regimes: int,
    lags: int,
    covariance: Covariance,
    temperature: float,
) -> tuple[ArHmm, Filled]:
    blank = _blank_model(frames, floor, waves, regimes, lags, covariance, temperature)
    return blank, jax.vmap(lambda one: bridged(one, blank.start_mean, lags))(frames)


def _waves(frames: Frames, options: ArHmmOptions) -> Waves | None:
    """Fitted to some of the frames; a missing channel counts as its mean."""
    if not (options.features and options.lags):
        return None
    known = frames.valid & frames.observed.any(axis=-1)
    rows = np.asarray(jnp.where(frames.observed, frames.x, 0.0))[np.asarray(known)]
    return fit_waves(rows[:: max(1, len(rows) // START_FRAMES)], options.features)


def _blank_model(
    frames: Frames, floor, waves: Waves | None, regimes: int, lags: int, covariance: Covariance, temperature: float
) -> ArHmm:
    """Regimes that all say x_t = x_{t-1}, and the start distribution, which EM leaves as it is."""
    channels, dtype = frames.x.shape[-1], frames.x.dtype
    start_mean, start_variance = _start_moments(frames)
    unit = jnp.tile(jnp.eye(channels, dtype=dtype)[None], (regimes, 1, 1))
    return ArHmm(
        log_initial=jnp.full(regimes, -math.log(regimes), dtype),
        log_transition=jnp.full((regimes, regimes), -math.log(regimes), dtype),
        weights=jnp.tile(
            em.persistence(channels, lags, 0 if waves is None else waves.count, dtype)[None], (regimes, 1, 1)
        ),
        noise=NOISE[covariance].nearest(unit, floor=floor),
        start_mean=start_mean,
        start_noise=NOISE[covariance].nearest(jnp.diag(start_variance)[None], floor=floor),
        waves=waves,
        temperature=temperature,
    )


def _start_moments(frames: Frames):
    """Mean and variance of the first frames and one more, which has the moments of all frames together.

    That one keeps the variance honest where there are few sequences.
    """
    seen = frames.observed & frames.valid[..., None]
    count = jnp.maximum(jnp.sum(seen, axis=(0, 1)), 1)
    mean = jnp.sum(frames.x * seen, axis=(0, 1)) / count
    variance = jnp.sum(seen * (frames.x - mean[None, None]) ** 2, axis=(0, 1)) / count

    first, first_seen = frames.x[:, 0], seen[:, 0]
    count = 1 + jnp.sum(first_seen, axis=0)
    start_mean = (mean + jnp.sum(first * first_seen, axis=0)) / count
    squares = jnp.sum(first_seen * (first - start_mean[None]) ** 2, axis=0)
    return start_mean, (variance + (mean - start_mean) ** 2 + squares) / count


def _first_models(blank: ArHmm, filled: Filled, prior: em.Prior, *, restarts: int, key: Key) -> ArHmm:
    """One model per restart, stacked: the M-step of a first guess at the regimes of some of the frames."""
    limit = min(START_FRAMES, min(starts.BLOCK_WIDTHS) * START_NUMBERS // blank.weights.shape[-1] ** 2)
    tries = TRIES_BENT if blank.features else 1
    models = []
    for restart, seed in enumerate(np.asarray(jax.random.bits(key, (restarts,)))):
        rng = np.random.default_rng(seed)
        some, window, usable = _excerpt(blank, filled, *_draw(filled, limit, rng), length=limit)
        x, window, usable = np.asarray(some.x), np.asarray(window), np.asarray(usable)
        if blank.temperature > 1:
            width = merging.WIDTHS[restart % len(merging.WIDTHS)]
            labels = merging.merge_stretches(x, window, usable, blank.regimes, width, rng)
        else:
            labels = starts.guess(x, window, usable, blank.regimes, restart, tries, rng)
        models.append(_from_labels(blank, some, labels, prior))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *models)


def _draw(frames: Filled, limit: int, rng: np.random.Generator):
    """Random sequences with at most `limit` frames together, and where to begin in one that is longer."""
    count, length = frames.valid.shape
    chosen = rng.choice(count, max(1, min(count, limit // length)), replace=False)
    return np.sort(chosen), rng.integers(max(length - limit, 0) + 1)


@partial(jax.jit, static_argnames="length")
def _excerpt(blank: ArHmm, filled: Filled, chosen, begin, *, length: int):
    length = min(length, filled.x.shape[1])
    some = Filled(*(jax.lax.dynamic_slice_in_dim(leaf[chosen], begin, length, axis=1) for leaf in filled))
    usable = some.valid & some.tells.any(axis=-1)
    if blank.lags > 0:
        usable = usable.at[:, 0].set(False)
    return some, jax.vmap(blank.window)(some.x), usable


@jax.jit
def _from_labels(blank: ArHmm, filled: Filled, labels, prior: em.Prior) -> ArHmm:
    return em.maximize(blank, em.expect_labels(blank, filled, labels), prior)


def _sequences_per_chunk(frames: Filled, options: ArHmmOptions, partly_seen: bool) -> int:
    count, length, channels = frames.x.shape
    per_frame = options.regimes * (channels * (options.lags + 2) + options.features + 1)
    if options.covariance == Covariance.FULL and partly_seen:
        per_frame += 2 * options.regimes * channels**2
    return math.ceil(count / math.ceil(count * length * per_frame / CHUNK_NUMBERS))


@partial(jax.jit, static_argnames="size")
def _chunked(frames: Filled, *, size: int) -> Filled:
    """(N, ...) -> (chunks, size, ...), the last chunk filled up with padding."""
    chunks = math.ceil(frames.x.shape[0] / size)

    def split(leaf):
        missing = chunks * size - leaf.shape[0]
        padded = jnp.pad(leaf, [(0, missing)] + [(0, 0)] * (leaf.ndim - 1))
        return padded.reshape(chunks, size, *leaf.shape[1:])

    return jax.tree.map(split, frames)
