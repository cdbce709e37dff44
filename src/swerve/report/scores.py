"""Scores of several models, side by side."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swerve.report.canvas import new_figure, plain, styled
from swerve.report.palette import BLUE, INK, MUTED

_ON_WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 1}

Number = int | float | np.integer | np.floating
Score = Number | tuple[Number, Number]
"""A share in 0..1, alone or as (mean, standard deviation) over runs."""


def score_bars(rows: Mapping[str, Mapping[str, Score]], *, oracle: str = "oracle", title: str = "") -> Figure:
    """One panel per score and one bar per model; the dashed line is the oracle.

    Panels follow the order in which the scores first appear. A model without some score says so.
    """
    names = list(dict.fromkeys(score for scores in rows.values() for score in scores))
    figure = new_figure(0.36 * len(rows) + 1.15 + (0.3 if title else 0), title)
    panels = figure.subplots(1, max(1, len(names)), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, names, strict=False):
        _draw_score(axes, name, [scores.get(name) for scores in rows.values()], list(rows), oracle)
    panels[0].set_yticks(range(len(rows)), [plain(model, 36) for model in rows])
    panels[0].set_ylim(len(rows) - 0.4, -0.6)
    panels[0].tick_params(axis="y", labelsize=10, labelcolor=INK)
    return figure


def _draw_score(axes: Axes, name: str, scores: list[Score | None], models: list[str], oracle: str) -> None:
    styled(axes, f"{name} (%)")
    axes.grid(False, axis="y")
    means, spreads = np.array([_mean_and_spread(score) for score in scores]).T
    colors = ["#b4bac5" if model == oracle else BLUE for model in models]
    axes.barh(range(len(models)), np.nan_to_num(means), height=0.62, color=colors)
    seen = np.flatnonzero(spreads > 0)
    axes.errorbar(means[seen], seen, xerr=spreads[seen], fmt="none", ecolor=INK, elinewidth=1, capsize=2.5)
    for row, (mean, spread) in enumerate(zip(means, spreads, strict=True)):
        text = f"{100 * mean:.1f}" if np.isfinite(mean) else "not scored"
        right = np.nan_to_num(mean) + spread + 0.03
        axes.text(right, row, text, va="center", fontsize=9, color=INK, bbox=_ON_WHITE)
    if oracle in models and np.isfinite(means[models.index(oracle)]):
        axes.axvline(means[models.index(oracle)], color=MUTED, linewidth=1, linestyle="--", zorder=0.9)
    axes.set_xlim(0, 1.22)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _mean_and_spread(score: Score | None) -> tuple[float, float]:
    if score is None:
        return np.nan, 0.0
    mean, spread = score if isinstance(score, tuple) else (score, 0.0)
    return float(mean), float(spread)
