"""Emissions and the features of frames against plain numpy."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swerve.inference.frames import Frames
from swerve.models.snlds.embedding import MlpEmbedding, RawEmbedding
from swerve.models.snlds.emission import ImageEmission, MlpEmission
from swerve.models.snlds.noise import DiagonalNoise, ScalarNoise
from swerve.views.codes import ImageCode
from swerve.views.coordconv import CoordConvDecoder

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


IMAGE, CODE = (4, 6), 2
PIXELS = 24


def filled(make):
    """A module with random parameters, without compiling its initialisation."""
    rng = np.random.default_rng(8)  # one whose decoder draws both signs
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32), jax.eval_shape(make))


@pytest.fixture(scope="module")
def code() -> ImageCode:
    return filled(lambda: ImageCode(CODE, IMAGE, key=jax.random.key(0)))


def some_images():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(5, PIXELS)).astype(np.float32)
    observed = np.ones((5, PIXELS), bool)
    observed[1, :7], observed[3] = False, False
    return Frames(*map(jnp.asarray, (np.where(observed, x, 0), observed, np.ones(5, bool), np.zeros((5, 0)))))


@pytest.mark.parametrize("rectified", [False, True])
def test_an_image_emission_draws_the_codes_that_every_head_expects(code, rectified):
    decoder = eqx.tree_at(lambda d: d.network.layers[-1].bias, code.decoder, jnp.full(1, -380.0))  # both signs
    heads = emission(K, CODE, ())[0]
    made = ImageEmission(
        networks=heads.networks,
        decoder=CoordConvDecoder(decoder.network, IMAGE, rectified=rectified),
        noise=ScalarNoise(1, PIXELS, scale=0.1, floor=1e-4),
    )
    z = jnp.asarray(Z)
    drawn = quick_jit(jax.vmap(decoder))(made.reading(z))
    assert (drawn < 0).any() and (drawn > 0).any()
    expected = np.maximum(drawn, 0) if rectified else drawn
    np.testing.assert_allclose(quick_jit(lambda made: made.mean(z))(made), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(made.reading(z), heads.mean(z))


def test_a_reading_is_the_code_of_the_image(code):
    frames = some_images()
    reader = eqx.tree_at(lambda r: r.convolution.past, code.reader, replace_fn=jnp.zeros_like)
    codes, mask = reader.read(frames.x, frames.observed)
    for t in (0, 1, 2, 4):
        np.testing.assert_allclose(codes[t], reader(frames.x[t], frames.observed[t]), rtol=1e-5, atol=1e-5)
    assert np.asarray(mask).tolist() == [[seen] * CODE for seen in (True, True, True, False, True)]
    assert not np.asarray(codes[3]).any()


def test_a_reading_may_look_at_the_image_before_it_if_that_was_seen(code):
    frames = some_images()
    codes, _ = code.reader.read(frames.x, frames.observed)
    alone = [code.reader(frames.x[t], frames.observed[t]) for t in range(5)]
    looks_back = [not np.allclose(codes[t], alone[t], rtol=1e-3) for t in range(5)]
    assert looks_back == [False, True, True, False, False]
