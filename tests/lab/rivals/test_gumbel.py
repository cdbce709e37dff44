"""The Gumbel-Softmax SNLDS: its bound against enumeration, relaxed draws, what padding may change, and recovery."""

import itertools
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import swerve
from swerve.choosing.scores import score
from swerve.inference import messages
from swerve.inference.frames import Frames
from swerve.models.model import Knobs, Shape, maker_of
from swerve.models.snlds.bound import regime_chain
from swerve.models.snlds.generative import FORBIDDEN
from swerve.settings.sections import Config, ModelConfig, PosteriorConfig
from swerve.types import Recording
from swerve_lab.boards.catalog import find
from swerve_lab.rivals.gumbel import GumbelOptions, GumbelSystem, temperature

quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
K, T, D, L, U = 3, 4, 2, 2, 1
LONG = T + 3  # with padding
COLD = 1e-3
KEY = jax.random.key(0)
# Draws of s; the first is the one that `terms` makes with KEY.
KEYS = jnp.concatenate([jax.random.split(KEY)[1:], jax.random.split(jax.random.key(1), 20_000)])
SMALL = (
    "training.restarts=1",
    "training.window=40",
    "training.batch_size=16",
    "training.report_every=200",
    "model.state_size=2",
    "model.dynamics_hidden=[8]",
    "model.switching_hidden=[4]",
    "posterior.encoder_size=8",
    "posterior.causal_size=4",
)
HALFWAY = Knobs(progress=0.5, guidance=0.7)


def some_frames(length=T, frames=T, padding=np.nan):
    rng = np.random.default_rng(1)
    x, u = np.float32(rng.normal(size=(frames, D))), np.float32(rng.normal(size=(frames, U)))
    x, u = (np.pad(a, ((0, length - frames), (0, 0)), constant_values=padding) for a in (x, u))
    return Frames(x, np.ones((length, D), bool), np.arange(length) < frames, u)


def guide_of(length=T, regimes=K):
    return np.float32(np.eye(regimes)[np.arange(length) % regimes])


def random_system(regimes) -> GumbelSystem:
    """Random parameters everywhere, without compiling an initialisation."""
    rng = np.random.default_rng(0)
    config = Config(
        kind="gumbel",
        model=ModelConfig(regimes=regimes, state_size=L, dynamics_hidden=(3,), switching_hidden=(3,)),
        posterior=PosteriorConfig(encoder_size=3, causal_size=3),
        own=GumbelOptions(hidden=4),
    )
    like = jax.eval_shape(lambda: maker_of(config).build(config, Shape(D, U), stickiness=1.0, allowed=regimes, key=KEY))
    assert isinstance(like, GumbelSystem)
    system = jax.tree.map(lambda leaf: np.float32(0.5 * rng.normal(size=leaf.shape)), like)
    remembering = 3 * system.regime_posterior.from_regime.weight
    return eqx.tree_at(
        lambda s: (s.model.log_allowed, s.regime_posterior.from_regime.weight),
        system,
        (np.zeros(regimes, np.float32), remembering),
    )


@pytest.fixture(scope="module")
def system():
    return random_system(K)


def found_by(system, frames, knobs, guide, key=KEY):
    """The gradient of what training adds up, the terms, and the inference."""
    return _found_by(system, frames, knobs, guide, key)


@quick_jit
def _found_by(system, frames, knobs, guide, key):

    def objective(system):
        found = system.terms(frames, knobs, guide, key=key)
        return found.elbo - 0.1 * found.uniform_kl, found

    gradient, terms = jax.grad(objective, has_aux=True)(system)
    return gradient, terms, system.infer(frames, samples=2, key=key)


def terms_of(system, knobs, key=KEY):
    return found_by(system, some_frames(), knobs, guide_of(), key)[1]


def infer(system):
    return found_by(system, some_frames(), Knobs(), guide_of())[2]


def all_finite(tree):
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(tree))


@quick_jit
def relaxed(system, frames, tau, keys):
    read = system.regime_posterior.read(frames)
    draw = partial(system.regime_posterior.relaxed, read, frames.valid, system.model.log_allowed, tau)
    return jax.vmap(lambda key: draw(key=key))(keys)


