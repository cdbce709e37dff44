"""Sums over all paths of a sequence: log Z, whose gradient is the posterior, and the posterior itself."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from swerve.inference.frames import FrameMask, LogEvidence, LogInitial, LogTransition
from swerve.inference.messages.logspace import normalize
from swerve.inference.messages.pairs import all_pairs, sum_of_pairs
from swerve.inference.messages.potentials import clean, zero_padding
from swerve.inference.messages.recursion import forward, forward_and_backward


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
    return _log_z(log_initial, *clean(log_transition, log_evidence, mask), mask)


def filter(
    log_initial: LogInitial,
    log_transition: LogTransition,
    log_evidence: LogEvidence,
    mask: FrameMask | None = None,
) -> Filtered:
    """p(s_t = k | evidence 1..t) ~ f_t[k] = B_t[k] sum_j A_t[j, k] f_{t-1}[j], f_1[k] = pi[k] B_1[k]."""
    log_z, log_joint = forward(log_initial, *clean(log_transition, log_evidence, mask), mask)
    return Filtered(log_z, normalize(log_joint))


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
    log_transition, log_evidence = clean(log_transition, log_evidence, mask)
    messages = forward_and_backward(log_initial, log_transition, log_evidence, mask)
    log_marginals = messages.log_marginals()
    if mask is not None:
        log_marginals = jnp.where(mask[:, None], log_marginals, -math.log(log_marginals.shape[1]))
    pair_marginals = all_pairs(messages, log_transition, mask) if pairs else None
    return Smoothed(messages.log_z, log_marginals, zero_padding(jnp.exp(log_marginals), mask), pair_marginals)


def expectations(
    log_initial: LogInitial,
    log_transition: LogTransition,
    log_evidence: LogEvidence,
    mask: FrameMask | None = None,
) -> Expectations:
    """log Z, p(s_t = k) and sum_t p(s_t = j, s_{t+1} = k); in O(T K) memory if the transition is constant."""
    log_transition, log_evidence = clean(log_transition, log_evidence, mask)
    log_z, marginals, transitions = _posterior(log_initial, log_transition, log_evidence, mask)
    transitions = transitions.sum(axis=0) if transitions.ndim == 3 else transitions
    return Expectations(log_z, zero_padding(marginals, mask), transitions)


@jax.custom_jvp
def _log_z(
    log_initial: LogInitial, log_transition: LogTransition, log_evidence: LogEvidence, mask: FrameMask | None
) -> Float[Array, ""]:
    return forward(log_initial, log_transition, log_evidence, mask)[0]


@_log_z.defjvp
def _log_z_jvp(primals, tangents):
    """d log Z = <marginals, d log B> + <pair marginals, d log A> + <marginals_1, d log pi>."""
    d_initial, d_transition, d_evidence, _ = tangents
    log_z, marginals, transitions = _posterior(*primals)
    on_transition = jnp.sum(transitions * d_transition)
    return log_z, jnp.sum(marginals[0] * d_initial) + on_transition + jnp.sum(marginals * d_evidence)


def _posterior(
    log_initial: LogInitial, log_transition: LogTransition, log_evidence: LogEvidence, mask: FrameMask | None
) -> tuple[Float[Array, ""], Float[Array, "T K"], LogTransition]:
    """log Z, the marginals (of padding too) and the pair marginals, the latter shaped like the transition."""
    messages = forward_and_backward(log_initial, log_transition, log_evidence, mask)
    pairs = all_pairs if log_transition.ndim == 3 else sum_of_pairs
    return messages.log_z, jnp.exp(messages.log_marginals()), pairs(messages, log_transition, mask)
