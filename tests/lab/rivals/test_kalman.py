"""Filtering and smoothing of linear systems, against one dense Gaussian over all frames in float64."""

from functools import partial

import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve_lab.rivals import kalman

# Compiling is what takes time here: few shapes, used again and again, and little optimisation.
quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
T, L, D = 6, 3, 2
SHAPES = [(1, 1, 1), (1, 3, 2), (2, 2, 4), (T, 1, 2), (T, L, D), (T, 2, 5)]


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def triangles(rng, *shape, scale=1.0):
    """Lower triangles with a positive diagonal."""
    size = shape[-1]
    lower = np.tril(0.4 * rng.normal(size=(*shape, size)), -1)
    return scale * (lower + rng.uniform(0.5, 1.5, size=(*shape, 1)) * np.eye(size))


def system(T=T, L=L, D=D, *, seed=0, noise=0.5, sight=0.5, dtype=None):
    """Random dynamics, emission and x, everything different in every frame."""
    rng = np.random.default_rng(seed)
    turns = np.linalg.qr(rng.normal(size=(T - 1, L, L)))[0]
    dynamics = kalman.LinearDynamics(
        rng.normal(size=L),
        triangles(rng, L),
        0.95 * turns,
        rng.normal(size=(T - 1, L)),
        triangles(rng, T - 1, L, scale=noise),
    )
    emission = kalman.LinearEmission(
        rng.normal(size=(T, D, L)), rng.normal(size=(T, D)), sight * rng.uniform(0.5, 1.5, size=(T, D))
    )
    x = 2 * rng.normal(size=(T, D))
    return jax.tree.map(lambda array: jnp.asarray(array, dtype), (dynamics, emission, x))


def gaps(T=T, D=D, seed=0):
    """Values missing here and there, and of two frames all of them."""
    observed = np.random.default_rng(seed).random((T, D)) < 0.7
    observed[[T // 2, T - 1]] = False
    return jnp.asarray(observed)


def dense_prior(dynamics, xp=np):
    """Mean (T L) and covariance (T L, T L) of the whole path, by NumPy or by JAX."""
    means, rows = [dynamics.first_mean], [[dynamics.first_scale @ dynamics.first_scale.T]]
    for matrix, offset, scale in zip(dynamics.matrix, dynamics.offset, dynamics.scale, strict=True):
        means.append(matrix @ means[-1] + offset)
        moved = [matrix @ block for block in rows[-1]]
        for row, block in zip(rows, moved, strict=True):
            row.append(block.T)
        rows.append([*moved, moved[-1] @ matrix.T + scale @ scale.T])
    return xp.concatenate(means), xp.block(rows)


def by_frame(mean, covariance, L):
    """Means (T, L), covariances (T, L, L) and Cov(z_{t+1}, z_t) (T-1, L, L) out of the dense ones."""
    T = len(mean) // L
    blocks = covariance.reshape(T, L, T, L).swapaxes(1, 2)
    t = np.arange(T)
    return mean.reshape(T, L), blocks[t, t], blocks[t[1:], t[:-1]]


def dense_posterior(dynamics, emission, x, observed, xp=np):
    """Means, covariances, cross-covariances and log p(x)."""
    if xp is np:
        dynamics, emission, x = jax.tree.map(np.asarray, (dynamics, emission, x))
    mean, covariance = dense_prior(dynamics, xp)
    seen = np.flatnonzero(observed)
    looks = xp.einsum("tdl,ts->tdsl", emission.matrix, np.eye(len(x))).reshape(x.size, len(mean))[seen]
    error = (x - emission.offset).reshape(-1)[seen] - looks @ mean
    spread = looks @ covariance @ looks.T + xp.diag(emission.scale.reshape(-1)[seen] ** 2)
    gain = xp.linalg.solve(spread, looks @ covariance).T
    log_volume = xp.linalg.slogdet(spread)[1] + len(seen) * np.log(2 * np.pi)
    log_likelihood = -0.5 * (error @ xp.linalg.solve(spread, error) + log_volume)
    posterior = mean + gain @ error, covariance - gain @ looks @ covariance
    return *by_frame(*posterior, dynamics.first_mean.size), log_likelihood


def close(actual, expected, atol=1e-9):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=atol), actual, expected)


def all_finite(tree):
    return all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(tree))


def everywhere(x):
    return jnp.ones(x.shape, bool), jnp.ones(len(x), bool)


