"""What all commands that read recordings share: the argument for them, and the words about what was read."""

from pathlib import Path
from typing import Annotated

import typer

from swerve.cli import display
from swerve.data import tables
from swerve.data.reading import Reading
from swerve.types import Recording

Data = Annotated[
    list[Path],
    typer.Argument(
        help="CSV, TSV, Parquet, HDF5, NPZ, NPY, BVH or AMC files, or folders of them or of pictures. A row is a frame,"
        " a column is a channel; one recording per file unless there is a --sequence-column."
    ),
]


def read_recordings(data: list[Path], reading: Reading) -> list[Recording]:
    """Reads them, and prints what was done to them that their owner may not expect."""
    series = tables.read(data, reading)
    for note in tables.notes(series):
        display.note(note)
    return series
