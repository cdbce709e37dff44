"""The collapsed ELBO against exact likelihoods, and what bending, padding and gaps may change."""

import itertools
from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp
from scipy.stats import entropy, multivariate_normal, norm

from swerve.inference import messages
from swerve.inference.frames import Frames
from swerve.models.model import Knobs, usage_entropy
from swerve.models.snlds.bound import kl_from_uniform, regime_chain, sequence_terms
from swerve.models.snlds.maker import build_collapsed
from swerve.settings.sections import ModelConfig, PosteriorConfig

quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
K, T, D, L, U = 2, 5, 2, 2, 1
LONG = T + 4  # with padding
KEY = jax.random.key(0)


def some_frames(length=T, padding=np.nan):
    rng = np.random.default_rng(1)
    x, u = np.float32(rng.normal(size=(T, D))), np.float32(rng.normal(size=(T, U)))
    x, u = (np.pad(a, ((0, length - T), (0, 0)), constant_values=padding) for a in (x, u))
    return Frames(x, np.ones((length, D), bool), np.arange(length) < T, u)


def guide_of(length=T):
    """Certain of regime 1 in odd frames and of regime 0 in even ones."""
    return np.float32(np.eye(K)[np.arange(length) % 2])


@quick_jit
def bent(system, frames, knobs, guide=None):
    """A chain and its marginals."""
    draw, chain, _ = regime_chain(system.model, system.posterior, frames, knobs, guide, key=KEY)
    return draw, chain, messages.smooth(*chain).marginals


@quick_jit
def gradient(system, frames, knobs, guide):
    """The gradient of everything that training adds up, and the terms."""

    def objective(system):
        found = sequence_terms(system.model, system.posterior, frames, knobs, guide, key=KEY)
        return found.elbo - 0.1 * found.uniform_kl + 0.1 * usage_entropy(found.usage), found

    return jax.grad(objective, has_aux=True)(system)


def terms_of(system, guide):
    return gradient(system, some_frames(LONG), jax.tree.map(np.float32, Knobs()), guide)[1]


# The bound


def exact_log_likelihood(model, x):
    """log sum_s p(s) N(x; m_s, C_s): for every path of regimes, x is a Gaussian."""
    dynamics, (layer,) = model.dynamics, model.emission.networks.layers
    emission_variance = model.emission.noise.floor + np.exp(2.0 * model.emission.noise.log_scale[0])
    log_initial = log_softmax(model.initial.logits)
    log_transition = log_softmax(model.switching.base, axis=1)
    length, joint = len(x), []
    for path in itertools.product(range(model.regimes), repeat=length):
        mean, spread = model.initial.mean[path[0]], np.diag(model.initial.noise.variance[path[0]])
        means, blocks = [mean], [[spread]]
        for t in range(1, length):
            matrix = dynamics.matrix[path[t]] + np.eye(len(mean))
            mean, spread = matrix @ mean + dynamics.offset[path[t]], matrix @ spread @ matrix.T
            spread = spread + np.diag(dynamics.noise.variance[path[t]])
            blocks.append([matrix @ block for block in blocks[-1]] + [spread])  # Cov(z_t, z_1..t)
            means.append(mean)
        covariance = np.block(
            [[blocks[max(i, j)][min(i, j)].T if i < j else blocks[i][j] for j in range(length)] for i in range(length)]
        )
        emit = np.kron(np.eye(length), layer.weight[0])
        seen_mean = emit @ np.concatenate(means) + np.tile(layer.bias[0], length)
        seen_covariance = emit @ covariance @ emit.T + np.diag(np.tile(emission_variance, length))
        seen = ~np.isnan(x.reshape(-1))
        log_density = multivariate_normal.logpdf(
            x.reshape(-1)[seen], seen_mean[seen], seen_covariance[np.ix_(seen, seen)]
        )
        steps = sum(log_transition[j, k] for j, k in itertools.pairwise(path))
        joint.append(log_initial[path[0]] + steps + log_density)
    return logsumexp(joint)


def linear_system(regimes):
    """A linear model of moderate noise, and a q that is a little wider than its prior."""
    rng = np.random.default_rng(0)
    no_drivers = dict.fromkeys(("switching_reads_x", "switching_reads_z", "switching_reads_u"), False)
    noises = {
        "initial_per_regime": True,
        "initial_components": 1,
        "initial_learned": True,
        "dynamics_noise_per_regime": True,
        "dynamics_noise_start": 0.3,
        "emission_noise_start": 0.7,
    }
    model = ModelConfig(regimes=regimes, state_size=1, dynamics="linear", **noises, **no_drivers)
    posterior = PosteriorConfig(encoder_size=3, causal_size=3, initial_scale=2.5, initial_gain=0.0)
    system = quick_jit(
        lambda: build_collapsed(model, posterior, channels=2, controls=0, stickiness=1.0, allowed=regimes, key=KEY)
    )()
    moved = {
        "logits": (lambda m: m.initial.logits, rng.normal(size=regimes)),
        "mean": (lambda m: m.initial.means, 0.1 * rng.normal(size=(regimes, 1, 1))),
        "noise": (lambda m: m.initial.noise.log_scale, np.full((regimes, 1), np.log(0.2))),
        "matrix": (lambda m: m.dynamics.matrix, 0.2 * rng.normal(size=(regimes, 1, 1))),
        "offset": (lambda m: m.dynamics.offset, 0.2 * rng.normal(size=(regimes, 1))),
        "switching": (lambda m: m.switching.base, rng.normal(size=(regimes, regimes))),
    }
    snlds = jax.tree.map(np.asarray, system.model)
    for where, value in moved.values():
        snlds = eqx.tree_at(where, snlds, np.float32(value))
    return replace(system, model=snlds)


