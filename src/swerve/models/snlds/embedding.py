"""Features of frames, for the posterior and the switching network."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from swerve.inference.frames import Key
from swerve.inference.networks import Mlp
from swerve.models.snlds.base import AbstractEmbedding


class RawEmbedding(AbstractEmbedding):
    """The values beside their mask, unchanged."""

    def __call__(self, x, observed):
        return jnp.concatenate([x, observed.astype(x.dtype)], axis=1)


class MlpEmbedding(AbstractEmbedding):
    """A perceptron over the values and their mask."""

    network: Mlp

    def __init__(self, channels: int, hidden: Sequence[int], *, key: Key):
        self.network = Mlp((2 * channels, *hidden), key=key)

    def __call__(self, x, observed):
        return jax.nn.relu(jax.vmap(self.network)(jnp.concatenate([x, observed.astype(x.dtype)], axis=1)))
