"""Records that a person meets: what goes in, and what comes out.

The symbols are those of docs/how-it-works.md: x observation, u control, z continuous state, s regime,
T frames, D channels, U controls, L state dimensions, K regimes.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from swerve.errors import package


@dataclass(frozen=True)
class Skeleton:
    """The joints of a pose. Joint `j` lies in the columns `f"{name}.{axis}"` of x, axis by axis."""

    joints: tuple[str, ...]
    parents: tuple[int, ...]
    """The joint that each hangs on; -1 for a root. Joints that hang on nothing are all roots."""
    axes: tuple[str, ...] = ("x", "y", "z")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that hold the joints, in order."""
        return tuple(f"{joint}.{axis}" for joint in self.joints for axis in self.axes)


@dataclass(frozen=True)
class Clock:
    """The rows of a recording's file, where a model sees other frames."""

    rows: Int[np.ndarray, " R"]
    """Their numbers in the file, which may hold other recordings too."""
    times: Float[np.ndarray, " R"] | None
    covered_by: Int[np.ndarray, " R"]
    """The frame that stands for each in the recording that a model sees."""
    inserted: int = 0
    """Frames that were missing in a regular grid of times, and were added as missing frames."""


@dataclass(frozen=True)
class Recording:
    """One recording in its own units. NaN in `x` is a missing value; `s` is the truth, for scoring only."""

    x: Float[np.ndarray, "T D"]
    u: Float[np.ndarray, "T U"] | None = None
    s: Int[np.ndarray, " T"] | None = None
    name: str = ""
    columns: tuple[str, ...] = field(default=())
    image: tuple[int, int] | None = None
    """Height and width, where a frame is an image whose rows lie one after the other."""
    times: Float[np.ndarray, " T"] | None = None
    """When each frame was taken, in the recording's own unit, where that is known."""
    rows: Int[np.ndarray, " T"] | None = None
    """The row (or frame) of the file that each frame was taken from, where it is not the same number. A frame between
    rows has the row nearest to it or, in a gap, the row before."""
    skeleton: Skeleton | None = None
    clock: Clock | None = None
    """The way back to the rows of the file, where frames were left out, added or resampled."""

    def __len__(self) -> int:
        return len(self.x)

    @property
    def way_back(self) -> Clock:
        """To the rows of the file: by the clock or, without one, frame by frame."""
        if self.clock is not None:
            return self.clock
        frames = np.arange(len(self))
        return Clock(frames if self.rows is None else self.rows, self.times, covered_by=frames)


Series = Recording
"""The name it had before."""


@dataclass(frozen=True)
class Segmentation:
    """The regimes of one recording in the rows of its file: a label and K probabilities for each of its R rows.

    A label need not be the most probable one of its row: a switch has its price (docs/decisions/0017).
    """

    labels: Int[np.ndarray, " R"]
    probabilities: Float[np.ndarray, "R K"]
    rows: Int[np.ndarray, " R"]
    """The number of each row in the file, which may hold other recordings too."""
    times: Float[np.ndarray, " R"] | None = None
    name: str = ""
    names: tuple[str, ...] = ()
    """What the regimes are called, where any has a name: `names[labels[i]]`."""
    agreement: Float[np.ndarray, " R"] | None = None
    """Where labels are a consensus: the share of the restarts that gives the row this label."""

    @property
    def change_points(self) -> Int[np.ndarray, " C"]:
        """Positions i whose regime differs from that of i - 1."""
        return np.flatnonzero(self.labels[1:] != self.labels[:-1]) + 1

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """All of it as columns: row, time, regime, name, agreement (those that there are), p0, p1, ..."""
        found: dict[str, np.ndarray | None] = {"row": self.rows, "time": self.times, "regime": self.labels}
        if self.names:
            called = [self.name_of(k) for k in range(self.probabilities.shape[1])]
            found["name"] = np.array(called)[self.labels]
        found["agreement"] = self.agreement
        found |= {f"p{k}": share for k, share in enumerate(self.probabilities.T)}
        return {name: values for name, values in found.items() if values is not None}

    def name_of(self, regime: int) -> str:
        """A regime's own name, or its number."""
        return self.names[regime] if regime < len(self.names) and self.names[regime] else str(regime)

    def to_frame(self) -> Any:
        """A pandas data frame of `columns`: a row for each row of the file."""
        return package("pandas", "Data frames").DataFrame(self.columns)


@dataclass(frozen=True)
class Forecast:
    """How one recording may go on: for each of the next H frames, p(s = k) and quantiles of x in the data's units."""

    probabilities: Float[np.ndarray, "H K"]
    quantiles: Float[np.ndarray, "H Q D"]
    levels: tuple[float, ...]
    """The share of futures that lies below each quantile, ascending."""
    name: str = ""
    columns: tuple[str, ...] = ()
