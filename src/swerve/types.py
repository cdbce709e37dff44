"""Records that a person meets: what goes in, and what comes out.

The symbols are those of docs/how-it-works.md: x observation, u control, z continuous state, s regime,
T frames, D channels, U controls, L state dimensions, K regimes.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int


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


Series = Recording
"""The name it had before."""


@dataclass(frozen=True)
class Segmentation:
    """The regimes of one recording: a label and K probabilities for every frame.

    A label need not be the most probable one of its frame: a switch has its price (docs/decisions/0017).
    """

    labels: Int[np.ndarray, " T"]
    probabilities: Float[np.ndarray, "T K"]
    name: str = ""
    names: tuple[str, ...] = ()
    """What the regimes are called, where a run says so: `names[labels[t]]`."""
    agreement: Float[np.ndarray, " T"] | None = None
    """Where labels are a consensus: the share of the restarts that gives the frame this label."""

    @property
    def change_points(self) -> Int[np.ndarray, " C"]:
        """Frames t whose regime differs from that of frame t - 1."""
        return np.flatnonzero(self.labels[1:] != self.labels[:-1]) + 1


@dataclass(frozen=True)
class Forecast:
    """How one recording may go on: for each of the next H frames, p(s = k) and quantiles of x in the data's units."""

    probabilities: Float[np.ndarray, "H K"]
    quantiles: Float[np.ndarray, "H Q D"]
    levels: tuple[float, ...]
    """The share of futures that lies below each quantile, ascending."""
    name: str = ""
    columns: tuple[str, ...] = ()
