"""Gaussian noise against scipy: densities, marginals of what was observed, draws."""

from functools import partial

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from swerve.models.snlds.noise import DiagonalNoise, FullNoise, ScalarNoise

quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
RNG = np.random.default_rng(0)
K, N, FLOOR = 2, 3, 0.05
KINDS = pytest.mark.parametrize("kind", [DiagonalNoise, ScalarNoise, FullNoise])
SHARED = pytest.mark.parametrize("shared", [False, True], ids=["each", "shared"])
RESIDUAL = RNG.normal(size=(K, N)).astype(np.float32)


def fresh(kind, covariances):
    return kind(covariances, N, scale=0.7, floor=FLOOR)


def shaken(kind, covariances):
    moved = lambda leaf: np.float32(leaf + RNG.normal(size=leaf.shape) / 2)  # noqa: E731
    return jax.tree.map(moved, fresh(kind, covariances))


@quick_jit
def log_prob(noise, residual, observed=None):
    return noise.log_prob(residual, observed)


@quick_jit
def draws(noise, regime):
    keys = jax.random.split(jax.random.key(7), 20_000)
    return jax.vmap(lambda k: noise.sample(regime, key=k))(keys)


def covariance_of(noise, regime):
    """From the formula in the class, without the class."""
    if isinstance(noise, DiagonalNoise):
        scales = np.exp(np.asarray(noise.log_scale, float))
        return np.diag(FLOOR + scales[min(regime, len(scales) - 1)] ** 2)
    if isinstance(noise, ScalarNoise):
        scales = np.exp(np.asarray(noise.log_scale, float))
        return np.eye(N) * (FLOOR + scales[min(regime, len(scales) - 1)] ** 2)
    row = min(regime, len(noise.log_diagonal) - 1)
    factor = np.tril(np.asarray(noise.below_diagonal[row], float), -1)
    factor += np.diag(np.exp(np.asarray(noise.log_diagonal[row], float)))
    return factor @ factor.T + FLOOR * np.eye(N)


@KINDS
@SHARED
def test_log_prob_equals_scipy(kind, shared):
    noise = shaken(kind, 1 if shared else K)
    expected = [multivariate_normal.logpdf(RESIDUAL[k], cov=covariance_of(noise, k)) for k in range(K)]
    np.testing.assert_allclose(log_prob(noise, RESIDUAL), expected, rtol=1e-5)


@KINDS
@pytest.mark.parametrize("observed", [(True, False, True), (False, False, True), (False, False, False)])
def test_missing_entries_are_integrated_out(kind, observed):
    noise, seen = shaken(kind, K), np.array(observed)
    expected = [
        multivariate_normal.logpdf(RESIDUAL[k][seen], cov=covariance_of(noise, k)[np.ix_(seen, seen)])
        if seen.any()
        else 0.0
        for k in range(K)
    ]
    garbage = np.where(seen, RESIDUAL, np.float32(1e6))
    np.testing.assert_allclose(log_prob(noise, garbage, seen), expected, rtol=1e-5, atol=1e-6)


@KINDS
def test_the_floor_holds_where_the_learned_scale_vanishes(kind):
    scales = (lambda n: n.log_diagonal) if kind is FullNoise else (lambda n: n.log_scale)
    noise = eqx.tree_at(scales, fresh(kind, 1), replace_fn=lambda leaf: np.full(leaf.shape, -40.0, np.float32))
    at_zero = multivariate_normal.logpdf(np.zeros(N), cov=FLOOR * np.eye(N))
    np.testing.assert_allclose(log_prob(noise, np.zeros((1, N), np.float32)), [at_zero], rtol=1e-5)


@KINDS
@SHARED
def test_draws_have_the_covariance(kind, shared):
    noise = shaken(kind, 1 if shared else K)
    for regime in range(K):
        drawn = np.asarray(draws(noise, regime))
        expected = covariance_of(noise, regime)
        tolerance = 0.05 * np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        assert (np.abs(np.cov(drawn.T) - expected) < tolerance).all()
        assert (np.abs(drawn.mean(axis=0)) < 0.05 * np.sqrt(np.diag(expected))).all()


@KINDS
def test_the_starting_scale_is_the_one_asked_for(kind):
    expected = multivariate_normal.logpdf(np.ones(N), cov=(0.7**2 + FLOOR) * np.eye(N))
    started = log_prob(fresh(kind, 1), np.ones((1, N), np.float32))
    np.testing.assert_allclose(started, [expected], rtol=1e-5)
