"""What is kept of a fitted run, of the files it leaves and of what the command line prints: JSON values alone."""

import csv
import dataclasses
import hashlib
import io
import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

import swerve

MOST_STRETCHES = 40  # of labels that are written out
TIMES = ("seconds", "elapsed", "hardware")
SILENT = ("script", "style", "title")
PROGRESS = re.compile(r"steps/s|^training|^segmenting|^fitting|of training to go")


def picked(values: Any, count: int = 24) -> dict[str, Any]:
    """Shape, mean, and a few numbers from all over an array."""
    array = np.asarray(values, float)
    at = np.unique(np.linspace(0, array.size - 1, min(count, array.size)).astype(int))
    mean = float(array[np.isfinite(array)].mean()) if np.isfinite(array).any() else None
    return {"shape": list(array.shape), "mean": mean, "at": [_finite(one) for one in array.ravel()[at].tolist()]}


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def stretches(labels: Any) -> dict[str, Any]:
    """Labels as stretches of one regime; where there are many, their counts and a digest."""
    labels = np.asarray(labels)
    found = [(int(k), len(list(same))) for k, same in groupby(labels.tolist())]
    if len(found) <= MOST_STRETCHES:
        return {"stretches": " ".join(f"{k}x{frames}" for k, frames in found)}
    counts = {str(k): int((labels == k).sum()) for k in np.unique(labels)}
    digest = hashlib.sha256(labels.astype(np.int64).tobytes()).hexdigest()
    return {"frames": len(labels), "stretches": len(found), "counts": counts, "digest": digest}


def segmented(found: Sequence[Any]) -> dict[str, Any]:
    """Labels of all recordings, some of their probabilities, and the agreement of a consensus."""
    kept: dict[str, Any] = {
        "labels": {one.name: stretches(one.labels) for one in found},
        "probabilities": picked(np.concatenate([one.probabilities for one in found])),
    }
    if getattr(found[0], "agreement", None) is not None:
        kept["agreement"] = picked(np.concatenate([one.agreement for one in found]))
    return kept


def run_numbers(run: Any, series: Sequence[Any], *, controls: Any = None) -> dict[str, Any]:
    """All that a run says of itself and of these recordings, and what it makes up where it can."""
    inferred = run.infer(series)
    kept = {
        "held_out": float(run.held_out),
        "score": float(run.score(series)),
        "chosen": int(run.chosen),
        "finished": run.finished,
        "columns": list(run.columns)[:10],
        "names": list(run.names),
        "settings": changed_settings(run.config),
        "trust": plain(run.trust.as_dict()),
        "selection": plain(run.selection),
        "history": history_of(run),
        "inferred": segmented(inferred),
        "expected": picked(np.concatenate([one.expected for one in inferred])),
        "viterbi": {one.name: stretches(one.labels) for one in run.segment(series[:2], viterbi=True)},
    }
    if run.config.kind in ("snlds", "slds"):
        kept["states"] = picked(np.concatenate(run.transform(series[:2])))
    if run.config.kind in ("snlds", "slds", "arhmm"):
        kept |= made_up(run, series, controls)
    if run.others is not None:
        kept["consensus"] = segmented(run.consensus(series[:2]))
    return kept


def made_up(run: Any, series: Sequence[Any], controls: Any) -> dict[str, Any]:
    """Drawn recordings, and how two of those that are known go on; or why not."""
    try:
        drawn = run.sample(12, 2, seed=3, controls=controls)
        ahead = run.forecast(series[:2], 12, samples=20, seed=4, controls=controls)
    except swerve.InputError as error:
        return {"refusal": str(error)}
    return {
        "sample": [{"x": picked(one.x), **stretches(one.s)} for one in drawn],
        "forecast": [{"p": picked(one.probabilities), "x": picked(one.quantiles)} for one in ahead],
    }


def history_of(run: Any) -> dict[str, Any] | None:
    """The last point of all curves, and what happened on the way."""
    if run.history is None:
        return None
    kept = {name: value for name, value in dataclasses.asdict(run.history).items() if name not in TIMES}
    curves = ("step", "retired", "merges", "skipped")
    return plain({name: value if name in curves else value[-1:] for name, value in kept.items()})


def changed_settings(config: Any) -> dict[str, Any]:
    """The settings that are not as they always are."""
    return {
        name: value
        for name, value in flat(dataclasses.asdict(config)).items()
        if not name.startswith("own") and value != flat(dataclasses.asdict(type(config)())).get(name)
    }


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Every leaf under its path."""
    if isinstance(value, Mapping):
        items = [(str(key), one) for key, one in value.items()]
    elif isinstance(value, list | tuple):
        items = [(str(i), one) for i, one in enumerate(value)]
    else:
        return {name: value}
    if not items:
        return {name: "empty"}
    return {path: leaf for key, one in items for path, leaf in flat(one, f"{name}/{key}" if name else key).items()}


def plain(value: Any) -> Any:
    """JSON values, without how long anything took."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items() if key not in TIMES}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def folder_files(folder: Path) -> list[str]:
    """Which files lie in a folder, at any depth."""
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def tensors(path: Path) -> dict[str, Any]:
    """Name, type and shape of every array of a safetensors file, and the sum of all numbers of each."""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    header.pop("__metadata__", None)
    kept = {}
    for name, about in sorted(header.items()):
        begin, end = (8 + size + at for at in about["data_offsets"])
        kind = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "BOOL": "?", "U32": "<u4"}[about["dtype"]]
        total = float(np.frombuffer(content[begin:end], kind).astype(float).sum())
        kept[name] = [about["dtype"], about["shape"], total]
    return kept


def exported(folder: Path) -> dict[str, Any]:
    """Every file's digest, which only an exact comparison looks at; of texts, some of the lines cell by cell."""
    return {name: _exported(folder / name) for name in folder_files(folder)}


def _exported(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    kept: dict[str, Any] = {"sha256": hashlib.sha256(content).hexdigest()}
    if path.suffix == ".json":
        return kept | {"content": json.loads(content)}
    if path.suffix not in (".csv", ".txt"):
        return kept
    rows = list(csv.reader(io.StringIO(content.decode()), delimiter="," if path.suffix == ".csv" else "\t"))
    some = rows[:2] + rows[2 :: max(1, len(rows) // 6)]
    return kept | {"lines": len(rows), "some": [[_number(cell) for cell in row] for row in some]}


def _number(cell: str) -> Any:
    try:
        return float(cell)
    except ValueError:
        return cell


def printed(output: str) -> list[str]:
    """The lines of the terminal that do not tell how far something has come."""
    lines = [re.sub(r"\s+", " ", line).strip() for line in output.splitlines()]
    return [line for line in lines if line and not PROGRESS.search(line)]


class _Visible(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.silent = 0
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.silent += tag in SILENT

    def handle_endtag(self, tag: str) -> None:
        self.silent -= tag in SILENT

    def handle_data(self, data: str) -> None:
        text = re.sub(r"\s+", " ", data).strip()
        if text and not self.silent:
            self.texts.append(text)


def visible(page: Path) -> list[Any]:
    """The texts of a page that a reader sees, in order; numbers as numbers."""
    reader = _Visible()
    reader.feed(page.read_text(encoding="utf-8"))
    return [_number(text) for text in reader.texts]
