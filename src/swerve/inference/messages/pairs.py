"""Posteriors of pairs of neighbouring frames: one by one, or summed over time in little memory."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from swerve.inference.frames import FrameMask, LogTransition
from swerve.inference.messages.logspace import finite, logsumexp
from swerve.inference.messages.recursion import Messages

# Frames whose pair marginals are held at once while they are summed.
PAIR_BLOCK = 16


def all_pairs(messages: Messages, log_transition: LogTransition, mask: FrameMask | None) -> Float[Array, "steps K K"]:
    """p(s_t = j, s_{t+1} = k) for every t."""
    before, after = _pair_factors(messages, mask)
    log_transition = log_transition if log_transition.ndim == 3 else log_transition[None]
    return jnp.exp(before[:, :, None] + log_transition + after[:, None, :])


def sum_of_pairs(
    messages: Messages, log_transition: Float[Array, "K K"], mask: FrameMask | None
) -> Float[Array, "K K"]:
    """sum_t p(s_t = j, s_{t+1} = k)."""
    before, after = _pair_factors(messages, mask)
    steps, K = before.shape
    blocks = -(-steps // PAIR_BLOCK)
    fill = ((0, blocks * PAIR_BLOCK - steps), (0, 0))
    before = jnp.pad(before, fill, constant_values=-jnp.inf).reshape(blocks, PAIR_BLOCK, K)
    after = jnp.pad(after, fill).reshape(blocks, PAIR_BLOCK, K)

    def step(total, block):
        before, after = block
        pairs = jnp.exp(before[:, :, None] + log_transition[None] + after[:, None, :])
        return total + pairs.sum(axis=0), None

    step = jax.checkpoint(step, prevent_cse=False)
    return jax.lax.scan(step, jnp.zeros_like(log_transition), (before, after))[0]


def _pair_factors(
    messages: Messages, mask: FrameMask | None
) -> tuple[Float[Array, "steps K"], Float[Array, "steps K"]]:
    """p(s_t = j, s_{t+1} = k) = exp(before_t[j] + A_{t+1}[j, k] + after_t[k]), 0 where s_{t+1} is padding."""
    log_joint = messages.past + messages.evidence
    before = log_joint - finite(logsumexp(log_joint + messages.future, axis=1))[:, None]
    after = messages.evidence + messages.future
    after = after - jax.lax.stop_gradient(finite(after.max(axis=1)))[:, None]
    before = before if mask is None else jnp.where(jnp.append(mask[1:], False)[:, None], before, -jnp.inf)
    return before[:-1], after[1:]
