"""Reads a Parquet file column by column, so that its table is in memory once."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from swerve.data.columnar import texts_of, times_of
from swerve.data.reading import Reading
from swerve.data.table import Layout, Table, Texts, check_controls, lay_out, not_numbers
from swerve.errors import InputError, package


def read_parquet(path: Path, reading: Reading) -> Table:
    """Columns of numbers (a null is a missing value); float32 stays float32."""
    arrow, parquet = package("pyarrow", "Parquet files"), package("pyarrow.parquet", "Parquet files")
    try:
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            return _read(path, file, reading, arrow)
    except InputError:
        raise
    except Exception:  # damaged files fail in many ways
        raise InputError(f"{path} is not a Parquet file that can be read.") from None


def _read(path: Path, file: Any, reading: Reading, arrow: Any) -> Table:
    schema, where = file.schema_arrow, str(path)
    layout = lay_out(schema.names, reading, where)
    _check_kinds(path, schema, layout, arrow)
    if not file.metadata.num_rows:
        raise InputError(f"{path} has columns but no rows.")

    def column(name: str) -> Any:
        return file.read(columns=[name]).column(name)

    def numbers(names: tuple[str, ...], kind: type) -> Float[np.ndarray, "T D"]:
        table = np.empty((file.metadata.num_rows, len(names)), kind)
        for j, name in enumerate(names):
            table[:, j] = _numbers(path, name, column(name), arrow)
        return table

    def texts(name: str | None) -> Texts | None:
        return None if name is None else texts_of(np.array(column(name).to_pylist(), object))

    small = all(schema.field(name).type in (arrow.float16(), arrow.float32()) for name in layout.measurements)
    times, dates = _times(column(layout.time), layout.time, where, arrow) if layout.time else (None, False)
    table = Table(
        where=where,
        name=path.stem,
        columns=layout.measurements,
        x=numbers(layout.measurements, np.float32 if small else np.float64),
        u=numbers(layout.controls, np.float64) if layout.controls else None,
        times=times,
        dates=dates,
        sequence=texts(layout.sequence),
        labels=texts(layout.label),
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


def _numbers(path: Path, name: str, column: Any, arrow: Any) -> Float[np.ndarray, " T"]:
    decoded = column.combine_chunks().dictionary_decode() if arrow.types.is_dictionary(column.type) else column
    numbers = decoded.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    if np.isinf(numbers).any():
        row = int(np.argmax(np.isinf(numbers)))
        raise InputError(f'{path}, row {row}, column "{name}": the value is infinite.')
    return numbers


def _times(column: Any, name: str, where: str, arrow: Any) -> tuple[Float[np.ndarray, " T"], bool]:
    kinds = arrow.types
    if kinds.is_timestamp(column.type) or kinds.is_date(column.type):
        column = column.cast(arrow.timestamp("us"), safe=False)  # without a time zone: as in UTC
        return times_of(column.to_numpy(zero_copy_only=False), name, where)
    return times_of(np.array(column.to_pylist(), None if _holds_numbers(column.type, kinds) else object), name, where)
