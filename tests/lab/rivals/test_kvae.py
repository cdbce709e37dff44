"""The Kalman VAE against exact likelihoods, what its weights may depend on, and systems that it must tell apart."""

from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from swerve.choosing.scores import score
from swerve.inference.frames import Frames
from swerve.learning.schedule import Schedule
from swerve.learning.step import Restart, TrainingData, advance, start
from swerve.models.model import Knobs
from swerve_lab.rivals import kalman
from swerve_lab.rivals.kvae import KvaeOptions, build
from swerve_lab.rivals.shape import Shape

quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
K, T, D, M, L, U = 2, 6, 3, 2, 2, 1
LONG = T + 3  # with padding
KEY, NONE = jax.random.key(0), jnp.array(0)
OPTIONS = KvaeOptions(code_size=M, network_size=4)
SHAPE = Shape(
    regimes=K,
    state_size=L,
    channels=D,
    controls=U,
    dynamics_hidden=(),
    emission_hidden=(),
    embedding_hidden=(8,),
    encoder_size=4,
    causal_size=4,
    dynamics_noise_start=0.3,
    dynamics_noise_floor=1e-7,
    emission_noise_start=0.2,
    emission_noise_floor=1e-4,
    stickiness=0.0,
)


@cache
def some_system(options=OPTIONS, weighs=5.0, seed=0, **shape):
    """With weights that depend strongly on the codes."""
    system = build(options, SHAPE._replace(**shape), key=jax.random.key(seed))
    return eqx.tree_at(lambda s: s.weights.weight, system, replace_fn=lambda weight: weighs * weight)


def some_frames(length=T, *, frames=T, channels=D, controls=U, padding=np.nan):
    rng = np.random.default_rng(1)
    x, u = np.float32(rng.normal(size=(frames, channels))), np.float32(rng.normal(size=(frames, controls)))
    x, u = (np.pad(a, ((0, length - frames), (0, 0)), constant_values=padding) for a in (x, u))
    return Frames(*map(jnp.asarray, (x, np.ones((length, channels), bool), np.arange(length) < frames, u)))


def with_gaps(frames):
    """A value, two values and a whole frame are missing."""
    observed = frames.observed.at[1, 0].set(False).at[4, 1:].set(False).at[3].set(False)
    return frames._replace(x=jnp.where(observed, frames.x, jnp.nan), observed=observed)


@quick_jit
def elbo_of_draw(system, frames, key, progress):
    return system.terms(frames, Knobs(progress=progress), key=key).elbo


def elbo(system, frames, key=KEY, progress=1.0):
    return elbo_of_draw(system, frames, key, progress)


@quick_jit
def elbo_and_gradient(system, frames):
    return jax.value_and_grad(lambda system: system.terms(frames, Knobs(), key=KEY).elbo)(system)


@quick_jit
def inferred(system, frames):
    return system.infer(frames, samples=3, key=KEY)


@quick_jit
def look(system, frames):
    """q(a | x), the draw of it that the objective took, and the weights under it."""
    codes = system.codes(frames.blanked())
    a = codes.draw(KEY)
    return codes, a, system.mixture(a, codes.seen)


def joint_gaussian(system, u):
    """Mean and covariance of (a, x), all frames of each in a row, for a single system with a linear decoder."""
    one = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), system)
    A, B, C = one.transition[0], one.drive[0], one.emission[0]
    Q, R_a, R_x, first = (
        np.diag(noise.variance[0]) for noise in (one.z_noise, one.a_noise, one.x_noise, one.first_noise)
    )
    W, bias = one.decoder.layers[0].weight, one.decoder.layers[0].bias
    means, covariance = [one.first_mean], np.zeros((T * L, T * L))
    covariance[:L, :L] = first
    for t in range(1, T):
        here, last = slice(t * L, (t + 1) * L), slice((t - 1) * L, t * L)
        means.append(A @ means[-1] + B @ np.append(u[t], 1.0))
        covariance[here, : t * L] = A @ covariance[last, : t * L]
        covariance[: t * L, here] = covariance[here, : t * L].T
        covariance[here, here] = A @ covariance[last, last] @ A.T + Q
    every = np.eye(T)
    codes = np.kron(every, C) @ covariance @ np.kron(every, C).T + np.kron(every, R_a)
    decoded = np.kron(every, W)
    a_mean = (np.stack(means) @ C.T).ravel()
    x_mean = decoded @ a_mean + np.tile(bias, T)
    cross = decoded @ codes
    both = np.block([[codes, cross.T], [cross, cross @ decoded.T + np.kron(every, R_x)]])
    return np.concatenate([a_mean, x_mean]), both


