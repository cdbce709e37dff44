"""Puts a run into pictures and one page: the bridge between fitted models and the report room."""

import io
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from swerve.choosing import trust
from swerve.choosing.matching import one_to_one, pooled_confusion
from swerve.choosing.regimes import Choice
from swerve.choosing.scores import regimes_that_occur, score
from swerve.data.atomic import whole_folder
from swerve.data.columns import select_columns
from swerve.data.folder import Part
from swerve.data.reading import reading_options
from swerve.data.trees import read_arrays, read_json, write_atomically
from swerve.errors import InputError
from swerve.learning.loop import History
from swerve.report import figures
from swerve.report.packing import Shown
from swerve.report.page import write_page
from swerve.runs.alignment import Order
from swerve.runs.infer import Inferred
from swerve.runs.run import Run
from swerve.settings.text import expected_duration, to_options, to_toml
from swerve.types import Recording, Skeleton

EXAMPLES = 6
EXAMPLE_FRAMES = 5000
CURVE_RECORDINGS = 200
STILL = ("regimes", "reconstruction")  # figures of what only a script can draw on the page
SCORE_NAMES = {
    "frame_f1": "frame F1",
    "switch_f1_tol0": "switch F1, exact",
    "switch_f1_tol5": "switch F1, within 5",
    "nmi": "NMI",
    "ari": "ARI",
}
SHOWN_SCORES = tuple(SCORE_NAMES)


class FrameF1Curve:
    """Frame F1 of the best restart at every look: drawn, and used for nothing else. Empty without true regimes."""

    def __init__(self, series: Sequence[Recording]):
        self.series = [one for one in series if one.s is not None and (one.s >= 0).any()][:CURVE_RECORDINGS]
        self.values: list[float] = []

    def look(self, run: Run) -> None:
        """One more point."""
        if self.series:
            self.values.append(score_run(run, self.series, samples=1)["frame_f1"])


def score_run(run: Run, series: Sequence[Recording], **options: Any) -> dict[str, float]:
    """Scores of recordings whose true regimes are known."""
    truth = [one.s for one in series if one.s is not None]
    return score([one.labels for one in run.infer(series, expects=False, **options)], truth).as_dict()


def load_scores(folder: Path) -> tuple[dict[str, dict[str, float]] | None, list[float] | None]:
    """The rows of scores and the curve that a run with known truth keeps; None where there are none."""
    path = folder / Part.SCORES
    stored = read_json(path) if path.is_file() else {}
    try:
        rows, curve = stored.get("rows"), stored.get("frame_f1_curve")
        return (
            None if rows is None else {model: _known(row) for model, row in rows.items()},
            None if curve is None else [math.nan if one is None else float(one) for one in curve],
        )
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"{path} is damaged: it should hold the scores of every model.") from None


def _known(row: Mapping[str, Any]) -> dict[str, float]:
    """JSON has null where a score was no number."""
    return {name: float(value) for name, value in row.items() if value is not None}


def save_examples(folder: Path, series: Sequence[Recording], inferred: Sequence[Inferred]) -> None:
    """Keeps a few recordings with their regimes, so that a report can be drawn from the folder alone."""
    arrays: dict[str, np.ndarray] = {}
    for i, (one, found) in enumerate(zip(series[:EXAMPLES], inferred, strict=False)):
        parts = {
            "x": one.x,
            "labels": found.labels,
            "probabilities": found.probabilities,
            "expected": found.expected,
        }
        parts |= {name: part for name, part in _optional(one).items() if part is not None}
        arrays |= {f"{i}.{name}": part[:EXAMPLE_FRAMES] for name, part in parts.items()}
        arrays |= {f"{i}.name": np.array(one.name), f"{i}.length": np.array(len(one))}
        if one.image is not None:
            arrays[f"{i}.image"] = np.array(one.image)
        if one.skeleton is not None:
            arrays[f"{i}.skeleton"] = np.array(json.dumps(asdict(one.skeleton)))
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # pyright: ignore[reportArgumentType]
    write_atomically(folder / Part.EXAMPLES, content.getvalue())


def load_examples(folder: Path, columns: tuple[str, ...]) -> tuple[list[Recording], list[Inferred]]:
    """The inverse of saving them; of a long recording, its beginning."""
    path = folder / Part.EXAMPLES
    if not path.is_file():
        raise InputError(f"{folder} has no examples to draw: name the recordings, as in swerve report RUN DATA.")
    series, inferred = [], []
    stored = read_arrays(path)
    for i in range(EXAMPLES):
        if f"{i}.x" not in stored:
            break
        name = str(stored[f"{i}.name"])
        one = Recording(
            stored[f"{i}.x"],
            s=stored.get(f"{i}.truth"),
            name=name,
            columns=columns,
            image=tuple(stored[f"{i}.image"].tolist()) if f"{i}.image" in stored else None,
            times=stored.get(f"{i}.times"),
            rows=stored.get(f"{i}.rows"),
            skeleton=_skeleton_of(stored.get(f"{i}.skeleton")),
        )
        series.append(one)
        parts = {part: stored[f"{i}.{part}"] for part in ("labels", "probabilities", "expected")}
        inferred.append(Inferred(**parts, name=name))
    return series, inferred


