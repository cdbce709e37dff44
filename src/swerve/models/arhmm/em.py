"""Expectation-maximisation: from sums over all sequences to new parameters, until the gain is small."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from swerve.inference import messages
from swerve.models.arhmm.gaps import Filled
from swerve.models.arhmm.model import ArHmm, residuals, with_start
from swerve.models.arhmm.noise import einsum


class Prior(NamedTuple):
    """The strengths of the penalties in the objective, all in units of pseudo-observations but `floor`."""

    stickiness: Float[Array, ""]
    pseudo_count: Float[Array, ""]
    ridge: Float[Array, ""]
    floor: Float[Array, ""]


class Statistics(NamedTuple):
    """Sums over frames, weighted by w_tk = p(s_t = k | x); e is the residual under the model they came from.

    `features` = sum w phi phi', `cross` = sum w E[e] phi', `scatter` = sum w E[e e'], phi the lag window.
    """

    log_likelihood: Float[Array, ""]
    initial: Float[Array, " K"]
    transitions: Float[Array, "K K"]
    weight: Float[Array, " K"]
    features: Float[Array, "K P P"]
    cross: Float[Array, "K D P"]
    scatter: Float[Array, "K D D"]


class Run(NamedTuple):
    """One EM run: the last model, its log-likelihood and objective, all objectives (NaN after the last)."""

    model: ArHmm
    log_likelihood: Float[Array, ""]
    objective: Float[Array, ""]
    trace: Float[Array, " max_iterations"]
    iterations: Int[Array, ""]


def persistence(channels: int, lags: int, features: int, dtype: jnp.dtype) -> Float[Array, "D P"]:
    """The weights of x_t = x_{t-1}: where the ridge pulls, so that a regime without frames stays harmless."""
    return jnp.eye(channels, channels * lags + 1 + features, dtype=dtype) * (lags > 0)


def expect(model: ArHmm, frames: Filled, *, partial: bool) -> Statistics:
    """The E-step on one chunk of filled sequences (N, T, D)."""
    rows = _rows(model, frames)

    def infer(evidence: Float[Array, "T K"], sequence: Filled) -> messages.Expectations:
        evidence = with_start(model, evidence, sequence, partial=partial) / model.temperature
        return messages.expectations(model.log_initial, model.log_transition, evidence, sequence.valid)

    evidence = model.noise.log_density(rows.residual, rows.tells, partial)
    posterior = jax.vmap(infer)(evidence.reshape(*frames.valid.shape, model.regimes), frames)
    completed = model.noise.complete(rows.residual, rows.tells, partial)
    weights = _weights(model, frames, posterior.marginals)
    moments = _moments(weights, rows.window, completed)
    return moments._replace(
        log_likelihood=jnp.sum(posterior.log_z),
        initial=jnp.sum(posterior.marginals[:, 0], axis=0),
        transitions=jnp.sum(posterior.transitions, axis=0),
        scatter=moments.scatter + model.noise.lost(weights, rows.tells, partial),
    )


def expect_labels(model: ArHmm, frames: Filled, labels: Int[Array, "N T"]) -> Statistics:
    """The sums of a hard assignment of filled frames; a negative label counts for no regime."""
    rows = _rows(model, frames)
    marginals = jax.nn.one_hot(labels, model.regimes, dtype=frames.x.dtype)
    return _moments(_weights(model, frames, marginals), rows.window, rows.residual)


def maximize(model: ArHmm, statistics: Statistics, prior: Prior) -> ArHmm:
    """The M-step, exact for the penalised objective but for what rounding forbids.

    W' = W + (C - (W - W_0) ridge) (F + ridge)^-1 with F = `features`, C = `cross`, W_0 = persistence, and
    Q' = (sum w E[(e - D phi)(e - D phi)'] + ridge (W' - W_0)(W' - W_0)') / sum w, D = W' - W, floored.
    Working with residuals rather than raw moments is what keeps float32 accurate: D shrinks as EM converges.
    """
    _, channels, width = model.weights.shape
    pulled_to = persistence(channels, model.lags, model.features, model.weights.dtype)[None]
    gram = statistics.features + prior.ridge * jnp.eye(width, dtype=model.weights.dtype)[None]
    gradient = statistics.cross - prior.ridge * (model.weights - pulled_to)
    change = jnp.swapaxes(_solve_positive(gram, jnp.swapaxes(gradient, 1, 2)), 1, 2)
    weights = model.weights + change

    crossed = einsum("kdp,kep->kde", change, statistics.cross)
    scatter = statistics.scatter - crossed - jnp.swapaxes(crossed, 1, 2)
    scatter += einsum("kdp,kpq,keq->kde", change, statistics.features, change)
    scatter += prior.ridge * _outer(weights - pulled_to)
    return ArHmm(
        log_initial=_log_normalized(statistics.initial + prior.pseudo_count),
        log_transition=_log_normalized(statistics.transitions + _transition_counts(model, prior)),
        weights=weights,
        noise=model.noise.nearest(scatter / jnp.maximum(statistics.weight, 1e-6)[:, None, None], floor=prior.floor),
        start_mean=model.start_mean,
        start_noise=model.start_noise,
        waves=model.waves,
        temperature=model.temperature,
    )


def log_prior(model: ArHmm, prior: Prior) -> Float[Array, ""]:
    """What the objective adds to the log-likelihood, up to a constant."""
    _, channels, _ = model.weights.shape
    pulled_to = persistence(channels, model.lags, model.features, model.weights.dtype)[None]
    chain = jnp.sum(_transition_counts(model, prior) * model.log_transition)
    chain += prior.pseudo_count * jnp.sum(model.log_initial)
    return chain - 0.5 * prior.ridge * model.noise.precision_trace(_outer(model.weights - pulled_to))


def run(
    start: ArHmm,
    chunks: Filled,
    prior: Prior,
    *,
    tolerance: Float[Array, ""],
    max_iterations: int,
    partial: bool,
) -> Run:
    """EM from a first model until an iteration gains less than `tolerance` nats per frame.

    `chunks` is (C, N, T, D): sums go over one chunk of sequences at a time, to bound the memory.
    """
    tolerance = tolerance * jnp.maximum(jnp.sum(chunks.valid), 1)

    def unfinished(run_and_next):
        run, _ = run_and_next
        gain = run.objective - run.trace[run.iterations - 2]
        return (run.iterations < max_iterations) & ((run.iterations < 2) | (gain > tolerance))

    def iterate(run_and_next):
        run, model = run_and_next
        statistics = _sum_over_chunks(lambda chunk: expect(model, chunk, partial=partial), chunks)
        objective = statistics.log_likelihood + log_prior(model, prior)
        trace = run.trace.at[run.iterations].set(objective)
        run = Run(model, statistics.log_likelihood, objective, trace, run.iterations + 1)
        return run, maximize(model, statistics, prior)

    nothing = jnp.zeros((), chunks.x.dtype)
    trace = jnp.full(max_iterations, jnp.nan, chunks.x.dtype)
    run, _ = jax.lax.while_loop(unfinished, iterate, (Run(start, nothing, nothing, trace, jnp.asarray(0)), start))
    return run


class _Rows(NamedTuple):
    """All frames of a chunk, one below the other: a few large matrix products instead of many small ones."""

    tells: Bool[Array, "rows D"]
    window: Float[Array, "rows P"]
    residual: Float[Array, "rows K D"]


def _rows(model: ArHmm, frames: Filled) -> _Rows:
    windows = jax.vmap(model.window)(frames.x)
    x, tells, window = (array.reshape(-1, array.shape[-1]) for array in (frames.x, frames.tells, windows))
    return _Rows(tells, window, residuals(model, x, window))


def _weights(model: ArHmm, frames: Filled, marginals: Float[Array, "N T K"]) -> Float[Array, "rows K"]:
    """What each frame counts: nothing if nothing of it tells of a regime."""
    informative = frames.valid & frames.tells.any(axis=-1)
    if model.lags > 0:
        informative = informative.at[:, 0].set(False)
    return jnp.where(informative[..., None], marginals, 0.0).reshape(-1, model.regimes)


def _moments(
    weights: Float[Array, "rows K"], window: Float[Array, "rows P"], residual: Float[Array, "rows K D"]
) -> Statistics:
    """The weighted sums over rows; the chain's own are left zero."""
    regimes, weighted_residual = weights.shape[1], weights[..., None] * residual
    return Statistics(
        log_likelihood=jnp.zeros((), weights.dtype),
        initial=jnp.zeros(regimes, weights.dtype),
        transitions=jnp.zeros((regimes, regimes), weights.dtype),
        weight=jnp.sum(weights, axis=0),
        features=einsum("nk,np,nq->kpq", weights, window, window),
        cross=einsum("nkd,np->kdp", weighted_residual, window),
        scatter=einsum("nkd,nke->kde", weighted_residual, residual),
    )


