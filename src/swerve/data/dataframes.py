"""Data frames of pandas, or of anything else that has columns with `to_numpy`."""

from typing import Any

import numpy as np
from jaxtyping import Float

from swerve.data.columnar import as_numbers, texts_of, times_of
from swerve.data.reading import Reading
from swerve.data.table import Table, check_controls, lay_out, not_numbers
from swerve.errors import InputError


def is_data_frame(data: Any) -> bool:
    """Whether it has columns by name."""
    return hasattr(data, "columns") and hasattr(data, "to_numpy") and hasattr(data, "__getitem__")


def read_data_frame(frame: Any, reading: Reading, *, name: str) -> Table:
    """A data frame as a table; its index is left alone."""
    where = f"Data frame {name}"
    labels = {str(label): label for label in frame.columns}
    if not labels or not len(frame):
        raise InputError(f"{where} is empty.")
    layout = lay_out([str(label) for label in frame.columns], reading, where)

    def column(name: str) -> np.ndarray:
        return _values(frame[labels[name]])

    times, dates = times_of(column(layout.time), layout.time, where) if layout.time else (None, False)
    table = Table(
        where=where,
        name=name,
        columns=layout.measurements,
        x=_side_by_side(column, layout.measurements, len(frame), where),
        u=_side_by_side(column, layout.controls, len(frame), where) if layout.controls else None,
        times=times,
        dates=dates,
        sequence=texts_of(column(layout.sequence)) if layout.sequence else None,
        labels=texts_of(column(layout.label)) if layout.label else None,
    )
    return check_controls(table, layout.controls)


def _side_by_side(column, names: tuple[str, ...], rows: int, where: str) -> Float[np.ndarray, "T D"]:
    columns = {name: as_numbers(column(name)) for name in names}  # mostly views into the frame
    numbers = [values for values in columns.values() if values is not None]
    if len(numbers) < len(names):
        raise not_numbers([name for name, values in columns.items() if values is None], where)
    table = np.empty((rows, len(names)), np.result_type(*numbers))
    for j, (name, values) in enumerate(zip(names, numbers, strict=True)):
        if np.isinf(values).any():
            row = int(np.argmax(np.isinf(values)))
            raise InputError(f'{where}, row {row}, column "{name}": the value is infinite.')
        table[:, j] = values
    return table


def _values(column: Any) -> np.ndarray:
    if getattr(column.dtype, "tz", None) is not None:  # dates with a time zone would become Python objects
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    return column.to_numpy()
