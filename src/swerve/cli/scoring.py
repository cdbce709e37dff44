"""The command `evaluate`: labels of recordings beside their true regimes."""

import json
from pathlib import Path
from typing import Annotated

import typer

from swerve.cli.reading import takes_reading
from swerve.data.reading import Choices, Reading


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

    Example: `swerve evaluate labels walk1.csv`, where `swerve segment` has written `labels`. True regimes are in the
    column (or NPZ array) `s`, unless `--label-column` says otherwise.
    """
    from swerve.choosing.scores import score
    from swerve.cli import display
    from swerve.cli.labels import pair, read_labels
    from swerve.data import tables

    reading = Reading(label_column="s").but(**{"label_column": "s", **given})
    true = {one.name: one.s for one in tables.read(truth, reading)}
    pairs = pair(read_labels(labels), true, truth, partial)
    scores = score([p for p, _ in pairs], [t for _, t in pairs]).as_dict()
    if as_json:
        print(json.dumps(scores, indent=2))
    else:
        display.print_scores({str(labels): scores}, f"{len(pairs)} recordings, percent")
