"""The Gumbel-Softmax SNLDS: its bound against enumeration, relaxed draws, what padding may change, and recovery."""

import itertools
from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import swerve
from swerve import messages
from swerve.baselines.gumbel import GumbelOptions, GumbelSystem, temperature
from swerve.boards import find
from swerve.build import build_system
from swerve.config import Config, ModelConfig, PosteriorConfig
from swerve.evaluation.scores import score
from swerve.model.snlds import FORBIDDEN
from swerve.objective import regime_chain
from swerve.system import Knobs
from swerve.types import Frames, Series

quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
K, T, D, L, U = 3, 4, 2, 2, 1
LONG = T + 3  # with padding
COLD = 1e-3
KEY = jax.random.key(0)
HALFWAY = Knobs(progress=0.5, guidance=0.7)


def some_frames(length=T, frames=T, padding=np.nan):
    rng = np.random.default_rng(1)
    x, u = np.float32(rng.normal(size=(frames, D))), np.float32(rng.normal(size=(frames, U)))
    x, u = (np.pad(a, ((0, length - frames), (0, 0)), constant_values=padding) for a in (x, u))
    return Frames(x, np.ones((length, D), bool), np.arange(length) < frames, u)


def guide_of(length=T, regimes=K):
    return np.float32(np.eye(regimes)[np.arange(length) % regimes])


def random_system(regimes=K, allowed=K) -> GumbelSystem:
    """Random parameters everywhere, without compiling an initialisation."""
    rng = np.random.default_rng(0)
    config = Config(
        kind="gumbel",
        model=ModelConfig(regimes=regimes, state_size=L, dynamics_hidden=(3,), switching_hidden=(3,)),
        posterior=PosteriorConfig(encoder_size=3, causal_size=3),
        gumbel=GumbelOptions(hidden=4),
    )
    like = jax.eval_shape(
        lambda: build_system(config, channels=D, controls=U, stickiness=1.0, allowed=regimes, key=KEY)
    )
    assert isinstance(like, GumbelSystem)
    system = jax.tree.map(lambda leaf: np.float32(0.5 * rng.normal(size=leaf.shape)), like)
    log_allowed = np.where(np.arange(regimes) < allowed, 0.0, FORBIDDEN).astype(np.float32)
    return eqx.tree_at(lambda s: s.model.log_allowed, system, log_allowed)


@pytest.fixture(scope="module")
def system():
    return random_system()


@quick_jit
def terms_of(system, frames, knobs, guide=None, key=KEY):
    return system.terms(frames, knobs, guide, key=key)


@quick_jit
def gradient(system, frames, knobs, guide):
    def objective(system):
        found = system.terms(frames, knobs, guide, key=KEY)
        return found.elbo - 0.1 * found.uniform_kl, found

    return jax.grad(objective, has_aux=True)(system)


@quick_jit
def infer(system, frames):
    return system.infer(frames, samples=2, key=KEY)


@quick_jit
def relaxed(system, frames, tau, keys):
    draw = partial(system.regime_posterior.relaxed, frames, system.model.log_allowed, tau)
    return jax.vmap(lambda key: draw(key=key))(keys)


@quick_jit
def parts_of(system, frames):
    """What `terms` draws with the same key: H(q(z | x)) of its path, the chain given it, its log Z, and q(s | x)."""
    draw, chain, _ = regime_chain(system.model, system.posterior, frames, Knobs(), key=jax.random.split(KEY)[0])
    q = system.regime_posterior.chain(frames, system.model.log_allowed)
    return draw.entropy.sum(), chain, messages.log_normalizer(*chain), q


def log_of_path(chain, path):
    moves = sum(chain.log_transition[t - 1, path[t - 1], path[t]] for t in range(1, len(path)))
    return chain.log_initial[path[0]] + moves + sum(chain.log_evidence[t, k] for t, k in enumerate(path))


def every_path(chain):
    return np.array([log_of_path(chain, path) for path in itertools.product(range(K), repeat=T)], float)


# The bound