smooth = quick_jit(kalman.smooth)
filter = quick_jit(kalman.filter)
blocks_of = quick_jit(kalman.blocks_of)
posterior_of_blocks = quick_jit(kalman.posterior_of_blocks)
solve = quick_jit(kalman.solve)
sample = quick_jit(kalman.sample)
sample_path = quick_jit(kalman.sample_path)


def check_smoother(dynamics, emission, x, observed):
    valid = jnp.ones(len(x), bool)
    expected = dense_posterior(dynamics, emission, x, np.asarray(observed))
    smoothed = smooth(dynamics, emission, jnp.where(observed, x, jnp.nan), observed, valid)
    close(smoothed[:4], expected)
    close(smoothed.scale @ smoothed.scale.swapaxes(1, 2), expected[1])
    assert_triangles(smoothed.scale)


def assert_triangles(scale):
    assert not np.triu(scale, 1).any()
    assert (np.diagonal(scale, axis1=1, axis2=2) > 0).all()


@pytest.mark.parametrize(("T", "L", "D"), SHAPES)
def test_smoothing_agrees_with_the_dense_gaussian(x64, T, L, D):
    dynamics, emission, x = system(T, L, D)
    check_smoother(dynamics, emission, x, jnp.ones((T, D), bool))
    check_smoother(dynamics, emission, x, gaps(T, D))


@pytest.mark.parametrize(("T", "L", "D"), [(T, L, D), (2, 2, 4)])
def test_filtering_is_smoothing_of_what_was_seen_so_far(x64, T, L, D):
    dynamics, emission, x = system(T, L, D)
    observed, valid = gaps(T, D), jnp.ones(T, bool)
    filtered = filter(dynamics, emission, jnp.where(observed, x, jnp.nan), observed, valid)
    for t in range(T):
        for until, mean, scale in (
            (t + 1, filtered.mean, filtered.scale),
            (t, filtered.predicted_mean, filtered.predicted_scale),
        ):
            so_far = np.asarray(observed) & (np.arange(T) < until)[:, None]
            means, covariances, *_ = dense_posterior(dynamics, emission, x, so_far)
            close((mean[t], scale[t] @ scale[t].T), (means[t], covariances[t]))
    close(filtered.log_likelihood, dense_posterior(dynamics, emission, x, np.asarray(observed))[3])
    assert_triangles(filtered.scale)
    assert_triangles(filtered.predicted_scale)


def test_nothing_seen_is_the_prior(x64):
    dynamics, emission, x = system()
    smoothed = smooth(dynamics, emission, x * jnp.nan, jnp.zeros(x.shape, bool), jnp.ones(T, bool))
    close(smoothed[:3], by_frame(*dense_prior(jax.tree.map(np.asarray, dynamics)), L))
    assert smoothed.log_likelihood == 0


entry = st.floats(-3, 3)
positive = st.floats(0.05, 3)


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    hnp.arrays(float, (T - 1, L, L), elements=entry),
    hnp.arrays(float, (T - 1, L), elements=positive),
    hnp.arrays(float, (T, D, L), elements=entry),
    hnp.arrays(float, (T, D), elements=positive),
    hnp.arrays(bool, (T, D)),
)
def test_any_system_agrees_with_the_dense_gaussian(matrix, noise, looks, sight, observed):
    with jax.enable_x64(True):
        dynamics, emission, x = system()
        dynamics = dynamics._replace(matrix=jnp.asarray(matrix) / 3, scale=jnp.asarray(noise[:, :, None] * np.eye(L)))
        emission = emission._replace(matrix=jnp.asarray(looks), scale=jnp.asarray(sight))
        expected = dense_posterior(dynamics, emission, x, observed)
        smoothed = smooth(dynamics, emission, x, jnp.asarray(observed), jnp.ones(T, bool))
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-6), smoothed[:4], expected)


def loss_of(mean, covariance, cross, log_likelihood):
    """Anything nonlinear in a posterior."""
    return jnp.sum(jnp.sin(mean)) + jnp.sum(covariance**2) + jnp.sum(jnp.cos(cross)) + log_likelihood


def gradient_of_smooth(dynamics, emission, x, observed, valid):
    """Of `loss_of` over the valid frames."""

    def loss(dynamics, emission, x):
        smoothed = kalman.smooth(dynamics, emission, x, observed, valid)
        mean = jnp.where(valid[:, None], smoothed.mean, 0.0)
        covariance = jnp.where(valid[:, None, None], smoothed.covariance, 0.0)
        cross = jnp.where(valid[1:, None, None], smoothed.cross_covariance, jnp.pi / 2)
        return loss_of(mean, covariance, cross, smoothed.log_likelihood)

    return jax.grad(loss, (0, 1, 2))(dynamics, emission, x)


