"""Two regimes as one: the frames of both lead the one that stays."""

import numpy as np
from jaxtyping import Float

from swerve.learning.proposals.proposal import Proposal

STRENGTH = 20.0  # nats that these frames gain in it, at first


def propose(regimes: Float[np.ndarray, "N T K"], kept: int, dropped: int) -> Proposal:
    """From the probabilities of regimes as they are."""
    together = regimes.copy()
    together[..., kept] += together[..., dropped]
    together[..., dropped] = 0.0
    return Proposal(together, f"regimes {kept} and {dropped} as one", STRENGTH)
