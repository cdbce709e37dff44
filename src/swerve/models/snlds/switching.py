"""p(s_t | s_{t-1}, ...): a sticky matrix of logits, moved by whatever drives the switches."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from swerve.inference.frames import Key
from swerve.inference.networks import Mlp
from swerve.models.snlds.base import AbstractSwitching


class ConstantSwitching(AbstractSwitching):
    """The same transition matrix at every frame."""

    base: Float[Array, "K K"]
    history: int = eqx.field(static=True, default=1)

    def __init__(self, regimes: int, *, stickiness: float):
        self.base = stickiness * jnp.eye(regimes)
        self.history = 1

    def logits(self, features, z, u):
        return self.base


class DrivenSwitching(AbstractSwitching):
    """logits = base + network(drivers), the drivers being any of: features of x, z_{t-1}, u_t.

    The features of the last `history` frames pass a short causal convolution first (the paper's 1-D
    convolution with `filters` kernels); with history 1 and no filters they are read as they are.
    """

    base: Float[Array, "K K"]
    convolution: eqx.nn.Linear | None
    network: Mlp
    history: int = eqx.field(static=True)
    reads_x: bool = eqx.field(static=True)
    reads_z: bool = eqx.field(static=True)
    reads_u: bool = eqx.field(static=True)

    def __init__(
        self,
        regimes: int,
        *,
        feature_size: int,
        state_size: int,
        control_size: int,
        hidden: Sequence[int],
        stickiness: float,
        history: int = 1,
        filters: int = 0,
        reads_x: bool,
        reads_z: bool,
        reads_u: bool,
        key: Key,
    ):
        convolution_key, network_key = jax.random.split(key)
        read = filters if filters else history * feature_size
        self.convolution = (
            eqx.nn.Linear(history * feature_size, filters, key=convolution_key) if filters and reads_x else None
        )
        width = reads_x * read + reads_z * state_size + reads_u * control_size
        network = Mlp((width, *hidden, regimes * regimes), key=network_key)
        # The drivers start almost silent, so that the sticky start is what the first steps see.
        self.network = eqx.tree_at(lambda n: n.layers[-1].weight, network, replace_fn=lambda w: 0.1 * w)
        self.base = stickiness * jnp.eye(regimes)
        self.history = history
        self.reads_x, self.reads_z, self.reads_u = reads_x, reads_z, reads_u

    def logits(self, features, z, u):
        seen = features.reshape(-1)
        if self.convolution is not None:
            seen = self.convolution(seen)
        drivers = [v for v, read in ((seen, self.reads_x), (z, self.reads_z), (u, self.reads_u)) if read]
        return self.base + self.network(jnp.concatenate(drivers)).reshape(self.base.shape)
