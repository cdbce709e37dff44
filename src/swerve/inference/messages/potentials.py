"""Potentials as the recursions want them: free of what padding holds, near zero, one transition per step or for all."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from swerve.inference.frames import FrameMask, LogEvidence, LogTransition
from swerve.inference.messages.logspace import finite


def clean(
    log_transition: LogTransition, log_evidence: LogEvidence, mask: FrameMask | None
) -> tuple[LogTransition, LogEvidence]:
    """Zeros in place of what padding holds, so that no NaN reaches a value or a gradient."""
    if mask is None:
        return log_transition, log_evidence
    if log_transition.ndim == 3:
        log_transition = zero_padded_steps(log_transition, mask[1:])
    return log_transition, zero_padding(log_evidence, mask)


def centre(log_evidence: LogEvidence) -> tuple[LogEvidence, Float[Array, ""]]:
    """Only differences between regimes enter the recursions: small numbers keep their digits."""
    offset = jax.lax.stop_gradient(finite(log_evidence.max(axis=1)))
    return log_evidence - offset[:, None], offset.sum()


def real_steps(mask: FrameMask | None) -> Bool[Array, " steps"] | None:
    """Whether the transition into each frame but the first is real."""
    return None if mask is None else mask[1:]


def zero_padding(x: Float[Array, "T K"], mask: FrameMask | None) -> Float[Array, "T K"]:
    """Zeros in padded frames."""
    return x if mask is None else jnp.where(mask[:, None], x, 0.0)


def zero_padded_steps(
    log_transition: Float[Array, "steps K K"], real: Bool[Array, " steps"]
) -> Float[Array, "steps K K"]:
    """Zeros in place of the transitions that are not real."""
    return jnp.where(real[:, None, None], log_transition, 0.0)


def over_time(log_transition: LogTransition) -> Float[Array, "steps K K"] | None:
    """What a scan goes through: a transition per step, or None if one holds for all steps."""
    return log_transition if log_transition.ndim == 3 else None


def at_step(log_transition: LogTransition, transition: Float[Array, "K K"] | None) -> Float[Array, "K K"]:
    """Inside a scan: the transition of this step, or the one that holds for all steps."""
    return log_transition if transition is None else transition
