"""Regime dynamics against plain numpy, one regime and one frame at a time."""

from functools import partial

import jax
import numpy as np
import pytest

from swerve.models.snlds.dynamics import GruDynamics, LinearDynamics, MlpDynamics
from swerve.models.snlds.noise import DiagonalNoise

quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
K, L, C, H = 3, 2, 2, 4
KINDS = pytest.mark.parametrize("kind", [LinearDynamics, MlpDynamics, GruDynamics])
RESIDUAL = pytest.mark.parametrize("residual", [False, True], ids=["plain", "residual"])
CONTEXT = pytest.mark.parametrize("context_size", [0, C])


def make(kind, residual, context_size, width=H):
    noise = DiagonalNoise(K, L, scale=0.1, floor=1e-6)
    hidden = {LinearDynamics: (), MlpDynamics: ((width, width),), GruDynamics: (width,)}[kind]
    return kind(K, L, context_size, *hidden, noise=noise, residual=residual, key=jax.random.key(1))


def filled(*arguments):
    """The same with random parameters, without compiling the initialisation."""
    rng = np.random.default_rng(0)
    like = jax.eval_shape(lambda: make(*arguments))
    return jax.tree.map(lambda leaf: np.float32(rng.normal(size=leaf.shape)), like)


@quick_jit
def means_along(dynamics, path, contexts):
    frames = (path, contexts)
    return jax.lax.scan(lambda memory, f: dynamics.step(memory, *f), dynamics.initial_memory(), frames)[1]


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def means_by_hand(dynamics, path, contexts):
    """f_k for every frame of a path, with a memory that follows it."""
    memory = np.zeros((K, H))
    for z, c in zip(path, contexts, strict=True):
        inputs, means = np.concatenate([z, c]), []
        for k in range(K):
            if isinstance(dynamics, LinearDynamics):
                mean = dynamics.matrix[k] @ inputs + dynamics.offset[k]
            elif isinstance(dynamics, MlpDynamics):
                *inner, last = dynamics.networks.layers
                mean = inputs
                for layer in inner:
                    mean = np.maximum(layer.weight[k] @ mean + layer.bias[k], 0)
                mean = last.weight[k] @ mean + last.bias[k]
                mean = mean + dynamics.residual * dynamics.matrix[k] @ inputs
            else:
                cells, h = dynamics.cells, memory[k]
                into = np.split(cells.inputs.weight[k] @ inputs + cells.inputs.bias[k], 3)
                back = np.split(cells.recurrent.weight[k] @ h + cells.recurrent.bias[k], 3)
                keep = sigmoid(into[1] + back[1])
                candidate = np.tanh(into[2] + sigmoid(into[0] + back[0]) * back[2])
                memory[k] = (1 - keep) * candidate + keep * h
                mean = dynamics.readouts.weight[k] @ memory[k] + dynamics.readouts.bias[k]
            means.append(mean + (z if dynamics.residual else 0))
        yield np.stack(means)


@KINDS
@RESIDUAL
@CONTEXT
def test_means_follow_the_formula_along_a_path(kind, residual, context_size):
    rng = np.random.default_rng(0)
    dynamics = filled(kind, residual, context_size)
    path = rng.normal(size=(4, L)).astype(np.float32)
    contexts = rng.normal(size=(4, context_size)).astype(np.float32)
    expected = np.stack(list(means_by_hand(dynamics, path, contexts)))
    np.testing.assert_allclose(means_along(dynamics, path, contexts), expected, atol=1e-5)


@pytest.mark.parametrize("kind", [LinearDynamics, MlpDynamics])
def test_a_residual_start_is_close_to_standing_still_and_differs_by_regime(kind):
    path = np.array([[1.0, -2.0]], np.float32)
    start = quick_jit(lambda: make(kind, True, 0, 32))()
    means = np.asarray(means_along(start, path, np.zeros((1, 0), np.float32)))[0]
    np.testing.assert_allclose(means, np.tile(path, (K, 1)), atol=0.25)
    assert len(np.unique(np.round(means, 5), axis=0)) == K
