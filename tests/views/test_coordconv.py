"""CoordConv against the tables of the paper's appendix, and what it does with places and gaps."""

from functools import partial

import jax
import numpy as np
import pytest

from swerve.views.coordconv import (
    CausalConvolution,
    CodeReader,
    CoordConvDecoder,
    CoordConvEncoder,
    pixel_coordinates,
)
from swerve_lab.boards.dubins_video import IMAGE, render

ALL_SEEN = np.ones(784, bool)
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module", autouse=True)
def quick(quick_compilation):
    pass


def filled(make):
    """A module with random parameters, without compiling its initialisation."""
    rng = np.random.default_rng(17)  # one whose decoder draws both signs
    like = jax.eval_shape(lambda: make(key=jax.random.key(0)))
    return jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32) / 4, like)


@jax.jit
def features_of(encoder, images, observed):
    return jax.vmap(encoder, in_axes=(0, None))(images, observed)


@jax.jit
def output(network, inputs):
    return network(inputs)


def parameters(module) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(module))


def point(x: float, y: float):
    return render(np.array([x, y], float)).reshape(784)


def test_coordinates_go_from_minus_1_to_1():
    places = pixel_coordinates((3, 5))
    assert places.shape == (3, 5, 2) and places.dtype == np.float32
    assert places[0, 0].tolist() == [-1, -1] and places[2, 4].tolist() == [1, 1] and places[1, 2].tolist() == [0, 0]


def test_the_encoders_layers_are_the_tables():
    encoder = filled(partial(CoordConvEncoder, IMAGE))
    weights = [2 * 3 * 25, 4 * 2 * 25, 4 * 4 * 25, 8 * 4 * 25, 8 * 8 * 49]
    biases = [2, 4, 4, 8, 8]
    assert [parameters(layer) for layer in encoder.layers] == [w + b for w, b in zip(weights, biases, strict=True)]
    sides, maps = [], jax.ShapeDtypeStruct((3, *IMAGE), np.float32)
    for layer in encoder.layers:
        maps = jax.eval_shape(layer, maps)
        sides.append(maps.shape)
    assert sides == [(2, 28, 28), (4, 14, 14), (4, 14, 14), (8, 7, 7), (8, 1, 1)]
    convolution = 2 * 8 * 8 + 8
    assert parameters(filled(partial(CodeReader, 2, IMAGE))) == parameters(encoder) + convolution + 2 * 8 + 2


@pytest.mark.parametrize("image", [(28, 28), (9, 17), (1, 4)])
def test_images_of_any_shape_give_8_features(image):
    size = image[0] * image[1]
    encoder = filled(partial(CoordConvEncoder, image))
    frame = jax.ShapeDtypeStruct((size,), np.float32), jax.ShapeDtypeStruct((size,), bool)
    assert jax.eval_shape(encoder, *frame).shape == (8,)
    decoder = filled(partial(CoordConvDecoder.fresh, 3, image))
    assert jax.eval_shape(decoder, jax.ShapeDtypeStruct((3,), np.float32)).shape == (size,)


def test_the_encoder_tells_where_a_point_is():
    encoder = filled(partial(CoordConvEncoder, IMAGE))
    images = np.stack([point(2, 3), point(2.1, 3), point(-8, 3)])
    here, there, elsewhere = features_of(encoder, images, ALL_SEEN)
    assert np.abs(here - there).max() > 1e-4
    assert np.abs(here - elsewhere).max() > np.abs(here - there).max()


def test_what_a_missing_pixel_holds_does_not_matter():
    encoder = filled(partial(CoordConvEncoder, IMAGE))
    observed = RNG.random((1, 784)) < 0.7
    x = RNG.normal(size=(3, 784)).astype(np.float32)
    zeros, gaps = (np.where(observed, x, np.float32(hole)) for hole in (0, np.nan))
    expected = features_of(encoder, zeros, ALL_SEEN)
    np.testing.assert_array_equal(features_of(encoder, gaps, observed[0]), expected)
    assert (features_of(encoder, x, ALL_SEEN) != expected).any()


def test_the_causal_convolution_by_hand():
    like = jax.eval_shape(lambda: CausalConvolution(2))
    convolution = jax.tree.map(lambda leaf: RNG.normal(size=leaf.shape).astype(np.float32), like)
    features = RNG.normal(size=(5, 2)).astype(np.float32)
    expected = features @ convolution.present.T + np.tile(convolution.offset, (5, 1))
    expected[1:] += features[:-1] @ convolution.past.T
    np.testing.assert_allclose(output(convolution, features), expected, atol=1e-5)


def test_the_convolution_starts_as_if_it_were_not_there():
    features = RNG.normal(size=(5, 2)).astype(np.float32)
    np.testing.assert_array_equal(output(CausalConvolution(2), features), features)


def test_the_decoders_layers_are_the_tables():
    decoder = filled(partial(CoordConvDecoder.fresh, 4, IMAGE))
    shapes = [layer.weight.shape for layer in decoder.network.layers]
    assert shapes == [(14, 6), (14, 14), (28, 14), (28, 28), (1, 28)]
    assert parameters(decoder) == sum(out * into + out for out, into in shapes)


def test_the_decoder_is_the_tiled_network():
    decoder = filled(partial(CoordConvDecoder.fresh, 4, IMAGE))
    z = np.float32([1, -1, 2, 0.5])
    maps = np.concatenate([np.tile(z, (28, 28, 1)), pixel_coordinates(IMAGE)], axis=-1)
    for layer in decoder.network.layers:
        maps = np.einsum("oi,hwi->hwo", layer.weight, maps) + np.tile(layer.bias, (28, 28, 1))
        maps = np.maximum(maps, 0) if len(layer.bias) > 1 else maps
    assert (maps < 0).any() and (maps > 0).any()
    np.testing.assert_allclose(output(decoder, z), maps.reshape(784), atol=1e-5)
    rectified = filled(partial(CoordConvDecoder.fresh, 4, IMAGE, rectified=True))
    np.testing.assert_allclose(output(rectified, z), np.maximum(maps, 0).reshape(784), atol=1e-5)
