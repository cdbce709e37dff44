"""Features of frames, for the posterior and the switching network."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from swerve.coordconv import FEATURES, CausalConvolution, CoordConvEncoder
from swerve.model.base import AbstractEmbedding
from swerve.networks import Mlp
from swerve.types import Key


class RawEmbedding(AbstractEmbedding):
    """The values beside their mask, unchanged."""

    def __call__(self, x, observed):
        return jnp.concatenate([x, observed.astype(x.dtype)], axis=1)

    @property
    def image_networks(self):
        return ()

    def readings(self, frames, features):
        return frames


class MlpEmbedding(AbstractEmbedding):
    """A perceptron over the values and their mask."""

    network: Mlp

    def __init__(self, channels: int, hidden: Sequence[int], *, key: Key):
        self.network = Mlp((2 * channels, *hidden), key=key)

    def __call__(self, x, observed):
        return jax.nn.relu(jax.vmap(self.network)(jnp.concatenate([x, observed.astype(x.dtype)], axis=1)))

    @property
    def image_networks(self):
        return ()

    def readings(self, frames, features):
        return frames


class ImageEmbedding(AbstractEmbedding):
    """(y_t, whether anything was seen, the appendix's causal convolution), with y_t = W encoder(x_t) + b the code."""

    encoder: CoordConvEncoder
    reader: eqx.nn.Linear
    convolution: CausalConvolution

    def __init__(self, encoder: CoordConvEncoder, reader: eqx.nn.Linear, *, key: Key):
        self.encoder = encoder
        self.reader = reader
        self.convolution = CausalConvolution(FEATURES, key=key)

    def __call__(self, x, observed):
        maps = jax.vmap(self.encoder)(x, observed)
        seen = observed.any(axis=1, keepdims=True)
        codes = jnp.where(seen, jax.vmap(self.reader)(maps), 0.0)
        return jnp.concatenate([codes, seen.astype(x.dtype), self.convolution(maps)], axis=1)

    @property
    def image_networks(self):
        return self.encoder, self.reader

    def readings(self, frames, features):
        codes = features[:, : self.reader.weight.shape[0]]
        seen = frames.observed.any(axis=1, keepdims=True)
        return frames._replace(x=codes, observed=jnp.broadcast_to(seen, codes.shape))
