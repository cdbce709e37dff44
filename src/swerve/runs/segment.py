"""A trained system and a recording -> the regime of every frame."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from swerve.inference import messages
from swerve.inference.frames import Frames
from swerve.learning.step import held_out_key
from swerve.models.model import Inference, Knobs, Model

SHORTEST_BUCKET = 16
LARGEST_BATCH = 64
FRAMES_AT_ONCE = 20_000
VALUES_AT_ONCE = 250_000  # of all channels: an image is drawn in many more numbers than it has pixels
LARGEST_CHUNK = 4096  # frames of a recording that does not fit at once
MOST_FRAMES, MOST_VALUES = 100_000, 5_000_000  # of a recording that a system needs as a whole
SWITCH_PRICE = 0.45  # frames expected to be right that a switch must gain (docs/decisions/0017)
NOISE_SEED = 0  # the same noise for every sequence: a label depends on the recording alone, not on its neighbours


@partial(jax.jit, static_argnames="samples")
def infer_batch(system: Model, frames: Frames, *, samples: int) -> Inference:
    """The regimes of every sequence of a batch."""
    key = jax.random.key(NOISE_SEED)
    with jax.default_matmul_precision("highest"):
        return jax.vmap(lambda f: system.infer(f, samples=samples, key=key))(frames)


@jax.jit
def bound_batch(system: Model, frames: Frames) -> Float[Array, " N"]:
    """The bound of every sequence of a batch in nats, all with the same noise."""
    with jax.default_matmul_precision("highest"):
        elbo = jax.vmap(lambda one: system.terms(one, Knobs(), key=held_out_key(0)).elbo)(frames)
    return jnp.where(frames.valid.any(axis=1), elbo, 0.0)


@jax.jit
def worthwhile_labels(probabilities: Float[Array, "N T K"], valid: Bool[Array, "N T"]) -> Int[Array, "N T"]:
    """The labels of which most frames are expected to be right, less SWITCH_PRICE for every switch."""
    regimes = probabilities.shape[-1]
    start, price = jnp.zeros(regimes), SWITCH_PRICE * (jnp.eye(regimes) - 1)
    return jax.vmap(lambda one, frames: messages.viterbi(start, price, one, frames))(probabilities, valid)


def worthwhile_labels_of_one(probabilities: Float[np.ndarray, "T K"]) -> Int[np.ndarray, " T"]:
    """The same for one recording of any length."""
    length = bucket_length(len(probabilities))
    padded = np.pad(probabilities, ((0, length - len(probabilities)), (0, 0)))
    labels = worthwhile_labels(padded[None], (np.arange(length) < len(probabilities))[None])
    return np.asarray(labels[0, : len(probabilities)], np.int64)


def draw_keys(samples: int) -> Shaped[Array, " samples"]:
    """The noise of each draw, as systems make it from the key of `infer_batch`."""
    key = jax.random.key(NOISE_SEED)
    return jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(samples))


def batch_rows(length: int, channels: int = 1) -> int:
    """How many sequences of this size are computed together: fewer of large ones, so that memory stays bounded."""
    return max(1, min(LARGEST_BATCH, FRAMES_AT_ONCE // length, VALUES_AT_ONCE // (length * channels)))


def fits_at_once(length: int, channels: int) -> bool:
    """Whether a recording of this size is computed as a whole; a longer one, chunk by chunk."""
    return length <= FRAMES_AT_ONCE and length * channels <= VALUES_AT_ONCE


def chunk_length(channels: int, regimes: int) -> int:
    """How many frames of a long recording are computed at a time; labels do not depend on it."""
    return max(1, min(LARGEST_CHUNK, VALUES_AT_ONCE // max(channels, regimes**2)))


def bucket_rows(count: int, length: int, channels: int = 1) -> int:
    """The padded number of sequences to compile for: 1, 4, 16 or 64, as far as `batch_rows` allows."""
    return min(batch_rows(length, channels), next(rows for rows in (1, 4, 16, LARGEST_BATCH) if rows >= count))


def bucket_length(length: int) -> int:
    """The padded length to compile for: at most a quarter more, so that few lengths are ever compiled."""
    if length <= SHORTEST_BUCKET:
        return SHORTEST_BUCKET
    step = 2 ** (int(np.ceil(np.log2(length))) - 3)
    return int(np.ceil(length / step) * step)
