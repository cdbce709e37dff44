"""Rows of an experiment side by side while they learn."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from swerve.report.canvas import new_figure, styled
from swerve.report.palette import INK, regime_colors
from swerve.report.training import draw_curve, name_steps, percent


class Curve(TypedDict):
    """One run at S reports."""

    step: Int[np.ndarray, " S"]
    above_best: Float[np.ndarray, " S"]
    """Negative bound above the lowest seen in any run, nats per frame."""
    frame_f1: Float[np.ndarray, " S"]
    weight_correlation: Float[np.ndarray, " S"]


PANELS = {
    "above_best": "L - min L, held-out negative bound, nats per frame (lower is better)",
    "frame_f1": "frame F1 on the test sequences",
    "weight_correlation": "mean correlation between the weights of two regimes",
}


def curves(rows: Mapping[str, Sequence[Curve]], *, title: str = "") -> Figure:
    """The paper's annealing and correlation figures: a colour per row, a thin line per run."""
    figure = new_figure(8.4 + 0.25 * len(rows), title)
    panels = dict(zip(PANELS, figure.subplots(len(PANELS), 1, sharex=True), strict=True))
    colors = regime_colors(np.arange(len(rows)))
    for color, runs in zip(colors, rows.values(), strict=True):
        for run in runs:
            for name, axes in panels.items():
                values = np.where(run[name] > 0, run[name], np.nan) if name == "above_best" else run[name]
                draw_curve(axes, run["step"], values, color=color, linewidth=1.0, alpha=0.85)
    for name, axes in panels.items():
        styled(axes, PANELS[name])
    panels["above_best"].set_yscale("log")
    percent(panels["frame_f1"])
    name_steps(panels["weight_correlation"])
    keys = [Line2D([], [], color=color, label=name) for color, name in zip(colors, rows, strict=True)]
    figure.legend(handles=keys, loc="outside lower left", frameon=False, fontsize=9, labelcolor=INK)
    return figure
