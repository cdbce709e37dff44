"""Reads a Parquet file a batch of rows at a time, so that its table is in memory once."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from swerve.data.extras import package
from swerve.data.reading import Reading
from swerve.data.table import Layout, Table, TextCollector, check_controls, lay_out, not_numbers
from swerve.data.times import parse_times, seconds_of_dates
from swerve.errors import InputError

ROWS_AT_ONCE = 1 << 16


def read_parquet(path: Path, reading: Reading) -> Table:
    """Columns of numbers (a null is a missing value); float32 stays float32."""
    arrow, parquet = package("pyarrow", "Parquet files"), package("pyarrow.parquet", "Parquet files")
    try:
        with parquet.ParquetFile(path) as file:
            return _read(path, file, reading, arrow)
    except InputError:
        raise
    except Exception:  # damaged files fail in many ways
        raise InputError(f"{path} is not a Parquet file that can be read.") from None


def _read(path: Path, file: Any, reading: Reading, arrow: Any) -> Table:
    schema, rows = file.schema_arrow, file.metadata.num_rows
    layout = lay_out(schema.names, reading, str(path))
    _check_kinds(path, schema, layout, arrow)
    if not rows:
        raise InputError(f"{path} has columns but no rows.")
    small = all(schema.field(name).type in (arrow.float16(), arrow.float32()) for name in layout.measurements)
    x = np.empty((rows, len(layout.measurements)), np.float32 if small else np.float64)
    u, times = np.empty((rows, len(layout.controls))), np.empty(rows)
    dates = False
    sequence, labels = TextCollector(), TextCollector()
    start = 0
    for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=layout.all):
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        stop = start + batch.num_rows
        for target, names in ((x, layout.measurements), (u, layout.controls)):
            for j, name in enumerate(names):
                target[start:stop, j] = _numbers(path, name, columns[name], start, arrow)
        if layout.time is not None:
            times[start:stop], dates = _times(path, layout.time, columns[layout.time], arrow)
        for collector, name in ((sequence, layout.sequence), (labels, layout.label)):
            if name is not None:
                collector.add("" if value is None else value for value in columns[name].to_pylist())
        start = stop
    if start != rows:
        raise InputError(f"{path} says that it has {rows} rows, but {start} can be read.")
    table = Table(
        where=str(path),
        name=path.stem,
        columns=layout.measurements,
        x=x,
        u=u if layout.controls else None,
        times=times if layout.time else None,
        dates=dates,
        sequence=sequence.texts() if layout.sequence else None,
        labels=labels.texts() if layout.label else None,
    )
    return check_controls(table, layout.controls)


def _check_kinds(path: Path, schema: Any, layout: Layout, arrow: Any) -> None:
    kinds = arrow.types
    nested = [name for name in layout.all if kinds.is_nested(schema.field(name).type)]
    if nested:
        raise InputError(
            f'{path}: column "{nested[0]}" is nested ({schema.field(nested[0]).type}): flatten it to a column per'
            " channel, or choose other columns with --column."
        )
    numbers = (*layout.measurements, *layout.controls)
    texts = [name for name in numbers if not _holds_numbers(schema.field(name).type, kinds)]
    if texts:
        raise not_numbers(texts, str(path))


def _holds_numbers(kind: Any, kinds: Any) -> bool:
    if kinds.is_dictionary(kind):
        return _holds_numbers(kind.value_type, kinds)
    return any(
        is_so(kind)
        for is_so in (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal, kinds.is_null)
    )


def _numbers(path: Path, name: str, column: Any, start: int, arrow: Any) -> Float[np.ndarray, " T"]:
    if arrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    numbers = column.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    if np.isinf(numbers).any():
        raise InputError(
            f'{path}, row {start + int(np.argmax(np.isinf(numbers)))}, column "{name}": the value is infinite.'
        )
    return numbers


def _times(path: Path, name: str, column: Any, arrow: Any) -> tuple[Float[np.ndarray, " T"], bool]:
    kind = column.type
    if _holds_numbers(kind, arrow.types):
        return column.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False), False
    if arrow.types.is_timestamp(kind) or arrow.types.is_date(kind):
        return seconds_of_dates(column.cast(arrow.timestamp("us"), safe=False).to_numpy(zero_copy_only=False)), True
    try:
        return parse_times([str(value) for value in column.to_pylist()])
    except ValueError:
        raise InputError(f'{path}, column "{name}": these are no times; times are all numbers, or all dates.') from None
