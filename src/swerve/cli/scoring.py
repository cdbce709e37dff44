"""The command `evaluate`: labels of recordings beside their true regimes."""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from swerve.choosing.scores import score
from swerve.cli import display
from swerve.cli.reading import takes_reading
from swerve.data import tables
from swerve.data.reading import Choices, Reading
from swerve.errors import InputError
from swerve.report import export


@takes_reading("sequence_column", "label_column", "columns", "key")
def evaluate(
    labels: Annotated[Path, typer.Argument(help="CSV of labels, or a folder written by `swerve segment`.")],
    truth: Annotated[Path, typer.Argument(help="CSV or NPZ with the true regimes of recordings of the same names.")],
    partial: Annotated[
        bool, typer.Option("--partial", help="Score the recordings that have labels, though others have none.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    *,
    given: Choices,
) -> None:
    """Scores a segmentation against the truth: frame F1, switch F1, NMI, ARI (docs/scores.md).

    True regimes are in the column (or NPZ array) `s`, unless `--label-column` says otherwise.
    """
    reading = Reading(label_column="s").but(**{"label_column": "s", **given})
    true = {one.name: one.s for one in tables.read(truth, reading)}
    predicted = _read_labels(labels)
    pairs = _pair(predicted, true, truth, partial)
    scores = score([p for p, _ in pairs], [t for _, t in pairs]).as_dict()
    if as_json:
        print(json.dumps(scores, indent=2))
    else:
        display.print_scores({str(labels): scores}, f"{len(pairs)} recordings, percent")


def _read_labels(path: Path) -> dict[str, np.ndarray]:
    files = [file for file in path.glob("*.csv") if file.name != export.SEGMENTS] if path.is_dir() else [path]
    try:
        found = tables.read(sorted(files), Reading(columns=("regime",)))
    except InputError as error:
        raise InputError(f"{error} Labels are a file or folder written by swerve segment.") from None
    return {one.name: one.x[:, 0].astype(int) for one in found}


def _pair(predicted: dict[str, np.ndarray], true: dict[str, np.ndarray | None], where: Path, partial: bool):
    if len(predicted) == len(true) == 1:
        true = dict(zip(predicted, true.values(), strict=True))
    true = {export.file_name(name): labels for name, labels in true.items()}  # `swerve segment` names its files so
    pairs = []
    for name, labels in predicted.items():
        truth = true.get(export.file_name(name))
        if truth is None:
            raise InputError(f"{where} has no true regimes for the recording '{name}'.")
        if len(truth) != len(labels):
            raise InputError(f"'{name}' has {len(labels)} labels but {len(truth)} true ones.")
        pairs.append((labels, truth))
    left_out = len(set(true) - {export.file_name(name) for name in predicted})
    if left_out and not partial:
        raise InputError(f"{left_out} recordings of {where} have no labels: give them too, or --partial.")
    if not any((truth >= 0).any() for _, truth in pairs):
        raise InputError(f"{where} has no frame whose true regime is known.")
    return pairs