def exact(system, frames, codes):
    """log p(x), and p(a | x) of the frames that have a code, by dense linear algebra in double precision."""
    mean, covariance = joint_gaussian(system, frames.u)
    a = np.flatnonzero(np.repeat(codes.seen, M))
    x = T * M + np.flatnonzero(frames.observed)
    seen = frames.x[frames.observed]
    log_x = multivariate_normal(mean[x], covariance[np.ix_(x, x)]).logpdf(seen)
    gain = np.linalg.solve(covariance[np.ix_(x, x)], covariance[np.ix_(x, a)]).T
    return log_x, mean[a] + gain @ (seen - mean[x]), covariance[np.ix_(a, a)] - gain @ covariance[np.ix_(x, a)]


@pytest.mark.parametrize("change", [lambda frames: frames, with_gaps])
def test_a_draw_is_worth_the_exact_likelihood_less_what_q_misjudges(change):
    """log p(x | a) + log p(a) = log p(x) + log p(a | x), whatever a is."""
    system, frames = some_system(regimes=1), change(some_frames())
    codes, a, _ = jax.tree.map(np.asarray, look(system, frames))
    log_x, mean, covariance = exact(system, frames, codes)
    log_posterior = multivariate_normal(mean, covariance).logpdf(a[codes.seen].ravel())
    np.testing.assert_allclose(elbo(system, frames), log_x + log_posterior + codes.entropy, rtol=1e-4)


def reads_straight(system, W, noise):
    """q(a | x) = N(W^{-1} x, W^{-1} R W^{-1}): the best where x tells the code far better than its neighbours do."""
    back = np.linalg.inv(W)
    first, last = system.encoder.layers
    split = np.zeros(first.weight.shape)
    split[:M, :M], split[M : 2 * M, :M] = back, -back
    joined = np.zeros(last.weight.shape)
    joined[:M, :M], joined[:M, M : 2 * M] = np.eye(M), -np.eye(M)  # relu(v) - relu(-v) = v
    raw = np.log(np.expm1(noise / np.diag(W) - 1e-4))
    return eqx.tree_at(
        lambda s: [leaf for layer in (*s.encoder.layers, *s.decoder.layers) for leaf in (layer.weight, layer.bias)],
        system,
        [jnp.float32(leaf) for leaf in (split, np.zeros(8), joined, np.append(np.zeros(M), raw), W, np.zeros(M))],
    )


def test_the_bound_is_below_the_exact_likelihood_and_close_to_it_where_q_can_be_right():
    """q knows nothing of other frames: it is right where x tells the code with a noise far below that of the code."""
    noise, W = 0.005, np.diag([1.5, 0.5])
    system = some_system(regimes=1, channels=M, emission_noise_start=noise, emission_noise_floor=0.0)
    system, frames = reads_straight(system, W, noise), some_frames(channels=M)
    codes, _, _ = jax.tree.map(np.asarray, look(system, frames))
    log_x, mean, covariance = exact(system, frames, codes)
    precision = np.linalg.inv(covariance)
    apart = codes.mean.ravel() - mean
    q_variance = codes.scale.ravel() ** 2
    missed = 0.5 * (
        np.diag(precision) @ q_variance
        + apart @ precision @ apart
        - T * M
        + np.linalg.slogdet(covariance)[1]
        - np.log(q_variance).sum()
    )
    assert 0 < missed < 0.2  # KL(q(a | x) || p(a | x)), of all frames together
    draws = jax.vmap(lambda key: elbo(system, frames, key))(jax.random.split(KEY, 10_000))
    error = float(draws.std()) / 100
    np.testing.assert_allclose(draws.mean(), log_x - missed, atol=4 * error + 1e-3)
    assert error < 0.03


