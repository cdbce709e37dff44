"""How recordings are read: one record of choices, kept with a fitted model so that new files are read alike."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

from swerve.errors import InputError, nearest

RAW = "raw"
"""The view that leaves recordings as they are."""
SINGULAR = {"control_columns": "control-column", "columns": "column"}


class Choices(TypedDict, total=False):
    """The choices of a `Reading`, as keywords."""

    sequence_column: str | None
    label_column: str | None
    control_columns: Sequence[str]
    time_column: str | None
    columns: Sequence[str]
    key: str | None
    rate: float | None
    skip: int
    every: int
    least_likelihood: float
    egocentric: bool


def _choice(default: Any, help: str) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Reading:
    """The roles of columns and what is done to the frames before a model sees them."""

    sequence_column: str | None = _choice(None, "Column that tells recordings apart when one file holds several.")
    label_column: str | None = _choice(None, "Column of true regimes: for scoring, never for training.")
    control_columns: tuple[str, ...] = _choice((), "Column that drives the system; may be repeated.")
    time_column: str | None = _choice(
        None, "Column of times, numbers or ISO date-times: checked for order, gaps and rate."
    )
    columns: tuple[str, ...] = _choice(
        (), "Measurement to use; may be repeated. By default every column without a role is one."
    )
    key: str | None = _choice(
        None,
        "Where in an HDF5 file the table lies, as in mouse1/trace; in an NPZ file, the arrays to read: 'mouse*'.",
    )
    rate: float | int | None = _choice(None, "Frames per unit of time (such as second) to resample to; needs times.")
    skip: int = _choice(0, "Frames to leave out at the beginning of every recording.")
    every: int = _choice(1, "Keep only each so-many-th frame.")
    least_likelihood: float | int = _choice(
        0.6, "Points of a pose that their tracker trusts less than this are missing."
    )
    egocentric: bool = _choice(False, "Poses without their position and heading, whose speeds become channels.")
    step: float | None = None
    """The time between frames that new recordings must have: that of the fit."""
    may_lack: tuple[str, ...] = ()
    """Columns that a file need not have: only the fit spoke of them."""

    def __post_init__(self):
        if self.every < 1:
            raise InputError(f"Each so-many-th frame can be kept from 1 on, not {self.every}.")
        if self.skip < 0:
            raise InputError(f"The frames to skip must be at least 0, not {self.skip}.")
        if self.rate is not None and not 0 < self.rate < float("inf"):
            raise InputError(f"The rate to resample to must be above 0, not {self.rate}.")
        if not 0 <= self.least_likelihood <= 1:
            raise InputError(f"A likelihood lies between 0 and 1, not at {self.least_likelihood}.")
        named = [n for n in (self.sequence_column, self.label_column, self.time_column) if n is not None]
        named += [*self.control_columns, *self.columns]
        for name in named:
            if named.count(name) > 1:
                twice = self.columns.count(name) > 1 or self.control_columns.count(name) > 1
                raise InputError(f'Column "{name}" {"is given twice" if twice else "can not have two roles"}.')

    @property
    def view(self) -> str:
        """The name of what a model reads of the recordings."""
        return "egocentric" if self.egocentric else RAW

    @property
    def columns_of_files(self) -> tuple[str, ...]:
        """The measurements to look for in a file: where a view makes columns, those are what is chosen from."""
        return self.columns if self.view == RAW else ()

    def but(self, **given: Unpack[Choices]) -> "Reading":
        """The same with some choices made anew; an empty text unmakes one.

        Columns of recordings' names and labels that are only remembered are no longer demanded of a file.
        """
        unknown = [name for name in given if name not in Choices.__annotations__]
        if unknown:
            raise InputError(f"Files can not be read by '{unknown[0]}'{nearest(unknown[0], Choices.__annotations__)}")
        changed = {name: _plain(value) for name, value in given.items()}
        remembered = (getattr(self, role) for role in ("sequence_column", "label_column") if role not in changed)
        return dataclasses.replace(self, **changed, may_lack=tuple(name for name in remembered if name is not None))

    def without(self, column: str) -> str:
        """How recordings can be read that lack this column, where a model remembers it."""
        if column != self.time_column or self.step is None:
            return ""
        return ' The model was fitted to recordings with times: --time-column "" reads these without.'

    @staticmethod
    def from_dict(stored: dict[str, Any]) -> "Reading":
        """The inverse of dataclasses.asdict after a passage through JSON; what it does not know it leaves out."""
        known = {one.name for one in dataclasses.fields(Reading)}
        return Reading(**{name: _plain(value) for name, value in stored.items() if name in known})


def reading_options(reading: Reading) -> list[str]:
    """The words on a command line that say how to read so."""
    words = []
    for one in dataclasses.fields(Reading):
        value = getattr(reading, one.name)
        if "help" not in one.metadata or value == one.default:
            continue
        flag = flag_of(one.name)
        for each in value if isinstance(value, tuple) else (value,):
            words += [flag] if each is True else [flag, str(each)]
    return words


def flag_of(name: str) -> str:
    """The option of a command line for one choice."""
    return "--" + SINGULAR.get(name, name.replace("_", "-"))


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(str(one) for one in value)
    return None if value == "" else value
