"""Recurrent cells against Equinox's own, and what padding may not do."""

from functools import partial

import equinox as eqx
import jax
import numpy as np
import pytest

from swerve.inference.networks import Bidirectional, Gru, Lstm, Mlp

# Compiling is what takes time here: whole functions, and little optimisation.
quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
T, C, H = 6, 3, 4
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(T, C)).astype(np.float32)


def filled(make):
    """A module with random parameters, without compiling its initialisation."""
    like = jax.eval_shape(lambda: make(key=jax.random.key(0)))
    return jax.tree.map(lambda leaf: RNG.normal(size=leaf.shape).astype(np.float32) / 2, like)


def both_ways(make_cell):
    return filled(partial(Bidirectional, make_cell, C, H))


@quick_jit
def run(cell, inputs):
    def step(state, one):
        state = cell.step(state, cell.project(one))
        return state, state[: cell.size]

    return jax.lax.scan(step, cell.initial(), inputs)[1]


@quick_jit
def run_theirs(cell, start, inputs):
    return jax.lax.scan(lambda state, one: (cell(one, state),) * 2, start, inputs)[1]


@quick_jit
def read(network, inputs, valid):
    return network(inputs, valid)


def test_gru_equals_equinox():
    ours = filled(partial(Gru, C, H))
    theirs = eqx.tree_at(
        lambda c: (c.weight_ih, c.weight_hh, c.bias, c.bias_n),
        filled(partial(eqx.nn.GRUCell, C, H)),
        (
            ours.inputs.weight,
            ours.recurrent.weight,
            ours.inputs.bias + np.concatenate([ours.recurrent.bias[: 2 * H], np.zeros(H, np.float32)]),
            ours.recurrent.bias[2 * H :],
        ),
    )
    expected = run_theirs(theirs, np.zeros(H, np.float32), INPUTS)
    np.testing.assert_allclose(run(ours, INPUTS), expected, atol=1e-6)


def test_lstm_equals_equinox():
    """Equinox orders the gates i, f, g, o, and its forget gate has no head start of 1."""
    ours = filled(partial(Lstm, C, H))

    def reordered(rows):
        enter, forget, leave, candidate = np.split(rows, 4)
        return np.concatenate([enter, forget, candidate, leave])

    head_start = np.repeat(np.float32([0, 1, 0, 0]), H)
    theirs = eqx.tree_at(
        lambda c: (c.weight_ih, c.weight_hh, c.bias),
        filled(partial(eqx.nn.LSTMCell, C, H)),
        (
            reordered(ours.inputs.weight),
            reordered(ours.recurrent.weight),
            reordered(ours.inputs.bias + head_start),
        ),
    )
    expected, _ = run_theirs(theirs, (np.zeros(H, np.float32), np.zeros(H, np.float32)), INPUTS)
    np.testing.assert_allclose(run(ours, INPUTS), expected, atol=1e-6)


@pytest.mark.parametrize("make_cell", [Gru, Lstm])
def test_bidirectional_is_one_cell_ahead_and_one_behind(make_cell):
    network = both_ways(make_cell)
    both = np.asarray(read(network, INPUTS, np.ones(T, bool)))
    assert both.shape == (T, network.size) == (T, 2 * H)
    np.testing.assert_allclose(both[:, :H], run(network.forward, INPUTS), atol=1e-6)
    np.testing.assert_allclose(both[:, H:], run(network.backward, INPUTS[::-1])[::-1], atol=1e-6)


@pytest.mark.parametrize("make_cell", [Gru, Lstm])
@pytest.mark.parametrize("padding", [1, 5])
def test_padding_of_any_length_and_content_changes_no_valid_frame(make_cell, padding):
    network = both_ways(make_cell)
    longer = np.concatenate([INPUTS, np.full((padding, C), 100.0, np.float32)])
    padded = read(network, longer, np.arange(T + padding) < T)
    np.testing.assert_allclose(padded[:T], read(network, INPUTS, np.ones(T, bool)), atol=1e-6)


def test_only_the_backward_half_sees_the_future():
    network, valid = both_ways(Gru), np.ones(T, bool)
    later = INPUTS + np.eye(T, 1, -(T - 1), dtype=np.float32)
    change = np.asarray(read(network, later, valid))[0] - np.asarray(read(network, INPUTS, valid))[0]
    assert (change[:H] == 0).all()
    assert (change[H:] != 0).all()


@pytest.mark.parametrize(("sizes", "affine"), [((C, 2), True), ((C, 16, 2), False)])
def test_mlp_is_affine_without_hidden_layers_only(sizes, affine):
    network = filled(partial(Mlp, sizes))
    points = np.stack([INPUTS[0], INPUTS[1], INPUTS[:2].mean(axis=0)])
    a, b, middle = np.asarray(quick_jit(lambda network, x: jax.vmap(network)(x))(network, points))
    assert np.allclose(middle, (a + b) / 2, atol=1e-6) == affine
