"""Variational Laplace-EM against exact likelihoods, what padding and gaps may change, and tracks it must recover."""

import itertools
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp
from scipy.stats import norm

import swerve
from swerve.choosing.scores import score
from swerve.inference import messages
from swerve.inference.frames import Frames
from swerve.models.model import Knobs
from swerve_lab.rivals import kalman
from swerve_lab.rivals.rslds import Rslds, RsldsOptions, States, build
from swerve_lab.rivals.shape import Shape

quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
KEY = jax.random.key(0)
K, T, D, L, U = 2, 6, 2, 3, 1
LONG = T + 3  # with padding
PLAIN = jax.tree.map(jnp.float32, Knobs())
KINDS = pytest.mark.parametrize("recurrent", [False, True], ids=["slds-em", "rslds"])


def shape_of(regimes=K, size=L, channels=D, controls=U):
    return Shape(
        regimes=regimes,
        state_size=size,
        channels=channels,
        controls=controls,
        dynamics_hidden=(),
        emission_hidden=(),
        embedding_hidden=(),
        encoder_size=1,
        causal_size=1,
        dynamics_noise_start=0.2,
        dynamics_noise_floor=1e-4,
        emission_noise_start=0.3,
        emission_noise_floor=1e-4,
        stickiness=1.0,
    )


def some_system(recurrent, regimes=K, size=L, channels=D, controls=U, rounds=20) -> Rslds:
    """Far from its start, its regimes far from each other."""
    options = RsldsOptions(rounds=rounds)
    shape = shape_of(regimes, size, channels, controls)
    system = jax.tree.map(np.asarray, build(options, shape, recurrent=recurrent, key=KEY))
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: jnp.float32(leaf + 0.3 * rng.normal(size=leaf.shape)), system)


def some_frames(length=LONG, channels=D, controls=U, frames=T):
    """With NaN in padding, and with gaps: one frame without any value, one with some."""
    rng = np.random.default_rng(1)
    x = np.full((length, channels), np.nan, np.float32)
    x[:frames] = rng.normal(size=(frames, channels))
    u = np.full((length, controls), np.nan, np.float32)
    u[:frames] = rng.normal(size=(frames, controls))
    observed = np.ones(x.shape, bool)
    observed[2], observed[frames - 1, 0] = False, False
    x[~observed] = np.nan
    return Frames(x, observed, np.arange(length) < frames, u)


@quick_jit
def everything(system, frames, knobs=PLAIN, guide=None):
    """The terms and the gradient of the bound."""

    def bound(system):
        found = system.terms(frames, knobs, guide, key=KEY)
        return found.elbo, found

    gradient, found = jax.grad(bound, has_aux=True)(system)
    return found, gradient


@quick_jit
def inference_of(system, frames):
    return system.infer(frames, samples=1, key=KEY)


@quick_jit
def fixed_point(system, frames):
    """q(z) and q(s) after all rounds."""
    nothing = jnp.zeros((len(frames.x), system.regimes))
    states = system.infer_states(frames, nothing)
    return states, messages.smooth(*system.regime_chain(frames, states, nothing)).marginals


@quick_jit
def bound(system, frames):
    return system.terms(frames, PLAIN, key=KEY).elbo


# The bound


@quick_jit
def log_likelihood(system, frames, path):
    """log p(x | s) by a Kalman filter."""
    frames = frames.blanked()
    factor = jnp.linalg.cholesky(system.dynamics_noise.covariance)
    pushes = jnp.einsum("klu,tu->tkl", system.dynamics_controls, frames.u[1:]) + system.dynamics_offset[None]
    dynamics = kalman.LinearDynamics(
        system.first_mean,
        jnp.diag(system.first_noise.scale[0]),
        system.dynamics[path[1:]],
        pushes[jnp.arange(len(pushes)), path[1:]],
        factor[path[1:]],
    )
    length = len(frames.x)
    emission = kalman.LinearEmission(
        jnp.broadcast_to(system.emission, (length, *system.emission.shape)),
        jnp.broadcast_to(system.emission_offset, frames.x.shape),
        jnp.broadcast_to(system.emission_noise.scale[0], frames.x.shape),
    )
    return kalman.filter(dynamics, emission, frames.x, frames.observed, frames.valid).log_likelihood


