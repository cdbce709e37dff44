"""Emissions and the features of frames against plain numpy."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swerve.model.embedding import MlpEmbedding, RawEmbedding
from swerve.model.emission import MlpEmission
from swerve.model.noise import DiagonalNoise

quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
K, L = 3, 2
Z, SEEN = np.array([0.7, -1.3], np.float32), np.array([True, False])


@partial(quick_jit, static_argnums=(0, 1, 2))
def emission(heads, channels, hidden):
    """An emission, and its mean at Z."""
    noise = DiagonalNoise(1, channels, scale=0.1, floor=1e-4)
    made = MlpEmission(heads, L, channels, hidden, noise=noise, key=jax.random.key(0))
    return made, made.mean(jnp.asarray(Z))


def perceptron(layers, inputs, head=None):
    for number, layer in enumerate(layers):
        weight, bias = (np.asarray(a if head is None else a[head]) for a in (layer.weight, layer.bias))
        inputs = weight @ inputs + bias
        inputs = inputs if number == len(layers) - 1 else np.maximum(inputs, 0)
    return inputs


@pytest.mark.parametrize("heads", [1, K], ids=["shared", "per-regime"])
@pytest.mark.parametrize("hidden", [(), (5, 4)])
def test_mean_is_one_perceptron_per_head(heads, hidden):
    made, mean = emission(heads, 4, hidden)
    expected = np.stack([perceptron(made.networks.layers, Z, head) for head in range(heads)])
    np.testing.assert_allclose(mean, expected, atol=1e-6)
    assert len(np.unique(np.round(expected, 5), axis=0)) == heads  # they start different


@pytest.mark.parametrize("channels", [1, 2])
def test_few_channels_start_as_the_first_state_coordinates(channels):
    np.testing.assert_allclose(emission(1, channels, ())[1], Z[None, :channels])


def test_raw_embedding_is_the_values_beside_their_mask():
    np.testing.assert_allclose(quick_jit(RawEmbedding())(Z[None], SEEN[None]), [[*Z, 1.0, 0.0]])


def test_mlp_embedding_reads_values_and_mask():
    rng = np.random.default_rng(0)
    like = jax.eval_shape(lambda: MlpEmbedding(2, (6, 5), key=jax.random.key(0)))
    embedding = jax.tree.map(lambda leaf: np.float32(rng.normal(size=leaf.shape)), like)
    expected = np.maximum(perceptron(embedding.network.layers, np.concatenate([Z, SEEN])), 0)
    features = quick_jit(lambda embedding: embedding(jnp.asarray(Z)[None], jnp.asarray(SEEN)[None]))(embedding)
    np.testing.assert_allclose(features, expected[None], atol=1e-5)
