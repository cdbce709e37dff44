"""The same inference for a stretch of a longer sequence, from one border to the next.

A whole sequence in one go, or in any number of stretches, takes the same steps.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from swerve.inference.frames import FrameMask, LogEvidence, LogInitial, LogTransition
from swerve.inference.messages.logspace import finite, logsumexp
from swerve.inference.messages.potentials import at_step, centre, clean, over_time, zero_padded_steps, zero_padding
from swerve.inference.messages.recursion import forward, forward_and_backward, scan


def begin(log_initial: LogInitial, log_evidence: Float[Array, " K"]) -> tuple[Float[Array, ""], LogInitial]:
    """log p(s_1 = k, evidence of the first frame) up to a constant, after that constant: where `onward` starts."""
    log_evidence, offset = centre(log_evidence[None])
    return offset, log_initial + log_evidence[0]


def onward(
    log_joint: LogInitial,
    log_transition: LogTransition,
    log_evidence: LogEvidence,
    mask: FrameMask | None = None,
) -> tuple[Float[Array, ""], LogInitial]:
    """From log p(s = k, evidence so far) in the frame before a stretch to the same in its last frame.

    Both are known up to a constant, and the first value is what the second has lost of it. Transitions are those
    into the frames of the stretch. After the last stretch log Z = all that was lost + logsumexp(log_joint).
    """
    arrays = _with_border(log_transition, log_evidence, mask)
    log_z, log_joint = forward(log_joint, *clean(*arrays), arrays[2])
    return log_z - logsumexp(log_joint[-1], axis=0), log_joint[-1]


def smooth_between(
    log_joint: LogInitial,
    log_transition: LogTransition,
    log_evidence: LogEvidence,
    log_future: LogInitial,
    mask: FrameMask | None = None,
) -> tuple[Float[Array, "rows K"], LogInitial]:
    """Marginals of the frame before a stretch and of its own; then log p(evidence after it | s = k) for that frame.

    `log_joint` is that of the frame before it (see `onward`), `log_future` says the same of the stretch's last frame.
    """
    arrays = _with_border(log_transition, log_evidence, mask)
    messages = forward_and_backward(log_joint, *clean(*arrays), arrays[2], log_future)
    return zero_padding(jnp.exp(messages.log_marginals()), arrays[2]), messages.future[0]


def best_onward(
    best: LogInitial,
    log_transition: LogTransition,
    log_evidence: LogEvidence,
    mask: FrameMask | None = None,
) -> tuple[LogInitial, Int[Array, "T K"]]:
    """v_t[k] in the last frame of a stretch from that in the frame before it, and the j that each maximum took."""
    if mask is not None:
        log_transition = log_transition if log_transition.ndim == 2 else zero_padded_steps(log_transition, mask)
        log_evidence = zero_padding(log_evidence, mask)
    log_evidence, _ = centre(log_evidence)
    stay = jnp.arange(log_evidence.shape[1])

    def step(best, frame):
        evidence, transition, valid = frame
        scores = best[:, None] + at_step(log_transition, transition)
        origin, score = jnp.argmax(scores, axis=0), scores.max(axis=0) + evidence - finite(best.max())
        if valid is not None:
            origin, score = jnp.where(valid, origin, stay), jnp.where(valid, score, best)
        return score, origin

    return scan(step, best, (log_evidence, over_time(log_transition), mask))


def trace_back(last: Int[Array, ""], origins: Int[Array, "T K"]) -> Int[Array, " T"]:
    """The labels of the frame before a stretch and of its own but the last, whose label is given."""

    def follow(label, origin):
        return origin[label], origin[label]

    return scan(follow, last, origins, reverse=True)[1]


def _with_border(
    log_transition: LogTransition, log_evidence: LogEvidence, mask: FrameMask | None
) -> tuple[LogTransition, Float[Array, "rows K"], Bool[Array, " rows"] | None]:
    """A stretch behind the frame before it, whose evidence is in the message already."""
    log_evidence = jnp.concatenate([jnp.zeros_like(log_evidence[:1]), log_evidence])
    return log_transition, log_evidence, None if mask is None else jnp.append(jnp.ones(1, bool), mask)