@KINDS
def test_with_one_regime_the_bound_is_the_likelihood(recurrent):
    system, frames = some_system(recurrent, regimes=1), some_frames()
    exact = log_likelihood(system, frames, np.zeros(LONG, int))
    np.testing.assert_allclose(bound(system, frames), exact, rtol=1e-5)


@pytest.mark.slow
def test_the_bound_is_below_the_likelihood_of_all_paths_of_regimes():
    system, frames = some_system(recurrent=False), some_frames()
    log_transition = log_softmax(np.asarray(system.switching), axis=1)
    joint = []
    for path in itertools.product(range(K), repeat=T):
        steps = sum(log_transition[j, k] for j, k in itertools.pairwise(path))
        padded = np.pad(path, (0, LONG - T))
        joint.append(-np.log(K) + steps + float(log_likelihood(system, frames, padded)))
    exact = logsumexp(joint)
    assert exact - 1.0 < bound(system, frames) < exact


def integrated_log_likelihood(system, frames):
    """log p(x) of an rSLDS whose z is a number, by a sum over a grid of z."""
    scale, sigma = np.sqrt(system.dynamics_noise.covariance[:, 0, 0]), np.asarray(system.emission_noise.scale[0])
    first_scale = np.asarray(system.first_noise.scale[0, 0])
    system = jax.tree.map(np.asarray, system)
    grid = np.linspace(-8, 8, 1601)
    width = grid[1] - grid[0]

    def look(t):
        density = norm.logpdf(frames.x[t], np.outer(grid, system.emission[:, 0]) + system.emission_offset, sigma)
        return np.where(frames.observed[t], density, 0.0).sum(axis=1)

    first = norm.logpdf(grid, system.first_mean[0], first_scale)
    forward = np.stack([first + look(0) - np.log(system.regimes)] * system.regimes)
    for t in range(1, frames.valid.sum()):
        logits = system.switching[:, None] + np.outer(grid, system.recurrence[:, 0])[None]
        leaving = logsumexp(forward[:, :, None] + log_softmax(logits, axis=2), axis=0)
        expected = np.outer(grid, system.dynamics[:, 0, 0]) + system.dynamics_offset[:, 0]
        steps = norm.logpdf(grid[:, None, None], expected[None], scale)
        forward = (logsumexp(leaving[None] + steps, axis=1) + np.log(width) + look(t)[:, None]).T
    return logsumexp(forward) + np.log(width)


@pytest.mark.slow
def test_the_bound_is_below_the_likelihood_where_the_state_drives_the_switches():
    system, frames = some_system(recurrent=True, size=1, controls=0), some_frames(controls=0)
    system = replace(system, recurrence=jnp.float32([[1.0], [-1.0]]))
    exact = integrated_log_likelihood(system, frames)
    assert exact - 1.0 < bound(system, frames) < exact


def test_expected_switches_are_bounded_closely():
    system, frames = some_system(recurrent=True), some_frames()
    rng = np.random.default_rng(2)
    factor = np.float32(0.3 * rng.normal(size=(LONG, L, L)))
    mean = np.float32(rng.normal(size=(LONG, L)))
    states = States(mean, factor @ factor.mT, np.zeros((LONG - 1, L, L), np.float32), np.float32(0))
    u = np.nan_to_num(frames.u)
    own = jax.tree.map(np.asarray, system)
    z = mean + np.einsum("tlm,ntm->ntl", factor, rng.normal(size=(20_000, LONG, L)))
    drive = z[:, :-1] @ own.recurrence.T + u[1:] @ own.switching_controls.T
    drawn = log_softmax(own.switching + drive[:, :, None], axis=3)
    found = quick_jit(
        lambda states: system.regime_chain(frames.blanked(), states, jnp.zeros((LONG, K))).log_transition
    )(states)
    error = drawn.std(axis=0) / np.sqrt(len(z))
    assert np.all(found < drawn.mean(axis=0) + 4 * error)
    assert np.all(found > drawn.mean(axis=0) - 4 * error - 0.01)


