"""q(z | x): embed -> bidirectional RNN -> causal RNN over (h_t, z_{t-1}) -> diagonal Gaussian."""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from swerve.networks import SCAN_UNROLL, AbstractCell, Bidirectional
from swerve.types import Frames, Key

HALF_LOG_TWO_PI_E = 1.4189385332046727
SMALLEST_SCALE = 1e-4


class Draw(NamedTuple):
    """One path from q with the parameters of every step."""

    z: Float[Array, "T L"]
    mean: Float[Array, "T L"]
    scale: Float[Array, "T L"]
    anchors: Float[Array, "T M L"]
    """The points each mean was built from."""

    @property
    def entropy(self) -> Float[Array, " T"]:
        """H(q(z_t | z_{1:t-1}, x)) = sum_l log scale_tl + (L/2) log 2 pi e."""
        return jnp.log(self.scale).sum(axis=1) + self.scale.shape[1] * HALF_LOG_TWO_PI_E


class Anchor(Enum):
    """What q's mean starts from."""

    DYNAMICS = "dynamics"
    """The model's own predictions, one per regime, weighed by the network."""
    STATE = "state"
    """z_{t-1}."""
    ORIGIN = "origin"
    """Nothing: the mean comes from the network alone, as in the paper."""


class Anchors(NamedTuple):
    """Where q(z_t | z_{t-1}, x) starts from, before the network corrects it: M points per frame."""

    first: Float[Array, "M L"]
    memory: PyTree[Array]
    contexts: Float[Array, "T-1 C"]
    step: Callable
    """(memory, z_{t-1}, context_t) -> (memory, M points)."""


def previous_state(length: int, size: int) -> Anchors:
    """A single anchor, z_{t-1} itself: the mean is a residual on it."""
    return Anchors(jnp.zeros((1, size)), (), jnp.zeros((length - 1, 0)), lambda memory, z, _: (memory, z[None]))


def origin(length: int, size: int) -> Anchors:
    """A single anchor at the origin: the mean comes from the network alone, as in the paper."""
    point = jnp.zeros((1, size))
    return Anchors(point, (), jnp.zeros((length - 1, 0)), lambda memory, z, _: (memory, point))


class Posterior(eqx.Module):
    """q(z_t | z_{1:t-1}, x) = N(sum_m w_m(h_t) a_m(z_{t-1}) + d(h_t), scale(h_t)^2), h_t = RNN(h_{t-1}, h^x_t, z_{t-1}).

    The anchors a_m are given by the caller. The first scale is small, which keeps early training from
    drowning the regimes in noise. `embedding` is None when the model's own features are read instead.
    """

    embedding: Callable | None
    encoder: Bidirectional
    causal: AbstractCell
    state_gates: eqx.nn.Linear
    head: eqx.nn.Linear
    state_size: int = eqx.field(static=True)
    anchor: Anchor = eqx.field(static=True)

    def __init__(
        self,
        make_cell: Callable[..., AbstractCell],
        *,
        embedding: Callable | None,
        feature_size: int,
        control_size: int,
        state_size: int,
        regimes: int,
        anchor: Anchor,
        encoder_size: int,
        causal_size: int,
        initial_scale: float,
        key: Key,
    ):
        encoder_key, causal_key, gates_key, head_key = jax.random.split(key, 4)
        self.embedding = embedding
        self.state_size = state_size
        self.anchor = anchor
        anchors = regimes if anchor is Anchor.DYNAMICS else 1
        self.encoder = Bidirectional(make_cell, feature_size + control_size, encoder_size, key=encoder_key)
        read = self.encoder.size + feature_size
        self.causal = make_cell(read, causal_size, key=causal_key)
        gate_size = self.causal.project(jnp.zeros(read)).shape[0]
        self.state_gates = eqx.nn.Linear(state_size, gate_size, use_bias=False, key=gates_key)
        head = eqx.nn.Linear(causal_size + read, 2 * state_size + anchors, key=head_key)
        # The scale starts the same at every frame: its weights begin at zero, its bias at the chosen scale.
        scale_rows = slice(state_size, 2 * state_size)
        bias = head.bias.at[scale_rows].set(jnp.log(jnp.expm1(initial_scale)))
        weight = head.weight.at[scale_rows].set(0.0)
        self.head = eqx.tree_at(lambda h: (h.weight, h.bias), head, (weight, bias))

    def __call__(
        self, frames: Frames, model_features: Float[Array, "T F"], anchors: Anchors, *, key: Key
    ) -> Draw:
        """A path z ~ q(z | x). Noise is keyed by frame index, so that padding and chunking change nothing."""
        features = model_features
        if self.embedding is not None:
            features = jax.vmap(self.embedding)(frames.x, frames.observed)
        encoded = self.encoder(jnp.concatenate([features, frames.u], axis=1), frames.valid)
        read = jnp.concatenate([encoded, features], axis=1)
        from_state, from_read = jnp.split(self.head.weight, [self.causal.size], axis=1)
        gates = jax.vmap(self.causal.project)(read)
        direct = read @ from_read.T + self.head.bias[None]
        noise = frame_noise(key, len(read), self.state_size)

        def propose(state, z, points, frame):
            gates, direct, noise = frame
            state = self.causal.step(state, gates + self.state_gates(z))
            outputs = from_state @ state[: self.causal.size] + direct
            shift, raw_scale, logits = jnp.split(outputs, [self.state_size, 2 * self.state_size])
            mean = jax.nn.softmax(logits) @ points + shift
            scale = SMALLEST_SCALE + jax.nn.softplus(raw_scale)
            return state, Draw(mean + scale * noise, mean, scale, points)

        def step(carry, frame):
            state, z, memory = carry
            context, *rest = frame
            memory, points = anchors.step(memory, z, context)
            state, draw = propose(state, z, points, rest)
            return (state, draw.z, memory), draw

        at_first, later = (gates[0], direct[0], noise[0]), (gates[1:], direct[1:], noise[1:])
        state, first = propose(self.causal.initial(), jnp.zeros(self.state_size), anchors.first, at_first)
        carry = (state, first.z, anchors.memory)
        _, rest = jax.lax.scan(step, carry, (anchors.contexts, *later), unroll=SCAN_UNROLL)
        return jax.tree.map(lambda one, many: jnp.concatenate([one[None], many]), first, rest)


def frame_noise(key: Key, length: int, size: int) -> Float[Array, "T L"]:
    """Standard normal noise whose row t depends on the key and t alone."""
    keys = jax.vmap(lambda t: jax.random.fold_in(key, t))(jnp.arange(length))
    return jax.vmap(lambda k: jax.random.normal(k, (size,)))(keys)