@pytest.mark.slow
def test_codes_have_a_density_though_the_weights_depend_on_them():
    """Over a grid of both codes: p(a) integrates to 1, and p(x) is what weighing draws of q gives."""
    options, shape = KvaeOptions(code_size=1, network_size=4), {"state_size": 1, "channels": 1, "controls": 0}
    system = some_system(options, weighs=20.0, emission_noise_start=0.5, **shape)
    turns, scale_of_q = jnp.array([[[-0.9]], [[0.9]]]), jnp.array([0.0, 0.5])
    system = eqx.tree_at(lambda s: (s.transition, s.encoder.layers[-1].bias), system, (turns, scale_of_q))
    frames = some_frames(frames=2, length=2, channels=1, controls=0)
    valid = jnp.ones(2, bool)

    @quick_jit
    def log_densities(a):
        """log p(a), log p(x | a)."""
        dynamics, emission = system.linear_system(system.mixture(a, valid), frames.u)
        log_a = kalman.filter(dynamics, emission, a, valid[:, None], valid).log_likelihood
        residuals = frames.x - jax.vmap(system.decoder)(a)
        return log_a, jax.vmap(system.x_noise.log_prob)(residuals[:, None]).sum()

    side = jnp.linspace(-6.0, 6.0, 241)
    grid = jnp.stack(jnp.meshgrid(side, side), axis=-1).reshape(-1, 2, 1)
    log_a, log_x_given_a = jax.vmap(log_densities)(grid)
    area = (side[1] - side[0]) ** 2
    np.testing.assert_allclose(jnp.exp(log_a).sum() * area, 1.0, atol=1e-3)
    log_x = jax.nn.logsumexp(log_a + log_x_given_a) + jnp.log(area)

    def log_weight(key):
        codes = system.codes(frames.blanked())
        a = codes.draw(key)
        log_q = jax.scipy.stats.norm.logpdf(a, codes.mean, codes.scale).sum()
        bound = elbo(system, frames, key)
        return bound - codes.entropy - log_q, bound

    log_weights, bounds = jax.vmap(log_weight)(jax.random.split(KEY, 20_000))
    np.testing.assert_allclose(jax.nn.logsumexp(log_weights) - jnp.log(20_000.0), log_x, atol=0.05)
    assert bounds.mean() < log_x


def test_weights_are_shares_that_depend_on_earlier_codes_alone():
    system, a = some_system(), jax.random.normal(KEY, (T, M))
    changed = a[None] + jnp.eye(T + 1, T)[:, :, None]  # one frame each, and none at last
    *others, alpha = jax.vmap(lambda a: system.mixture(a, jnp.ones(T, bool)))(changed)
    np.testing.assert_allclose(alpha.sum(axis=1), 1.0, rtol=1e-5)
    assert (alpha > 0).all()
    for t, other in enumerate(others):
        np.testing.assert_array_equal(other[: t + 1], alpha[: t + 1])
        assert t == T - 1 or not np.allclose(other[t + 1], alpha[t + 1])


def test_all_systems_weigh_the_same_at_first():
    options = KvaeOptions(code_size=M, network_size=4, uniform_until=0.5)
    system = some_system(options)
    uniform = eqx.tree_at(lambda s: (s.weights.weight, s.weights.bias), system, replace_fn=jnp.zeros_like)
    assert elbo(system, some_frames(), progress=0.4) == elbo(uniform, some_frames(), progress=1.0)
    assert elbo(system, some_frames(), progress=0.5) == elbo(system, some_frames())
    assert elbo(system, some_frames(), progress=0.5) != elbo(uniform, some_frames())


