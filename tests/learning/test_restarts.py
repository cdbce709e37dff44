"""Restarts as a leading axis: taking them apart, putting them together, moving them all."""

import jax
import numpy as np
from test_step import (
    BATCH,
    STEPS,
    go,
    held_out,
    quick_compiles,  # noqa: F401
    same,
    toy_data,
    toy_restart,
    toy_state,
)

from swerve.learning.restarts import advance_all, count, evaluate_all, pick, stack
from swerve.learning.step import evaluate

SEEDS = (0, 1, 2)


def test_stacking_and_picking_are_inverse():
    single = [toy_state(seed) for seed in SEEDS]
    states = stack(single)
    assert count(states) == len(SEEDS)
    assert all(same(pick(states, r), one) for r, one in enumerate(single))
    some = pick(states, np.array([0, 2]))
    assert count(some) == 2
    assert same(pick(some, 1), single[2])


def test_keys_are_picked_with_their_restart():
    restarts = stack([toy_restart(seed) for seed in SEEDS])
    assert (jax.random.key_data(pick(restarts, 2).key) == jax.random.key_data(jax.random.key(2))).all()


def test_all_restarts_move_and_are_judged_as_each_would_alone():
    restarts = [toy_restart(seed, source=seed % 2, learning_rate=0.01 * (1 + seed)) for seed in SEEDS]
    moved, log = advance_all(
        stack([toy_state(seed) for seed in SEEDS]), toy_data(), stack(restarts), steps=STEPS, batch_size=BATCH
    )
    bounds = evaluate_all(moved, held_out(), stack(restarts).source)
    for r, seed in enumerate(SEEDS):
        alone = go(toy_state(seed), restarts[r])
        assert same(pick(moved, r), alone)
        assert all(np.isfinite(part[r]) for part in log)
        assert same(pick(bounds, r), evaluate(alone.system, pick(held_out(), r % 2)))
