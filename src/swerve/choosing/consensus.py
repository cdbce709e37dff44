"""Many segmentations of the same frames as one (docs/decisions/0027).

Two frames belong together as far as segmentations agree that they do. Names of regimes do not matter for that, nor how
many regimes each segmentation has.
"""

import numpy as np
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

MOST_COMPARED = 4000  # frames that are compared two by two; all others follow them

Segmentations = Int[np.ndarray, "M F"]


def consensus(labels: Segmentations, regimes: int) -> Int[np.ndarray, " F"]:
    """At most `regimes` groups of frames: average linkage by the share of segmentations that hold two frames together.

    Every frame then goes to the group g of highest mean_m P(label_m of a frame in g = label_m of this frame).
    """
    compared = labels[:, :: -(-labels.shape[1] // MOST_COMPARED)]
    apart = np.mean([one[:, None] != one[None] for one in compared], axis=0)
    groups = fcluster(linkage(squareform(apart, checks=False), "average"), regimes, "maxclust") - 1
    return np.argmax(_affinity(labels, compared, groups), axis=1)


def _affinity(
    labels: Segmentations, compared: Int[np.ndarray, "M f"], groups: Int[np.ndarray, " f"]
) -> Float[np.ndarray, "F G"]:
    count = labels.max() + 1
    belongs = np.eye(groups.max() + 1)[groups]
    total = np.zeros((labels.shape[1], belongs.shape[1]))
    for every, some in zip(labels, compared, strict=True):
        shares = np.eye(count)[some].T @ belongs / belongs.sum(axis=0)
        total += shares[every]
    return total / len(labels)
