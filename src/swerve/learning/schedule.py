"""Everything that changes during training, as pure functions of the step."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from swerve.models.model import Knobs

Number = Float[Array, ""] | float


class Schedule(NamedTuple):
    """The numbers of one restart. Stacked, one entry per restart: a restart is a seed and a draw of these."""

    learning_rate: Number = 3e-3
    first_learning_rate: Number = 1e-5
    last_learning_rate: Number = 1e-5
    warmup_steps: Number = 100.0
    cosine_end: Number = 10_000.0
    """Step at which the cosine reaches `last_learning_rate`; infinity keeps the rate flat."""
    clip: Number = 100.0
    uniformity: Number = 0.0
    uniformity_hold: Number = 0.0
    temperature: Number = 1.0
    temperature_hold: Number = 0.0
    anneal_steps: Number = 1.0
    """Steps in which uniformity and temperature fall by a factor e once their hold is over."""
    evidence_temperature: Number = 1.0
    evidence_decay_steps: Number = 1.0
    balance: Number = 0.0
    last_balance: Number = 0.0
    balance_decay_steps: Number = 1.0
    guidance: Number = 0.0
    guidance_hold: Number = 0.0
    guidance_release_steps: Number = 1.0
    gap_rate: Number = 0.0
    """Share of frames hidden at random in each step, so that the networks learn what a gap looks like."""
    channel_gap_rate: Number = 0.0
    """The same of single channels."""
    steps: Number = 1.0
    """All of them: how far training has come is a share of these."""


def learning_rate(schedule: Schedule, step: Int[Array, ""]) -> Float[Array, ""]:
    """Linear warm-up, then a cosine down to the last rate."""
    step = step.astype(float)
    warming = jnp.clip(step / jnp.maximum(schedule.warmup_steps, 1.0), 0.0, 1.0)
    rising = schedule.first_learning_rate + (schedule.learning_rate - schedule.first_learning_rate) * warming
    span = jnp.maximum(schedule.cosine_end - schedule.warmup_steps, 1.0)
    progress = jnp.clip((step - schedule.warmup_steps) / span, 0.0, 1.0)
    falling = schedule.last_learning_rate + 0.5 * (schedule.learning_rate - schedule.last_learning_rate) * (
        1 + jnp.cos(jnp.pi * progress)
    )
    return jnp.where(step < schedule.warmup_steps, rising, falling)


def knobs(schedule: Schedule, step: Int[Array, ""]) -> Knobs:
    """How far the objective is bent at this step."""
    step = step.astype(float)

    def held_then_decayed(hold):
        return jnp.exp(-jnp.maximum(step - hold, 0.0) / schedule.anneal_steps)

    released = jnp.clip((step - schedule.guidance_hold) / schedule.guidance_release_steps, 0.0, 1.0)
    return Knobs(
        temperature=jnp.maximum(schedule.temperature * held_then_decayed(schedule.temperature_hold), 1.0),
        evidence_temperature=1.0
        + (schedule.evidence_temperature - 1.0) * jnp.exp(-step / schedule.evidence_decay_steps),
        uniformity=schedule.uniformity * held_then_decayed(schedule.uniformity_hold),
        balance=schedule.last_balance
        + (schedule.balance - schedule.last_balance) * jnp.exp(-step / schedule.balance_decay_steps),
        guidance=schedule.guidance * (1.0 - released),
        progress=jnp.clip(step / schedule.steps, 0.0, 1.0),
    )
