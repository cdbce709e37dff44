"""One table, whatever file it came from: measurements, controls, times, and who and what each row belongs to."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from swerve.data.columns import unknown_column
from swerve.data.reading import Reading
from swerve.errors import InputError

MOST_COLUMNS = 10_000
MISSING = {"", "na", "nan"}


@dataclass(frozen=True)
class Texts:
    """A column of text: for each row the number of its text. Most rows share theirs with others."""

    codes: Int[np.ndarray, " T"]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """The columns that were asked for, by their roles."""

    where: str
    name: str
    columns: tuple[str, ...]
    x: Float[np.ndarray, "T D"]
    u: Float[np.ndarray, "T U"] | None = None
    times: Float[np.ndarray, " T"] | None = None
    dates: bool = False
    """Times were dates: seconds since 1970."""
    sequence: Texts | None = None
    labels: Texts | None = None


@dataclass(frozen=True)
class Layout:
    """Which columns of a file play which part."""

    measurements: tuple[str, ...]
    controls: tuple[str, ...] = ()
    time: str | None = None
    sequence: str | None = None
    label: str | None = None

    @property
    def all(self) -> list[str]:
        """Every column that has to be read."""
        roles = (self.time, self.sequence, self.label)
        return [*self.measurements, *self.controls, *(name for name in roles if name is not None)]


class TextCollector:
    """Text that arrives in pieces."""

    def __init__(self):
        self.known: dict[str, int] = {}
        self.pieces: list[np.ndarray] = []

    def add(self, cells: Iterable[object]) -> None:
        """More rows."""
        known = self.known
        codes = [known.setdefault(text, len(known)) for text in (str(cell).strip() for cell in cells)]
        self.pieces.append(np.array(codes, np.int64))

    def texts(self) -> Texts:
        """All of it."""
        return Texts(np.concatenate(self.pieces), tuple(self.known))


def lay_out(names: Sequence[str], reading: Reading, where: str) -> Layout:
    """The parts that the columns of a file play, or what is wrong with them."""
    name, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise InputError(f'{where}: two columns are called "{name}".')
    present = set(names)

    def find(name: str | None) -> str | None:
        if name is None or name in present:
            return name
        if name in reading.may_lack:
            return None
        raise unknown_column(name, names, where, remedy=reading.without(name))

    time, sequence, label = map(find, (reading.time_column, reading.sequence_column, reading.label_column))
    for one in (*reading.control_columns, *reading.columns_of_files):
        find(one)
    taken = {time, sequence, label, *reading.control_columns}
    measurements = reading.columns_of_files or tuple(name for name in names if name not in taken)
    if not measurements:
        raise InputError(f"{where} has no column of measurements.")
    check_width(len(measurements), where)
    return Layout(measurements, reading.control_columns, time, sequence, label)


def check_width(columns: int, where: str) -> None:
    """Refuses tables that are wider than any recording, most likely lying on their side."""
    if columns > MOST_COLUMNS:
        raise InputError(
            f"{where} has {columns:,} columns, and at most {MOST_COLUMNS:,} can be used: rows are frames and columns"
            " are channels, so transpose it if it lies on its side."
        )


def not_numbers(names: Sequence[str], where: str) -> InputError:
    """The error for columns of text, with what to do about them."""
    listed = ", ".join(f'"{name}"' for name in names[:6]) + (", ..." if len(names) > 6 else "")
    columns, hold = ("column", "holds") if len(names) == 1 else ("columns", "hold")
    return InputError(
        f"{where}: {columns} {listed} {hold} no numbers: choose the measurements with --column, or give each its role"
        " (--sequence-column, --label-column, --time-column)."
    )


def check_controls(table: Table, controls: tuple[str, ...]) -> Table:
    """The same table, if its controls are complete."""
    if table.u is not None and np.isnan(table.u).any():
        missing = controls[int(np.isnan(table.u).any(axis=0).argmax())]
        raise InputError(f'{table.where}: control column "{missing}" has missing values.')
    return table


def is_missing(cell: str) -> bool:
    """Whether a cell stands for a missing value."""
    return cell.strip().lower() in MISSING


LabelEncoder = Callable[[Texts], Int[np.ndarray, " T"]]
UNLABELLED = -1


def label_encoder(columns: Sequence[Texts], name: str | None) -> LabelEncoder:
    """One numbering for all files: the labels themselves if they are whole numbers, else sorted names."""
    texts = {text for column in columns for text in column.names if not is_missing(text)}
    try:
        codes = {text: float(text) for text in texts}
    except ValueError:
        codes = {text: float(code) for code, text in enumerate(sorted(texts))}
    for text, code in codes.items():
        if code != np.round(code) or abs(code) > 2**53:
            raise InputError(f'Label column "{name}" holds {text}: labels are whole numbers or names.')

    def encode(column: Texts) -> Int[np.ndarray, " T"]:
        return np.array([codes.get(text, UNLABELLED) for text in column.names], dtype=np.int64)[column.codes]

    return encode
