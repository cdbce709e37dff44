"""p(s_1) and p(z_1 | s_1) against scipy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp, softmax
from scipy.stats import norm

from swerve.models.snlds.initial import Initial

K, L, M = 3, 2, 4
FLOOR = 0.01


def make(*, learned=False, per_regime=False, components=1):
    return Initial(
        K, L, learned=learned, per_regime=per_regime, components=components, floor=FLOOR, key=jax.random.key(0)
    )


def filled(rng, **options):
    made = make(**options)
    rows, components, _ = made.means.shape
    weights, means = rng.normal(size=(rows, components)), rng.normal(size=(rows, components, L))
    log_scale = 0.3 * rng.normal(size=(rows * components, L))
    return eqx.tree_at(
        lambda i: (i.weights, i.means, i.noise.log_scale), made, tuple(map(jnp.float32, (weights, means, log_scale)))
    )


def by_hand(initial, z):
    scale = np.sqrt(FLOOR + np.exp(2 * np.asarray(initial.noise.log_scale))).reshape(initial.means.shape)
    components = norm.logpdf(z, np.asarray(initial.means), scale).sum(axis=-1)
    return logsumexp(log_softmax(np.asarray(initial.weights), axis=1) + components, axis=1)


@pytest.mark.parametrize("components", [1, M])
@pytest.mark.parametrize("per_regime", [True, False])
def test_log_prob_is_a_mixture_for_each_regime_or_a_shared_one(per_regime, components):
    rng = np.random.default_rng(0)
    initial = filled(rng, per_regime=per_regime, components=components)
    z = rng.normal(size=L).astype(np.float32)
    expected = np.broadcast_to(by_hand(initial, z), K)
    np.testing.assert_allclose(initial.log_prob(jnp.asarray(z)), expected, rtol=1e-5)


def test_one_fresh_gaussian_is_broad_and_centred():
    expected = np.full(K, L * norm.logpdf(1.0, scale=np.sqrt(1 + FLOOR)))
    np.testing.assert_allclose(make().log_prob(jnp.ones(L)), expected, rtol=1e-5)


def test_fresh_components_differ():
    means = np.asarray(make(components=M).means[0])
    assert len(np.unique(means.round(3), axis=0)) == M


def test_the_mean_weighs_the_components():
    initial = filled(np.random.default_rng(1), per_regime=True, components=M)
    weights = softmax(np.asarray(initial.weights), axis=1)
    expected = np.einsum("km,kml->kl", weights, np.asarray(initial.means))
    np.testing.assert_allclose(initial.mean, expected, rtol=1e-4, atol=1e-5)


def test_draws_have_the_density_they_claim():
    initial = filled(np.random.default_rng(2), per_regime=True, components=M)
    keys = jax.random.split(jax.random.key(3), 4000)
    z = np.asarray(jax.vmap(lambda key: initial.sample(jnp.asarray(1), key=key))(keys))
    np.testing.assert_allclose(z.mean(axis=0), initial.mean[1], atol=5 * z.std() / np.sqrt(len(z)))
    inside = (np.abs(z) < 0.5).all(axis=1).mean()
    grid = np.linspace(-0.5, 0.5, 101)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, L)
    density = np.exp([by_hand(initial, point)[1] for point in points]).mean()  # over a square of area 1
    assert abs(inside - density) < 5 * np.sqrt(density / len(z))


@pytest.mark.parametrize("learned", [True, False])
def test_the_first_regime_is_uniform_unless_learned(learned):
    initial = make(learned=learned)
    assert (initial.logits is not None) == learned
    np.testing.assert_array_equal(initial.regime_logits, np.zeros(K))
