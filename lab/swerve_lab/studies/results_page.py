"""Writes the tables and figures of docs/results.md, and the summary in README.md, from what is stored.

    python -m swerve_lab.studies.results_page [--check]

All from <!-- KIND: NAME --> to <!-- end --> is written by this script, the rest by people. KIND is figure or one of
WRITERS: table, recordings, robustness, choosing, time, decoding, models (of a board) or summary (of a model).
With --check nothing is written, and a page that is out of date is an error.
"""

import argparse
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from swerve.data.columns import names_of
from swerve.runs import loading
from swerve.settings.text import from_dict
from swerve.views.codes import code_names
from swerve_lab.boards import catalog as boards
from swerve_lab.experiments import tables as results
from swerve_lab.experiments.rows import UNTRAINED, read_row, settings_then, was_edited

EXPERIMENTS = Path("experiments")
DOCS = EXPERIMENTS.parent / "docs"
PAGES = (DOCS / "results.md", DOCS / "models.md", DOCS / "choosing-regimes.md", EXPERIMENTS.parent / "README.md")
KINDS = "table|figure|summary|time|decoding|models|recordings|robustness|choosing"
BLOCK = re.compile(rf"(<!-- ({KINDS}): (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
HEADINGS = (
    *("row", "what it is", "frame F1", "switch F1, exact", "switch F1, ±5"),
    *("success", "right K", "runs", "minutes", "hardware", "commit"),
)
SUMMARY_HEADINGS = ("board", "frame F1", "switch F1, exact", "switch F1, ±5", "one restart", "AR-HMM, frame F1")
PAPER_SCORES = ("frame_f1", "switch_f1_tol0")
MODEL_HEADINGS = (
    *("model", "frame F1", "switch F1, exact", "switch F1, ±5"),
    *("the paper's frame F1", "and switch F1", "parameters", "minutes", "hardware"),
)
RECORDING_SCORES = {"frame_f1": "accuracy", "nmi": "NMI", "ari": "ARI", "switch_f1_tol5": "switch F1, ±5"}
DIVERGED, OTHER_SETTINGS = "diverged", "run with other settings than it has now"

Stored = Mapping[str, Any]


def written(page: str, experiments: Path, docs: Path) -> str:
    """The page with all its blocks as they should be."""

    def block(match: re.Match) -> str:
        begin, kind, name, end = match.groups()
        if kind == "figure":
            return f"{begin}\n{figure(name, experiments, docs)}\n\n{end}"
        return f"{begin}\n{WRITERS[kind](name, experiments)}\n\n{end}"

    return BLOCK.sub(block, page)


def table(name: str, experiments: Path) -> str:
    """A board's rows, or those of an experiment that is not about one board, between the target and the paper's."""
    known = results.read_tables(experiments)
    paper = known.paper.get(name, {})
    lines = [target_cells(known.targets[name])] if name in known.targets else []
    for stored in rows_of(name, experiments / "results"):
        lines += row_cells(stored, paper)
    for model, numbers in paper.items():
        scores = [plus_minus(*numbers[score]) if score in numbers else "" for score in results.COLUMNS]
        lines.append([model, "the paper's", *scores])
    if not lines:
        return "No row has been run yet."
    full = [[*cells, *[""] * (len(HEADINGS) - len(cells))] for cells in lines]
    return as_markdown([HEADINGS, ["---", "---", *["---:"] * 7, "---", "---"], *full])


def summary(model: str, experiments: Path) -> str:
    """For every board with a target: the default recipe's scores, each with its target, and the best AR-HMM's."""
    lines = []
    for board, target in results.read_tables(experiments).targets.items():
        rows = list(rows_of(board, experiments / "results"))
        ours = [one for one in rows if one["model"] == model and one["config"]["recipe"]["name"] == "default"]
        chosen = next((one for one in ours if one["row"] != results.SINGLE), None)
        single = next((one for one in ours if one["row"] == results.SINGLE), None)
        peers = [one["scores"]["frame_f1"] for one in rows if one["model"] == "arhmm" and same_regimes(one, chosen)]
        scores = [
            "" if chosen is None else spread(chosen["scores"][score]) + _at_least(target, score)
            for score in results.COLUMNS
        ]
        rate = "" if single is None else f"{100 * single['success_rate']:.0f} %{_at_least(target, 'success_rate')}"
        best = spread(max(peers, key=lambda one: one["mean"])) if peers else ""
        lines.append([board, *scores, rate, best])
    return as_markdown([SUMMARY_HEADINGS, ["---", *["---:"] * 5], *lines])


def models(board: str, experiments: Path) -> str:
    """The default row of every model side by side, beside the paper's numbers."""
    paper = results.read_tables(experiments).paper.get(board, {})
    lines = []
    for stored in rows_of(board, experiments / "results"):
        model = stored["model"]
        if stored["row"] == results.SINGLE or stored["config"]["recipe"]["name"] != "default":
            continue
        theirs = [plus_minus(*paper[model][s]) if s in paper.get(model, {}) else "" for s in PAPER_SCORES]
        _, _, _, minutes, device, _ = run_cells(stored)
        counted = f"{parameters(stored):,}" if model not in UNTRAINED else ""
        lines.append([f"`{stored['file']}`", *score_cells(stored["scores"]), *theirs, counted, minutes, device])
    if not lines:
        return "No row has been run yet."
    return as_markdown([MODEL_HEADINGS, ["---", *["---:"] * 7, "---"], *lines])


def parameters(stored: Stored) -> int:
    """How many numbers a run's model file holds."""
    config, board = from_dict(settings_then(stored)), boards.find(stored["board"]).generate(1, seed=0)
    series = board.series()[0]
    coded = series.image is not None and config.kind == "arhmm"  # it reads the code of an image
    columns = code_names(config.code_size) if coded else names_of(series)
    chosen = {name: stored["details"][0].get(name) for name in ("lags", "features")}
    about = {"columns": columns, "controls": 0, "image": None if coded else series.image, **chosen}
    return sum(leaf.size for leaf in jax.tree.leaves(loading.blank_model(config, about)))


def time_to_paper(name: str, experiments: Path) -> str:
    """How long the rows of an experiment took to the paper's frame F1."""
    paper = results.read_tables(experiments).paper
    told = [
        (one, results.time_to_paper(one, paper.get(one["board"], {}))) for one in rows_of(name, experiments / "results")
    ]
    lines = [f"- `{name}/{one['file']}` ({one['commit'][:7]}): {words}." for one, words in told if words is not None]
    return "\n".join(lines) or "No row has been run yet."


def decoding(name: str, experiments: Path) -> str:
    """What swerve_lab.studies.decoding found: frame F1 / exact / ±5 by the way of decoding."""
    found = [json.loads(path.read_text()) for path in sorted((experiments / "results" / name).glob("*.json"))]
    if not found:
        return "No row has been decoded yet."
    ways = list(found[0]["decoded"])
    lines = [
        [
            f"`{one['row']}` ({one['commit_of_row'][:7]})",
            *(" / ".join(f"{value:.1f}" for value in one["decoded"][way].values()) for way in ways),
            f"{one['late']['median']:+g}",
            f"{one['log_weight_sd']:.1f}",
        ]
        for one in found
    ]
    headings = ["row", *ways, "median delay, frames", "spread of log weights"]
    return as_markdown([headings, ["---", *["---:"] * (len(headings) - 1)], *lines])


def recordings(name: str, experiments: Path) -> str:
    """Rows about recordings of the world: scores against labels that people gave, the best row first."""
    rows = sorted(rows_of(name, experiments / "results"), key=lambda one: -one["scores"]["nmi"]["mean"])
    if not rows:
        return "No row has been run yet."
    lines = []
    for stored in rows:
        what = f"{stored['model']}, {stored['row']}{'; ' + OTHER_SETTINGS if stored['outdated'] else ''}"
        scores = [spread(stored["scores"][score]) for score in RECORDING_SCORES]
        _, _, runs, minutes, device, commit = run_cells(stored)
        lines.append([f"`{stored['file']}`", what.replace("|", "\\|"), *scores, runs, minutes, device, commit])
    headings = ("row", "what it is", *RECORDING_SCORES.values(), "fits", "minutes", "hardware", "commit")
    return as_markdown([headings, ["---", "---", *["---:"] * 6, "---", "---"], *lines])


def robustness(name: str, experiments: Path) -> str:
    """Every row NAME-damaged beside NAME-complete: by how much each fit's accuracy drops, fit by fit."""
    stored = {one["file"]: one for one in rows_of(name, experiments / "results")}
    lines = []
    for file, damaged in stored.items():
        complete = stored.get(file.replace("-damaged", "-complete"))
        if not file.endswith("-damaged") or complete is None:
            continue
        before, after = (one["scores"]["frame_f1"] for one in (complete, damaged))
        drops = np.subtract(before["runs"], after["runs"])
        lost = damaged["experiment"]
        lines.append(
            [
                damaged["board"],
                damaged["model"],
                f"{100 * lost['missing_frames']:g} % of frames, {100 * lost['missing_cells']:g} % of cells",
                spread(before),
                spread(after),
                plus_minus(float(drops.mean()), float(drops.std(ddof=1)) if len(drops) > 1 else None),
                commits(damaged),
            ]
        )
    if not lines:
        return "No pair of rows has been run yet."
    headings = ("recordings", "model", "taken away", "accuracy, complete", "damaged", "drop", "commit")
    return as_markdown([headings, ["---", "---", "---", "---:", "---:", "---:", "---"], *lines])


def choosing(name: str, experiments: Path) -> str:
    """What swerve_lab.studies.choosing found: the numbers chosen on every draw of a board, by the models asked."""
    found = [json.loads(path.read_text()) for path in sorted((experiments / "results" / name).glob("*-choices.json"))]
    if not found:
        return "No board has been searched yet."
    asked = list(dict.fromkeys(model for one in found for model in one["choices"]))
    lines = []
    for one in found:
        chosen = {model: [choice["regimes"] for choice in choices] for model, choices in one["choices"].items()}
        cells = [
            f"{one['right'][model]} of {len(chosen[model])} ({' '.join(map(str, chosen[model]))})"
            if model in chosen
            else "not run"
            for model in asked
        ]
        searched = ", ".join(dict.fromkeys(commit[:7] for commit in one["commits"].values()))
        lines.append([one["board"], str(one["true_regimes"]), *cells, searched])
    headings = ("board", "true", *(f"`{model}`" for model in asked), "commit")
    return as_markdown([headings, ["---", "---:", *["---"] * len(asked), "---"], *lines])


WRITERS = {
    "choosing": choosing,
    "table": table,
    "summary": summary,
    "time": time_to_paper,
    "decoding": decoding,
    "models": models,
    "recordings": recordings,
    "robustness": robustness,
}


def same_regimes(one: Stored, other: Stored | None) -> bool:
    return other is None or one["config"]["model"]["regimes"] == other["config"]["model"]["regimes"]


def _at_least(target: Mapping[str, float], score: str) -> str:
    return f" (≥ {target[score]:g})" if score in target else ""


def as_markdown(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def rows_of(name: str, folder: Path) -> Iterator[Stored]:
    for rows in sorted(path for path in folder.glob("*") if path.is_dir()):
        for stored in sorted(results.read_stored(rows), key=lambda one: one["file"]):
            about_the_board = stored.get("board") == name and name.startswith(rows.name)
            if rows.name == name or about_the_board:
                yield {**stored, "outdated": outdated(stored, folder.parent / rows.name)}


def outdated(stored: Stored, rows: Path) -> bool:
    """Whether a row has other settings now than when it was run."""
    path = rows / f"{stored['file'].removesuffix('-one-restart')}.toml"
    return path.is_file() and was_edited(stored, *read_row(path))


def target_cells(target: Mapping[str, float]) -> list[str]:
    scores = [f"≥ {target[score]:.1f}" if score in target else "" for score in results.COLUMNS]
    return [
        "**target**",
        "to be reached",
        *scores,
        f"≥ {target['success_rate']:.0f} %" if "success_rate" in target else "",
    ]


def row_cells(stored: Stored, paper: Mapping[str, Any]) -> Iterator[list[str]]:
    """The row, and where they differ or the paper has it: before merging, and merged with the help of labels."""
    scores, name = stored["scores"], f"`{stored['file']}`"
    what = f"{stored['model']}, {stored['row']}{'; ' + OTHER_SETTINGS if stored['outdated'] else ''}"
    yield [name, what.replace("|", "\\|"), *score_cells(scores), *run_cells(stored)]
    before = stored.get("scores_before_merging", scores)
    if score_cells(before) != score_cells(scores):
        yield [name, results.EXPLAINED[results.RAW], *score_cells(before)]
    if f"{stored['model']}-merged" in paper:
        merged = {score: scores[other] for score, other in results.MERGED.items() if other in scores}
        yield [name, results.EXPLAINED[results.ORACLE], *score_cells(merged)]


def score_cells(scores: Mapping[str, Any]) -> list[str]:
    return [spread(scores[score]) if score in scores else "" for score in results.COLUMNS]


def spread(score: Mapping[str, Any]) -> str:
    if score["mean"] is None:
        return DIVERGED
    return plus_minus(score["mean"], *([score["sd"]] if len(score["runs"]) > 1 else []))


def plus_minus(mean: float, sd: float | None = None) -> str:
    return f"{mean:.1f}" if sd is None else f"{mean:.1f} ± {sd:.1f}"


def run_cells(stored: Stored) -> list[str]:
    """Success, runs with the right number of regimes, runs, minutes, hardware, commit."""
    rate, runs = stored.get("success_rate"), stored["scores"]["frame_f1"]["runs"]
    scored = sum(run is not None for run in runs)
    training = stored["details"][0]
    seconds = training.get("training_seconds", stored["wall_seconds"])
    device = training.get("trained_on", stored["hardware"]).split(": ")[-1]
    return [
        "" if rate is None else f"{100 * rate:.0f} %",
        right_number(stored.get("regimes", {"found": []})),
        f"{scored}" if scored == len(runs) else f"{scored} of {len(runs)}",
        f"{seconds / 60:.1f}",
        device.upper() if device == "cpu" else device,
        commits(stored),
    ]


def commits(stored: Stored) -> str:
    """That of training, and that of merging and labelling where it is another and known."""
    trained, finished = (stored.get(key, "unknown")[:7] for key in ("commit", "finished_commit"))
    return trained if finished in (trained, "unknown") else f"{trained}, {finished}"


def right_number(regimes: Mapping[str, Any]) -> str:
    """In how many runs as many regimes occur as there are true ones; a run that diverged has none."""
    found = regimes["found"]
    return f"{found.count(regimes['true'])} of {len(found)}" if any(found) else ""


def figure(name: str, experiments: Path, docs: Path) -> str:
    """A picture of docs/images, or, with a slash in its name, one that lies beside the results."""
    picture = (experiments / "results" if "/" in name else docs / "images") / f"{name}.png"
    if not picture.is_file():
        return "Not drawn yet."
    image = f"![{name}]({Path(os.path.relpath(picture, docs)).as_posix()})"
    about = picture.with_suffix(".json")
    return f"{image}\n\n{caption(name, json.loads(about.read_text()))}" if about.is_file() else image


def caption(name: str, about: Stored) -> str:
    rows = about.get("rows", {name: about})
    made_from = ", ".join(f"`{row}` (commit {one['commit'][:7]})" for row, one in rows.items())
    sequences = ", ".join(map(str, about.get("sequences", ())))
    return f"*Drawn from {made_from}{f'; test sequences {sequences}' if sequences else ''}.*"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    check = parser.parse_args().check
    for page in PAGES:
        now = page.read_text()
        new = written(now, EXPERIMENTS, DOCS)
        if check and new != now:
            parser.exit(1, f"{page.name} is out of date: run python -m swerve_lab.studies.results_page\n")
        if new != now:
            page.write_text(new)


if __name__ == "__main__":
    main()