def example_lengths(folder: Path) -> list[int]:
    """Frames of the whole recordings of which examples may keep only the beginning."""
    stored = read_arrays(folder / Part.EXAMPLES)
    return [int(stored[f"{i}.length"]) for i in range(EXAMPLES) if f"{i}.length" in stored]


def _optional(one: Recording) -> dict[str, np.ndarray | None]:
    return {"truth": one.s, "times": one.times, "rows": one.rows}


def _skeleton_of(stored: np.ndarray | None) -> Skeleton | None:
    if stored is None:
        return None
    return Skeleton(**{name: tuple(part) for name, part in json.loads(str(stored)).items()})


def write_report(
    folder: Path,
    run: Run,
    series: Sequence[Recording],
    inferred: Sequence[Inferred],
    *,
    scores: Mapping[str, Mapping[str, float]] | None = None,
    frame_f1: Sequence[float] | None = None,
    title: str = "Swerve report",
    lengths: Sequence[int] = (),
) -> Path:
    """The page, and figures for papers as PNG files under `folder`/figures; all of it or nothing.

    `lengths` are the frames of the whole recordings where only their beginnings are given.
    """
    drawn: list[tuple[str, str, Figure]] = []
    series = [replace(one, image=run.image) for one in select_columns(series, run.columns)]
    truth = _matched_truth(series, inferred)
    if scores:
        bars = {name: {k: row[k] / 100 for k in SHOWN_SCORES if k in row} for name, row in scores.items()}
        drawn.append(("scores", "Scores of every model beside the oracle", figures.score_bars(bars)))
    for i, (one, found) in enumerate(zip(series[:EXAMPLES], inferred, strict=False)):
        drawn.append((f"regimes-{i}", f"Regimes of {one.name}", _ribbon(run, one, found, truth[i])))
    if series:
        one, found = series[0], inferred[0]
        marginals = figures.marginals_beside_truth({run.config.kind: found.probabilities}, truth[0], title=one.name)
        drawn.append(("marginals", f"Posterior marginals of {one.name}", marginals))
        rebuilt = _rebuilt(run, one, found)
        drawn.append(("reconstruction", f"{one.name}, observed and as the model expects it", rebuilt))
        cards = figures.regime_cards([f.labels for f in inferred], run.regimes, names=run.names)
        drawn.append(("cards", "Share, durations and successors of every regime", cards))
    history = None if run.history is None else as_figure_history(run.history, run.chosen, frame_f1)
    if history is not None:
        curves = figures.training_curves(history)
        drawn.append(("training", "Training: the held-out bound of every restart", curves))
    table = None
    if scores:
        table = {m: {SCORE_NAMES[k]: f"{row[k]:.1f} %" for k in SHOWN_SCORES if k in row} for m, row in scores.items()}
    with whole_folder(folder) as temporary:
        paths = {name: figures.save(figure, temporary / Part.FIGURES / f"{name}.png") for name, _, figure in drawn}
        page = write_page(
            temporary / Part.REPORT,
            title=title,
            summary=summary(run, inferred),
            warnings=warnings(run, inferred),
            recordings=[
                Shown(one, found.labels, found.probabilities, found.expected, true, length)
                for one, found, true, length in zip(
                    series[:EXAMPLES], inferred[:EXAMPLES], truth, [*lengths, *[0] * EXAMPLES], strict=False
                )
            ],
            names=run.names,
            history=history,
            scores=table,
            figures=[(caption, paths[name]) for name, caption, _ in drawn if name.startswith(STILL)],
            repeat=[("On the command line", fit_command(run)), ("As a file for --config", to_toml(run.config))],
        )
    return folder / page.name


def fit_command(run: Run) -> str:
    """What to type to fit the same again; the recordings and the folder are left to say."""
    words = ["swerve", "fit", "DATA", "--out", "FOLDER", *to_options(run.config), *reading_options(run.reading)]
    return " ".join(map(shlex.quote, words))


