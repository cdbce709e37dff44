"""What every generator returns: sequences whose regimes are known. And the same for recordings of the world."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from swerve.types import Recording
from swerve_lab.boards.damage import Damage


@dataclass(frozen=True)
class Board:
    """N sequences of equal length: `x` as a model sees them, `clean` before noise, `s` the true regimes."""

    name: str
    x: Float[np.ndarray, "N T D"]
    clean: Float[np.ndarray, "N T D"]
    s: Int[np.ndarray, "N T"]
    columns: tuple[str, ...]
    image: tuple[int, int] | None = None
    """Height and width, where a frame is an image whose rows lie one after the other."""

    def __len__(self) -> int:
        return len(self.x)

    def series(self) -> list[Recording]:
        """One `Recording` per sequence, named after the board and its place in it."""
        return [
            Recording(x=x, s=s, name=f"{self.name}-{i}", columns=self.columns, image=self.image)
            for i, (x, s) in enumerate(zip(self.x, self.s, strict=True))
        ]

    def damaged(self, damage: Damage, *, seed: int) -> "Board":
        """The same sequences with parts of x missing; what is true of them stays."""
        rng = np.random.default_rng(seed)
        return replace(self, x=np.stack([damage.apply(x, rng) for x in self.x]))


@dataclass(frozen=True)
class Recordings:
    """Recordings of the world, each of its own length, with labels that people gave their frames."""

    name: str
    recordings: tuple[Recording, ...]
    takes: tuple[str, ...]
    """Which recordings were taken together, such as those of two partners: they are held out together."""

    @property
    def s(self) -> list[Int[np.ndarray, " T"]]:
        """The labels of every recording."""
        return [one.s for one in self.recordings if one.s is not None]

    def series(self) -> list[Recording]:
        """As a model sees them."""
        return list(self.recordings)

    def damaged(self, damage: Damage, *, seed: int) -> "Recordings":
        """The same recordings with parts of x missing; their labels stay."""
        rng = np.random.default_rng(seed)
        return replace(self, recordings=tuple(replace(one, x=damage.apply(one.x, rng)) for one in self.recordings))

    def folds(self) -> list[tuple["Recordings", "Recordings"]]:
        """Each take held out in turn: (all others, the take)."""
        return [
            (self._only(lambda own, t=take: own != t), self._only(lambda own, t=take: own == t))
            for take in dict.fromkeys(self.takes)
        ]

    def _only(self, wanted: Callable[[str], bool]) -> "Recordings":
        kept = [(one, take) for one, take in zip(self.recordings, self.takes, strict=True) if wanted(take)]
        return replace(self, recordings=tuple(one for one, _ in kept), takes=tuple(take for _, take in kept))