@quick_jit
def parts_of(system, frames):
    """What `terms` draws with the same key: H(q(z | x)) of its path, the chain given it, its log Z, and q(s | x)."""
    draw, chain, _ = regime_chain(system.model, system.posterior, frames, Knobs(), key=jax.random.split(KEY)[0])
    q = system.regime_posterior.chain(system.regime_posterior.read(frames), frames.valid, system.model.log_allowed)
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
    worth = np.sum(np.exp(log_q) * (log_p - log_q))
    found = terms_of(system, Knobs()).elbo
    np.testing.assert_allclose(found, worth + entropy, rtol=1e-5)
    to_posterior = np.sum(np.exp(log_q) * (log_q - (log_p - logsumexp(log_p))))
    assert to_posterior > 0.1
    np.testing.assert_allclose(log_z - (found - entropy), to_posterior, rtol=1e-3)


def test_cold_draws_are_regimes_whose_worth_is_the_bound_on_average(system):
    entropy, chain, _, _ = parts_of(system, some_frames())
    draws = relaxed(system, some_frames(), COLD, KEYS)
    paths = np.asarray(draws.shares).argmax(axis=2)
    worth = every_path(chain).reshape((K,) * T)[tuple(paths.T)] + np.asarray(draws.entropy) + entropy
    error = 5 * worth.std() / np.sqrt(len(worth))
    assert abs(worth.mean() - terms_of(system, Knobs()).elbo) < error < 0.2


def test_the_objective_of_a_draw_is_its_worth(system):
    entropy, chain, _, _ = parts_of(system, some_frames())
    for progress in (0.0, 0.5):
        tau = temperature(system.options, progress)
        drawn = jax.tree.map(lambda leaf: leaf[0], relaxed(system, some_frames(), tau, KEYS))
        s = np.asarray(drawn.shares, float)
        worth = s[0] @ chain.log_initial + sum(s[t - 1] @ chain.log_transition[t - 1] @ s[t] for t in range(1, T))
        worth += np.sum(s * chain.log_evidence) + drawn.entropy + entropy
        np.testing.assert_allclose(terms_of(system, Knobs(progress=progress)).elbo, worth, rtol=1e-4)


def test_a_regime_that_is_not_allowed_has_no_share(system):
    fewer = eqx.tree_at(lambda s: s.model.log_allowed, system, np.array([0, 0, FORBIDDEN], np.float32))
    for knobs in (Knobs(), HALFWAY):
        gradient, terms, found = found_by(fewer, some_frames(), knobs, guide_of())
        assert all_finite((gradient, terms))
        assert terms.usage[2] == 0
        assert (np.asarray(found.path) < 2).all()


# Relaxed draws


def test_draws_lie_on_the_simplex_and_harden_as_the_temperature_falls(system):
    hard = []
    for tau in (10.0, 1.0, 0.3, COLD):
        shares = np.asarray(relaxed(system, some_frames(), tau, KEYS).shares)
        assert (shares >= 0).all()
        np.testing.assert_allclose(shares.sum(axis=2), 1.0, atol=1e-5)
        hard.append(shares.max(axis=2).mean())
    assert hard == sorted(hard)
    assert hard[0] < 0.5 < hard[1] < 0.9 < 0.99 < hard[3]


def test_cold_draws_are_as_frequent_as_q_says(system):
    shares = np.asarray(relaxed(system, some_frames(), COLD, KEYS).shares)
    np.testing.assert_allclose(shares.mean(axis=0)[1:], infer(system).probabilities[1:], atol=0.02)


def test_a_draw_moves_the_next(system):
    shares = np.asarray(relaxed(system, some_frames(), COLD, KEYS).shares)
    together = np.einsum("nj,nk->jk", shares[:, 0], shares[:, 1]) / len(shares)
    apart = np.outer(shares[:, 0].mean(axis=0), shares[:, 1].mean(axis=0))
    assert np.abs(together - apart).max() > 0.02


def test_the_temperature_falls_from_its_first_to_its_last():
    options = GumbelOptions(first_temperature=2.0, last_temperature=0.5, anneal=0.8)
    path = [float(temperature(options, share)) for share in (0.0, 0.2, 0.4, 0.8, 0.9, 1.0)]
    np.testing.assert_allclose(path, [2.0, 2.0 / 4**0.25, 1.0, 0.5, 0.5, 0.5], rtol=1e-5)