def summary(run: Run, inferred: Sequence[Inferred]) -> list[tuple[str, str]]:
    """The few facts a person asks for first."""
    labels = [found.labels for found in inferred]
    segments = sum(1 + np.count_nonzero(np.diff(one)) for one in labels)
    frames = sum(map(len, labels))
    used = regimes_that_occur(labels) if labels else 0
    return [
        ("model", run.config.kind),
        *((("why this model", run.selection["reason"]),) if run.selection else ()),
        ("held-out bound" if run.history else "held-out likelihood", f"{run.held_out:.3f} nats per frame"),
        *((("restart chosen", f"{run.chosen} of {run.config.training.restarts}"),) if run.history else ()),
        *((("regimes merged", _merges(run.history.merges, run.order)),) if run.history and run.history.merges else ()),
        *((("restarts agree", in_words(run.trust)),) if run.trust else ()),
        ("recordings shown", f"{len(labels)} ({frames} frames)"),
        ("regimes in them", f"{used} of {run.regimes}"),
        *((("aligned to", f"{run.aligned.to}: {run.aligned.agreement}"),) if run.aligned else ()),
        ("mean duration", f"{frames / max(segments, 1):.1f} frames"),
    ]


def in_words(found: trust.Trust) -> str:
    """How much restarts agree."""
    if found.agreement is None or found.sure is None:
        return "unknown: a single restart was trained to the end"
    return (
        f"{found.agreement:.2f} (adjusted Rand index of {found.restarts} restarts;"
        f" {100 * found.sure:.0f} % of the frames are the same in all)"
    )


def _merges(merges: Sequence[Mapping[str, Any]], order: Order) -> str:
    """Which regimes went into which others, by the numbers they have now, and what the next merge would have cost."""
    done = [f"{order.index(one['dropped'])} into {order.index(one['kept'])}" for one in merges if one["accepted"]]
    last = merges[-1]
    cost = "" if last["accepted"] else f" (one more would cost {-last['change']:.3f} nats per frame)"
    return f"{', '.join(done) or 'none'}{cost}"


def warnings(run: Run, inferred: Sequence[Inferred]) -> list[trust.Warned]:
    """What may be wrong with this fit, each with its remedy; of a run without a record of trust, what these show."""
    since = (
        []
        if run.aligned is None
        else [trust.Warned(f"Since {run.aligned.to}: {words}.", "") for words in run.aligned.doubts]
    )
    if run.trust is not None:
        return [*run.trust.warnings, *since]
    regimes = trust.uses([one.labels for one in inferred], run.regimes)
    stickiness = expected_duration(run.config)
    found = trust.warnings(regimes, None, stickiness=stickiness, finished=run.finished, dropped=run.dropped)
    return [*found, *since]


def draw_choice(folder: Path, choice: Choice) -> Path:
    """Bound and agreement for every number of regimes, as a picture beside choice.json."""
    regimes, behind, error, agreed = (
        np.array([getattr(one, name) for one in choice.tried], dtype=kind)
        for name, kind in (("regimes", int), ("behind", float), ("error", float), ("agreement", float))
    )
    figure = figures.choosing(regimes, behind, error, agreed, chosen=choice.regimes, threshold=trust.AGREE)
    return figures.save(figure, folder / Part.CHOICE_PICTURE)


def as_figure_history(history: History, chosen: int, frame_f1: Sequence[float] | None) -> figures.History:
    """Curves as arrays, restarts first."""
    return {
        "step": np.array(history.step),
        "bound": np.array(history.bound, dtype=float).T,
        "regimes_in_use": np.array(history.regimes_in_use, dtype=float).T,
        "frame_f1": None if frame_f1 is None else np.array(frame_f1, dtype=float) / 100,
        "chosen": chosen,
    }


def _matched_truth(series: Sequence[Recording], inferred: Sequence[Inferred]) -> list[np.ndarray] | list[None]:
    """The truth in the model's own regime numbers, -1 where it is unknown; None unless every recording has one."""
    truth = [one.s for one in series if one.s is not None]
    if len(truth) < len(series) or not any((s >= 0).any() for s in truth):
        return [None] * len(series)
    predicted = [found.labels[s >= 0] for found, s in zip(inferred, truth, strict=True)]
    relabel = one_to_one(pooled_confusion([s[s >= 0] for s in truth], predicted))
    matched = [np.full(len(s), -1) for s in truth]
    for one, s in zip(matched, truth, strict=True):
        one[s >= 0] = relabel(s[s >= 0])
    return matched


def _rebuilt(run: Run, one: Recording, found: Inferred) -> Figure:
    if run.image is None:
        return figures.reconstruction(one.x, found.expected, columns=run.columns, title=one.name)
    observed, expected = (np.nan_to_num(x).reshape(1, -1, *run.image) for x in (one.x, found.expected))
    return figures.overlays({"observed": observed, "as the model expects it": expected}, title=one.name)


def _ribbon(run: Run, one: Recording, found: Inferred, truth):
    return figures.ribbon(
        one.x,
        found.probabilities,
        found.labels,
        truth=truth,
        columns=run.columns,
        title=one.name,
        names=run.names if any(run.given_names) else (),
        reconstruction=found.expected if one.x.shape[1] <= 4 else None,
    )