def test_padding_changes_nothing_and_every_parameter_has_a_gradient():
    system, short, long = some_system(), with_gaps(some_frames()), with_gaps(some_frames(LONG))
    same = partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4)
    found = elbo_and_gradient(system, short)
    jax.tree.map(same, elbo_and_gradient(system, long), found)
    assert all(np.isfinite(leaf).all() and np.any(leaf != 0) for leaf in jax.tree.leaves(found))
    for padded, plain in zip(inferred(system, long), inferred(system, short), strict=True):
        same(padded[:T], plain)


@pytest.mark.parametrize(("regimes", "frames", "channels", "controls"), [(1, 2, D, U), (K, 2, 1, 0), (K, 1, 1, 0)])
def test_small_cases(regimes, frames, channels, controls):
    system = some_system(KvaeOptions(), emission_hidden=(4,), regimes=regimes, channels=channels, controls=controls)
    given = some_frames(frames, frames=frames, channels=channels, controls=controls)
    assert np.isfinite(elbo(system, given))
    found = inferred(system, given)
    np.testing.assert_array_equal(found.expected, inferred(system, given).expected)
    assert found.probabilities.shape == (frames, regimes) and found.expected.shape == (frames, channels)
    np.testing.assert_array_equal(found.probabilities[0], found.probabilities[min(1, frames - 1)])
    np.testing.assert_array_equal(found.path, np.argmax(found.probabilities, axis=1))


def test_frames_that_are_all_missing_lose_nothing_but_their_evidence():
    frames = some_frames()
    nothing = frames._replace(x=frames.x * jnp.nan, observed=jnp.zeros_like(frames.observed))
    np.testing.assert_allclose(elbo(some_system(), nothing), 0.0, atol=1e-5)
    assert np.isfinite(inferred(some_system(), nothing).expected).all()


def alternating(sequences, *, seed):
    """A point that circles one way or the other for some twenty frames at a time, and the way into each frame."""
    rng = np.random.default_rng(seed)
    switches = rng.random((sequences, 60)) < 0.05
    truth = (rng.integers(2, size=(sequences, 1)) + np.cumsum(switches, axis=1)) % 2
    truth[:, 0] = truth[:, 1]
    z = [rng.normal(size=sequences) + 1j * rng.normal(size=sequences)]
    for s in truth.T[1:]:
        z.append(
            np.exp(0.4j * (2 * s - 1)) * z[-1] + 0.03 * (rng.normal(size=sequences) + 1j * rng.normal(size=sequences))
        )
    x = np.stack([np.real(z), np.imag(z)], axis=-1).swapaxes(0, 1)
    return x + 0.03 * rng.normal(size=x.shape), truth


def all_seen(x):
    x = jnp.asarray(x, jnp.float32)
    return Frames(x, jnp.ones(x.shape, bool), jnp.ones(x.shape[:2], bool), jnp.zeros((*x.shape[:2], 0)))


@pytest.mark.slow
def test_two_ways_of_turning_are_told_apart():
    """It reaches 90% of the frames: the network sees a switch only after it, so each comes a frame or more late."""
    x, _ = alternating(64, seed=0)
    test, truth = alternating(32, seed=1)
    system = build(KvaeOptions(code_size=2, network_size=8), SHAPE._replace(channels=2, controls=0), key=KEY)
    schedule = Schedule(learning_rate=1e-2, cosine_end=400.0, clip=10.0, steps=400.0)
    data = TrainingData(jax.tree.map(lambda a: a[None], all_seen(x)), jnp.zeros((1, *x.shape[:2], K)))
    state, _ = advance(start(system), data, Restart(schedule, KEY, NONE, NONE), steps=400, batch_size=16)
    found = jax.vmap(lambda frames: state.system.infer(frames, samples=4, key=KEY))(all_seen(test))
    majority = 100 * max(truth.mean(), 1 - truth.mean())
    assert score(list(np.asarray(found.path)), list(truth)).matched.frame_f1 > majority + 30
