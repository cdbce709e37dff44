"""Trials in stages: where single frames break the law that holds otherwise, regimes count these events.

A robot drops what it carries, a light goes on, a lever is pressed: one frame, on which an AR-HMM spends a regime. What
such recordings have in common is not how they move but how far they have come (docs/decisions/0016).
"""

import warnings

import jax
import numpy as np
from jaxtyping import Bool, Int

from swerve.inference.frames import Frames
from swerve.learning.proposals.proposal import Asked, Proposal, Proposals
from swerve.models.arhmm.search import Candidate, fit_from_guess, labels_of, straddles
from swerve.settings.sections import ArHmmConfig, Recipe

LAW, EVENT = 0, 1
ALIKE = 0.95  # share of the recordings with at least one event, and not more than regimes can count
USUAL = 0.9  # share of the frames whose changes count as usual
STRIKING = 5.0  # times the largest usual change of a channel
LONGEST = 1.25  # frames, on average
STILL = 0.01  # in standardised units: smaller changes strike nobody


def propose(
    asked: Asked, fits: dict[int, list[Candidate]], config: ArHmmConfig, recipe: Recipe, *, strength: float
) -> Proposals | None:
    """All restarts count events, if windows are whole recordings and events divide them into stages.

    Only where the AR-HMMs that explain most, of every number of regimes, spend a regime on single frames.
    """
    best_first = [sorted(found, key=lambda one: -one.held_out) for found in fits.values()]
    if not (asked.whole and config.stages and best_first and all(found and straddles(found) for found in best_first)):
        return None
    some = jax.tree.map(lambda leaf: leaf[: config.seed_windows], asked.training)
    law = fit_from_guess(some, asked.held_out, striking_changes(some), config)
    labels = commonest_first(law.labels)
    if not (np.isfinite(law.held_out) and single_frames(labels) and divide_alike(labels, asked.regimes)):
        return None
    passed = events_before(commonest_first(labels_of(law.model, asked.training)))
    stages = jax.nn.one_hot(np.minimum(passed, asked.regimes - 1), asked.regimes)
    counted = Proposal(stages, "counted events", strength, recipe.staged_hold, judged=False)
    return Proposals([counted], [0] * len(asked.wanted))


def striking_changes(frames: Frames) -> Int[np.ndarray, "N T"]:
    """A first guess: events are the frames in which some channel changes by far more than it usually does."""
    x, observed, valid = (np.asarray(part) for part in frames[:3])
    seen = (observed & valid[..., None])[:, 1:] & observed[:, :-1]
    changes = np.where(seen, np.abs(np.diff(np.where(observed, x, 0.0), axis=1)), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a channel that was never seen twice in a row has no changes
        usual = np.nan_to_num(np.nanquantile(changes, USUAL, axis=(0, 1)))
    strikes = (changes > STRIKING * np.maximum(usual, STILL)).any(axis=-1)
    return np.where(valid, np.pad(strikes, ((0, 0), (1, 0))).astype(np.int32), -1)


def commonest_first(labels: Int[np.ndarray, "N T"]) -> Int[np.ndarray, "N T"]:
    """Labels 0 and 1 so that 0, the law, holds most frames; -1 marks no frame."""
    return np.where(labels >= 0, labels ^ (np.sum(labels == EVENT) > np.sum(labels == LAW)), labels)


def events_before(labels: Int[np.ndarray, "N T"]) -> Int[np.ndarray, "N T"]:
    """How many events, each a frame, lie before each frame: that of an event belongs to the stage that it ends."""
    events = _events(labels)
    return np.cumsum(events, axis=1) - events


def single_frames(labels: Int[np.ndarray, "N T"]) -> bool:
    """Whether events last a frame, or hardly more."""
    events = _events(labels)
    begins = np.diff(events, axis=1, prepend=False) & events
    return bool(events.sum() <= LONGEST * begins.sum())


def divide_alike(labels: Int[np.ndarray, "N T"], regimes: int) -> bool:
    """Whether nearly all recordings have events, and few enough to count them."""
    counts = _events(labels).sum(axis=1)
    return bool(np.mean((counts >= 1) & (counts < regimes)) >= ALIKE)


def _events(labels: Int[np.ndarray, "N T"]) -> Bool[np.ndarray, "N T"]:
    """Nothing comes before the first frame that it could break."""
    events = labels == EVENT
    events[:, 0] = False
    return events
