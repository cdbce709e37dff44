"""Regimes as files for people and their tools, in the frames and times of the files they came from."""

import csv
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from swerve.data.atomic import whole_folder
from swerve.data.extras import package
from swerve.errors import InputError, nearest
from swerve.types import Recording, Segmentation

SEGMENTS, CHANGES = "segments.csv", "change_points.json"
DEFAULT_FORMATS = ("csv", "segments")
IN_SECONDS = ("audacity", "elan")
ROWS_AT_ONCE = 10_000


@dataclass(frozen=True)
class Labelled:
    """The regimes of one recording for each frame of its file, those included that a model did not see."""

    name: str
    labels: Int[np.ndarray, " R"]
    probabilities: Float[np.ndarray, "T K"]
    covered_by: Int[np.ndarray, " R"]
    """Where among `probabilities` a frame's are."""
    rows: Int[np.ndarray, " R"]
    """Its row in the file, which may hold other recordings too."""
    times: Float[np.ndarray, " R"] | None
    agreement: Float[np.ndarray, " R"] | None = None
    """Where labels are a consensus: the share of the restarts behind each."""


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


def in_the_file(series: Recording, found: Segmentation, *, frames_per_second: float | None = None) -> Labelled:
    """Takes the regimes of the frames that a model saw back to the frames of the file.

    A frame that was left out has the regime of the frame that covers it. Frames per second give times to those without.
    """
    clock = series.clock
    rows = series.rows if clock is None else clock.rows
    covered_by = np.arange(len(found.labels)) if clock is None else clock.covered_by
    times = series.times if clock is None else clock.times
    if times is None and frames_per_second is not None:
        times = np.arange(len(covered_by)) / frames_per_second
    return Labelled(
        name=found.name,
        labels=found.labels[covered_by],
        probabilities=found.probabilities,
        covered_by=covered_by,
        rows=np.arange(len(covered_by)) if rows is None else rows,
        times=times,
        agreement=None if found.agreement is None else found.agreement[covered_by],
    )


def segments_of(one: Labelled) -> list[Segment]:
    """All segments, in order."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(one.labels)) + 1])
    ends = np.append(starts[1:], len(one.labels)) - 1
    sure = one.probabilities[one.covered_by, one.labels]
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
    series: Sequence[Recording],
    found: Sequence[Segmentation],
    *,
    formats: Sequence[str] = DEFAULT_FORMATS,
    names: Sequence[str] = (),
    frames_per_second: float | None = None,
) -> list[Labelled]:
    """Writes the regimes of all recordings in all formats and change_points.json; all of it or nothing.

    csv and parquet hold a row per frame of the file, segments a row per segment, audacity and elan text that these
    programs import. `names` are the regimes' own, where they have any.
    """
    check(folder, series, formats=formats, frames_per_second=frames_per_second)
    labelled = [
        in_the_file(one, regimes, frames_per_second=frames_per_second)
        for one, regimes in zip(series, found, strict=True)
    ]
    with whole_folder(Path(folder)) as temporary:
        for one in dict.fromkeys(formats):
            FORMATS[one](temporary, labelled, tuple(names))
        changes = {one.name: (np.flatnonzero(np.diff(one.labels)) + 1).tolist() for one in labelled}
        (temporary / CHANGES).write_text(json.dumps(changes, indent=2) + "\n")
    return labelled


def check(
    folder: str | Path, series: Sequence[Recording], *, formats: Sequence[str], frames_per_second: float | None
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
    for one in series if frames_per_second is None else ():
        timed = [format for format in formats if format in IN_SECONDS]
        if timed and (one.times if one.clock is None else one.clock.times) is None:
            raise InputError(
                f"Labels for {timed[0]} are in seconds, and recording '{one.name}' has no times: name their column with"
                " --time-column, or give --frames-per-second."
            )
    check_file_names(series)


def file_name(name: str) -> str:
    """A recording's name as a file name: nothing that could leave the folder."""
    return "".join(c if c.isalnum() or c in "-_.[]" else "_" for c in name).lstrip(".")[:200] or "recording"


def check_file_names(series: Sequence[Recording]) -> None:
    """Refuses recordings whose labels would lie in the same file."""
    names = {file_name(Path(reserved).stem): reserved for reserved in (SEGMENTS,)}
    for one in series:
        other = names.setdefault(file_name(one.name), one.name)
        if other != one.name:
            raise InputError(f"The recordings '{other}' and '{one.name}' would share one file of labels: rename one.")