def test_guidance_adds_its_nats_to_the_share_of_the_guides_regime(system):
    plain, guided = (terms_of(system, Knobs(progress=0.5, guidance=nats)) for nats in (0.0, 3.0))
    assert plain.guidance == 0
    assert guided.guidance > 0
    np.testing.assert_allclose(guided.elbo - plain.elbo, guided.guidance, rtol=1e-3)


# Padding, gaps and small cases


@pytest.mark.parametrize("knobs", [Knobs(), HALFWAY], ids=["exact", "relaxed"])
def test_padding_changes_no_value_no_gradient_and_no_label(system, knobs):
    gradient, terms, bare = found_by(system, some_frames(), knobs, guide_of())
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(gradient.regime_posterior)) > 0.01
    for content in (np.nan, 1e3):
        *padded, inference = found_by(system, some_frames(LONG, padding=content), knobs, guide_of(LONG))
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4), padded, [gradient, terms])
        for one, other in zip(bare, inference, strict=True):
            np.testing.assert_allclose(other[:T], one, atol=1e-4)


@pytest.mark.parametrize("knobs", [Knobs(), HALFWAY], ids=["exact", "relaxed"])
def test_what_stands_in_a_gap_changes_nothing(system, knobs):
    found = []
    for content in (np.nan, 7.0):
        frames = some_frames()
        frames.observed[1], frames.observed[3, 0] = False, False
        frames.x[1], frames.x[3, 0] = content, content
        found.append(found_by(system, frames, knobs, guide_of()))
    jax.tree.map(np.testing.assert_array_equal, *found)
    assert all_finite(found)
    assert found[0][1].elbo != terms_of(system, knobs).elbo


def test_one_regime_and_two_frames_are_enough():
    small = random_system(1)
    for knobs in (Knobs(), HALFWAY):
        found = found_by(small, some_frames(2, 2), knobs, guide_of(2, 1))
        assert all_finite(found)
    np.testing.assert_array_equal(found[2].probabilities, 1.0)


def test_the_same_key_gives_the_same_terms_and_another_gives_others(system):
    one, same, other = (terms_of(system, HALFWAY, jax.random.key(i)) for i in (1, 1, 2))
    jax.tree.map(np.testing.assert_array_equal, one, same)
    assert one.elbo != other.elbo


# Recovery


def drawn_to_two_places(n, seed, length=40):
    """A point that is drawn to one of two places, and changes its mind now and then."""
    rng = np.random.default_rng(seed)
    series = []
    for i in range(n):
        s = (rng.integers(2) + np.cumsum(rng.random(length) < 0.1)) % 2
        x = np.zeros((length, 2))
        for t in range(1, length):
            x[t] = x[t - 1] + 0.3 * (2.0 * s[t] - 1 - x[t - 1]) + 0.05 * rng.normal(size=2)
        series.append(Recording(x, s=s, name=str(i)))
    return series


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_it_tells_two_attractors_apart():
    test = drawn_to_two_places(20, seed=2)
    fitted = swerve.fit(drawn_to_two_places(60, seed=1), 2, model="gumbel", steps=400, settings=SMALL)
    found = swerve.segment(fitted, test, samples=1)
    assert score([one.labels for one in found], [one.s for one in test]).matched.frame_f1 > 90


@pytest.mark.slow
def test_led_by_an_arhmm_it_finds_the_fields():
    """Gently led: 20 nats, or a sticky p(s), press q into one regime, from which relaxed draws do not return."""
    training, test = (find("fields-0.02").generate(n, seed=seed) for n, seed in ((150, 7002), (60, 7003)))
    settings = (
        "model.state_size=2",
        "posterior.encoder_size=16",
        "posterior.causal_size=16",
        "training.window=100",
        "training.batch_size=16",
        "recipe.guidance=3",
        "recipe.stickiness=0",
        "arhmm.lags=[2]",
        "arhmm.features=[0]",
        "arhmm.restarts=2",
    )
    fitted = swerve.fit(training.series(), 3, model="gumbel", steps=1200, restarts=1, settings=settings)
    found = swerve.segment(fitted, test.series(), samples=1)
    majority = 100 * np.bincount(test.s.ravel()).max() / test.s.size
    assert score([one.labels for one in found], list(test.s)).matched.frame_f1 > majority + 20