def _sum_over_chunks(statistics_of: Callable, chunks):
    """sum_c statistics_of(chunk_c)."""
    shapes = jax.eval_shape(statistics_of, jax.tree.map(lambda leaf: leaf[0], chunks))
    zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)

    def add(total, chunk):
        return jax.tree.map(jnp.add, total, statistics_of(chunk)), None

    return jax.lax.scan(add, zeros, chunks)[0]


def _transition_counts(model: ArHmm, prior: Prior):
    return prior.pseudo_count + prior.stickiness * jnp.eye(model.regimes, dtype=model.weights.dtype)


def _log_normalized(counts):
    return jnp.log(counts) - jnp.log(jnp.sum(counts, axis=-1, keepdims=True))


def _solve_positive(matrix, right):
    """Damped where channels are copies of each other, as joints of a rigid body are: then rounding decides the rest.

    A step that is damped still ascends, and ends at the same maximum.
    """
    size = matrix.shape[-1]
    lost = 4 * jnp.finfo(matrix.dtype).eps * jnp.trace(matrix, axis1=-2, axis2=-1)
    factor = jnp.linalg.cholesky(matrix + lost[..., None, None] * jnp.eye(size, dtype=matrix.dtype)[None])
    half = jax.scipy.linalg.solve_triangular(factor, right, lower=True)
    return jax.scipy.linalg.solve_triangular(factor, half, lower=True, trans=1)


def _outer(weights):
    return einsum("kdp,kep->kde", weights, weights)
