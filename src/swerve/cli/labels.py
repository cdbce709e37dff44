"""Labels in files, beside the true ones."""

from pathlib import Path

import numpy as np

from swerve.data import tables
from swerve.data.reading import Reading
from swerve.errors import InputError
from swerve.report import export


def read_labels(path: Path) -> dict[str, np.ndarray]:
    """Regimes by the name of the recording, as `swerve segment` writes them."""
    files = [file for file in path.glob("*.csv") if file.name != export.SEGMENTS] if path.is_dir() else [path]
    try:
        found = tables.read(sorted(files), Reading(columns=("regime",)))
    except InputError as error:
        raise InputError(f"{error} Labels are a file or folder written by swerve segment.") from None
    return {one.name: one.x[:, 0].astype(int) for one in found}


def pair(predicted: dict[str, np.ndarray], true: dict[str, np.ndarray | None], where: Path, partial: bool):
    """(labels, true ones) of every recording that has both."""
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
