"""Runs of equal neighbours, as half-open spans of frames."""

import numpy as np
from jaxtyping import Bool, Int


def true_spans(flags: Bool[np.ndarray, " T"]) -> Int[np.ndarray, "n 2"]:
    """Every maximal run of True as (first frame, frame after the last)."""
    edges = np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8))
    return np.stack([np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)], axis=1)


def change_points(labels: Int[np.ndarray, " T"]) -> Int[np.ndarray, " n"]:
    """Frames whose regime differs from that of the frame before."""
    return np.flatnonzero(labels[1:] != labels[:-1]) + 1


def regime_spans(labels: Int[np.ndarray, " T"]) -> Int[np.ndarray, "n 2"]:
    """Every maximal run of one regime as (first frame, frame after the last)."""
    changes = change_points(labels)
    edges = np.concatenate([[0], changes, [len(labels)]])
    return np.stack([edges[:-1], edges[1:]], axis=1)
