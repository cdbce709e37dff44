"""A two-link arm that reaches for one target after another, and the regimes found in how it moves."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D

from swerve.report.canvas import keys_on_top, mark, new_figure, share_frames
from swerve.report.checks import check_shapes
from swerve.report.palette import INK, regime_colors
from swerve.report.panels import add_regime_legend, draw_ribbon
from swerve.report.spans import regime_spans

MOMENTS = 9
MOMENT, RIBBON = 1.25, 0.3  # inches
REACH = 1.08  # half the width of a moment, in lengths of the stretched arm
TRAIL, REST, GOAL = "#c9ced8", "#98a0ae", "#f5b800"


def arm(
    joints: Float[np.ndarray, "T 3 2"],
    objects: Float[np.ndarray, "T n 2"],
    waiting: Bool[np.ndarray, "T n"],
    truth: Int[np.ndarray, " T"],
    found: Mapping[str, Int[np.ndarray, " _"]],
    *,
    regimes: Sequence[str] = (),
    title: str = "",
) -> Figure:
    """Moments of one sequence, and ribbons of all its frames: the truth, then each model, in the same numbers.

    `joints` are shoulder, elbow and tip; a star is an object that is still `waiting` for the arm. A moment's border has
    the colour of the true regime, its arm that of the first model's.
    """
    check_shapes({"truth": truth}, joints.shape[:1])
    check_shapes(found, truth.shape)
    first = next(iter(found))
    ribbons = {"truth (border above)": truth} | {
        f"{name} (arm above)" if name == first else name: labels for name, labels in found.items()
    }
    moments = _moments(truth)
    heights = [MOMENT, *[RIBBON] * len(ribbons)]
    figure = new_figure(sum(heights) + 0.3 * len(ribbons) + 1.3, title)
    grid = GridSpec(len(heights), len(moments), figure, height_ratios=heights)
    for place, t in enumerate(moments):
        axes = figure.add_subplot(grid[0, place])
        _draw_border(axes, regime_colors(truth)[t], f"frame {t}")
        axes.plot(*joints[: t + 1, -1].T, color=TRAIL, linewidth=1, zorder=1)
        _draw_arm(axes, joints[t], regime_colors(found[first])[t])
        axes.scatter(*objects[t, ~waiting[t]].T, s=13, color=REST, linewidths=0, zorder=1.5)
        axes.scatter(*objects[t, waiting[t]].T, s=95, marker="*", color=GOAL, edgecolor=INK, linewidths=0.6, zorder=5)
    column = [figure.add_subplot(grid[1 + row, :]) for row in range(len(ribbons))]
    for axes, (name, labels) in zip(column, ribbons.items(), strict=True):
        draw_ribbon(axes, labels, name)
    share_frames(column, len(truth))
    column[-1].set_xticks(moments)
    add_regime_legend(figure, np.unique(np.concatenate(list(ribbons.values()))), regimes)
    keys_on_top(
        figure,
        mark("target to be visited", marker="*", color=GOAL, markersize=10, markeredgecolor=INK, markeredgewidth=0.6),
        mark("other object", marker="o", color=REST, markersize=4),
        Line2D([], [], color=TRAIL, linewidth=1.5, label="way of the tip so far"),
    )
    return figure


def _moments(truth: Int[np.ndarray, " T"]) -> Int[np.ndarray, " n"]:
    """Evenly spread frames; one that is near moves into a true regime too short to be met otherwise."""
    moments = np.linspace(0, len(truth) - 1, MOMENTS).round().astype(int)
    for begin, end in regime_spans(truth):
        if not ((moments >= begin) & (moments < end)).any():
            middle = (begin + end - 1) // 2
            moments[np.abs(moments - middle).argmin()] = middle
    return np.unique(moments)


def _draw_border(axes: Axes, color: Float[np.ndarray, " 3"], title: str) -> None:
    axes.set(xticks=(), yticks=(), aspect="equal")
    axes.set_title(title, fontsize=9, color=INK, pad=4)
    axes.spines[:].set(color=color, linewidth=3)


def _draw_arm(axes: Axes, joints: Float[np.ndarray, "3 2"], color: Float[np.ndarray, " 3"]) -> None:
    half = REACH * np.linalg.norm(np.diff(joints, axis=0), axis=1).sum()
    axes.set(xlim=(-half, half), ylim=(-half, half))
    axes.plot(*joints.T, color=color, linewidth=3, solid_capstyle="round", marker="o", markersize=4.5, gid="arm")
    axes.scatter(*joints[0], s=30, marker="s", color=INK, zorder=4)