@pytest.fixture(scope="module", params=[1, 2], ids=["one regime", "two regimes"])
def linear_case(request):
    """Many draws of log p(x, z) and log q(z | x) for a linear system, and its exact log p(x)."""
    system = linear_system(request.param)
    x = np.float32([[0.3, -0.5], [1.0, np.nan], [np.nan, np.nan], [0.2, 0.4]])
    frames = Frames(x, ~np.isnan(x), np.ones(len(x), bool), np.zeros((len(x), 0), np.float32))

    @quick_jit
    def draw_many(system, frames):
        def one(key):
            draw, chain, _ = regime_chain(system.model, system.posterior, frames, Knobs(), key=key)
            log_q = jax.scipy.stats.norm.logpdf(draw.z, draw.mean, draw.scale).sum()
            elbo = sequence_terms(system.model, system.posterior, frames, Knobs(), key=key).elbo
            return messages.log_normalizer(*chain), log_q, elbo

        return jax.vmap(one)(jax.random.split(KEY, 20_000))

    log_p, log_q, elbo = (np.asarray(a, float) for a in draw_many(system, frames))
    return log_p, log_q, elbo, exact_log_likelihood(system.model, x)


def test_importance_weights_average_to_the_exact_likelihood(linear_case):
    log_p, log_q, _, exact = linear_case
    weights = log_p - log_q
    effective = np.exp(2 * logsumexp(weights) - logsumexp(2 * weights))
    assert effective > 1000
    assert abs(logsumexp(weights) - np.log(len(weights)) - exact) < 5 / np.sqrt(effective)


def test_the_elbo_lies_below_the_exact_likelihood(linear_case):
    log_p, log_q, elbo, exact = linear_case
    uncertain = 5 * elbo.std() / np.sqrt(len(elbo))
    assert elbo.mean() + uncertain < exact
    np.testing.assert_allclose(elbo.mean(), (log_p - log_q).mean(), atol=2 * uncertain)  # the entropy is right


# Bending


@pytest.fixture(scope="module")
def rich():
    """A system with every edge and random parameters, without compiling its initialisation."""
    rng = np.random.default_rng(0)
    edges = {"dynamics_reads_x": True, "switching_reads_z": True, "switching_hidden": (4,)}
    model = ModelConfig(regimes=K, state_size=L, dynamics="gru", dynamics_hidden=(3,), **edges)
    posterior = PosteriorConfig(encoder_size=3, causal_size=3)
    like = jax.eval_shape(
        lambda: build_collapsed(model, posterior, channels=D, controls=U, stickiness=0.0, allowed=K, key=KEY)
    )
    system = jax.tree.map(lambda leaf: np.float32(0.4 * rng.normal(size=leaf.shape)), like)
    allowed = np.zeros(K, np.float32)
    return replace(system, model=eqx.tree_at(lambda m: m.log_allowed, system.model, allowed))


def test_the_default_knobs_ignore_the_guide(rich):
    plain, guided = (terms_of(rich, guide) for guide in (np.zeros((LONG, K), np.float32), guide_of(LONG)))
    jax.tree.map(np.testing.assert_array_equal, plain, guided)


def test_guidance_adds_its_nats_to_the_guides_regime(rich):
    frames, guide = some_frames(), guide_of()
    _, plain, _ = bent(rich, frames, Knobs(), guide)
    _, guided, _ = bent(rich, frames, Knobs(guidance=3.0), guide)
    np.testing.assert_allclose(guided.log_evidence - plain.log_evidence, 3.0 * guide, atol=1e-4)
    _, _, marginals = bent(rich, frames, Knobs(guidance=1e3), guide)
    np.testing.assert_allclose(marginals, guide, atol=1e-4)


