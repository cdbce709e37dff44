"""AR-HMMs lead: what they think of the training windows."""

import itertools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from swerve.inference.frames import Frames
from swerve.learning.proposals.proposal import Asked, Proposal, Proposals
from swerve.models.arhmm.search import Candidate, by_lags_in_turn, labels_of, responsibilities

Fits = dict[int, list[Candidate]]
"""AR-HMMs by their number of regimes, the most trustworthy first."""


def propose(asked: Asked, fits: Fits) -> Proposals:
    """Restarts that want the same number of regimes follow different AR-HMMs.

    The best of all, then the best with another number of lags, and so on.
    """
    turns = {count: itertools.cycle(by_lags_in_turn(found)) for count, found in fits.items() if found}
    chosen = [next(turns[count]) for count in asked.wanted if count in turns]
    numbers = itertools.count()
    made = [
        Proposal(_widened(_silent_before_switches(one, asked.training), asked.regimes), f"AR-HMM, {one.lags} lags")
        for one in chosen
    ]
    return Proposals(made, [next(numbers) if count in turns else None for count in asked.wanted])


def _silent_before_switches(candidate: Candidate, frames: Frames) -> Float[Array, "N T k"]:
    """Its responsibilities, and nothing about as many frames before a switch as it reads (docs/decisions/0013)."""
    tells = frames_to_next_switch(labels_of(candidate.model, frames)) > candidate.lags
    return jnp.where(tells[..., None], responsibilities(candidate.model, frames), 0.0)


def frames_to_next_switch(labels: Int[np.ndarray, "N T"]) -> Float[np.ndarray, "N T"]:
    """How many frames later another regime begins; infinite where none does. -1 is no frame, and no regime."""
    switches = (labels[:, 1:] != labels[:, :-1]) & (labels[:, 1:] >= 0) & (labels[:, :-1] >= 0)
    begins = np.where(switches, np.arange(1.0, labels.shape[1]), np.inf)
    following = np.minimum.accumulate(begins[:, ::-1], axis=1)[:, ::-1]
    never = np.full((len(labels), 1), np.inf)
    return np.concatenate([following, never], axis=1) - np.arange(labels.shape[1])


def _widened(probabilities: Float[Array, "N T k"], regimes: int) -> Float[Array, "N T K"]:
    return jnp.pad(probabilities, ((0, 0), (0, 0), (0, regimes - probabilities.shape[-1])))
