"""Ways through the plane under several labellings: which regime moved the point, and where it changed."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swerve.report.canvas import keys_on_top, mark, new_figure, note, styled, whole_numbers
from swerve.report.checks import check_shapes
from swerve.report.palette import INK
from swerve.report.panels import add_regime_legend, draw_path
from swerve.report.spans import change_points

PANEL = 2.2  # inches
MARGIN = 0.08  # of a path's extent, on every side


def paths(
    positions: Float[np.ndarray, "N T 2"],
    labellings: Mapping[str, Int[np.ndarray, "_ _"]],
    *,
    sequences: Sequence[str] = (),
    regimes: Sequence[str] = (),
    title: str = "",
) -> Figure:
    """A column per sequence and a row per labelling (N, T), all in the same regime numbers; dots are switches."""
    check_shapes(labellings, positions.shape[:2])
    columns = len(positions)
    figure = new_figure(PANEL * len(labellings) + 1.1, title, width=PANEL * columns + 0.5)
    panels = figure.subplots(len(labellings), columns, squeeze=False, sharex="col", sharey="col")
    for line, (name, labels) in zip(panels, labellings.items(), strict=True):
        for axes, path, found in zip(line, positions, labels, strict=True):
            _draw(axes, path, found)
        line[0].set_title(name, loc="left", fontsize=10.5, fontweight="bold", color=INK, pad=4)
        line[0].set_ylabel("y")
    for axes, name in zip(panels[0], sequences, strict=False):
        note(axes, name)
    for axes in panels[-1]:
        axes.set_xlabel("x")
    keys_on_top(
        figure,
        mark("start", marker="o", color="white", markersize=7, markeredgecolor=INK),
        mark("switch", marker="o", color=INK, markersize=3.5),
    )
    add_regime_legend(figure, np.unique(np.stack(list(labellings.values()))), regimes)
    return figure


def _draw(axes: Axes, path: Float[np.ndarray, "T 2"], labels: Int[np.ndarray, " T"]) -> None:
    styled(axes)
    draw_path(axes, path, labels)
    last_of_old = change_points(labels) - 1  # from here on, another regime moves the point
    axes.scatter(*path[last_of_old].T, s=13, color=INK, linewidths=0, zorder=5, gid="switches")
    centre = (path.max(axis=0) + path.min(axis=0)) / 2
    half = (0.5 + MARGIN) * np.ptp(path, axis=0).max() or 1.0
    axes.set(xlim=(centre[0] - half, centre[0] + half), ylim=(centre[1] - half, centre[1] + half), aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(whole_numbers(5))