gradient = quick_jit(gradient_of_smooth)


def dense_gradient(dynamics, emission, x, observed):
    def loss(dynamics, emission, x):
        mean, covariance, cross, log_likelihood = dense_posterior(dynamics, emission, x, np.asarray(observed), jnp)
        return loss_of(mean, covariance, cross, log_likelihood)

    return quick_jit(jax.grad(loss, (0, 1, 2)))(dynamics, emission, x)


def lower(gradients):
    """Above the diagonal of a scale there is nothing to move."""
    dynamics, emission, x = gradients
    return dynamics._replace(first_scale=jnp.tril(dynamics.first_scale), scale=jnp.tril(dynamics.scale)), emission, x


@pytest.mark.parametrize("missing", [False, True])
def test_gradients_agree_with_the_dense_gaussian(x64, missing):
    dynamics, emission, x = system()
    observed = gaps() if missing else jnp.ones((T, D), bool)
    found = gradient(dynamics, emission, jnp.where(observed, x, jnp.nan), observed, jnp.ones(T, bool))
    close(lower(found), lower(dense_gradient(dynamics, emission, x, observed)))


def pad(array, frames, content):
    return jnp.pad(array, ((0, frames),) + ((0, 0),) * (array.ndim - 1), constant_values=content)


def pad_system(dynamics, emission, x, observed, frames, content):
    """`observed` is True in padding, so that only `valid` can tell."""
    steps, emission, x = jax.tree.map(partial(pad, frames=frames, content=content), (dynamics[2:], emission, x))
    dynamics = kalman.LinearDynamics(*dynamics[:2], *steps)
    return dynamics, emission, x, pad(observed, frames, True), jnp.arange(len(x)) < len(x) - frames


@pytest.mark.parametrize("length", [1, 2, T - 1])
def test_padding_changes_nothing(x64, length):
    frames = T - length
    dynamics, emission, x = system(length)
    observed = gaps(length).at[0].set(True)
    expected = dense_posterior(dynamics, emission, x, observed)
    expected_gradient = lower(dense_gradient(dynamics, emission, x, observed))
    for content in (np.nan, np.inf, 0.0):
        args = pad_system(dynamics, emission, x, observed, frames, content)
        smoothed = smooth(*args)
        close(tuple(array[: len(short)] for array, short in zip(smoothed, expected[:3], strict=False)), expected[:3])
        close((smoothed.log_likelihood, filter(*args).log_likelihood), (expected[3],) * 2)
        last_mean, last_covariance = smoothed.mean[length - 1], smoothed.covariance[length - 1]
        assert (smoothed.mean[length:] == last_mean[None]).all()
        assert (smoothed.covariance[length:] == last_covariance[None]).all()
        assert (smoothed.cross_covariance[length - 1 :] == last_covariance[None]).all()
        found = jax.tree.leaves(lower(gradient(*args)))
        for array, short in zip(found, jax.tree.leaves(expected_gradient), strict=True):
            close(array[: len(short)], short)
            assert not array[len(short) :].any()


def test_a_sequence_of_padding_alone_counts_for_nothing(x64):
    dynamics, emission, x = system()
    nowhere = jnp.zeros((T, D), bool), jnp.zeros(T, bool)
    smoothed = smooth(dynamics, emission, x * jnp.nan, *nowhere)
    assert smoothed.log_likelihood == 0
    close(smoothed.mean, np.tile(dynamics.first_mean, (T, 1)))
    assert all_finite(gradient(dynamics, emission, x * jnp.nan, *nowhere))


def test_a_nan_that_was_observed_is_not_hidden(x64):
    dynamics, emission, x = system()
    assert jnp.isnan(smooth(dynamics, emission, x.at[2, 0].set(jnp.nan), *everywhere(x)).log_likelihood)


def test_a_batch_is_its_sequences_one_by_one(x64):
    batch = [(*system(seed=seed), gaps(seed=seed), jnp.arange(T) < length) for seed, length in enumerate((T, 4, 1))]
    together = quick_jit(jax.vmap(kalman.smooth))(*jax.tree.map(lambda *leaves: jnp.stack(leaves), *batch))
    for n, args in enumerate(batch):
        close(jax.tree.map(lambda leaf: leaf[n], together), smooth(*args))  # noqa: B023


