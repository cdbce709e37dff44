"""p(x_t | z_t, [s_t]): linear or perceptron, shared by the regimes or one each; or an image of that."""

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from swerve.inference.frames import Key
from swerve.inference.networks import Mlp
from swerve.models.snlds.base import AbstractEmission
from swerve.models.snlds.noise import AbstractNoise
from swerve.views.coordconv import CoordConvDecoder

DRAWN_AT_ONCE = 10  # images of every sequence in a batch


def starts_as_identity(state_size: int, channels: int, hidden: Sequence[int]) -> bool:
    """Whether x starts as the first coordinates of z."""
    return not hidden and channels <= state_size


class MlpEmission(AbstractEmission):
    """g_k(z): a perceptron, linear when there are no hidden layers. `heads` is 1 (shared) or K."""

    networks: Mlp
    noise: AbstractNoise

    def __init__(
        self,
        heads: int,
        state_size: int,
        channels: int,
        hidden: Sequence[int],
        *,
        noise: AbstractNoise,
        key: Key,
    ):
        sizes = (state_size, *hidden, channels)
        keys = jax.random.split(key, heads)
        networks = eqx.filter_vmap(lambda k: Mlp(sizes, key=k))(keys)
        if starts_as_identity(state_size, channels, hidden):
            # The first state coordinates start as the observations themselves.
            weight = jnp.broadcast_to(jnp.eye(channels, state_size), (heads, channels, state_size))
            bias = jnp.zeros((heads, channels))
            networks = eqx.tree_at(lambda n: (n.layers[0].weight, n.layers[0].bias), networks, (weight, bias))
        self.networks = networks
        self.noise = noise

    def mean(self, z):
        return _of_every_head(self.networks, z)

    def log_prob(self, x, observed, z):
        return jax.vmap(partial(_log_prob_of_frame, self))(x, observed, z)

    def reading(self, z):
        return self.mean(z)


class ImageEmission(AbstractEmission):
    """decoder(g_k(z)): the image of a code, which the same perceptrons give as in a model of codes."""

    networks: Mlp
    decoder: CoordConvDecoder
    noise: AbstractNoise

    def mean(self, z):
        return jax.vmap(self.decoder)(self.reading(z))

    def log_prob(self, x, observed, z):
        # Drawing an image takes a hundred times its memory: a few at a time, and again for the gradient.
        drawn_again = jax.checkpoint(lambda frame: _log_prob_of_frame(self, *frame))
        return jax.lax.map(drawn_again, (x, observed, z), batch_size=DRAWN_AT_ONCE)

    def reading(self, z):
        return _of_every_head(self.networks, z)


def _of_every_head(networks: Mlp, z: Float[Array, " L"]) -> Float[Array, "R N"]:
    return eqx.filter_vmap(lambda network: network(z))(networks)


def _log_prob_of_frame(
    emission: AbstractEmission, x: Float[Array, " D"], observed: Bool[Array, " D"], z: Float[Array, " L"]
) -> Float[Array, " R"]:
    return emission.noise.log_prob(x[None] - emission.mean(z), observed)
