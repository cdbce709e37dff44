"""Stored results: which belong to a table, how they print beside the paper's numbers, and figures of curves."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from scipy.stats import rankdata

from swerve.cli.console import console
from swerve.data.trees import read_json
from swerve.errors import InputError
from swerve_lab.boards.published import PUBLISHED
from swerve_lab.experiments import curves
from swerve_lab.experiments.rows import NOT_REAL

TABLES_FILE, PICTURE = "tables.toml", "curves.png"
SINGLE = "one restart at the recipe's central values"
RAW, ORACLE, THEIRS = "(raw)", "(oracle)", "(paper)"
EXPLAINED = {
    RAW: "before surplus regimes were merged and, of video, before the steps on images",
    ORACLE: "each regime joined to the true one it fits best, as the paper's merging does; never counts",
    THEIRS: "a model of the paper that has no row here",
}
COLUMNS = {"frame_f1": "frames", "switch_f1_tol0": "exact", "switch_f1_tol5": "±5"}
"""F1 of frames, and of switches without and with a tolerance of 5 frames."""
MERGED = {
    "frame_f1": "accuracy_merged",
    "switch_f1_tol0": "switch_f1_tol0_merged",
    "switch_f1_tol5": "switch_f1_tol5_merged",
}
"""Scores after each of a model's regimes was joined to the true one it fits best."""

LEGEND = (
    "Mean ± sd over runs: frames, and switches found exactly or within ±5 frames.",
    "rho: rank correlation of held-out bound and frame F1 over restarts.",
)

Numbers = Mapping[str, Sequence[float]]
Stored = Mapping[str, Any]


