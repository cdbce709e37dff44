"""Kalman filtering and smoothing of one sequence, and Gaussians over paths given by their precision.

    z_1 ~ N(m, S S'),    z_{t+1} = A_t z_t + b_t + Q_t e_t,    x_t = C_t z_t + d_t + r_t e'_t

with standard normal noise e, e'. S and Q_t are lower triangles, factors of the covariances; r_t is a diagonal. Only
factors are carried from frame to frame, so that no covariance loses its positive definiteness in float32.

A value that is missing (`observed` False) loses its emission term, nothing else. A frame that is padding (`valid`
False) is an identity transition that enters no sum. Whatever x holds there, and in padding the matrices too, changes
no result and no gradient. Padding comes last.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from swerve.inference.frames import FrameMask, Key
from swerve_lab.rivals.triangles import applied, cholesky, inverse, lower_factor, orthonormal, residual, times

LOG_TWO_PI = math.log(2 * math.pi)


class LinearDynamics(NamedTuple):
    """p(z_1) = N(first_mean, first_scale first_scale'), p(z_{t+1} | z_t) = N(A_t z_t + b_t, Q_t Q_t').

    Scales are lower triangles with a positive diagonal.
    """

    first_mean: Float[Array, "*batch L"]
    first_scale: Float[Array, "*batch L L"]
    matrix: Float[Array, "*batch T-1 L L"]
    offset: Float[Array, "*batch T-1 L"]
    scale: Float[Array, "*batch T-1 L L"]


class LinearEmission(NamedTuple):
    """p(x_t | z_t) = N(C_t z_t + d_t, diag(r_t^2)), r_t the standard deviations `scale`."""

    matrix: Float[Array, "*batch T D L"]
    offset: Float[Array, "*batch T D"]
    scale: Float[Array, "*batch T D"]


class Filtered(NamedTuple):
    """p(z_t | x_1..x_t) = N(mean, scale scale'), before x_t was seen N(predicted_mean, ...); log p(x_1..x_T).

    Padding repeats the last frame.
    """

    mean: Float[Array, "*batch T L"]
    scale: Float[Array, "*batch T L L"]
    predicted_mean: Float[Array, "*batch T L"]
    predicted_scale: Float[Array, "*batch T L L"]
    log_likelihood: Float[Array, "*batch"]


class Smoothed(NamedTuple):
    """p(z_t | x_1..x_T) = N(mean, covariance), `cross_covariance[t]` = Cov(z_{t+1}, z_t); log p(x_1..x_T).

    `scale` is the lower triangle with scale scale' = covariance. Padding repeats the last frame.
    """

    mean: Float[Array, "*batch T L"]
    covariance: Float[Array, "*batch T L L"]
    cross_covariance: Float[Array, "*batch T-1 L L"]
    log_likelihood: Float[Array, "*batch"]
    scale: Float[Array, "*batch T L L"]


class Blocks(NamedTuple):
    """p(z) = exp(-1/2 z'J z + h'z - log Z), J block tridiagonal: `diagonal[t]` = J_tt, `below[t]` = J_{t+1,t}.

    Only the lower triangle of J_tt is read. Potentials of single frames add to `diagonal` and `linear`. A frame of
    padding is the identity, coupled to nothing, with h = 0: it changes no other frame, and its (L/2) log 2 pi in
    log Z cancels in a difference of log normalisers.
    """

    diagonal: Float[Array, "*batch T L L"]
    below: Float[Array, "*batch T-1 L L"]
    linear: Float[Array, "*batch T L"]


class BlockPosterior(NamedTuple):
    """Means and covariances of the frames, `cross_covariance[t]` = Cov(z_{t+1}, z_t), and log Z."""

    mean: Float[Array, "*batch T L"]
    covariance: Float[Array, "*batch T L L"]
    cross_covariance: Float[Array, "*batch T-1 L L"]
    log_normalizer: Float[Array, "*batch"]


def filter(
    dynamics: LinearDynamics,
    emission: LinearEmission,
    x: Float[Array, "T D"],
    observed: Bool[Array, "T D"],
    valid: FrameMask,
) -> Filtered:
    """p(z_t | x_1..x_t) ~ N(x_t; C_t z_t + d_t, r_t^2) p(z_t | x_1..x_{t-1}).

    With P = S S' predicted and G = C S / r, the covariance becomes S (I + G'G)^{-1} S'. The factor of I + G'G is
    read off the rows [G', I], which stay independent whatever is missing.
    """
    return _filter(_clean_dynamics(dynamics, valid), emission, x, observed, valid)


def smooth(
    dynamics: LinearDynamics,
    emission: LinearEmission,
    x: Float[Array, "T D"],
    observed: Bool[Array, "T D"],
    valid: FrameMask,
) -> Smoothed:
    """p(z_t | x) = integral of p(z_t | z_{t+1}, x_1..x_t) p(z_{t+1} | x), last frame first (Rauch, Tung, Striebel).

    z_t given z_{t+1} is N(m_t + J (z_{t+1} - predicted), Y Y'), so the smoothed factor is that of [Y, J S_{t+1}].
    """
    dynamics = _clean_dynamics(dynamics, valid)
    filtered = _filter(dynamics, emission, x, observed, valid)

    def step(following, frame):
        mean, scale, predicted, matrix, noise, moves = frame
        next_mean, next_scale = following
        gain, rest = _reversed(scale, matrix, noise)
        spread = times(gain, next_scale)
        here = mean + applied(gain, next_mean - predicted), lower_factor(jnp.concatenate([rest, spread], axis=1))
        here = _where(moves, here, following)
        cross = times(next_scale, jnp.where(moves, spread, next_scale).T)
        return here, (*here, _square(here[1]), cross)

    last = filtered.mean[-1], filtered.scale[-1]
    frames = (filtered.mean[:-1], filtered.scale[:-1], filtered.predicted_mean[1:])
    _, (mean, scale, covariance, cross) = _scan(
        step, last, (*frames, dynamics.matrix, dynamics.scale, valid[1:]), reverse=True
    )
    mean, scale = jnp.concatenate([mean, last[0][None]]), jnp.concatenate([scale, last[1][None]])
    covariance = jnp.concatenate([covariance, _square(last[1])[None]])
    return Smoothed(mean, covariance, cross, filtered.log_likelihood, scale)


def sample_path(dynamics: LinearDynamics, *, key: Key) -> Float[Array, "T L"]:
    """z_1 = m + S e_1, z_{t+1} = A_t z_t + b_t + Q_t e_{t+1}. Noise depends on the key and the frame's index."""
    noise = _noise(key, jnp.concatenate([dynamics.first_mean[None], dynamics.offset]))
    first = dynamics.first_mean + applied(dynamics.first_scale, noise[0])

    def step(z, frame):
        matrix, offset, scale, noise = frame
        z = applied(matrix, z) + offset + applied(scale, noise)
        return z, z

    _, rest = _scan(step, first, (*dynamics[2:], noise[1:]))
    return jnp.concatenate([first[None], rest])


def blocks_of(dynamics: LinearDynamics, valid: FrameMask | None = None) -> tuple[Blocks, Float[Array, ""]]:
    """p(z) = exp(-1/2 z'J z + h'z - log Z), and log Z. With W_t = (Q_t Q_t')^{-1}, W_0 = (S S')^{-1} and b_0 = m:

    J_tt = W_{t-1} + A_t' W_t A_t,    J_{t+1,t} = -W_t A_t,    h_t = W_{t-1} b_{t-1} - A_t' W_t b_t.
    """
    valid = jnp.ones(len(dynamics.matrix) + 1, bool) if valid is None else valid
    dynamics = _clean_dynamics(dynamics, valid)

    def step(_, frame):
        # |white (z' - matrix z - offset)|^2, multiplied out. Padding is coupled to nothing.
        matrix, offset, scale, moves = frame
        white = inverse(scale)
        moved, shift = times(white, jnp.where(moves, matrix, 0.0)), applied(white, offset)
        into = _square(white.T), applied(white.T, shift)
        out_of = _square(moved.T), -applied(moved.T, shift)
        log_z = 0.5 * jnp.sum(shift**2) + jnp.sum(jnp.log(jnp.diagonal(scale)))
        return None, (into, out_of, -times(white.T, moved), log_z)

    # Out of nothing into the first frame, then from frame to frame.
    frames = (
        jnp.concatenate([jnp.zeros_like(dynamics.first_scale)[None], dynamics.matrix]),
        jnp.concatenate([dynamics.first_mean[None], dynamics.offset]),
        jnp.concatenate([dynamics.first_scale[None], dynamics.scale]),
        valid,
    )
    _, ((diagonal, linear), out_of, below, log_z) = _scan(step, None, frames)
    diagonal, linear = diagonal.at[:-1].add(out_of[0][1:]), linear.at[:-1].add(out_of[1][1:])
    return Blocks(diagonal, below[1:], linear), jnp.sum(log_z) + 0.5 * linear.size * LOG_TWO_PI


def posterior_of_blocks(blocks: Blocks) -> BlockPosterior:
    """Mean J^{-1} h, the blocks of J^{-1} on and below the diagonal, log Z = 1/2 h'J^{-1}h - 1/2 log |J / 2 pi|.

    z_t given z_{t+1} is N(K_t' (y_t - E_t' z_{t+1}), K_t' K_t), with the factors of `_eliminate`.
    """
    factors = _eliminate(blocks)

    def step(following, frame):
        mean, covariance = following
        white, below, y = frame
        leans = -times(white.T, below.T)
        cross = times(covariance, leans.T)
        spread = times(leans, cross)
        here = applied(white.T, y) + applied(leans, mean), _square(white.T) + 0.5 * (spread + spread.T)
        return here, (*here, cross)

    # Nothing comes after the last frame.
    after = jnp.zeros_like(factors.y[0]), jnp.zeros_like(factors.white[0])
    _, (mean, covariance, cross) = _scan(step, after, factors, reverse=True)
    log_volume = jnp.sum(jnp.log(jnp.diagonal(factors.white, axis1=1, axis2=2)))
    log_normalizer = 0.5 * jnp.sum(factors.y**2) + log_volume + 0.5 * mean.size * LOG_TWO_PI
    return BlockPosterior(mean, covariance, cross[:-1], log_normalizer)


def solve(blocks: Blocks) -> Float[Array, "T L"]:
    """J^{-1} h, the mean: with the Hessian and the gradient of -log p in place of J and h, a step of Newton."""
    return _backward(_eliminate(blocks))


def sample(blocks: Blocks, *, key: Key) -> Float[Array, "T L"]:
    """z ~ N(J^{-1} h, J^{-1}), last frame first. Noise depends on the key and the frame's index alone."""
    factors = _eliminate(blocks)
    return _backward(factors._replace(y=factors.y + _noise(key, factors.y)))


class _Factors(NamedTuple):
    """J = F F', F block bidiagonal: `white` = F_tt^{-1} = K_t, `below` = F_{t+1,t} = E_t, `y` = F^{-1} h."""

    white: Float[Array, "T L L"]
    below: Float[Array, "T L L"]
    """The last one is zero: nothing comes after it."""
    y: Float[Array, "T L"]


def _eliminate(blocks: Blocks) -> _Factors:
    """Block Cholesky: F_tt F_tt' = J_tt - E_{t-1} E_{t-1}', E_t = J_{t+1,t} K_t', y_t = K_t (h_t - E_{t-1} y_{t-1})."""

    def step(before, frame):
        below, y = before
        diagonal, coupling, linear = frame
        white = inverse(cholesky(diagonal - _square(below)))
        y = applied(white, linear - applied(below, y))
        below = times(coupling, white.T)
        return (below, y), _Factors(white, below, y)

    nothing = jnp.zeros_like(blocks.diagonal[0])
    coupling = jnp.concatenate([blocks.below, nothing[None]])
    _, factors = _scan(step, (nothing, jnp.zeros_like(blocks.linear[0])), (blocks.diagonal, coupling, blocks.linear))
    return factors


def _backward(factors: _Factors) -> Float[Array, "T L"]:
    """F'^{-1} y: z_t = K_t' (y_t - E_t' z_{t+1})."""

    def step(z, frame):
        white, below, y = frame
        z = applied(white.T, y - applied(below.T, z))
        return z, z

    return _scan(step, jnp.zeros_like(factors.y[0]), factors, reverse=True)[1]


def _filter(
    dynamics: LinearDynamics,
    emission: LinearEmission,
    x: Float[Array, "T D"],
    observed: Bool[Array, "T D"],
    valid: FrameMask,
) -> Filtered:
    observed = observed & valid[:, None]
    noise = jnp.where(observed, emission.scale, 1.0)
    # In units of their noise, with zeros in place of what was not seen.
    seen = jnp.where(observed, x - emission.offset, 0.0) / noise
    looks = jnp.where(observed[:, :, None], emission.matrix, 0.0) / noise[:, :, None]

    def step(before, frame):
        matrix, offset, scale, moves, seen, looks = frame
        predicted = _where(moves, _predict(before, matrix, offset, scale), before)
        after, log_density = _update(predicted, seen, looks)
        return after, Filtered(*after, *predicted, log_likelihood=log_density)

    # Nothing moves into the first frame, nor into padding.
    still = jnp.eye(looks.shape[2], dtype=looks.dtype)
    frames = (
        jnp.concatenate([still[None], dynamics.matrix]),
        jnp.concatenate([jnp.zeros_like(still[:1]), dynamics.offset]),
        jnp.concatenate([still[None], dynamics.scale]),
        valid.at[0].set(False),
        seen,
        looks,
    )
    first = dynamics.first_mean, dynamics.first_scale
    _, filtered = _scan(step, first, frames)
    log_volume = jnp.sum(jnp.log(noise)) + 0.5 * LOG_TWO_PI * jnp.sum(observed)
    return filtered._replace(log_likelihood=jnp.sum(filtered.log_likelihood) - log_volume)


def _predict(state, matrix, offset, noise):
    """A m + b, and the factor of A S S' A' + Q Q'."""
    mean, scale = state
    return applied(matrix, mean) + offset, lower_factor(jnp.concatenate([times(matrix, scale), noise], axis=1))


def _update(state, seen, looks):
    """The state after a look, and log N(seen; looks z, I) without its 2 pi.

    Writing z = m + S w, w ~ N(0, I), the look is a least squares problem: w minimises |e - G w|^2 + |w|^2.
    """
    mean, scale = state
    gains = times(looks, scale)
    error = seen - applied(looks, mean)
    rows = jnp.concatenate([gains.T, jnp.eye(len(scale), dtype=scale.dtype)], axis=1)
    # Last row first: the factor of I + G'G is then an upper triangle, and S times its inverse transposed a lower one.
    _, basis = orthonormal(rows[::-1])
    left = residual(basis, jnp.concatenate([error, jnp.zeros_like(mean)]))
    shrink = basis[::-1, len(seen) :].T
    log_density = jnp.sum(jnp.log(jnp.diagonal(shrink))) - 0.5 * jnp.sum(left**2)
    return (mean - applied(scale, left[len(seen) :]), times(scale, shrink)), log_density


def _reversed(scale, matrix, noise):
    """J and Y of z_t | z_{t+1} ~ N(m_t + J (z_{t+1} - predicted), Y Y'), given the past.

    Both stand in the factor [[P, 0], [J P, Y]] of the joint covariance of (z_{t+1}, z_t).
    """
    size = len(scale)
    moved = jnp.concatenate([times(matrix, scale), noise], axis=1)
    stayed = jnp.concatenate([scale, jnp.zeros_like(noise)], axis=1)
    joint = lower_factor(jnp.concatenate([moved, stayed]))
    predicted, crossed, rest = joint[:size, :size], joint[size:, :size], joint[size:, size:]
    return times(crossed, inverse(predicted)), rest


def _square(factor: Float[Array, "L N"]) -> Float[Array, "L L"]:
    return times(factor, factor.T)


def _clean_dynamics(dynamics: LinearDynamics, valid: FrameMask) -> LinearDynamics:
    """Identity steps into padding, so that no NaN there reaches a value or a gradient."""
    still = jnp.broadcast_to(jnp.eye(len(dynamics.first_mean), dtype=dynamics.matrix.dtype), dynamics.matrix.shape)
    return dynamics._replace(
        matrix=_where(valid[1:], dynamics.matrix, still),
        offset=_where(valid[1:], dynamics.offset, jnp.zeros_like(dynamics.offset)),
        scale=_where(valid[1:], dynamics.scale, still),
    )


def _where(condition: Bool[Array, "*frames"], yes: Any, no: Any) -> Any:
    """Leaf by leaf; a condition per frame chooses whole frames."""

    def choose(a, b):
        return jnp.where(condition.reshape(condition.shape + (1,) * (a.ndim - condition.ndim)), a, b)

    return jax.tree.map(choose, yes, no)


def _scan(step: Callable, carry: Any, frames: Any, *, reverse: bool = False) -> tuple[Any, Any]:
    """A scan that computes its steps again on the way back: half the time and far less memory for a gradient."""
    return jax.lax.scan(jax.checkpoint(step, prevent_cse=False), carry, frames, reverse=reverse)


def _noise(key: Key, like: Float[Array, "T L"]) -> Float[Array, "T L"]:
    """Standard normal noise whose row t depends on the key and t alone."""
    keys = jax.vmap(lambda t: jax.random.fold_in(key, t))(jnp.arange(len(like)))
    return jax.vmap(lambda k: jax.random.normal(k, like.shape[1:], like.dtype))(keys)
