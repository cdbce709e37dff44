"""Puts a run into pictures and one page: the bridge between fitted models and the report room."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from swerve.alignment import Order
from swerve.data.columns import select_columns
from swerve.errors import InputError
from swerve.evaluation.matching import one_to_one, pooled_confusion
from swerve.evaluation.scores import score
from swerve.report import figures
from swerve.report.page import write_page
from swerve.run import Inferred, Run
from swerve.training.checkpoint import read_arrays, read_json, write_atomically
from swerve.training.loop import History
from swerve.types import Segmentation, Series

EXAMPLES_FILE = "examples.npz"
SCORES_FILE = "scores.json"
EXAMPLES = 6
EXAMPLE_FRAMES = 5000
CURVE_RECORDINGS = 200
SHOWN_SCORES = ("frame_f1", "switch_f1_tol0", "switch_f1_tol5", "nmi", "ari")


class FrameF1Curve:
    """Frame F1 of the best restart at every look: drawn, and used for nothing else. Empty without true regimes."""

    def __init__(self, series: Sequence[Series]):
        self.series = [one for one in series if one.s is not None][:CURVE_RECORDINGS]
        self.values: list[float] = []

    def look(self, run: Run) -> None:
        """One more point."""
        if self.series:
            self.values.append(score_run(run, self.series, samples=1)["frame_f1"])


def score_run(run: Run, series: Sequence[Series], **options: Any) -> dict[str, float]:
    """Scores of recordings whose true regimes are known."""
    truth = [one.s for one in series if one.s is not None]
    return score([one.labels for one in run.segment(series, **options)], truth).as_dict()


def load_scores(folder: Path) -> tuple[dict[str, dict[str, float]] | None, list[float] | None]:
    """The rows of scores and the curve that a run with known truth keeps; None where there are none."""
    path = folder / SCORES_FILE
    stored = read_json(path) if path.is_file() else {}
    return stored.get("rows"), stored.get("frame_f1_curve")


def save_examples(folder: Path, series: Sequence[Series], inferred: Sequence[Inferred]) -> None:
    """Keeps a few recordings with their regimes, so that a report can be drawn from the folder alone."""
    arrays: dict[str, np.ndarray] = {}
    for i, (one, found) in enumerate(zip(series[:EXAMPLES], inferred, strict=False)):
        parts = {
            "x": one.x,
            "labels": found.segmentation.labels,
            "probabilities": found.segmentation.probabilities,
            "expected": found.expected,
        }
        if one.s is not None:
            parts["truth"] = one.s
        arrays |= {f"{i}.{name}": part[:EXAMPLE_FRAMES] for name, part in parts.items()}
        arrays[f"{i}.name"] = np.array(one.name)
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # pyright: ignore[reportArgumentType]
    write_atomically(folder / EXAMPLES_FILE, content.getvalue())


def load_examples(folder: Path, columns: tuple[str, ...]) -> tuple[list[Series], list[Inferred]]:
    """The inverse of saving them."""
    path = folder / EXAMPLES_FILE
    if not path.is_file():
        raise InputError(f"{folder} has no examples to draw: name the recordings, as in swerve report RUN DATA.")
    series, inferred = [], []
    stored = read_arrays(path)
    for i in range(EXAMPLES):
        if f"{i}.x" not in stored:
            break
        truth = stored.get(f"{i}.truth")
        name = str(stored[f"{i}.name"])
        series.append(Series(stored[f"{i}.x"], s=truth, name=name, columns=columns))
        found = Segmentation(stored[f"{i}.labels"], stored[f"{i}.probabilities"], name)
        inferred.append(Inferred(found, stored[f"{i}.expected"]))
    return series, inferred


def write_report(
    folder: Path,
    run: Run,
    series: Sequence[Series],
    inferred: Sequence[Inferred],
    *,
    scores: Mapping[str, Mapping[str, float]] | None = None,
    frame_f1: Sequence[float] | None = None,
    title: str = "Swerve report",
) -> Path:
    """Figures as PNG files under `folder`/figures and one page that holds them all."""
    drawn: list[tuple[str, str, Figure]] = []
    series = select_columns(series, run.columns)
    truth = _matched_truth(series, inferred)
    if scores:
        bars = {name: {k: row[k] / 100 for k in SHOWN_SCORES if k in row} for name, row in scores.items()}
        drawn.append(("scores", "Scores of every model beside the oracle", figures.score_bars(bars)))
    for i, (one, found) in enumerate(zip(series[:EXAMPLES], inferred, strict=False)):
        drawn.append((f"regimes-{i}", f"Regimes of {one.name}", _ribbon(run, one, found, truth[i])))
    if series:
        one, found = series[0], inferred[0]
        marginals = figures.marginals_beside_truth(
            {run.config.kind: found.segmentation.probabilities}, truth[0], title=one.name
        )
        drawn.append(("marginals", f"Posterior marginals of {one.name}", marginals))
        rebuilt = _rebuilt(run, one, found)
        drawn.append(("reconstruction", f"{one.name}, observed and as the model expects it", rebuilt))
        cards = figures.regime_cards([f.segmentation.labels for f in inferred], run.regimes, names=run.names)
        drawn.append(("cards", "Share, durations and successors of every regime", cards))
    if run.history is not None:
        curves = figures.training_curves(as_figure_history(run.history, run.chosen, frame_f1))
        drawn.append(("training", "Training: the held-out bound of every restart", curves))
    paths = [(caption, figures.save(figure, folder / "figures" / f"{name}.png")) for name, caption, figure in drawn]
    table = None
    if scores:
        table = {m: {k: f"{row[k]:.1f}" for k in SHOWN_SCORES if k in row} for m, row in scores.items()}
    return write_page(
        folder / "report.html",
        title=title,
        summary=summary(run, inferred),
        warnings=warnings(run, inferred),
        scores=table,
        figures=paths,
        config_text=json.dumps(asdict(run.config), indent=2),
    )


def summary(run: Run, inferred: Sequence[Inferred]) -> list[tuple[str, str]]:
    """The few facts a person asks for first."""
    labels = [found.segmentation.labels for found in inferred]
    segments = sum(1 + len(found.segmentation.change_points) for found in inferred)
    frames = sum(map(len, labels))
    used = len(np.unique(np.concatenate(labels))) if labels else 0
    return [
        ("model", run.config.kind),
        ("held-out bound" if run.history else "held-out likelihood", f"{run.held_out:.3f} nats per frame"),
        *((("restart chosen", f"{run.chosen} of {run.config.training.restarts}"),) if run.history else ()),
        *((("regimes merged", _merges(run.history.merges, run.order)),) if run.history and run.history.merges else ()),
        ("recordings shown", f"{len(labels)} ({frames} frames)"),
        ("regimes in them", f"{used} of {run.regimes}"),
        *((("aligned to", f"{run.aligned.to}: {run.aligned.agreement}"),) if run.aligned else ()),
        ("mean duration", f"{frames / max(segments, 1):.1f} frames"),
    ]


def _merges(merges: Sequence[Mapping[str, Any]], order: Order) -> str:
    """Which regimes went into which others, by the numbers they have now, and what the next merge would have cost."""
    done = [f"{order.index(one['dropped'])} into {order.index(one['kept'])}" for one in merges if one["accepted"]]
    last = merges[-1]
    cost = "" if last["accepted"] else f" (one more would cost {-last['change']:.3f} nats per frame)"
    return f"{', '.join(done) or 'none'}{cost}"


def warnings(run: Run, inferred: Sequence[Inferred]) -> list[str]:
    """What may be wrong with this fit, in plain words, each with its remedy."""
    found = []
    labels = [one.segmentation.labels for one in inferred]
    if not run.finished:
        found.append("Training was stopped early: go on with --resume.")
    if run.dropped:
        found.append(f"These columns never change and were left out: {', '.join(run.dropped)}.")
    if run.aligned is not None:
        found += [f"Since {run.aligned.to}: {words}." for words in run.aligned.doubts]
    if labels and run.regimes > 1:
        share = np.bincount(np.concatenate(labels), minlength=run.regimes) / sum(map(len, labels))
        if share.max() > 0.98:
            found.append("One regime holds nearly every frame: try more --restarts or a lower --regimes.")
        segments = sum(1 + len(one.segmentation.change_points) for one in inferred)
        if sum(map(len, labels)) / segments < 3:
            setting = "arhmm.stickiness=3000" if run.config.kind == "arhmm" else "recipe.stickiness=6"
            found.append(f"Regimes flicker (under 3 frames on average): try --set {setting}.")
    return found


def as_figure_history(history: History, chosen: int, frame_f1: Sequence[float] | None) -> figures.History:
    """Curves as arrays, restarts first."""
    return {
        "step": np.array(history.step),
        "bound": np.array(history.bound, dtype=float).T,
        "regimes_in_use": np.array(history.regimes_in_use, dtype=float).T,
        "frame_f1": None if frame_f1 is None else np.array(frame_f1, dtype=float) / 100,
        "chosen": chosen,
    }


def _matched_truth(series, inferred) -> list[np.ndarray | None]:
    """The truth in the model's own regime numbers, where every recording has one."""
    if not series or any(one.s is None for one in series):
        return [None] * len(series)
    known = [one.s >= 0 for one in series]
    predicted = [found.segmentation.labels[k] for found, k in zip(inferred, known, strict=True)]
    relabel = one_to_one(pooled_confusion([one.s[k] for one, k in zip(series, known, strict=True)], predicted))
    return [np.where(one.s < 0, -1, relabel(one.s)) for one in series]


def _rebuilt(run: Run, one: Series, found: Inferred) -> Figure:
    if run.image is None:
        return figures.reconstruction(one.x, found.expected, columns=run.columns, title=one.name)
    observed, expected = (np.nan_to_num(x).reshape(1, -1, *run.image) for x in (one.x, found.expected))
    return figures.overlays({"observed": observed, "as the model expects it": expected}, title=one.name)


def _ribbon(run: Run, one: Series, found: Inferred, truth):
    return figures.ribbon(
        one.x,
        found.segmentation.probabilities,
        found.segmentation.labels,
        truth=truth,
        columns=run.columns,
        title=one.name,
        names=run.names if any(run.given_names) else (),
        reconstruction=found.expected if one.x.shape[1] <= 4 else None,
    )