# The E-step


@pytest.mark.slow
def test_the_mean_of_q_is_a_mode_and_its_precision_the_curvature_there():
    system, frames = some_system(recurrent=True), some_frames().blanked()
    states, marginals = fixed_point(system, frames)

    @quick_jit
    def derivatives(z):
        height = partial(system.expected_log_joint, frames, marginals=marginals)
        blocks = system.curvature(frames, z, marginals)
        dense = jnp.zeros((LONG, L, LONG, L))
        for t in range(LONG):
            dense = dense.at[t, :, t].set(blocks.diagonal[t])
        for t in range(LONG - 1):
            dense = dense.at[t + 1, :, t].set(blocks.below[t]).at[t, :, t + 1].set(blocks.below[t].T)
        return jax.grad(height)(z), -jax.hessian(height)(z), dense

    slope, curvature, found = derivatives(states.mean)
    np.testing.assert_allclose(slope, 0, atol=1e-3)
    np.testing.assert_allclose(found[:T, :, :T], curvature[:T, :, :T], rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(found[T:, :, T:].reshape(3 * L, 3 * L), np.eye(3 * L))
    precision = np.asarray(found, float).reshape(LONG * L, LONG * L)
    covariance = np.linalg.inv(precision).reshape(LONG, L, LONG, L)
    for t in range(T):
        np.testing.assert_allclose(states.covariance[t], covariance[t, :, t], rtol=1e-3, atol=1e-5)
    entropy = 0.5 * (T * L * (1 + np.log(2 * np.pi)) - np.linalg.slogdet(precision)[1])
    np.testing.assert_allclose(states.entropy, entropy, rtol=1e-4)


@pytest.mark.slow
def test_the_gradient_with_q_held_still_is_that_of_the_bound():
    """At its best q the bound does not change with q: what moves q with the parameters does not count."""
    system, frames = some_system(recurrent=False, rounds=100), some_frames()
    _, gradient = everything(system, frames)
    direction = jax.tree.map(lambda g: g / np.sqrt(np.sum(np.square(g)) + 1e-9), gradient)
    step = 1e-2
    ahead, behind = (
        bound(jax.tree.map(lambda leaf, d, way=way: np.float32(leaf + way * step * d), system, direction), frames)
        for way in (1, -1)
    )
    along = sum(jax.tree.leaves(jax.tree.map(lambda g, d: float(np.sum(g * d)), gradient, direction)))
    np.testing.assert_allclose((ahead - behind) / (2 * step), along, rtol=0.02)


# What may change nothing


def test_padding_changes_nothing():
    system, padded = some_system(recurrent=True), some_frames()
    bare = some_frames(T)
    (found, gradient), (other, other_gradient) = everything(system, padded), everything(system, bare)
    np.testing.assert_allclose(found.elbo, other.elbo, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), gradient, other_gradient)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    found, other = inference_of(system, padded), inference_of(system, bare)
    np.testing.assert_array_equal(found.path[:T], other.path)
    np.testing.assert_allclose(found.probabilities[:T], other.probabilities, atol=1e-4)
    np.testing.assert_allclose(found.expected[:T], other.expected, atol=1e-4)
    np.testing.assert_allclose(found.probabilities[0], found.probabilities[1])


def test_two_frames_are_enough():
    x = np.float32([[0.1, 0.2], [0.3, np.nan]])
    frames = Frames(x, ~np.isnan(x), np.ones(2, bool), np.zeros((2, 0), np.float32))
    _, gradient = everything(some_system(recurrent=False, controls=0), frames)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


