"""CoordConv: networks that read and draw images knowing where each pixel lies (the paper's appendix)."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from swerve.inference.frames import Key
from swerve.inference.networks import Mlp

Image = tuple[int, int]
"""Height and width."""

ENCODER_FILTERS = (2, 4, 4, 8)
ENCODER_STRIDES = (1, 2, 1, 2)
ENCODER_KERNEL = 5
FEATURES = 8
DECODER_FILTERS = (14, 14, 28, 28, 1)


def pixel_coordinates(image: Image) -> Float[np.ndarray, "H W 2"]:
    """(down, right) of every pixel's centre, each from -1 to 1."""
    places = (np.linspace(-1, 1, pixels, dtype=np.float32) for pixels in image)
    return np.stack(np.meshgrid(*places, indexing="ij"), axis=-1)


class CoordConvEncoder(eqx.Module):
    """One image to 8 features: four convolutions that quarter its sides, a fifth that covers what is left."""

    layers: tuple[eqx.nn.Conv2d, ...]
    image: Image = eqx.field(static=True)

    def __init__(self, image: Image, *, key: Key):
        *keys, last_key = jax.random.split(key, len(ENCODER_FILTERS) + 1)
        channels = (3, *ENCODER_FILTERS)
        shapes = zip(channels[:-1], channels[1:], ENCODER_STRIDES, keys, strict=True)
        same = (
            eqx.nn.Conv2d(into, out, ENCODER_KERNEL, stride, padding="SAME", key=k) for into, out, stride, k in shapes
        )
        left = tuple(-(-pixels // math.prod(ENCODER_STRIDES)) for pixels in image)
        self.layers = (*same, eqx.nn.Conv2d(channels[-1], FEATURES, left, key=last_key))
        self.image = image

    def __call__(self, x: Float[Array, " D"], observed: Bool[Array, " D"]) -> Float[Array, " F"]:
        """Features of one frame; a pixel that was not observed counts as 0."""
        seen = jnp.where(observed, x, 0.0).reshape(1, *self.image)
        maps = jnp.concatenate([seen, jnp.moveaxis(pixel_coordinates(self.image), -1, 0)])
        for layer in self.layers:
            maps = jax.nn.relu(layer(maps))
        return maps.reshape(FEATURES)


class CausalConvolution(eqx.Module):
    """A f_{t-1} + B f_t + c over a sequence of features, with zeros before the first frame; it starts as f_t."""

    past: Float[Array, "F F"]
    present: Float[Array, "F F"]
    offset: Float[Array, " F"]

    def __init__(self, features: int):
        self.past = jnp.zeros((features, features))
        self.present = jnp.eye(features)
        self.offset = jnp.zeros(features)

    def __call__(self, features: Float[Array, "T F"]) -> Float[Array, "T F"]:
        before = jnp.concatenate([jnp.zeros_like(features[:1]), features[:-1]])
        return before @ self.past.T + features @ self.present.T + self.offset[None]


class CodeReader(eqx.Module):
    """y = W convolution(encoder(x)) + b: the few numbers that stand for an image.

    Where single images are read, the convolution has no past to look at, and A stays 0.
    """

    encoder: CoordConvEncoder
    convolution: CausalConvolution
    linear: eqx.nn.Linear

    def __init__(self, size: int, image: Image, *, key: Key):
        encoder_key, linear_key = jax.random.split(key)
        self.encoder = CoordConvEncoder(image, key=encoder_key)
        self.convolution = CausalConvolution(FEATURES)
        self.linear = eqx.nn.Linear(FEATURES, size, key=linear_key)

    @property
    def size(self) -> int:
        """How many numbers stand for an image."""
        return self.linear.weight.shape[0]

    def __call__(self, x: Float[Array, " D"], observed: Bool[Array, " D"]) -> Float[Array, " C"]:
        """The code of an image by itself."""
        codes, _ = self.read(x[None], observed[None])
        return codes[0]

    def read(
        self, x: Float[Array, "T D"], observed: Bool[Array, "T D"]
    ) -> tuple[Float[Array, "T C"], Bool[Array, "T C"]]:
        """The code of every frame of a sequence, and its mask: a frame without an observed pixel is missing."""
        seen = observed.any(axis=1, keepdims=True)
        features = jnp.where(seen, jax.vmap(self.encoder)(x, observed), 0.0)
        codes = jnp.where(seen, jax.vmap(self.linear)(self.convolution(features)), 0.0)
        return codes, jnp.broadcast_to(seen, codes.shape)


class CoordConvDecoder(eqx.Module):
    """A state to an image: each pixel is the same perceptron of the state and the pixel's coordinates.

    That is 1 x 1 convolutions over the tiled state, written as matrix products.
    """

    network: Mlp
    image: Image = eqx.field(static=True)
    rectified: bool = eqx.field(static=True)

    def __init__(self, network: Mlp, image: Image, *, rectified: bool = False):
        self.network = network
        self.image = image
        self.rectified = rectified

    @staticmethod
    def fresh(state_size: int, image: Image, *, rectified: bool = False, key: Key) -> "CoordConvDecoder":
        """The appendix's layers with random parameters."""
        return CoordConvDecoder(Mlp((state_size + 2, *DECODER_FILTERS), key=key), image, rectified=rectified)

    def __call__(self, z: Float[Array, " L"]) -> Float[Array, " D"]:
        places = pixel_coordinates(self.image).reshape(-1, 2)
        drawn = jax.vmap(lambda place: self.network(jnp.concatenate([z, place])))(places)[:, 0]
        return jax.nn.relu(drawn) if self.rectified else drawn
