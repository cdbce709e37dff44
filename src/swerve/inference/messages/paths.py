"""Single paths through a sequence: a draw from the posterior, and the most probable one."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from swerve.inference.frames import FrameMask, Key, LogEvidence, LogInitial, LogTransition
from swerve.inference.messages.potentials import at_step, clean, over_time, real_steps, zero_padding
from swerve.inference.messages.recursion import forward, scan
from swerve.inference.messages.stretches import begin, best_onward, trace_back


def sample(
    log_initial: LogInitial,
    log_transition: LogTransition,
    log_evidence: LogEvidence,
    mask: FrameMask | None = None,
    *,
    key: Key,
) -> Int[Array, " T"]:
    """Draw s_1..s_T from the posterior, last frame first: p(s_t = j | s_{t+1} = k) ~ f_t[j] A_{t+1}[j, k].

    f_t is the filtered distribution. The noise of a frame depends only on `key` and on the frame's index.
    Padding repeats the last label.
    """
    log_transition, log_evidence = clean(log_transition, log_evidence, mask)
    _, log_joint = forward(log_initial, log_transition, log_evidence, mask)
    T, K = log_joint.shape
    keys = jax.vmap(lambda t: jax.random.fold_in(key, t))(jnp.arange(T))
    score = log_joint + jax.vmap(lambda k: jax.random.gumbel(k, (K,), log_joint.dtype))(keys)

    def step(label, frame):
        score, transition, valid = frame
        column = at_step(log_transition, transition)[:, label]
        # Nothing follows the last valid frame: it is drawn from its filtered distribution.
        label = jnp.argmax(score + (column if valid is None else jnp.where(valid, column, 0.0)))
        return label, label

    last = jnp.argmax(score[-1])
    frames = (score[:-1], over_time(log_transition), real_steps(mask))
    _, labels = scan(step, last, frames, reverse=True)
    labels = jnp.append(labels, last)
    return labels if mask is None else labels[jnp.minimum(jnp.arange(T), jnp.maximum(mask.sum() - 1, 0))]


def viterbi(
    log_initial: LogInitial,
    log_transition: LogTransition,
    log_evidence: LogEvidence,
    mask: FrameMask | None = None,
) -> Int[Array, " T"]:
    """argmax_s p(s | evidence), by v_t[k] = B_t[k] max_j A_t[j, k] v_{t-1}[j].

    Padding repeats the last label.
    """
    first = log_evidence[:1] if mask is None else zero_padding(log_evidence[:1], mask[:1])
    _, best = begin(log_initial, first[0])
    best, origins = best_onward(best, log_transition, log_evidence[1:], real_steps(mask))
    last = jnp.argmax(best)
    return jnp.append(trace_back(last, origins), last)