def double(tree):
    return jax.tree.map(lambda a: jnp.asarray(np.asarray(a), jnp.float64 if a.dtype == jnp.float32 else a.dtype), tree)


@pytest.mark.slow
def test_single_precision_survives_systems_that_are_nearly_deterministic():
    """A large batch, in which jaxlib's own small-matrix functions were seen to hang."""
    T, cases = 500, [(1e-6, 1e-4), (1e-6, 1.0), (1.0, 1e-4), (0.1, 0.1)]
    batch = [
        system(T, seed=seed, noise=noise, sight=sight, dtype=jnp.float32)
        for noise, sight in cases
        for seed in range(16)
    ]
    dynamics, emission, _ = jax.tree.map(lambda *leaves: jnp.stack(leaves), *batch)
    keys = jax.random.split(jax.random.key(0), len(batch))
    path = quick_jit(jax.vmap(lambda dynamics, key: kalman.sample_path(dynamics, key=key)))(dynamics, keys)
    x = jnp.einsum("ntdl,ntl->ntd", emission.matrix, path) + emission.offset
    observed = jnp.stack([gaps(T, seed=seed) for seed in range(len(batch))])
    args = dynamics, emission, x, observed, jnp.ones(x.shape[:2], bool)
    smoothed, filtered, gradients = (
        quick_jit(jax.vmap(function))(*args) for function in (kalman.smooth, kalman.filter, gradient_of_smooth)
    )
    assert all_finite((smoothed, filtered, gradients))
    for scale in (smoothed.scale, filtered.scale, filtered.predicted_scale):
        assert_triangles(scale.reshape(-1, L, L))
    with jax.enable_x64(True):
        exact = jax.tree.map(np.asarray, quick_jit(jax.vmap(kalman.smooth))(*double(args)))
    size = np.abs(exact.mean).max(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(smoothed.mean / size, exact.mean / size, atol=1e-4)
    deviations = [np.sqrt(np.diagonal(one.covariance, axis1=2, axis2=3)) for one in (smoothed, exact)]
    np.testing.assert_allclose(*deviations, rtol=1e-3)
    np.testing.assert_allclose(smoothed.log_likelihood, exact.log_likelihood, rtol=1e-3)


def dense(blocks):
    """J and h, the triangles above the diagonal filled in from below."""
    T, L = blocks.linear.shape
    precision = jnp.zeros((T, L, T, L))
    t = np.arange(T)
    precision = precision.at[t, :, t].set(jnp.tril(blocks.diagonal)).at[t[1:], :, t[:-1]].set(blocks.below)
    precision = precision.reshape(T * L, T * L)
    return precision + jnp.tril(precision, -1).T, blocks.linear.reshape(-1)


def dense_blocks(blocks):
    precision, linear = dense(blocks)
    covariance = jnp.linalg.inv(precision)
    mean = covariance @ linear
    log_z = 0.5 * (linear @ mean - jnp.linalg.slogdet(precision)[1] + linear.size * jnp.log(2 * jnp.pi))
    return kalman.BlockPosterior(*by_frame(mean, covariance, blocks.linear.shape[1]), log_z)


def some_blocks(T=T, L=L, seed=0):
    """A random prior sharpened by random potentials."""
    rng = np.random.default_rng(seed)
    blocks, _ = blocks_of(system(T, L)[0])
    roots = jnp.asarray(rng.normal(size=(T, L, L)))
    return blocks._replace(
        diagonal=blocks.diagonal + roots @ roots.swapaxes(1, 2),
        linear=blocks.linear + jnp.asarray(rng.normal(size=(T, L))),
    )


@pytest.mark.parametrize(("T", "L"), [(1, 2), (2, 1), (T, L)])
def test_block_posteriors_agree_with_the_dense_gaussian(x64, T, L):
    blocks = some_blocks(T, L)
    posterior = posterior_of_blocks(blocks)
    close(posterior, quick_jit(dense_blocks)(blocks))
    close(solve(blocks), posterior.mean)


def test_gradients_of_block_posteriors_agree_with_the_dense_gaussian(x64):
    blocks = some_blocks()
    found, expected = (
        quick_jit(jax.grad(lambda blocks, infer=infer: loss_of(*infer(blocks))))(blocks)
        for infer in (kalman.posterior_of_blocks, dense_blocks)
    )
    close(found, expected)
    by_linear = quick_jit(jax.grad(lambda blocks: kalman.posterior_of_blocks(blocks).log_normalizer))(blocks).linear
    close(by_linear, posterior_of_blocks(blocks).mean)


def test_the_blocks_of_dynamics_are_their_prior(x64):
    dynamics, _, _ = system()
    blocks, log_z = blocks_of(dynamics)
    prior = posterior_of_blocks(blocks)
    close(prior[:3], by_frame(*dense_prior(jax.tree.map(np.asarray, dynamics)), L))
    close(prior.log_normalizer, log_z)


def test_potentials_added_to_the_prior_are_smoothing(x64):
    dynamics, emission, x = system()
    observed, valid = gaps(), jnp.arange(T) < T - 2
    seen = observed & valid[:, None]
    weights = jnp.where(seen, emission.scale**-2, 0.0)
    errors = jnp.where(seen, x - emission.offset, 0.0)
    prior, log_prior = blocks_of(dynamics._replace(matrix=dynamics.matrix.at[T - 3 :].set(jnp.nan)), valid)
    blocks = prior._replace(
        diagonal=prior.diagonal + jnp.einsum("tdl,td,tdm->tlm", emission.matrix, weights, emission.matrix),
        linear=prior.linear + jnp.einsum("tdl,td->tl", emission.matrix, weights * errors),
    )
    posterior = posterior_of_blocks(blocks)
    smoothed = smooth(dynamics, emission, x, observed, valid)
    close(posterior.mean[: T - 2], smoothed.mean[: T - 2])
    close(posterior.covariance[: T - 2], smoothed.covariance[: T - 2])
    close(posterior.cross_covariance[: T - 3], smoothed.cross_covariance[: T - 3])
    # In padding: standard normals on their own.
    close(posterior.mean[T - 2 :], np.zeros((2, L)))
    close(posterior.covariance[T - 2 :], np.tile(np.eye(L), (2, 1, 1)))
    log_density = -0.5 * jnp.sum(weights * errors**2 + seen * jnp.log(2 * jnp.pi * emission.scale**2))
    close(posterior.log_normalizer - log_prior + log_density, smoothed.log_likelihood)


def check_moments(draws, mean, covariance, cross):
    """Of draws (N, T, L); errors are some 1 / sqrt(N)."""
    centred = draws - draws.mean(0)
    tolerance = 5 * np.sqrt(2 / len(draws)) * np.abs(covariance).max()
    np.testing.assert_allclose(draws.mean(0), mean, atol=tolerance)
    np.testing.assert_allclose(np.einsum("ntl,ntm->tlm", centred, centred) / len(draws), covariance, atol=tolerance)
    lagged = np.einsum("ntl,ntm->tlm", centred[:, 1:], centred[:, :-1]) / len(draws)
    np.testing.assert_allclose(lagged, cross, atol=tolerance)


KEYS = 20_000


def test_samples_have_the_moments_of_their_blocks():
    blocks = some_blocks()
    draws = quick_jit(jax.vmap(lambda key: kalman.sample(blocks, key=key)))(jax.random.split(jax.random.key(0), KEYS))
    check_moments(np.asarray(draws, float), *posterior_of_blocks(blocks)[:3])


def test_paths_have_the_moments_of_their_dynamics():
    dynamics, _, _ = system()
    draw = quick_jit(jax.vmap(lambda key: kalman.sample_path(dynamics, key=key)))
    draws = draw(jax.random.split(jax.random.key(0), KEYS))
    check_moments(np.asarray(draws, float), *by_frame(*dense_prior(jax.tree.map(np.asarray, dynamics)), L))


def test_padding_changes_no_draw(x64):
    dynamics, _, _ = system()
    short = dynamics._replace(matrix=dynamics.matrix[:3], offset=dynamics.offset[:3], scale=dynamics.scale[:3])
    key = jax.random.key(0)
    close(sample_path(dynamics, key=key)[:4], sample_path(short, key=key))
    padded, _ = blocks_of(dynamics, jnp.arange(T) < 4)
    alone, _ = blocks_of(short)
    close(sample(padded, key=key)[:4], sample(alone, key=key))


def test_blocks_that_are_not_positive_definite_are_not_hidden():
    blocks = some_blocks()
    assert jnp.isnan(posterior_of_blocks(blocks._replace(diagonal=-blocks.diagonal)).log_normalizer)
