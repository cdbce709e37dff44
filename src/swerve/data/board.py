"""What every generator returns: sequences whose regimes are known."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from swerve.types import Series


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

    def series(self) -> list[Series]:
        """One `Series` per sequence, named after the board and its place in it."""
        return [
            Series(x=x, s=s, name=f"{self.name}-{i}", columns=self.columns, image=self.image)
            for i, (x, s) in enumerate(zip(self.x, self.s, strict=True))
        ]
