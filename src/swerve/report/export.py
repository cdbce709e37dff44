"""Regimes as files for people and their tools."""

import csv
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from swerve.data.atomic import whole_folder
from swerve.errors import InputError, nearest, package
from swerve.types import Recording, Segmentation

SEGMENTS, CHANGES = "segments.csv", "change_points.json"
DEFAULT_FORMATS = ("csv", "segments")
IN_SECONDS = ("audacity", "elan")
ROWS_AT_ONCE = 10_000


@dataclass(frozen=True)
class Segment:
    """A stretch of one regime. Frames and rows include the last; `end_time` is when the next segment begins."""

    recording: str
    start_frame: int
    end_frame: int
    start_row: int
    end_row: int
    start_time: float | None
    end_time: float | None
    regime: int
    confidence: float
    """The mean probability of the regime over the segment's frames."""


def segments_of(one: Segmentation) -> list[Segment]:
    """All segments, in order."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(one.labels)) + 1])
    ends = np.append(starts[1:], len(one.labels)) - 1
    sure = np.take_along_axis(one.probabilities, one.labels[:, None], axis=1)[:, 0]
    begins = None if one.times is None else np.append(one.times[starts], _end_of(one.times))
    return [
        Segment(
            recording=one.name,
            start_frame=int(start),
            end_frame=int(end),
            start_row=int(one.rows[start]),
            end_row=int(one.rows[end]),
            start_time=None if begins is None else float(begins[i]),
            end_time=None if begins is None else float(begins[i + 1]),
            regime=int(one.labels[start]),
            confidence=float(sure[start : end + 1].mean()),
        )
        for i, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


def write(
    folder: str | Path,
    found: Sequence[Segmentation],
    *,
    formats: Sequence[str] = DEFAULT_FORMATS,
    frames_per_second: float | None = None,
) -> None:
    """Writes the regimes of all recordings in all formats and change_points.json; all of it or nothing.

    csv and parquet hold a row per row of the file, segments a row per segment, audacity and elan text that these
    programs import. Frames per second give times to those without.
    """
    check(folder, found, formats=formats, frames_per_second=frames_per_second)
    if frames_per_second is not None:
        found = [
            one if one.times is not None else replace(one, times=np.arange(len(one.labels)) / frames_per_second)
            for one in found
        ]
    with whole_folder(Path(folder)) as temporary:
        for one in dict.fromkeys(formats):
            FORMATS[one](temporary, found)
        changes = {one.name: one.change_points.tolist() for one in found}
        (temporary / CHANGES).write_text(json.dumps(changes, indent=2) + "\n")


def check(
    folder: str | Path,
    some: Sequence[Recording | Segmentation],
    *,
    formats: Sequence[str],
    frames_per_second: float | None,
) -> None:
    """Refuses what could not be written, before anything is computed."""
    for one in formats:
        if one not in FORMATS:
            raise InputError(f"There is no format '{one}'{nearest(one, FORMATS)}")
    if frames_per_second is not None and not 0 < frames_per_second < np.inf:
        raise InputError(f"The frames per second must be above 0, not {frames_per_second}.")
    place = next(one for one in (Path(folder), *Path(folder).parents) if one.exists())
    if not (place.is_dir() and os.access(place, os.W_OK)):
        raise InputError(f"{place} is no folder that can be written to: choose another --out.")
    for one in some if frames_per_second is None else ():
        timed = [format for format in formats if format in IN_SECONDS]
        if timed and one.times is None:
            raise InputError(
                f"Labels for {timed[0]} are in seconds, and recording '{one.name}' has no times: name their column with"
                " --time-column, or give --frames-per-second."
            )
    check_file_names(some)


def file_name(name: str) -> str:
    """A recording's name as a file name: nothing that could leave the folder."""
    return "".join(c if c.isalnum() or c in "-_.[]" else "_" for c in name).lstrip(".")[:200] or "recording"


def check_file_names(some: Sequence[Recording | Segmentation]) -> None:
    """Refuses recordings whose labels would lie in the same file."""
    names = {file_name(Path(reserved).stem): reserved for reserved in (SEGMENTS,)}
    for one in some:
        other = names.setdefault(file_name(one.name), one.name)
        if other != one.name:
            raise InputError(f"The recordings '{other}' and '{one.name}' would share one file of labels: rename one.")