@dataclass(frozen=True)
class Tables:
    """Which folders make a table of the paper, the paper's numbers, and what is to be reached; all in percent."""

    tables: Mapping[str, Sequence[str]] = field(default_factory=dict)
    paper: Mapping[str, Mapping[str, Numbers]] = field(default_factory=dict)
    """Board -> model -> score -> mean (and sd)."""
    targets: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Board -> score, or success rate -> at least this."""


def read_tables(experiments: Path) -> Tables:
    """What experiments/tables.toml says; without the file every folder stands for itself."""
    path = experiments / TABLES_FILE
    return Tables(**tomllib.loads(path.read_text())) if path.is_file() else Tables()


def folders(name: str, experiments: Path) -> list[Path]:
    """The folders of rows that a name stands for."""
    tables = read_tables(experiments).tables
    found = [experiments / one for one in tables.get(name, [name])]
    if not all(list(one.glob("*.toml")) for one in found):
        known = {*tables, *(path.parent.name for path in experiments.glob("*/*.toml"))}
        raise InputError(
            f"There is no experiment '{name}' in {experiments}; there are: {', '.join(sorted(known)) or 'none'}."
        )
    return found


def print_tables(name: str, stored: Sequence[Stored], tables: Tables) -> None:
    """A table per board: mean ± standard deviation over runs, in percent, and the paper's numbers beside them.

    A table of the paper ends with those of its models that Swerve has no row for.
    """
    for board in dict.fromkeys(one["board"] for one in stored):
        rows = [one for one in stored if one["board"] == board]
        paper = tables.paper.get(board, {})
        table = _board_table(f"{name}: {board}", rows, paper)
        ours = {one["model"] for one in rows}
        for model in [one for one in paper if name in tables.tables and one.removesuffix("-merged") not in ours]:
            table.add_row(f"{model} {THEIRS}", *_cells({}, paper[model], _told(paper)))
        console.print(table)
        _explain(rows, [str(cell) for cell in table.columns[0].cells], paper)


def _board_table(title: str, stored: Sequence[Stored], paper: Mapping[str, Numbers]) -> Table:
    quick = f" ({NOT_REAL})" if any("quick" in one for one in stored) else ""
    told = _told(paper)
    table = Table(title=f"{title}, F1 in percent{quick}", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("row", overflow="fold")
    for name, heading in COLUMNS.items():
        table.add_column(heading, justify="right", no_wrap=True)
        if name in told:
            table.add_column("paper's", justify="right", style="italic", no_wrap=True)
    more = {heading: [tell(one) for one in stored] for heading, tell in ONLY_WHERE_KNOWN.items()}
    more = {heading: cells for heading, cells in more.items() if any(cells)}
    for heading in more:
        table.add_column(heading, justify="right", no_wrap=True)
    for i, one in enumerate(stored):
        row = one["file"]
        cells = _cells(one["scores"], paper.get(one["model"], {}), told)
        table.add_row(row, *cells, *(known[i] for known in more.values()))
        before = one.get("scores_before_merging", one["scores"])
        if any(before[name] != one["scores"][name] for name in COLUMNS):
            table.add_row(f"{row} {RAW}", *_cells(before, {}, told))
        merged = f"{one['model']}-merged"
        if merged in paper:
            scores = {name: one["scores"][other] for name, other in MERGED.items() if other in one["scores"]}
            table.add_row(f"{row} {ORACLE}", *_cells(scores, paper[merged], told))
    return table


def _explain(stored: Sequence[Stored], rows: Sequence[str], paper: Mapping[str, Numbers]) -> None:
    """What the names of rows and columns stand for: a line each, where a column would be too narrow."""
    for line in LEGEND:
        console.print(f"  {line}", highlight=False)
    for one in stored:
        console.print(f"  [bold]{one['file']}[/]: {one['model']}, {one['row']}", highlight=False)
        reached = time_to_paper(one, paper)
        if reached is not None:
            console.print(f"    {reached}.", highlight=False)
    for mark, meaning in EXPLAINED.items():
        if any(mark in row for row in rows):
            console.print(f"  [bold]{mark}[/]: {meaning}", highlight=False)


def _told(paper: Mapping[str, Numbers]) -> list[str]:
    """The scores that the paper tells of a board."""
    return [name for name in COLUMNS if any(name in numbers for numbers in paper.values())]


def _cells(scores: Mapping[str, Any], paper: Numbers, told: Sequence[str]) -> list[str]:
    cells = []
    for name in COLUMNS:
        spread = scores.get(name)
        mean = None if spread is None else spread["mean"]
        sd = spread["sd"] if spread is not None and len(spread["runs"]) > 1 else None
        cells.append("" if mean is None else _plus_minus(mean, sd))
        if name in told:
            cells.append(_plus_minus(*paper[name]) if name in paper else "")
    return cells


def _plus_minus(mean: float, sd: float | None = None) -> str:
    return f"{mean:.1f}" if sd is None else f"{mean:.1f}±{sd:.1f}"


def _success(stored: Stored) -> str:
    rate = stored.get("success_rate")
    return "" if rate is None else f"{100 * rate:.0f} %"


def _rank(stored: Stored) -> str:
    if stored["row"] == SINGLE:
        return ""
    name = "bound_f1_rank_correlation"
    value = stored[name] if name in stored else rank_correlation(stored["details"])
    return "" if value is None else f"{value:.2f}"


def _nmi(stored: Stored) -> str:
    """Where people gave the labels, or turns stand in for them, agreement without a matching tells more."""
    spread = stored["scores"].get("nmi")
    return "" if spread is None or stored["board"] not in PUBLISHED else _plus_minus(spread["mean"], spread["sd"])


ONLY_WHERE_KNOWN = {"success": _success, "rho": _rank, "NMI": _nmi}


def rank_correlation(details: Sequence[Mapping[str, Any]]) -> float | None:
    """Spearman's rho between held-out bound and frame F1 over all restarts of the runs that had several.

    1 says that the bound orders restarts as the labels would. None where there is nothing to order.
    """
    several = [one["restarts"] for one in details if len(one.get("restarts", ())) > 1]
    bounds, scores = ([one[key] for restarts in several for one in restarts] for key in ("bound", "frame_f1"))
    if len(set(bounds)) < 2 or len(set(scores)) < 2:
        return None
    return round(float(np.corrcoef(rankdata(bounds), rankdata(scores))[0, 1]), 3)


def time_to_paper(stored: Stored, paper: Mapping[str, Numbers]) -> str | None:
    """How long the runs of a row took to the paper's frame F1, in words; None where that is not known."""
    curves_of_runs = [one["curve"] for one in stored["details"] if "curve" in one]
    theirs = paper.get(stored["model"], {}).get("frame_f1")
    if not (curves_of_runs and theirs):
        return None
    firsts = [next((p["step"] for p in curve if p["frame_f1"] >= theirs[0]), np.inf) for curve in curves_of_runs]
    share = f"{np.isfinite(firsts).sum()} of {len(firsts)} runs reach the paper's {theirs[0]:.1f} % of frames"
    middle = sorted(firsts)[len(firsts) // 2]
    if not np.isfinite(middle):
        return share
    seconds = stored["details"][0].get("elapsed", {}).get(str(middle))
    time = "" if seconds is None else f", {seconds:.0f} s of training and compiling all runs side by side"
    return f"{share}; the median run within {middle:,} steps{time}"


def read_stored(folder: Path) -> list[dict[str, Any]]:
    """The results in a folder, each with the name of its `file`."""
    found = [{"file": path.stem, **read_json(path)} for path in sorted(folder.glob("*.json"))]
    return [one for one in found if "scores" in one]


def draw_curves(folder: Path) -> Path | None:
    """Rows that kept their curves, in one picture beside them; None where there are none."""
    stored = [one for one in read_stored(folder) if any("curve" in detail for detail in one["details"])]
    if not stored:
        return None
    rows = {f"{one['file']}: {one['row']}": [d["curve"] for d in one["details"] if "curve" in d] for one in stored}
    quick = f" ({NOT_REAL})" if "quick" in stored[0] else ""
    curves.draw(rows, folder / PICTURE, title=f"{folder.name}, {stored[0]['board']}{quick}")
    return folder / PICTURE
