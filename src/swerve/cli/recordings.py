"""Reading the recordings of a command."""

from pathlib import Path

from swerve.cli.console import note
from swerve.data import tables
from swerve.data.reading import Reading
from swerve.types import Recording
from swerve.views.view import seen


def read_recordings(data: list[Path], reading: Reading) -> list[Recording]:
    """Reads them, and prints what was done to them that their owner may not expect."""
    series = tables.read(data, reading)
    for line in tables.notes(series):
        note(line)
    return seen(series, reading)
