"""How recordings are read: one record of choices, kept with a fitted model so that new files are read alike."""

from dataclasses import dataclass

from swerve.errors import InputError


@dataclass(frozen=True)
class Reading:
    """The roles of columns and what is done to the frames before a model sees them."""

    sequence_column: str | None = None
    """Tells recordings apart when one file holds several."""
    label_column: str | None = None
    """True regimes: for scoring, never for training."""
    control_columns: tuple[str, ...] = ()
    """Columns that drive the system: u."""
    time_column: str | None = None
    """When each frame was taken: checked for order, gaps and rate."""
    columns: tuple[str, ...] = ()
    """The measurements to use; all others are left out. Empty uses all."""
    key: str | None = None
    """Where in an HDF5 file the table lies."""
    rate: float | None = None
    """Frames per unit of time to resample to; None keeps the frames as they are."""
    skip: int = 0
    """Frames left out at the beginning of every recording."""
    every: int = 1
    """Only each so-many-th frame is kept."""
    least_likelihood: float = 0.6
    """Points of a pose that their tracker trusts less than this are missing."""
    egocentric: bool = False
    """Poses without their position and heading, whose speeds become channels."""

    def __post_init__(self):
        if self.every < 1:
            raise InputError(f"Each so-many-th frame can be kept from 1 on, not {self.every}.")
        if self.skip < 0:
            raise InputError(f"The frames to skip must be at least 0, not {self.skip}.")
        if self.rate is not None and not self.rate > 0:
            raise InputError(f"The rate to resample to must be above 0, not {self.rate}.")
        if not 0 <= self.least_likelihood <= 1:
            raise InputError(f"A likelihood lies between 0 and 1, not at {self.least_likelihood}.")
        named = [n for n in (self.sequence_column, self.label_column, self.time_column) if n is not None]
        named += self.control_columns
        for name in named:
            if named.count(name) > 1:
                raise InputError(f'Column "{name}" can not have two roles.')