def test_the_bound_is_the_sum_over_all_paths_of_regimes(system):
    entropy, chain, log_z, q = parts_of(system, some_frames())
    log_p, log_q = every_path(chain), every_path(q)
    np.testing.assert_allclose(logsumexp(log_q), 0.0, atol=1e-5)
    assert np.exp(log_q).max() < 0.5  # a q that is certain would test little
    expected = np.sum(np.exp(log_q) * (log_p - log_q))
    found = terms_of(system, some_frames(), Knobs()).elbo
    np.testing.assert_allclose(found, expected + entropy, rtol=1e-5)
    assert found - entropy < log_z
    log_posterior = log_p - logsumexp(log_p)
    gap = np.sum(np.exp(log_q) * (log_q - log_posterior))
    np.testing.assert_allclose(log_z - (found - entropy), gap, rtol=1e-3)


def test_the_bound_is_tight_where_there_is_nothing_to_find():
    alone = random_system(regimes=1, allowed=1)
    entropy, _, log_z, _ = parts_of(alone, some_frames())
    np.testing.assert_allclose(terms_of(alone, some_frames(), Knobs()).elbo, entropy + log_z, rtol=1e-5)


def test_cold_draws_are_regimes_whose_worth_is_the_bound_on_average(system):
    entropy, chain, _, _ = parts_of(system, some_frames())
    keys = jnp.concatenate([jax.random.split(KEY)[1:], jax.random.split(KEY, 20_000)])  # the first is that of `terms`
    draws = relaxed(system, some_frames(), COLD, keys)
    paths = np.asarray(draws.shares).argmax(axis=2)
    worth = every_path(chain).reshape((K,) * T)[tuple(paths.T)] + np.asarray(draws.entropy) + entropy
    error = 5 * worth.std() / np.sqrt(len(worth))
    assert abs(worth.mean() - terms_of(system, some_frames(), Knobs()).elbo) < error < 0.2
    cold = replace(system, options=GumbelOptions(first_temperature=COLD, last_temperature=COLD))
    np.testing.assert_allclose(terms_of(cold, some_frames(), Knobs(progress=0.5)).elbo, worth[0], rtol=1e-4)


def test_a_regime_that_is_not_allowed_has_no_share():
    fewer = random_system(allowed=2)
    for knobs in (Knobs(), HALFWAY):
        slope, found = gradient(fewer, some_frames(), knobs, guide_of())
        assert np.isfinite(found.elbo) and found.usage[2] == 0
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))
    assert (np.asarray(infer(fewer, some_frames()).path) < 2).all()


# Relaxed draws


def test_draws_lie_on_the_simplex_and_harden_as_the_temperature_falls(system):
    keys = jax.random.split(KEY, 200)
    hard = []
    for tau in (10.0, 1.0, 0.3, COLD):
        shares = np.asarray(relaxed(system, some_frames(LONG, padding=0.0), tau, keys).shares)
        assert (shares >= 0).all()
        np.testing.assert_allclose(shares[:, :T].sum(axis=2), 1.0, atol=1e-5)
        assert (shares[:, T:] == 0).all()
        hard.append(shares[:, :T].max(axis=2).mean())
    assert hard == sorted(hard)
    assert hard[0] < 0.5 and hard[1] < 0.9 and hard[3] > 0.99


def test_cold_draws_are_as_frequent_as_q_says(system):
    shares = np.asarray(relaxed(system, some_frames(), COLD, jax.random.split(KEY, 20_000)).shares)
    np.testing.assert_allclose(shares.mean(axis=0)[1:], infer(system, some_frames()).probabilities[1:], atol=0.02)


def test_the_draw_before_moves_the_next(system):
    """q(s | x) is autoregressive: neighbours depend on one another, given x."""
    shares = np.asarray(relaxed(system, some_frames(), COLD, jax.random.split(KEY, 20_000)).shares)
    together = np.einsum("nj,nk->jk", shares[:, 0], shares[:, 1]) / len(shares)
    apart = np.outer(shares[:, 0].mean(axis=0), shares[:, 1].mean(axis=0))
    assert np.abs(together - apart).max() > 0.02


def test_the_temperature_falls_from_its_first_to_its_last():
    options = GumbelOptions(first_temperature=2.0, last_temperature=0.5, anneal=0.8)
    path = [float(temperature(options, share)) for share in (0.0, 0.2, 0.4, 0.8, 0.9, 1.0)]
    np.testing.assert_allclose(path, [2.0, 2.0 / 4**0.25, 1.0, 0.5, 0.5, 0.5], rtol=1e-5)