# Stages


def test_the_guide_leads_and_then_the_state_drives_the_switches():
    system, frames = some_system(recurrent=True), some_frames()
    guide = jnp.eye(K)[np.arange(LONG) // 3 % 2]
    early = PLAIN._replace(guidance=jnp.float32(50), progress=jnp.float32(0.1))
    led, before = everything(system, frames, early, guide)
    _, after = everything(system, frames, PLAIN, guide)
    np.testing.assert_allclose(led.usage, [3, 3], atol=0.01)
    np.testing.assert_allclose(led.guidance, 50 * T, rtol=0.01)
    assert not before.recurrence.any()
    assert after.recurrence.any()


# Recovery


def track(count, length, *, seed):
    """Laps on a track of two straights and two half circles, seen from ten sides; where it is decides where it goes.

    The states, the observations and the regimes.
    """
    rng = np.random.default_rng(seed)
    view = np.random.default_rng(0).normal(size=(10, 2))
    z = np.stack([rng.uniform(-1, 1, count), np.full(count, -1.0)], axis=1)
    states, regimes = [z], [np.zeros(count, int)]
    for _ in range(1, length):
        s = np.select([z[:, 0] > 1, z[:, 0] < -1, z[:, 1] < 0], [1, 3, 0], 2)
        z = np.einsum("nij,nj->ni", MATRICES[s], z) + OFFSETS[s] + 0.01 * rng.normal(size=z.shape)
        states.append(z)
        regimes.append(s)
    states = np.stack(states, axis=1)
    x = states @ view.T + 0.05 * rng.normal(size=(count, length, 10))
    return view, list(np.float32(x)), list(np.stack(regimes, axis=1))


TURN = np.pi / 24
ROTATION = np.array([[np.cos(TURN), -np.sin(TURN)], [np.sin(TURN), np.cos(TURN)]])
MATRICES = np.stack([np.eye(2), ROTATION, np.eye(2), ROTATION])
RIGHT = np.array([1.0, 0.0])
OFFSETS = np.stack([0.12 * RIGHT, RIGHT - ROTATION @ RIGHT, -0.12 * RIGHT, ROTATION @ RIGHT - RIGHT])


def test_the_true_parameters_find_the_regimes_of_a_track():
    view, x, s = track(4, 100, seed=0)
    shape = shape_of(4, 2, 10, 0)._replace(dynamics_noise_start=0.01, emission_noise_start=0.05)
    system = replace(
        build(RsldsOptions(), shape, recurrent=True, key=KEY),
        dynamics=jnp.float32(MATRICES),
        dynamics_offset=jnp.float32(OFFSETS),
        emission=jnp.float32(view),
        switching=jnp.float32([[0, -200, 0, -200]] * 4),
        recurrence=jnp.float32([[0, -10], [200, 0], [0, 10], [-200, 0]]),
    )
    nothing = np.zeros((100, 0), np.float32)
    frames = [Frames(one, np.ones(one.shape, bool), np.ones(100, bool), nothing) for one in x]
    found = [np.asarray(inference_of(system, one).path) for one in frames]
    assert np.mean(np.stack(found) == np.stack(s)) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("model", ["slds-em", "rslds"])
def test_a_fit_finds_the_regimes_of_a_track(model):
    _, x, _ = track(20, 200, seed=1)
    settings = ["training.batch_size=8", "training.window=100", "model.state_size=2"]
    settings += ["arhmm.lags=[1]", "arhmm.features=[0]", "arhmm.restarts=3"]
    fitted = swerve.fit(x, 4, model=model, steps=600, restarts=1, settings=settings)
    _, new, truth = track(10, 200, seed=2)
    assert score([one.labels for one in swerve.segment(fitted, new)], truth).matched.frame_f1 > 85
