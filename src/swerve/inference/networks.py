"""Small networks that Equinox lacks or that must be fast inside a time loop."""

from abc import abstractmethod
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from swerve.inference.frames import Key


def scan_unroll() -> int:
    """Frames per iteration of a time loop: a GPU is bound by kernel launches, a CPU likes a short body."""
    return 1 if jax.default_backend() == "cpu" else 4


class Mlp(eqx.Module):
    """A multi-layer perceptron; with no hidden layers, an affine map."""

    layers: tuple[eqx.nn.Linear, ...]
    activation: Callable = eqx.field(static=True)

    def __init__(self, sizes: Sequence[int], *, activation: Callable = jax.nn.relu, key: Key):
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = zip(sizes[:-1], sizes[1:], keys, strict=True)
        self.layers = tuple(eqx.nn.Linear(into, out, key=k) for into, out, k in pairs)
        self.activation = activation

    def __call__(self, inputs: Float[Array, " I"]) -> Float[Array, " O"]:
        for layer in self.layers[:-1]:
            inputs = self.activation(layer(inputs))
        return self.layers[-1](inputs)


class AbstractCell(eqx.Module):
    """A recurrent cell whose input projection can be taken out of the time loop."""

    size: eqx.AbstractVar[int]

    @abstractmethod
    def project(self, inputs: Float[Array, " I"]) -> Float[Array, " G"]:
        """The inputs' share of the gates; depends on no state, so all frames can be projected at once."""

    @abstractmethod
    def initial(self) -> Float[Array, " S"]:
        """The state before the first frame."""

    @abstractmethod
    def step(self, state: Float[Array, " S"], gates: Float[Array, " G"]) -> Float[Array, " S"]:
        """One frame. The first `size` entries of the state are the cell's output."""


class Gru(AbstractCell):
    """Gated recurrent unit."""

    inputs: eqx.nn.Linear
    recurrent: eqx.nn.Linear
    size: int = eqx.field(static=True)

    def __init__(self, input_size: int, size: int, *, key: Key):
        input_key, recurrent_key = jax.random.split(key)
        self.inputs = eqx.nn.Linear(input_size, 3 * size, key=input_key)
        self.recurrent = eqx.nn.Linear(size, 3 * size, key=recurrent_key)
        self.size = size

    def project(self, inputs):
        return self.inputs(inputs)

    def initial(self):
        return jnp.zeros(self.size)

    def step(self, state, gates):
        reset, update, candidate = jnp.split(gates, 3)
        state_reset, state_update, state_candidate = jnp.split(self.recurrent(state), 3)
        keep = jax.nn.sigmoid(update + state_update)
        proposal = jnp.tanh(candidate + jax.nn.sigmoid(reset + state_reset) * state_candidate)
        return proposal + keep * (state - proposal)


class Lstm(AbstractCell):
    """Long short-term memory; the state is the output followed by the memory."""

    inputs: eqx.nn.Linear
    recurrent: eqx.nn.Linear
    size: int = eqx.field(static=True)

    def __init__(self, input_size: int, size: int, *, key: Key):
        input_key, recurrent_key = jax.random.split(key)
        self.inputs = eqx.nn.Linear(input_size, 4 * size, key=input_key)
        self.recurrent = eqx.nn.Linear(size, 4 * size, use_bias=False, key=recurrent_key)
        self.size = size

    def project(self, inputs):
        return self.inputs(inputs)

    def initial(self):
        return jnp.zeros(2 * self.size)

    def step(self, state, gates):
        output, memory = jnp.split(state, 2)
        enter, forget, leave, candidate = jnp.split(gates + self.recurrent(output), 4)
        memory = jax.nn.sigmoid(forget + 1.0) * memory + jax.nn.sigmoid(enter) * jnp.tanh(candidate)
        return jnp.concatenate([jax.nn.sigmoid(leave) * jnp.tanh(memory), memory])


class Bidirectional(eqx.Module):
    """Reads a sequence in both directions; the backward pass starts at the last valid frame."""

    forward: AbstractCell
    backward: AbstractCell

    def __init__(self, make_cell: Callable[..., AbstractCell], input_size: int, size: int, *, key: Key):
        forward_key, backward_key = jax.random.split(key)
        self.forward = make_cell(input_size, size, key=forward_key)
        self.backward = make_cell(input_size, size, key=backward_key)

    @property
    def size(self) -> int:
        """Width of the output: both directions side by side."""
        return self.forward.size + self.backward.size

    def initial(self) -> tuple[Float[Array, " F"], Float[Array, " B"]]:
        """The states before the first frame and after the last."""
        return self.forward.initial(), self.backward.initial()

    def __call__(self, inputs: Float[Array, "T I"], valid: Bool[Array, " T"]) -> Float[Array, "T H"]:
        return self.between(self.initial(), inputs, valid)[1]

    def between(
        self,
        borders: tuple[Float[Array, " F"], Float[Array, " B"]],
        inputs: Float[Array, "T I"],
        valid: Bool[Array, " T"],
    ) -> tuple[tuple[Float[Array, " F"], Float[Array, " B"]], Float[Array, "T H"]]:
        """A stretch of a sequence, from the states before and after it: states after and before it, and the outputs.

        In both the first is that of the forward pass.
        """

        def step(states, frame):
            forward, backward = states
            forward_gates, backward_gates, backward_valid = frame
            forward = self.forward.step(forward, forward_gates)
            moved = self.backward.step(backward, backward_gates)
            backward = jnp.where(backward_valid, moved, backward)
            return (forward, backward), (forward[: self.forward.size], backward[: self.backward.size])

        frames = (
            jax.vmap(self.forward.project)(inputs),
            jax.vmap(self.backward.project)(inputs)[::-1],
            valid[::-1],
        )
        borders, (ahead, behind) = jax.lax.scan(step, borders, frames, unroll=scan_unroll())
        return borders, jnp.concatenate([ahead, behind[::-1]], axis=1)
