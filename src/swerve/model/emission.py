"""p(x_t | z_t, [s_t]): linear or perceptron, shared by the regimes or one each."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from swerve.model.base import AbstractEmission
from swerve.model.noise import AbstractNoise
from swerve.networks import Mlp
from swerve.types import Key


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
        if not hidden and channels <= state_size:
            # The first state coordinates start as the observations themselves.
            weight = jnp.broadcast_to(jnp.eye(channels, state_size), (heads, channels, state_size))
            bias = jnp.zeros((heads, channels))
            networks = eqx.tree_at(lambda n: (n.layers[0].weight, n.layers[0].bias), networks, (weight, bias))
        self.networks = networks
        self.noise = noise

    def mean(self, z):
        return eqx.filter_vmap(lambda network: network(z))(self.networks)
