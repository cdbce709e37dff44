"""Trials in stages: where single frames break the law that holds otherwise, regimes count these events.

A robot drops what it carries, a light goes on, a lever is pressed: one frame, on which an AR-HMM spends a regime. What
such recordings have in common is not how they move but how far they have come (docs/decisions/0016).
"""

import numpy as np
from jaxtyping import Bool, Int

LAW, EVENT = 0, 1
ALIKE = 0.95  # share of the recordings with at least one event, and not more than regimes can count


def commonest_first(labels: Int[np.ndarray, "N T"]) -> Int[np.ndarray, "N T"]:
    """Labels 0 and 1 so that 0, the law, holds most frames; -1 marks no frame."""
    return np.where(labels >= 0, labels ^ (np.sum(labels == EVENT) > np.sum(labels == LAW)), labels)


def events_before(labels: Int[np.ndarray, "N T"]) -> Int[np.ndarray, "N T"]:
    """How many events lie before each frame: the frame of an event still belongs to the stage that it ends."""
    begins = _begins(labels)
    return np.cumsum(begins, axis=1) - begins


def divide_alike(labels: Int[np.ndarray, "N T"], regimes: int) -> bool:
    """Whether nearly all recordings have events, and few enough to count them."""
    counts = _begins(labels).sum(axis=1)
    return bool(np.mean((counts >= 1) & (counts < regimes)) >= ALIKE)


def _begins(labels: Int[np.ndarray, "N T"]) -> Bool[np.ndarray, "N T"]:
    """Frames with which an event begins. Nothing comes before the first frame that it could break."""
    event = labels == EVENT
    event[:, 0] = False
    return np.diff(event, axis=1, prepend=False) & event
