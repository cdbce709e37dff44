"""Exact inference over the regimes of one sequence, in log space.

    p(s, evidence) = pi[s_1] B_1[s_1] prod_t A_t[s_{t-1}, s_t] B_t[s_t]

Every function takes `(log_initial, log_transition, log_evidence, mask)`. Transitions are indexed [from, to];
a constant (K, K) transition is never repeated over time. A frame whose mask is False is padding: an identity
transition that enters no sum, whatever its evidence and the transition into it hold. Padding comes last.

`begin`, `onward`, `smooth_between`, `best_onward` and `trace_back` do the same for a stretch of a longer sequence, from
one border to the next: a whole sequence in one go, or in any number of stretches, takes the same steps.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from swerve.types import FrameMask, Key, LogEvidence, LogInitial

# The evidence, which names the number of frames, comes after the transitions: so this can not say "T-1".
LogTransition = Float[Array, "steps K K"] | Float[Array, "K K"]

# Steps per loop body. A GPU is bound by kernel launches; a CPU compiles a short body to one tight loop.
UNROLL = 8
UNROLL_CPU = 1
# Frames whose pair marginals are held at once while they are summed.
PAIR_BLOCK = 16


class Filtered(NamedTuple):
    """`log_filtered[t, k]` = log p(s_t = k | evidence 1..t). Padding repeats the last frame."""

    log_z: Float[Array, ""]
    log_filtered: Float[Array, "T K"]


class Smoothed(NamedTuple):
    """All evidence seen, `marginals[t, k]` = p(s_t = k), `pair_marginals[t, j, k]` = p(s_t = j, s_{t+1} = k).

    In padding the marginals are 0 and the log-marginals are log(1 / K): finite, and at no distance from the
    uniform distribution. A regime that is impossible in a valid frame has the log-marginal -inf.
    """

    log_z: Float[Array, ""]
    log_marginals: Float[Array, "T K"]
    marginals: Float[Array, "T K"]
    pair_marginals: Float[Array, "steps K K"] | None


class Expectations(NamedTuple):
    """What an M-step needs: log Z, the marginals, `transitions[j, k]` = sum_t p(s_t = j, s_{t+1} = k)."""

    log_z: Float[Array, ""]
    marginals: Float[Array, "T K"]
    transitions: Float[Array, "K K"]


def log_normalizer(
    log_initial: LogInitial,
    log_transition: LogTransition,
    log_evidence: LogEvidence,
    mask: FrameMask | None = None,
) -> Float[Array, ""]:
    """log Z = log sum_s pi[s_1] B_1[s_1] prod_t A_t[s_{t-1}, s_t] B_t[s_t].

    Its gradient is the posterior, computed and not traced: d log Z / d log B_t[k] = p(s_t = k) and
    d log Z / d log A_t[j, k] = p(s_{t-1} = j, s_t = k).
    """
    return _log_z(log_initial, *_clean(log_transition, log_evidence, mask), mask)


def filter(
    log_initial: LogInitial,
    log_transition: LogTransition,
    log_evidence: LogEvidence,
    mask: FrameMask | None = None,
) -> Filtered:
    """p(s_t = k | evidence 1..t) ~ f_t[k] = B_t[k] sum_j A_t[j, k] f_{t-1}[j], f_1[k] = pi[k] B_1[k]."""
    log_z, log_joint = _forward(log_initial, *_clean(log_transition, log_evidence, mask), mask)
    return Filtered(log_z, _normalize(log_joint))


def smooth(
    log_initial: LogInitial,
    log_transition: LogTransition,
    log_evidence: LogEvidence,
    mask: FrameMask | None = None,
    *,
    pairs: bool = False,
) -> Smoothed:
    """p(s_t = k | all evidence) ~ p(s_t = k, evidence 1..t-1) B_t[k] p(evidence t+1..T | s_t = k).

    Differentiable to any order, with finite gradients where transitions or regimes are impossible.
    """
    log_transition, log_evidence = _clean(log_transition, log_evidence, mask)
    messages = _messages(log_initial, log_transition, log_evidence, mask)
    log_marginals = messages.log_marginals()
    if mask is not None:
        log_marginals = jnp.where(mask[:, None], log_marginals, -math.log(log_marginals.shape[1]))
    pair_marginals = _pairs(messages, log_transition, mask) if pairs else None
    return Smoothed(messages.log_z, log_marginals, _valid(jnp.exp(log_marginals), mask), pair_marginals)


def expectations(
    log_initial: LogInitial,
    log_transition: LogTransition,
    log_evidence: LogEvidence,
    mask: FrameMask | None = None,
) -> Expectations:
    """log Z, p(s_t = k) and sum_t p(s_t = j, s_{t+1} = k); in O(T K) memory if the transition is constant."""
    log_transition, log_evidence = _clean(log_transition, log_evidence, mask)
    log_z, marginals, transitions = _posterior(log_initial, log_transition, log_evidence, mask)
    transitions = transitions.sum(axis=0) if transitions.ndim == 3 else transitions
    return Expectations(log_z, _valid(marginals, mask), transitions)


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
    log_transition, log_evidence = _clean(log_transition, log_evidence, mask)
    _, log_joint = _forward(log_initial, log_transition, log_evidence, mask)
    T, K = log_joint.shape
    keys = jax.vmap(lambda t: jax.random.fold_in(key, t))(jnp.arange(T))
    score = log_joint + jax.vmap(lambda k: jax.random.gumbel(k, (K,), log_joint.dtype))(keys)

    def step(label, frame):
        score, transition, valid = frame
        column = _at(log_transition, transition)[:, label]
        # Nothing follows the last valid frame: it is drawn from its filtered distribution.
        label = jnp.argmax(score + (column if valid is None else jnp.where(valid, column, 0.0)))
        return label, label

    last = jnp.argmax(score[-1])
    frames = (score[:-1], _over_time(log_transition), _into(mask))
    _, labels = _scan(step, last, frames, reverse=True)
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
    first = log_evidence[:1] if mask is None else _valid(log_evidence[:1], mask[:1])
    _, best = begin(log_initial, first[0])
    best, origins = best_onward(best, log_transition, log_evidence[1:], _into(mask))
    last = jnp.argmax(best)
    return jnp.append(trace_back(last, origins), last)


def begin(log_initial: LogInitial, log_evidence: Float[Array, " K"]) -> tuple[Float[Array, ""], LogInitial]:
    """log p(s_1 = k, evidence of the first frame) up to a constant, after that constant: where `onward` starts."""
    log_evidence, offset = _centre(log_evidence[None])
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
    log_z, log_joint = _forward(log_joint, *_clean(*arrays), arrays[2])
    return log_z - _logsumexp(log_joint[-1], axis=0), log_joint[-1]


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
    messages = _messages(log_joint, *_clean(*arrays), arrays[2], log_future)
    return _valid(jnp.exp(messages.log_marginals()), arrays[2]), messages.future[0]


def best_onward(
    best: LogInitial,
    log_transition: LogTransition,
    log_evidence: LogEvidence,
    mask: FrameMask | None = None,
) -> tuple[LogInitial, Int[Array, "T K"]]:
    """v_t[k] in the last frame of a stretch from that in the frame before it, and the j that each maximum took."""
    if mask is not None:
        log_transition = log_transition if log_transition.ndim == 2 else _where(mask, log_transition)
        log_evidence = _valid(log_evidence, mask)
    log_evidence, _ = _centre(log_evidence)
    stay = jnp.arange(log_evidence.shape[1])

    def step(best, frame):
        evidence, transition, valid = frame
        scores = best[:, None] + _at(log_transition, transition)
        origin, score = jnp.argmax(scores, axis=0), scores.max(axis=0) + evidence - _finite(best.max())
        if valid is not None:
            origin, score = jnp.where(valid, origin, stay), jnp.where(valid, score, best)
        return score, origin

    return _scan(step, best, (log_evidence, _over_time(log_transition), mask))


def trace_back(last: Int[Array, ""], origins: Int[Array, "T K"]) -> Int[Array, " T"]:
    """The labels of the frame before a stretch and of its own but the last, whose label is given."""

    def follow(label, origin):
        return origin[label], origin[label]

    return _scan(follow, last, origins, reverse=True)[1]


class _Messages(NamedTuple):
    """`past[t, k]` = log p(s_t = k, evidence 1..t-1) and `future[t, k]` = log p(evidence t+1..T | s_t = k).

    These and `evidence` are known up to a constant per frame.
    """

    log_z: Float[Array, ""]
    past: Float[Array, "T K"]
    evidence: Float[Array, "T K"]
    future: Float[Array, "T K"]

    def log_marginals(self) -> Float[Array, "T K"]:
        return _normalize(self.past + self.evidence + self.future)


@jax.custom_jvp
def _log_z(
    log_initial: LogInitial, log_transition: LogTransition, log_evidence: LogEvidence, mask: FrameMask | None
) -> Float[Array, ""]:
    return _forward(log_initial, log_transition, log_evidence, mask)[0]


@_log_z.defjvp
def _log_z_jvp(primals, tangents):
    """d log Z = <marginals, d log B> + <pair marginals, d log A> + <marginals_1, d log pi>."""
    d_initial, d_transition, d_evidence, _ = tangents
    log_z, marginals, transitions = _posterior(*primals)
    on_transition = jnp.sum(transitions * d_transition)
    return log_z, jnp.sum(marginals[0] * d_initial) + on_transition + jnp.sum(marginals * d_evidence)


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
        scores = joint[:, None] + _at(log_transition, transition)
        # `_logsumexp` without its guards, which only derivatives need: XLA inlines small loop bodies on a CPU.
        top = _finite(scores.max(axis=0))
        message = jnp.log(jnp.exp(scores - top[None, :]).sum(axis=0)) + top
        message = message if on is None else jnp.where(on, message, joint)
        message = message - _finite(joint.max())
        return message, message

    _, messages = _scan(step, first, (log_evidence[:-1], _over_time(log_transition), valid))
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
    joint = joint - _finite(joint.max(axis=1))[:, None]

    def step(d_message, frame):
        (joint, following, transition, on), (d_evidence, d_step) = frame
        log_weights = joint[:, None] + _at(log_transition, transition) - following[None, :]
        # In padding these are no weights: a regime that is almost impossible would make them infinite.
        weights = jnp.exp(log_weights if on is None else jnp.where(on, log_weights, -jnp.inf))
        d_joint = d_message + d_evidence
        d_message = jnp.sum(weights * (d_joint[:, None] + _at(d_transition, d_step)), axis=0)
        d_message = d_message if on is None else jnp.where(on, d_message, d_joint)
        return d_message, d_message

    # Computing the weights again on the way back keeps (T, K, K) numbers out of memory.
    step = jax.checkpoint(step, prevent_cse=False)
    frames = (joint[:-1], _finite(messages[1:]), _over_time(log_transition), valid)
    _, d_messages = _scan(step, d_first, (frames, (d_evidence[:-1], _over_time(d_transition))))
    return messages, jnp.concatenate([d_first[None], d_messages])


def _forward(
    log_initial: LogInitial, log_transition: LogTransition, log_evidence: LogEvidence, mask: FrameMask | None
) -> tuple[Float[Array, ""], Float[Array, "T K"]]:
    """log Z, and log p(s_t = k, evidence 1..t) up to a constant per frame."""
    log_evidence, offset = _centre(log_evidence)
    log_joint = _propagate(log_initial, log_transition, log_evidence, _into(mask)) + log_evidence
    return offset + _total(log_joint), log_joint


def _messages(
    log_initial: LogInitial,
    log_transition: LogTransition,
    log_evidence: LogEvidence,
    mask: FrameMask | None,
    log_future: LogInitial | None = None,
) -> _Messages:
    """Both directions in one scan: backward is forward with time turned round and [from, to] swapped."""
    log_future = jnp.zeros_like(log_initial) if log_future is None else log_future
    log_evidence, offset = _centre(log_evidence)
    backward_transition = jnp.swapaxes(log_transition, -1, -2)
    backward_transition = backward_transition[::-1] if log_transition.ndim == 3 else backward_transition
    valid = _into(mask)
    past, future = jax.vmap(_propagate)(
        jnp.stack([log_initial, log_future]),
        jnp.stack([log_transition, backward_transition]),
        jnp.stack([log_evidence, log_evidence[::-1]]),
        None if valid is None else jnp.stack([valid, valid[::-1]]),
    )
    return _Messages(offset + _total(past + log_evidence), past, log_evidence, future[::-1])


def _posterior(
    log_initial: LogInitial, log_transition: LogTransition, log_evidence: LogEvidence, mask: FrameMask | None
) -> tuple[Float[Array, ""], Float[Array, "T K"], LogTransition]:
    """log Z, the marginals (of padding too) and the pair marginals, the latter shaped like the transition."""
    messages = _messages(log_initial, log_transition, log_evidence, mask)
    pairs = _pairs if log_transition.ndim == 3 else _sum_of_pairs
    return messages.log_z, jnp.exp(messages.log_marginals()), pairs(messages, log_transition, mask)


def _pair_factors(
    messages: _Messages, mask: FrameMask | None
) -> tuple[Float[Array, "steps K"], Float[Array, "steps K"]]:
    """p(s_t = j, s_{t+1} = k) = exp(before_t[j] + A_{t+1}[j, k] + after_t[k]), 0 where s_{t+1} is padding."""
    log_joint = messages.past + messages.evidence
    before = log_joint - _finite(_logsumexp(log_joint + messages.future, axis=1))[:, None]
    after = messages.evidence + messages.future
    after = after - jax.lax.stop_gradient(_finite(after.max(axis=1)))[:, None]
    before = before if mask is None else jnp.where(jnp.append(mask[1:], False)[:, None], before, -jnp.inf)
    return before[:-1], after[1:]


def _pairs(messages: _Messages, log_transition: LogTransition, mask: FrameMask | None) -> Float[Array, "steps K K"]:
    before, after = _pair_factors(messages, mask)
    log_transition = log_transition if log_transition.ndim == 3 else log_transition[None]
    return jnp.exp(before[:, :, None] + log_transition + after[:, None, :])


def _sum_of_pairs(
    messages: _Messages, log_transition: Float[Array, "K K"], mask: FrameMask | None
) -> Float[Array, "K K"]:
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


def _clean(
    log_transition: LogTransition, log_evidence: LogEvidence, mask: FrameMask | None
) -> tuple[LogTransition, LogEvidence]:
    """Zeros in place of what padding holds, so that no NaN reaches a value or a gradient."""
    if mask is None:
        return log_transition, log_evidence
    if log_transition.ndim == 3:
        log_transition = _where(mask[1:], log_transition)
    return log_transition, _valid(log_evidence, mask)


def _with_border(
    log_transition: LogTransition, log_evidence: LogEvidence, mask: FrameMask | None
) -> tuple[LogTransition, Float[Array, "rows K"], Bool[Array, " rows"] | None]:
    """A stretch behind the frame before it, whose evidence is in the message already."""
    log_evidence = jnp.concatenate([jnp.zeros_like(log_evidence[:1]), log_evidence])
    return log_transition, log_evidence, None if mask is None else jnp.append(jnp.ones(1, bool), mask)


def _centre(log_evidence: LogEvidence) -> tuple[LogEvidence, Float[Array, ""]]:
    """Only differences between regimes enter the recursions: small numbers keep their digits."""
    offset = jax.lax.stop_gradient(_finite(log_evidence.max(axis=1)))
    return log_evidence - offset[:, None], offset.sum()


def _total(log_joint: Float[Array, "T K"]) -> Float[Array, ""]:
    """log Z: the maxima that `_propagate` took out, and the sum over the last frame."""
    taken_out = jax.lax.stop_gradient(_finite(log_joint[:-1].max(axis=1)))
    return taken_out.sum() + _logsumexp(log_joint[-1], axis=0)


def _scan(step: Callable, carry: Any, frames: Any, *, reverse: bool = False) -> tuple[Any, Any]:
    unroll = UNROLL_CPU if jax.default_backend() == "cpu" else UNROLL
    return jax.lax.scan(step, carry, frames, reverse=reverse, unroll=unroll)


def _over_time(log_transition: LogTransition) -> Float[Array, "steps K K"] | None:
    return log_transition if log_transition.ndim == 3 else None


def _at(log_transition: LogTransition, transition: Float[Array, "K K"] | None) -> Float[Array, "K K"]:
    return log_transition if transition is None else transition


def _into(mask: FrameMask | None) -> Bool[Array, " steps"] | None:
    """Whether the transition into each frame but the first is real."""
    return None if mask is None else mask[1:]


def _valid(x: Float[Array, "T K"], mask: FrameMask | None) -> Float[Array, "T K"]:
    return x if mask is None else jnp.where(mask[:, None], x, 0.0)


def _where(mask: Bool[Array, " steps"], log_transition: Float[Array, "steps K K"]) -> Float[Array, "steps K K"]:
    return jnp.where(mask[:, None, None], log_transition, 0.0)


def _finite(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return jnp.where(x == -jnp.inf, 0.0, x)


def _logsumexp(x: Float[Array, "..."], axis: int) -> Float[Array, "..."]:
    """log sum exp x; -inf, with a zero gradient, where every term is -inf."""
    top = jax.lax.stop_gradient(_finite(x.max(axis=axis)))
    total = jnp.exp(x - jnp.expand_dims(top, axis)).sum(axis=axis)
    possible = total != 0
    return jnp.where(possible, jnp.log(jnp.where(possible, total, 1.0)) + top, -jnp.inf)


def _normalize(x: Float[Array, "*shape K"]) -> Float[Array, "*shape K"]:
    return x - _finite(_logsumexp(x, axis=-1))[..., None]
