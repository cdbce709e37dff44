"""The recursion over time, with its own derivative, and the messages that it gives in both directions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from swerve.inference.frames import FrameMask, LogEvidence, LogInitial, LogTransition
from swerve.inference.messages.logspace import finite, logsumexp, normalize
from swerve.inference.messages.potentials import at_step, centre, over_time, real_steps

# Steps per loop body. A GPU is bound by kernel launches; a CPU compiles a short body to one tight loop.
UNROLL = 8
UNROLL_CPU = 1


class Messages(NamedTuple):
    """`past[t, k]` = log p(s_t = k, evidence 1..t-1) and `future[t, k]` = log p(evidence t+1..T | s_t = k).

    These and `evidence` are known up to a constant per frame.
    """

    log_z: Float[Array, ""]
    past: Float[Array, "T K"]
    evidence: Float[Array, "T K"]
    future: Float[Array, "T K"]

    def log_marginals(self) -> Float[Array, "T K"]:
        return normalize(self.past + self.evidence + self.future)


def forward(
    log_initial: LogInitial, log_transition: LogTransition, log_evidence: LogEvidence, mask: FrameMask | None
) -> tuple[Float[Array, ""], Float[Array, "T K"]]:
    """log Z, and log p(s_t = k, evidence 1..t) up to a constant per frame."""
    log_evidence, offset = centre(log_evidence)
    log_joint = _propagate(log_initial, log_transition, log_evidence, real_steps(mask)) + log_evidence
    return offset + _total(log_joint), log_joint


def forward_and_backward(
    log_initial: LogInitial,
    log_transition: LogTransition,
    log_evidence: LogEvidence,
    mask: FrameMask | None,
    log_future: LogInitial | None = None,
) -> Messages:
    """Both directions in one scan: backward is forward with time turned round and [from, to] swapped."""
    log_future = jnp.zeros_like(log_initial) if log_future is None else log_future
    log_evidence, offset = centre(log_evidence)
    backward_transition = jnp.swapaxes(log_transition, -1, -2)
    backward_transition = backward_transition[::-1] if log_transition.ndim == 3 else backward_transition
    valid = real_steps(mask)
    past, future = jax.vmap(_propagate)(
        jnp.stack([log_initial, log_future]),
        jnp.stack([log_transition, backward_transition]),
        jnp.stack([log_evidence, log_evidence[::-1]]),
        None if valid is None else jnp.stack([valid, valid[::-1]]),
    )
    return Messages(offset + _total(past + log_evidence), past, log_evidence, future[::-1])


@jax.custom_jvp
def _propagate(
    first: LogInitial,
    log_transition: LogTransition,
    log_evidence: LogEvidence,
    valid: Bool[Array, " steps"] | None,
) -> Float[Array, "T K"]:
    """m_1 = first, m_{t+1}[k] = lse_j(m_t[j] + B_t[j] + A_{t+1}[j, k]) - max_j(m_t[j] + B_t[j])."""

    def step(message, frame):
        evidence, transition, on = frame
        joint = message + evidence
        scores = joint[:, None] + at_step(log_transition, transition)
        # `logsumexp` without its guards, which only derivatives need: XLA inlines small loop bodies on a CPU.
        top = finite(scores.max(axis=0))
        message = jnp.log(jnp.exp(scores - top[None, :]).sum(axis=0)) + top
        message = message if on is None else jnp.where(on, message, joint)
        message = message - finite(joint.max())
        return message, message

    _, messages = scan(step, first, (log_evidence[:-1], over_time(log_transition), valid))
    return jnp.concatenate([first[None], messages])


@_propagate.defjvp
def _propagate_jvp(primals, tangents):
    """d m_{t+1}[k] = sum_j w_t[j, k] (d m_t[j] + d B_t[j] + d A_{t+1}[j, k]), w_t the weights of the lse.

    The maximum taken out of each message is a constant here: whoever adds it back does not differentiate it.
    """
    _, log_transition, log_evidence, valid = primals
    d_first, d_transition, d_evidence, _ = tangents
    messages = _propagate(*primals)
    joint = messages + log_evidence
    joint = joint - finite(joint.max(axis=1))[:, None]

    def step(d_message, frame):
        (joint, following, transition, on), (d_evidence, d_step) = frame
        log_weights = joint[:, None] + at_step(log_transition, transition) - following[None, :]
        # In padding these are no weights: a regime that is almost impossible would make them infinite.
        weights = jnp.exp(log_weights if on is None else jnp.where(on, log_weights, -jnp.inf))
        d_joint = d_message + d_evidence
        d_message = jnp.sum(weights * (d_joint[:, None] + at_step(d_transition, d_step)), axis=0)
        d_message = d_message if on is None else jnp.where(on, d_message, d_joint)
        return d_message, d_message

    # Computing the weights again on the way back keeps (T, K, K) numbers out of memory.
    step = jax.checkpoint(step, prevent_cse=False)
    frames = (joint[:-1], finite(messages[1:]), over_time(log_transition), valid)
    _, d_messages = scan(step, d_first, (frames, (d_evidence[:-1], over_time(d_transition))))
    return messages, jnp.concatenate([d_first[None], d_messages])


def scan(step: Callable, carry: Any, frames: Any, *, reverse: bool = False) -> tuple[Any, Any]:
    """`jax.lax.scan`, unrolled as suits the device."""
    unroll = UNROLL_CPU if jax.default_backend() == "cpu" else UNROLL
    return jax.lax.scan(step, carry, frames, reverse=reverse, unroll=unroll)


def _total(log_joint: Float[Array, "T K"]) -> Float[Array, ""]:
    """log Z: the maxima that `_propagate` took out, and the sum over the last frame."""
    taken_out = jax.lax.stop_gradient(finite(log_joint[:-1].max(axis=1)))
    return taken_out.sum() + logsumexp(log_joint[-1], axis=0)
