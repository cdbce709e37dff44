"""Reads what SLEAP exports: its table of instances (CSV) and its analysis file (HDF5). One recording per track."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from swerve.data.tracking import Track, frame_numbers, read_rows, to_values
from swerve.errors import InputError, package

INSTANCE = ("track", "frame_idx", "instance.score")


def is_sleap(first_row: Sequence[str]) -> bool:
    """Whether a table with this first row is one of SLEAP's: three columns, then x, y and score of every node."""
    return set(INSTANCE) < set(first_row) and set(first_row) == {*INSTANCE, *_node_columns(_nodes(first_row))}


def _nodes(header: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.rpartition(".")[0] for name in header if name not in INSTANCE))


def _node_columns(nodes: Sequence[str]) -> list[str]:
    return [f"{node}.{what}" for node in nodes for what in ("x", "y", "score")]


def read_sleap_table(path: Path) -> list[Track]:
    """A row is an instance in a frame; frames without one are missing."""
    rows = read_rows(path)
    columns = [cell.strip() for cell in next(rows).cells]
    nodes = _nodes(columns)
    if len(set(columns)) < len(columns):
        raise InputError(f"{path}, line 1: two columns have the same name.")
    places = [columns.index(name) for name in _node_columns(nodes)]
    texts = [columns.index(name) for name in ("track", "frame_idx")]
    values, heads = to_values(path, rows, places, len(columns), texts=texts)
    instances: dict[str, list[int]] = {}
    for i, (_, (name, _)) in enumerate(heads):
        instances.setdefault(name, []).append(i)
    tracks = []
    for name, mine in instances.items():
        numbers = [heads[i][1][1] for i in mine]
        if not name and len(set(numbers)) < len(numbers):
            raise InputError(f"{path}: several instances of a frame have no track; run SLEAP's tracking first.")
        frames = frame_numbers(path, numbers, [heads[i][0] for i in mine])
        found = values[mine].reshape(len(mine), len(nodes), 3)
        tracks.append(Track(name or "untracked", nodes, ("x", "y"), frames, found[..., :2], found[..., 2]))
    return tracks


def read_sleap_analysis(path: Path) -> list[Track] | None:
    """Tracks of an analysis file; None where an HDF5 file is none. DeepLabCut's own are refused."""
    with _opened(path) as file:
        if "df_with_missing" in file:
            raise InputError(
                f"{path} comes from DeepLabCut, which keeps the names of its columns there as Python objects that may"
                " run code: give the .csv file that it writes beside it."
            )
        if "tracks" not in file or "node_names" not in file:
            return None
        tracks = np.asarray(file["tracks"], dtype=float)
        nodes = _strings(file["node_names"])
        names = _strings(file["track_names"]) if "track_names" in file else ()
        scores = np.asarray(file["point_scores"], dtype=float) if "point_scores" in file else None
        edges = np.asarray(file.get("edge_inds", []), dtype=int).reshape(-1, 2)
    if tracks.ndim != 4 or tracks.shape[1:3] != (2, len(nodes)) or not tracks.size:
        raise InputError(
            f'{path}: "tracks" has the shape {tracks.shape}, not (tracks, 2, {len(nodes)} nodes, frames):'
            " export it from SLEAP as an analysis file."
        )
    if scores is not None and scores.shape != (tracks.shape[0], *tracks.shape[2:]):
        raise InputError(f'{path}: "point_scores" of shape {scores.shape} does not fit "tracks" of {tracks.shape}.')
    if np.isinf(tracks).any():
        raise InputError(f'{path}: "tracks" holds infinite values.')
    parents = _parents(path, edges, len(nodes))
    names = names if len(names) == len(tracks) else tuple(f"track-{i}" for i in range(len(tracks)))
    frames = np.arange(tracks.shape[3])
    return [
        Track(name, nodes, ("x", "y"), frames, one.transpose(2, 1, 0), None if scores is None else scores[i].T, parents)
        for i, (name, one) in enumerate(zip(names, tracks, strict=True))
    ]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    h5py = package("h5py", "HDF5 files")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except InputError:
        raise
    except Exception:  # damaged files fail in many ways
        raise InputError(f"{path} is not an HDF5 file that can be read.") from None


def _strings(dataset: Any) -> tuple[str, ...]:
    return tuple(one.decode() if isinstance(one, bytes) else str(one) for one in np.asarray(dataset).ravel().tolist())


def _parents(path: Path, edges: Int[np.ndarray, "E 2"], count: int) -> tuple[int, ...]:
    """Which node each hangs on: the first edge into it that closes no circle."""
    parents = [-1] * count
    for parent, child in edges.tolist():
        if not (0 <= parent < count and 0 <= child < count):
            raise InputError(f'{path}: "edge_inds" speaks of node {max(parent, child)} where there are {count}.')
        above = parent
        while above >= 0 and above != child:
            above = parents[above]
        if parents[child] < 0 and above < 0:
            parents[child] = parent
    return tuple(parents)
