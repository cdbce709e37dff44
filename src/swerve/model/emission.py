"""p(x_t | z_t, [s_t]): linear or perceptron, shared by the regimes or one each; or an image."""

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from swerve.coordconv import CoordConvDecoder
from swerve.model.base import AbstractEmission
from swerve.model.noise import AbstractNoise
from swerve.networks import Mlp
from swerve.types import Key

IMAGES_AT_ONCE = 10  # of every sequence in a batch


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
        return eqx.filter_vmap(lambda network: network(z))(self.networks)

    def log_prob(self, x, observed, z):
        return jax.vmap(partial(_log_prob_of_frame, self))(x, observed, z)

    @property
    def image_networks(self):
        return ()

    def reading(self, z):
        return self.mean(z)


class ImageEmission(AbstractEmission):
    """g(z) is an image. Its decoder starts as one of codes: z = (code, the rest), and the rest draws nothing yet."""

    decoder: CoordConvDecoder
    noise: AbstractNoise
    code_size: int = eqx.field(static=True)

    def __init__(self, state_size: int, decoder: CoordConvDecoder, *, rectified: bool, noise: AbstractNoise):
        weight = decoder.network.layers[0].weight
        code, places = weight[:, :-2], weight[:, -2:]
        self.code_size = code.shape[1]
        silent = jnp.zeros((len(weight), state_size - self.code_size))
        network = eqx.tree_at(
            lambda n: n.layers[0].weight, decoder.network, jnp.concatenate([code, silent, places], axis=1)
        )
        self.decoder = CoordConvDecoder(network, decoder.image, rectified=rectified)
        self.noise = noise

    def mean(self, z):
        return self.decoder(z)[None]

    def log_prob(self, x, observed, z):
        # Drawing an image takes a hundred times its memory: a few at a time, and again for the gradient.
        drawn_again = jax.checkpoint(lambda frame: _log_prob_of_frame(self, *frame))
        return jax.lax.map(drawn_again, (x, observed, z), batch_size=IMAGES_AT_ONCE)

    @property
    def image_networks(self):
        return (self.decoder,)

    def reading(self, z):
        return z[None, : self.code_size]


def _log_prob_of_frame(
    emission: AbstractEmission, x: Float[Array, " D"], observed: Bool[Array, " D"], z: Float[Array, " L"]
) -> Float[Array, " R"]:
    return emission.noise.log_prob(x[None] - emission.mean(z), observed)