def test_tempered_evidence_shrinks_differences_and_keeps_the_mean(rich):
    frames = some_frames()
    (_, plain, _), (_, same, _), (_, half, _) = (
        bent(rich, frames, Knobs(evidence_temperature=kappa), guide_of()) for kappa in (1.0, 1.0, 2.0)
    )
    np.testing.assert_array_equal(plain.log_evidence, same.log_evidence)
    gap, half_gap = (np.diff(chain.log_evidence, axis=1) for chain in (plain, half))
    np.testing.assert_allclose(half_gap, gap / 2, atol=1e-4)
    np.testing.assert_allclose(half.log_evidence.mean(axis=1), plain.log_evidence.mean(axis=1), rtol=1e-5)


def test_without_evidence_the_marginals_follow_the_chains_prior(rich):
    _, chain, marginals = bent(rich, some_frames(), Knobs(evidence_temperature=1e8), guide_of())
    expected = [np.exp(chain.log_initial)]
    for log_transition in np.asarray(chain.log_transition):
        expected.append(expected[-1] @ np.exp(log_transition))
    np.testing.assert_allclose(marginals, expected, atol=1e-4)
    _, _, true = bent(rich, some_frames(), Knobs(), guide_of())
    assert np.abs(true - np.stack(expected)).max() > 0.05


def test_a_temperature_divides_the_switch_logits(rich):
    for tau, close in ((1e8, True), (1.0, False)):
        _, chain, _ = bent(rich, some_frames(), Knobs(temperature=tau), guide_of())
        assert np.allclose(np.exp(chain.log_transition), 1 / K, atol=1e-4) == close


def test_terms_are_what_their_names_say(rich):
    frames = some_frames(LONG)
    _, _, marginals = bent(rich, frames, Knobs(), guide_of(LONG))
    found, gamma = terms_of(rich, guide_of(LONG)), np.asarray(marginals, float)[:T]
    uniform_kl = sum(entropy(np.full(K, 1 / K), row) for row in gamma)
    np.testing.assert_allclose(found.uniform_kl, uniform_kl, rtol=1e-3)
    np.testing.assert_allclose(found.usage, gamma.sum(axis=0), rtol=1e-4)
    np.testing.assert_allclose(found.confidence, gamma.max(axis=1).sum(), rtol=1e-4)
    assert found.switches == np.count_nonzero(np.diff(gamma.argmax(axis=1)))
    assert found.frames == T


@pytest.mark.parametrize(("usage", "in_use"), [([3.0, 3.0, 3.0], 3), ([5.0, 5.0, 0.0], 2), ([7.0, 0.0, 0.0], 1)])
def test_the_exponential_of_usage_entropy_counts_regimes(usage, in_use):
    np.testing.assert_allclose(jnp.exp(usage_entropy(jnp.array(usage))), in_use, rtol=1e-5)
    assert np.isfinite(jax.grad(usage_entropy)(jnp.array(usage))).all()


def test_kl_from_uniform():
    gamma = np.float32([[0.5, 0.5], [0.9, 0.1]])
    expected = [entropy([0.5, 0.5], row) for row in gamma]
    np.testing.assert_allclose(kl_from_uniform(jnp.log(gamma), jnp.ones(gamma.shape[1], bool)), expected, atol=1e-6)


# Padding and gaps


def test_padding_changes_no_value_and_no_gradient(rich):
    knobs = jax.tree.map(np.float32, Knobs(1.5, 2.0, guidance=0.5))
    bare = gradient(rich, some_frames(), knobs, guide_of())
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(bare[0])) > 0.1
    for content in (np.nan, 1e3):
        padded = gradient(rich, some_frames(LONG, content), knobs, guide_of(LONG))
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4), padded, bare)


def test_padding_changes_no_marginal(rich):
    bare, padded = (bent(rich, some_frames(n), Knobs(), guide_of(n))[2] for n in (T, LONG))
    np.testing.assert_allclose(padded[:T], bare, atol=1e-5)
    assert (np.asarray(padded[T:]) == 0).all()


def test_missing_values_lose_their_emission_terms_and_nothing_else(rich):
    frames = some_frames()
    frames.observed[1], frames.observed[3, 0] = False, False
    frames.x[1], frames.x[3, 0] = np.nan, np.nan
    draw, chain, _ = bent(rich, frames, Knobs(), guide_of())
    (layer,), noise = rich.model.emission.networks.layers, rich.model.emission.noise
    emitted = np.asarray(draw.z) @ layer.weight[0].T + layer.bias[0]
    deviation = np.sqrt(noise.floor + np.exp(2.0 * noise.log_scale[0]))
    log_emission = np.nansum(norm.logpdf(frames.x, emitted, deviation), axis=1)
    moved = np.asarray(draw.z)[1:, None] - np.asarray(draw.expected)[1:]
    variance = rich.model.dynamics.noise.floor + np.exp(2.0 * rich.model.dynamics.noise.log_scale)
    log_dynamics = norm.logpdf(moved, 0, np.sqrt(variance)).sum(axis=2)
    np.testing.assert_allclose(chain.log_evidence[1:], log_dynamics + log_emission[1:, None], rtol=1e-3)