def _write_csv(folder: Path, found: Sequence[Segmentation]) -> None:
    for one in found:
        with (folder / f"{file_name(one.name)}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            columns = _columns(one, with_rows=_have_other_rows(found))
            writer.writerow(columns)
            writer.writerows(_rows(one, columns))


def _rows(one: Segmentation, columns: dict[str, np.ndarray]) -> Iterator[list[Any]]:
    regimes = one.probabilities.shape[1]
    for start in range(0, len(one.labels), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        for cells in zip(*(values[part].tolist() for values in columns.values()), strict=True):
            yield [*cells[:-regimes], *(f"{share:.6f}" for share in cells[-regimes:])]


def _write_parquet(folder: Path, found: Sequence[Segmentation]) -> None:
    arrow, parquet = package("pyarrow", "Parquet files"), package("pyarrow.parquet", "Parquet files")
    for one in found:
        table = arrow.table(_columns(one, with_rows=_have_other_rows(found)))
        parquet.write_table(table, folder / f"{file_name(one.name)}.parquet")


def _have_other_rows(found: Sequence[Segmentation]) -> bool:
    """Whether frames and rows are not the same: a file holds several recordings."""
    return any((one.rows != np.arange(len(one.rows))).any() for one in found)


def _columns(one: Segmentation, *, with_rows: bool) -> dict[str, np.ndarray]:
    """A table's columns. Row numbers are told only where they are not those of the frames."""
    columns = {"frame": np.arange(len(one.labels)), **one.columns}
    return columns if with_rows else {name: values for name, values in columns.items() if name != "row"}


def _write_segments(folder: Path, found: Sequence[Segmentation]) -> None:
    header = ["recording", "start_frame", "end_frame"]
    header += ["start_row", "end_row"] if _have_other_rows(found) else []
    header += ["start_time", "end_time"] if any(one.times is not None for one in found) else []
    header += ["regime", "name", "confidence"] if any(one.names for one in found) else ["regime", "confidence"]
    with (folder / SEGMENTS).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, header, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for one in found:
            for segment in segments_of(one):
                named = {"name": one.name_of(segment.regime), "confidence": f"{segment.confidence:.4f}"}
                writer.writerow(vars(segment) | named)


def _write_audacity(folder: Path, found: Sequence[Segmentation]) -> None:
    """Start, end and label, in seconds; no header."""
    for one in found:
        lines = [f"{start:.6f}\t{end:.6f}\t{label}" for start, end, label in _timed(one)]
        _write_lines(folder / f"{file_name(one.name)}.audacity.txt", lines)


def _write_elan(folder: Path, found: Sequence[Segmentation]) -> None:
    """The columns that ELAN's import of tab-delimited text asks for, in seconds, with a header."""
    for one in found:
        lines = ["Tier\tBegin Time - ss.msec\tEnd Time - ss.msec\tDuration - ss.msec\tAnnotation"]
        for start, end, label in _timed(one):
            lines.append(f"regimes\t{start:.3f}\t{end:.3f}\t{end - start:.3f}\t{label}")
        _write_lines(folder / f"{file_name(one.name)}.elan.txt", lines)


def _timed(one: Segmentation) -> Iterator[tuple[float, float, str]]:
    for segment in segments_of(one):
        assert segment.start_time is not None and segment.end_time is not None
        yield segment.start_time, segment.end_time, " ".join(one.name_of(segment.regime).split())


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("\n".join([*lines, ""]), encoding="utf-8", newline="\n")


def _end_of(times: Float[np.ndarray, " R"]) -> float:
    """When the last frame is over: as long after it as frames are usually apart."""
    return float(times[-1] + (np.median(np.diff(times)) if len(times) > 1 else 0.0))


FORMATS: dict[str, Callable[[Path, Sequence[Segmentation]], None]] = {
    "csv": _write_csv,
    "parquet": _write_parquet,
    "segments": _write_segments,
    "audacity": _write_audacity,
    "elan": _write_elan,
}