def _write_csv(folder: Path, labelled: Sequence[Labelled], names: tuple[str, ...]) -> None:
    for one in labelled:
        with (folder / f"{file_name(one.name)}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            columns = _columns(one, names, _have_other_rows(labelled))
            writer.writerow([*columns, *_probability_names(one)])
            writer.writerows(_rows(one, columns))


def _rows(one: Labelled, columns: dict[str, Any]) -> Iterator[list[Any]]:
    for start in range(0, len(one.labels), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        probable = one.probabilities[one.covered_by[part]].tolist()
        for *cells, shares in zip(*(values[part].tolist() for values in columns.values()), probable, strict=True):
            yield [*cells, *(f"{share:.6f}" for share in shares)]


def _write_parquet(folder: Path, labelled: Sequence[Labelled], names: tuple[str, ...]) -> None:
    arrow, parquet = package("pyarrow", "Parquet files"), package("pyarrow.parquet", "Parquet files")
    for one in labelled:
        columns = _columns(one, names, _have_other_rows(labelled))
        probable = dict(zip(_probability_names(one), one.probabilities.T, strict=True))
        table = arrow.table(columns | {name: values[one.covered_by] for name, values in probable.items()})
        parquet.write_table(table, folder / f"{file_name(one.name)}.parquet")


def _have_other_rows(labelled: Sequence[Labelled]) -> bool:
    """Whether frames and rows are not the same: a file holds several recordings."""
    return any((one.rows != np.arange(len(one.rows))).any() for one in labelled)


def _columns(one: Labelled, names: tuple[str, ...], with_rows: bool) -> dict[str, np.ndarray]:
    """What is known of each frame besides its probabilities."""
    columns: dict[str, np.ndarray] = {"frame": np.arange(len(one.labels))}
    if with_rows:
        columns["row"] = one.rows
    if one.times is not None:
        columns["time"] = one.times
    columns["regime"] = one.labels
    if names:
        columns["name"] = np.array([name_of(k, names) for k in range(one.probabilities.shape[1])])[one.labels]
    if one.agreement is not None:
        columns["agreement"] = one.agreement
    return columns


def _probability_names(one: Labelled) -> list[str]:
    return [f"p{k}" for k in range(one.probabilities.shape[1])]


def name_of(regime: int, names: Sequence[str]) -> str:
    """A regime's own name, or its number."""
    return names[regime] if regime < len(names) and names[regime] else str(regime)


def _write_segments(folder: Path, labelled: Sequence[Labelled], names: tuple[str, ...]) -> None:
    header = ["recording", "start_frame", "end_frame"]
    header += ["start_row", "end_row"] if _have_other_rows(labelled) else []
    header += ["start_time", "end_time"] if any(one.times is not None for one in labelled) else []
    header += ["regime", "name", "confidence"] if names else ["regime", "confidence"]
    with (folder / SEGMENTS).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, header, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for one in labelled:
            for segment in segments_of(one):
                named = {"name": name_of(segment.regime, names), "confidence": f"{segment.confidence:.4f}"}
                writer.writerow(vars(segment) | named)


def _write_audacity(folder: Path, labelled: Sequence[Labelled], names: tuple[str, ...]) -> None:
    """Start, end and label, in seconds; no header."""
    for one in labelled:
        lines = [f"{start:.6f}\t{end:.6f}\t{label}" for start, end, label in _timed(one, names)]
        _write_lines(folder / f"{file_name(one.name)}.audacity.txt", lines)


def _write_elan(folder: Path, labelled: Sequence[Labelled], names: tuple[str, ...]) -> None:
    """The columns that ELAN's import of tab-delimited text asks for, in seconds, with a header."""
    for one in labelled:
        lines = ["Tier\tBegin Time - ss.msec\tEnd Time - ss.msec\tDuration - ss.msec\tAnnotation"]
        for start, end, label in _timed(one, names):
            lines.append(f"regimes\t{start:.3f}\t{end:.3f}\t{end - start:.3f}\t{label}")
        _write_lines(folder / f"{file_name(one.name)}.elan.txt", lines)


def _timed(one: Labelled, names: tuple[str, ...]) -> Iterator[tuple[float, float, str]]:
    for segment in segments_of(one):
        assert segment.start_time is not None and segment.end_time is not None
        yield segment.start_time, segment.end_time, " ".join(name_of(segment.regime, names).split())


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("\n".join([*lines, ""]), encoding="utf-8", newline="\n")


def _end_of(times: Float[np.ndarray, " R"]) -> float:
    """When the last frame is over: as long after it as frames are usually apart."""
    return float(times[-1] + (np.median(np.diff(times)) if len(times) > 1 else 0.0))


FORMATS: dict[str, Callable[[Path, Sequence[Labelled], tuple[str, ...]], None]] = {
    "csv": _write_csv,
    "parquet": _write_parquet,
    "segments": _write_segments,
    "audacity": _write_audacity,
    "elan": _write_elan,
}
