"""What leads a restart: a guess about the regimes of every training frame, how strongly, and for how long."""

import io
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from swerve.data.trees import read_arrays, write_atomically
from swerve.inference.frames import Frames, Key


class Proposal(NamedTuple):
    """One guess. Where `strength` or `hold` is None, the recipe says."""

    preferences: Float[Array | np.ndarray, "N T K"]
    """Over the regimes of every frame; zeros say nothing."""
    origin: str
    strength: float | None = None
    """Nats that a frame gains in the regime it is given."""
    hold: float | None = None
    """Share of the steps for which it leads with all its strength."""
    judged: bool = True
    """Whether a bound is a judge of such regimes: only then may some be merged afterwards."""


class Proposals(NamedTuple):
    """Guesses, and which of them each restart follows; None for one that nothing leads."""

    made: list[Proposal]
    followed: list[int | None]

    def of(self, restart: int) -> Proposal | None:
        """What leads a restart."""
        position = self.followed[restart]
        return None if position is None else self.made[position]

    @property
    def judged(self) -> bool:
        """Whether a bound judges the regimes of all restarts."""
        return all(one.judged for one in self.made)


class Asked(NamedTuple):
    """What a proposer is asked."""

    training: Frames
    held_out: Frames
    regimes: int
    """K, of the preferences."""
    wanted: list[int]
    """How many regimes each restart wants; 0 for one that is not to be led."""
    whole: bool
    """Whether every window is a recording from its first frame to its last."""
    key: Key


def rounded(proposals: Proposals) -> Proposals:
    """As they are kept, with a file and without: the same seed gives the same model."""
    made = [
        one._replace(preferences=jnp.asarray(np.asarray(one.preferences, np.float16), jnp.float32))
        for one in proposals.made
    ]
    return proposals._replace(made=made)


def save(path: Path, wanted: list[int], proposals: Proposals) -> None:
    """Keeps them, so that an interrupted run need not make them again."""
    followed = np.array([-1 if one is None else one for one in proposals.followed])
    arrays = {"wanted": np.array(wanted), "followed": followed}
    for i, one in enumerate(proposals.made):
        own = {
            "preferences": np.asarray(one.preferences, np.float16),
            "origin": one.origin,
            "strength": np.nan if one.strength is None else one.strength,
            "hold": np.nan if one.hold is None else one.hold,
            "judged": one.judged,
        }
        arrays |= {f"{i}.{name}": np.array(part) for name, part in own.items()}
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # pyright: ignore[reportArgumentType]
    write_atomically(path, content.getvalue())


def load(path: Path, wanted: list[int]) -> Proposals | None:
    """The inverse; None where there are none, or others were wanted."""
    if not path.is_file():
        return None
    stored = read_arrays(path)
    if stored.get("wanted", np.array([])).tolist() != wanted:
        return None

    def number(name: str) -> float | None:
        return None if np.isnan(stored[name]) else float(stored[name])

    made = []
    while f"{len(made)}.origin" in stored:
        i = len(made)
        preferences = jnp.asarray(stored[f"{i}.preferences"], jnp.float32)
        settings = number(f"{i}.strength"), number(f"{i}.hold"), bool(stored[f"{i}.judged"])
        made.append(Proposal(preferences, str(stored[f"{i}.origin"]), *settings))
    return Proposals(made, [None if one < 0 else one for one in stored["followed"].tolist()])
