"""Switch logits against plain numpy, for every combination of drivers."""

import itertools
from functools import partial

import jax
import numpy as np
import pytest

from swerve.models.snlds.switching import ConstantSwitching, DrivenSwitching

quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
K, F, L, U, STICKINESS = 3, 2, 2, 1, 2.0
RNG = np.random.default_rng(0)
Z, CONTROL = np.float32(RNG.normal(size=L)), np.float32(RNG.normal(size=U))
EDGES = [edges for edges in itertools.product([False, True], repeat=3) if any(edges)]


def driven(edges, history=1, filters=0):
    sizes = {"feature_size": F, "state_size": L, "control_size": U, "hidden": (4,)}
    reads = dict(zip(("reads_x", "reads_z", "reads_u"), edges, strict=True))
    window = {"history": history, "filters": filters}
    return DrivenSwitching(K, stickiness=STICKINESS, key=jax.random.key(0), **sizes, **reads, **window)


@quick_jit
def logits_of(switching, features):
    return switching.logits(features, jax.numpy.asarray(Z), jax.numpy.asarray(CONTROL))


def by_hand(switching, features, edges):
    seen = features.reshape(-1)
    if switching.convolution is not None:
        seen = switching.convolution.weight @ seen + switching.convolution.bias
    drivers = [v for v, read in zip((seen, Z, CONTROL), edges, strict=True) if read]
    first, second = switching.network.layers
    hidden = np.maximum(first.weight @ np.concatenate(drivers) + first.bias, 0)
    return switching.base + (second.weight @ hidden + second.bias).reshape(K, K)


def check(edges, **window):
    like = jax.eval_shape(lambda: driven(edges, **window))
    switching = jax.tree.map(lambda leaf: np.float32(RNG.normal(size=leaf.shape)), like)
    features = np.float32(RNG.normal(size=(switching.history, F)))
    np.testing.assert_allclose(logits_of(switching, features), by_hand(switching, features, edges), atol=1e-5)


@pytest.mark.parametrize("edges", EDGES, ids=str)
def test_drivers_move_the_logits_and_nothing_else_does(edges):
    check(edges)


@pytest.mark.parametrize(("history", "filters"), [(3, 0), (3, 2), (1, 2)])
def test_a_convolution_reads_the_last_frames(history, filters):
    check((True, True, False), history=history, filters=filters)


def test_constant_switching_starts_with_stickiness_on_the_diagonal():
    switching = ConstantSwitching(K, stickiness=STICKINESS)
    logits = switching.logits(np.zeros((1, F), np.float32), Z, CONTROL)
    np.testing.assert_allclose(logits, STICKINESS * np.eye(K))


def test_driven_switching_starts_sticky():
    logits = np.asarray(logits_of(driven((True, True, True)), np.ones((1, F), np.float32)))
    assert (logits.argmax(axis=1) == np.arange(K)).all()
    np.testing.assert_allclose(logits, STICKINESS * np.eye(K), atol=1.0)