def test_guidance_adds_its_nats_to_the_share_of_the_guides_regime(system):
    plain, guided = (terms_of(system, some_frames(), Knobs(progress=0.5, guidance=g), guide_of()) for g in (0.0, 3.0))
    assert plain.guidance == 0 and guided.guidance > 0
    np.testing.assert_allclose(guided.elbo - plain.elbo, guided.guidance, rtol=1e-3)


# Padding, gaps and small cases


@pytest.mark.parametrize("knobs", [Knobs(), HALFWAY], ids=["exact", "relaxed"])
def test_padding_changes_no_value_and_no_gradient(system, knobs):
    bare = gradient(system, some_frames(), knobs, guide_of())
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(bare[0].regime_posterior)) > 0.01
    for content in (np.nan, 1e3):
        padded = gradient(system, some_frames(LONG, padding=content), knobs, guide_of(LONG))
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4), padded, bare)


def test_padding_changes_no_label(system):
    bare, padded = (infer(system, some_frames(n)) for n in (T, LONG))
    for one, other in zip(bare, padded, strict=True):
        np.testing.assert_allclose(other[:T], one, atol=1e-4)


@pytest.mark.parametrize("knobs", [Knobs(), HALFWAY], ids=["exact", "relaxed"])
def test_what_stands_in_a_gap_changes_nothing(system, knobs):
    found = []
    for content in (np.nan, 7.0):
        frames = some_frames()
        frames.observed[1], frames.observed[3, 0] = False, False
        frames.x[1], frames.x[3, 0] = content, content
        found.append((gradient(system, frames, knobs, guide_of()), infer(system, frames)))
    jax.tree.map(np.testing.assert_array_equal, *found)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
    assert found[0][0][1].elbo != gradient(system, some_frames(), knobs, guide_of())[1].elbo


@pytest.mark.parametrize(("regimes", "length"), [(1, T), (2, 2), (2, 1)])
def test_small_cases_have_finite_values_and_gradients(regimes, length):
    small, frames = random_system(regimes, regimes), some_frames(length, length)
    for knobs in (Knobs(), HALFWAY):
        assert all(
            np.isfinite(a).all() for a in jax.tree.leaves(gradient(small, frames, knobs, guide_of(length, regimes)))
        )
    found = infer(small, frames)
    np.testing.assert_allclose(np.sum(found.probabilities, axis=1), 1.0, atol=1e-5)
    assert found.path.shape == (length,) and np.isfinite(found.expected).all()


def test_the_same_key_gives_the_same_terms_and_another_gives_others(system):
    one, same, other = (terms_of(system, some_frames(), HALFWAY, guide_of(), jax.random.key(i)) for i in (1, 1, 2))
    jax.tree.map(np.testing.assert_array_equal, one, same)
    assert one.elbo != other.elbo


# Recovery


def turning(n, seed, length=60):
    """A point that circles to the left or to the right, and changes its mind now and then."""
    rng = np.random.default_rng(seed)
    series = []
    for i in range(n):
        s = np.cumsum(rng.random(length) < 0.05) % 2
        angle = rng.uniform(-np.pi, np.pi) + np.cumsum(np.where(s == 1, 0.4, -0.4))
        x = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.02 * rng.normal(size=(length, 2))
        series.append(Series(x, s=s, name=str(i)))
    return series


def test_it_tells_left_from_right():
    settings = ("model.state_size=2", "posterior.encoder_size=16", "posterior.causal_size=8")
    fitted = swerve.fit(turning(60, seed=1), 2, model="gumbel", steps=600, restarts=1, settings=settings)
    test = turning(20, seed=2)
    found = swerve.segment(fitted, test)
    scores = score([one.labels for one in found], [one.s for one in test])
    assert scores.frame_f1 > 90


@pytest.mark.slow
def test_led_by_an_arhmm_it_finds_the_fields():
    training, test = (find("fields-0.02").generate(n, seed=seed) for n, seed in ((200, 7002), (50, 7003)))
    settings = ("model.state_size=2", "recipe.guidance=20")
    fitted = swerve.fit(training.series(), 3, model="gumbel", steps=2000, restarts=1, settings=settings)
    found = swerve.segment(fitted, test.series())
    scores = score([one.labels for one in found], list(test.s))
    majority = 100 * np.bincount(test.s.ravel()).max() / test.s.size
    assert scores.frame_f1 > majority + 20
