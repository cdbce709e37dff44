"""The collapsed ELBO of one sequence and the terms that help training find the regimes.

ELBO = E_q[log p(x, z)] + H(q), with log p(x, z~) = log Z of the forward recursion over regimes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from swerve.inference import messages
from swerve.inference.frames import FrameMask, Frames, Key, LogEvidence, LogInitial, LogTransition
from swerve.models.model import Knobs, Terms, watched
from swerve.models.snlds.generative import Generative, Potentials
from swerve.models.snlds.posterior import Draw, Posterior, Prior, Start

FIRST_SCALE = 0.1  # of standardised data: how far q may stray from the expected state at t = 1


class Bends(NamedTuple):
    """What the knobs add to log B_t(k)."""

    tempering: LogEvidence
    guidance: LogEvidence


class RegimeChain(NamedTuple):
    """The potentials of a Markov chain over regimes, in the argument order of `swerve.inference.messages`."""

    log_initial: LogInitial
    log_transition: LogTransition
    log_evidence: LogEvidence
    mask: FrameMask


def regime_chain(
    model: Generative,
    posterior: Posterior,
    frames: Frames,
    knobs: Knobs,
    guide: Float[Array, "T K"] | None = None,
    *,
    key: Key,
) -> tuple[Draw, RegimeChain, Bends]:
    """A path z ~ q(z | x), the chain over regimes given it, and how far the knobs bent its evidence.

    B_t(k) = log p(x_t|z_t) + log p(z_t|z_{t-1}, s_t=k), the second term's spread over k divided by kappa.
    """
    frames = frames.blanked()
    readings = model.readings(frames)
    features = model.features(readings)
    draw = posterior(readings, features, prior_of(model, posterior, readings), key=key)
    follows = posterior.start is Start.DYNAMICS
    predicted = draw.expected[1:] if follows else model.predicted_states(readings, draw.z)
    potentials = model.potentials(frames, features, draw.z, predicted, temperature=knobs.temperature)
    log_evidence, bends = evidence(model, potentials, knobs, guide)
    chain = RegimeChain(potentials.log_initial, potentials.log_transition, log_evidence, frames.valid)
    return draw, chain, bends


def evidence(
    model: Generative, potentials: Potentials, knobs: Knobs, guide: Float[Array, "T K"] | None = None
) -> tuple[LogEvidence, Bends]:
    """B_t(k), and how far the knobs bent it."""
    allowed = model.allowed[None]
    centre = jnp.mean(potentials.log_dynamics, axis=1, where=allowed, keepdims=True)
    spread = potentials.log_dynamics - centre
    bends = Bends(
        tempering=spread / knobs.evidence_temperature - spread,
        guidance=jnp.zeros_like(spread) if guide is None else knobs.guidance * guide,
    )
    return centre + spread / knobs.evidence_temperature + potentials.log_emission + bends.guidance, bends


def elbo(draw: Draw, chain: RegimeChain) -> Float[Array, ""]:
    """log Z + H(q) of one draw."""
    return messages.log_normalizer(*chain) + jnp.where(chain.mask, draw.entropy, 0.0).sum()


def sequence_terms(
    model: Generative,
    posterior: Posterior,
    frames: Frames,
    knobs: Knobs,
    guide: Float[Array, "T K"] | None = None,
    *,
    key: Key,
) -> Terms:
    """All terms of one sequence, from a single draw of z. With the default knobs, `elbo` is a true bound."""
    draw, chain, bends = regime_chain(model, posterior, frames, knobs, guide, key=key)
    smoothed = messages.smooth(*chain)
    return watched(
        elbo(draw, chain),
        smoothed.marginals,
        frames.valid,
        uniform_kl=jnp.where(frames.valid, kl_from_uniform(smoothed.log_marginals, model.allowed), 0.0).sum(),
        tempering=_expected(bends.tempering, smoothed.marginals),
        guidance=_expected(bends.guidance, smoothed.marginals),
    )


def _expected(values: LogEvidence, marginals: Float[Array, "T K"]) -> Float[Array, ""]:
    """sum_t sum_k gamma_t(k) values_t(k); a regime that is not allowed has no share."""
    return jnp.where(marginals > 0, marginals * values, 0.0).sum()


def prior_of(model: Generative, posterior: Posterior, readings: Frames) -> Prior:
    """Where q starts from: the model's predictions, the last state, or the origin."""
    if posterior.start is Start.DYNAMICS:
        memory = model.dynamics.initial_memory()
        contexts = model.contexts(readings)
        scales = jnp.broadcast_to(model.dynamics.noise.scale, model.initial.mean.shape)
        return Prior(
            model.initial.mean,
            jnp.full_like(scales, FIRST_SCALE),
            memory,
            contexts,
            model.dynamics.step,
            jax.lax.stop_gradient(model.log_allowed),
            scales,
            model.expected_reading,
        )
    origin = jnp.zeros((1, posterior.state_size))
    keeps = posterior.start is Start.STATE
    contexts = jnp.zeros((len(readings.x) - 1, 0))
    return Prior(
        origin,
        jnp.ones_like(origin),
        (),
        contexts,
        lambda m, z, _: (m, z[None] if keeps else origin),
        jnp.zeros(1),
        jnp.ones_like(origin),
        None,
    )


def kl_from_uniform(log_marginals: Float[Array, "T K"], allowed: Bool[Array, " K"]) -> Float[Array, " T"]:
    """KL(uniform || gamma_t) = -log K - (1/K) sum_k log gamma_t(k), over the allowed regimes."""
    count = jnp.sum(allowed).astype(log_marginals.dtype)
    return -jnp.log(count) - jnp.mean(log_marginals, axis=1, where=allowed[None])
