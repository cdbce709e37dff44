"""Regime dynamics: linear, perceptron, or a recurrent cell followed by a linear map."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from swerve.inference.frames import Key
from swerve.inference.networks import Gru, Mlp
from swerve.models.snlds.base import AbstractDynamics
from swerve.models.snlds.noise import AbstractNoise


def _stacked(make, regimes: int, *, key: Key):
    """K copies of a module with different parameters, as one module with a leading axis."""
    return eqx.filter_vmap(lambda k: make(key=k))(jax.random.split(key, regimes))


class LinearDynamics(AbstractDynamics):
    """f_k(z, c) = A_k z + B_k c + b_k, plus z itself if residual."""

    matrix: Float[Array, "K L L+C"]
    offset: Float[Array, "K L"]
    noise: AbstractNoise
    residual: bool = eqx.field(static=True)

    def __init__(
        self,
        regimes: int,
        state_size: int,
        context_size: int,
        *,
        noise: AbstractNoise,
        residual: bool,
        key: Key,
    ):
        matrix_key, offset_key = jax.random.split(key)
        bound = (0.02 if residual else 1.0) / jnp.sqrt(state_size + context_size)
        shape = (regimes, state_size, state_size + context_size)
        self.matrix = jax.random.uniform(matrix_key, shape, minval=-bound, maxval=bound)
        self.offset = jax.random.uniform(offset_key, (regimes, state_size), minval=-bound, maxval=bound)
        self.noise = noise
        self.residual = residual

    def initial_memory(self):
        return ()

    def step(self, memory, z, context):
        mean = self.matrix @ jnp.concatenate([z, context]) + self.offset
        return memory, mean + z[None] if self.residual else mean


class MlpDynamics(AbstractDynamics):
    """f_k(z, c) = g_k(z, c), or with residual z + A_k [z, c] + g_k(z, c); one perceptron g_k per regime.

    The residual form starts close to standing still, and linear motion costs the perceptron nothing.
    """

    networks: Mlp
    matrix: Float[Array, "K L L+C"]
    noise: AbstractNoise
    residual: bool = eqx.field(static=True)

    def __init__(
        self,
        regimes: int,
        state_size: int,
        context_size: int,
        hidden: Sequence[int],
        *,
        noise: AbstractNoise,
        residual: bool,
        key: Key,
    ):
        sizes = (state_size + context_size, *hidden, state_size)
        matrix_key, networks_key = jax.random.split(key)
        networks = _stacked(lambda *, key: Mlp(sizes, key=key), regimes, key=networks_key)
        if residual:
            networks = eqx.tree_at(lambda n: n.layers[-1].weight, networks, replace_fn=lambda w: 0.03 * w)
        self.networks = networks
        shape = (regimes, state_size, state_size + context_size)
        self.matrix = residual * 0.01 * jax.random.normal(matrix_key, shape)
        self.noise = noise
        self.residual = residual

    def initial_memory(self):
        return ()

    def step(self, memory, z, context):
        inputs = jnp.concatenate([z, context])
        mean = eqx.filter_vmap(lambda network: network(inputs))(self.networks)
        return memory, mean + self.matrix @ inputs + z[None] if self.residual else mean


class GruDynamics(AbstractDynamics):
    """h_t = GRU_k(h_{t-1}, z_{t-1}, c_t), f_k = C_k h_t + d_k, plus z_{t-1} if residual.

    The memory follows z alone, so that given z the regimes still form a Markov chain and can be summed out.
    """

    cells: Gru
    readouts: eqx.nn.Linear
    noise: AbstractNoise
    residual: bool = eqx.field(static=True)

    def __init__(
        self,
        regimes: int,
        state_size: int,
        context_size: int,
        hidden: int,
        *,
        noise: AbstractNoise,
        residual: bool,
        key: Key,
    ):
        cell_key, readout_key = jax.random.split(key)
        self.cells = _stacked(lambda *, key: Gru(state_size + context_size, hidden, key=key), regimes, key=cell_key)
        self.readouts = _stacked(lambda *, key: eqx.nn.Linear(hidden, state_size, key=key), regimes, key=readout_key)
        self.noise = noise
        self.residual = residual

    def initial_memory(self):
        return jnp.zeros((self.readouts.weight.shape[0], self.cells.size))

    def step(self, memory, z, context):
        inputs = jnp.concatenate([z, context])
        memory = eqx.filter_vmap(lambda cell, h: cell.step(h, cell.project(inputs)))(self.cells, memory)
        mean = eqx.filter_vmap(lambda readout, h: readout(h))(self.readouts, memory)
        return memory, mean + z[None] if self.residual else mean
