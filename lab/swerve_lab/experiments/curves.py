"""How training went: what a model is worth at every report, kept while it learns."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from swerve.choosing.scores import score
from swerve.data.trees import read_json, write_json
from swerve.learning.loop import Report, Trained
from swerve.learning.preparation import Prepared
from swerve.learning.restarts import pick
from swerve.models.model import Model
from swerve.models.snlds.model import Snlds
from swerve.report import figures
from swerve.runs.run import Run, with_model
from swerve.settings.sections import Config
from swerve.types import Segmentation
from swerve_lab.boards.board import Board, Recordings
from swerve_lab.figures.curves import Curve, curves

KEPT = ("step", "bound", "frame_f1", "weight_correlation")


class Look(NamedTuple):
    """One restart at one report: its numbers, what it finds in the test sequences, and itself."""

    numbers: dict[str, Any]
    found: list[Segmentation]
    run: Run


def look(system: Model, bound: float, step: int, prepared: Prepared, config: Config, test: Board | Recordings) -> Look:
    """Held-out bound, scores on the test sequences (from one draw of z) and correlation of the regimes' weights."""
    run = with_model(system, prepared, config, bound)
    found = run.segment(test.series(), samples=1)
    scores = score([one.labels for one in found], list(test.s)).as_dict()
    return Look({"step": step, "bound": bound, "weight_correlation": weight_correlation(system), **scores}, found, run)


def weight_correlation(system: Model) -> float | None:
    """mean over pairs j < k of Pearson's correlation between all weights and biases of f_j and those of f_k.

    Noise does not count, nor regimes that a restart may not use; None where only one
    regime is left, and for models of others.
    """
    if not isinstance(system, Snlds):
        return None
    allowed = np.flatnonzero(np.asarray(system.model.allowed))
    mean = eqx.tree_at(lambda dynamics: dynamics.noise, system.model.dynamics, None)
    leaves = [np.asarray(leaf)[allowed].reshape(len(allowed), -1) for leaf in jax.tree.leaves(mean)]
    weights = np.concatenate([leaf for leaf in leaves if leaf.any()], axis=1)  # a part that is all zero has no use
    if len(allowed) < 2:
        return None
    return float(np.corrcoef(weights)[np.triu_indices(len(allowed), 1)].mean())


class CurveFile:
    """The curve of every restart, in a file that survives a stop: restart -> looks in the order of their steps.

    `numbers_of` (restart, system, bound, step) tells what a restart is worth. A look that a kill cut short is left
    out, except the last one, which `finish` makes up for.
    """

    def __init__(self, path: Path, numbers_of: Callable[[int, Any, float, int], Mapping[str, Any]]):
        self.path, self.numbers_of = path, numbers_of
        self.curves: dict[str, list[dict[str, Any]]] = read_json(path) if path.is_file() else {}

    def watch(self, report: Report) -> None:
        """Looks at all living restarts and writes down what they are worth."""
        self.add(report.step, report.alive, report.bounds, report.systems)

    def finish(self, trained: Trained) -> dict[int, list[dict[str, Any]]]:
        """The whole curves, by restart."""
        history = trained.history
        self.add(history.step[-1], trained.alive, history.latest("bound", trained.alive).tolist(), trained.systems)
        return {int(restart): curve for restart, curve in self.curves.items()}

    def add(self, step: int, alive: list[int], bounds: list[float], systems: Any) -> None:
        """One more point for the living, unless they have it already."""
        for position, (restart, bound) in enumerate(zip(alive, bounds, strict=True)):
            curve = self.curves.setdefault(str(restart), [])
            if not curve or curve[-1]["step"] < step:
                numbers = self.numbers_of(restart, pick(systems, position), bound, step)
                curve.append({name: numbers[name] for name in KEPT})
        write_json(self.path, self.curves)


def draw(rows: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]], picture: Path, *, title: str) -> None:
    """Every run of every row as a thin line: the paper's L_t - L_min, frame F1, correlation of weights."""
    best = max(point["bound"] for curves in rows.values() for curve in curves for point in curve)
    lines = {name: [_line(curve, best) for curve in curves] for name, curves in rows.items()}
    figures.save(curves(lines, title=title), picture)


def _line(curve: Sequence[Mapping[str, Any]], best: float) -> Curve:
    values = {name: np.array([point[name] for point in curve], float) for name in KEPT}
    return {
        "step": values["step"].astype(int),
        "above_best": best - values["bound"],
        "frame_f1": values["frame_f1"] / 100,
        "weight_correlation": values["weight_correlation"],
    }
