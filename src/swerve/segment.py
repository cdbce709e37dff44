"""A trained system and a recording -> the regime of every frame."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from swerve import messages
from swerve.system import AbstractSystem, Inference
from swerve.types import Frames

SHORTEST_BUCKET = 16
LARGEST_BATCH = 64
FRAMES_AT_ONCE = 20_000
VALUES_AT_ONCE = 250_000  # of all channels: an image is drawn in many more numbers than it has pixels
SWITCH_PRICE = 0.45  # frames expected to be right that a switch must gain (docs/decisions/0017)
NOISE_SEED = 0  # the same noise for every sequence: a label depends on the recording alone, not on its neighbours


@partial(jax.jit, static_argnames="samples")
def infer_batch(system: AbstractSystem, frames: Frames, *, samples: int) -> Inference:
    """The regimes of every sequence of a batch."""
    key = jax.random.key(NOISE_SEED)
    with jax.default_matmul_precision("highest"):
        return jax.vmap(lambda f: system.infer(f, samples=samples, key=key))(frames)


@jax.jit
def worthwhile_labels(probabilities: Float[Array, "N T K"], valid: Bool[Array, "N T"]) -> Int[Array, "N T"]:
    """The labels of which most frames are expected to be right, less SWITCH_PRICE for every switch."""
    regimes = probabilities.shape[-1]
    start, price = jnp.zeros(regimes), SWITCH_PRICE * (jnp.eye(regimes) - 1)
    return jax.vmap(lambda one, frames: messages.viterbi(start, price, one, frames))(probabilities, valid)


def batch_rows(length: int, channels: int = 1) -> int:
    """How many sequences of this size are computed together: fewer of large ones, so that memory stays bounded."""
    return max(1, min(LARGEST_BATCH, FRAMES_AT_ONCE // length, VALUES_AT_ONCE // (length * channels)))


def bucket_rows(count: int, length: int, channels: int = 1) -> int:
    """The padded number of sequences to compile for: 1, 4, 16 or 64, as far as `batch_rows` allows."""
    return min(batch_rows(length, channels), next(rows for rows in (1, 4, 16, LARGEST_BATCH) if rows >= count))


def bucket_length(length: int) -> int:
    """The padded length to compile for: at most a quarter more, so that few lengths are ever compiled."""
    if length <= SHORTEST_BUCKET:
        return SHORTEST_BUCKET
    step = 2 ** (int(np.ceil(np.log2(length))) - 3)
    return int(np.ceil(length / step) * step)
