"""A trained system and a recording -> the regime of every frame."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from swerve import messages
from swerve.objective import Knobs, regime_chain
from swerve.training.step import System
from swerve.types import Frames, Key

SHORTEST_BUCKET = 16
LARGEST_BATCH = 64
FRAMES_AT_ONCE = 20_000
VALUES_AT_ONCE = 250_000  # of all channels: an image is drawn in many more numbers than it has pixels
SWITCH_PRICE = 0.45  # frames expected to be right that a switch must gain (docs/decisions/0017)
NOISE_SEED = 0  # the same noise for every sequence: a label depends on the recording alone, not on its neighbours


def inferred(
    system: System, frames: Frames, *, samples: int, key: Key
) -> tuple[Float[Array, "T K"], Int[Array, " T"], Float[Array, "T D"]]:
    """Regime probabilities averaged over draws of z, their most probable path, and the expected observations.

    Where the first frame does not tell its own regime, it takes the second's.
    """

    def one(key):
        draw, chain, _ = regime_chain(system.model, system.posterior, frames, Knobs(), key=key)
        marginals = messages.smooth(*chain).marginals
        return marginals, chain, jax.vmap(system.model.expected_observation)(draw.z, marginals)

    marginals, chains, seen = jax.vmap(one)(jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(samples)))
    average = jax.tree.map(lambda leaf: leaf.mean(axis=0), chains._replace(mask=chains.mask.astype(float)))
    path = messages.viterbi(average.log_initial, average.log_transition, average.log_evidence, frames.valid)
    probabilities = marginals.mean(axis=0)
    if len(path) > 1 and not system.model.first_frame_tells:
        first = frames.valid[1].astype(int)
        probabilities, path = probabilities.at[0].set(probabilities[first]), path.at[0].set(path[first])
    return probabilities, path, seen.mean(axis=0)


@partial(jax.jit, static_argnames="samples")
def infer_batch(system: System, frames: Frames, *, samples: int):
    """`inferred` for every sequence of a batch."""
    key = jax.random.key(NOISE_SEED)
    with jax.default_matmul_precision("highest"):
        return jax.vmap(lambda f: inferred(system, f, samples=samples, key=key))(frames)


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
