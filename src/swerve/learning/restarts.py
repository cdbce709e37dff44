"""Restarts as one leading axis: together on an accelerator, in turn on a CPU."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from swerve.inference.frames import Frames
from swerve.learning.step import (
    HeldOut,
    Restart,
    TrainingData,
    TrainingLog,
    TrainState,
    advance,
    advance_together,
    evaluate,
    evaluate_together,
)


def count(stacked: Any) -> int:
    """How many restarts a stacked tree holds."""
    return len(jax.tree.leaves(stacked)[0])


def pick(stacked: Any, which: Any) -> Any:
    """Some restarts (a list) or a single one (an index)."""
    return jax.tree.map(lambda leaf: leaf[which], stacked)


def stack(single: list[Any]) -> Any:
    """The inverse of picking every restart."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *single)


def advance_all(
    states: TrainState, data: TrainingData, restarts: Restart, *, steps: int, batch_size: int
) -> tuple[TrainState, TrainingLog]:
    """Every restart some steps further, and what its objective was on the way."""
    if jax.default_backend() != "cpu":
        return advance_together(states, data, restarts, steps=steps, batch_size=batch_size)
    return stack(
        _in_turn(
            lambda r: advance(pick(states, r), data, pick(restarts, r), steps=steps, batch_size=batch_size),
            count(states),
        )
    )


def evaluate_all(states: TrainState, frames: Frames, sources: Int[Array, " R"]) -> HeldOut:
    """Every restart on the held-out frames of its source."""
    if jax.default_backend() != "cpu":
        return jax.device_get(evaluate_together(states.system, frames, sources))
    held_out = _in_turn(lambda r: evaluate(pick(states.system, r), pick(frames, int(sources[r]))), count(states))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *held_out)


def _in_turn(work, number: int) -> list[Any]:
    """One restart per core at a time: a small time loop can not use more than one."""
    with ThreadPoolExecutor(min(number, os.cpu_count() or 1)) as pool:
        return [jax.block_until_ready(result) for result in pool.map(work, range(number))]
