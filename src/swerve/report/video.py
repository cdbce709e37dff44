"""Video as still pictures: the frames of a recording laid over one another, later ones brighter."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from swerve.report.canvas import new_figure, plain
from swerve.report.palette import INK, POSTERIOR_MAP

FAINTEST = 0.25  # brightness of the first frame beside the last
PANEL = 2.0  # inches


def overlay(frames: Float[np.ndarray, "T H W"]) -> Float[np.ndarray, "H W"]:
    """The brightest value each pixel ever had, frames fading in from the first to the last."""
    weights = np.linspace(FAINTEST, 1.0, len(frames)).astype(frames.dtype)
    return (weights[:, None, None] * frames).max(axis=0)


def overlays(rows: Mapping[str, Float[np.ndarray, "N T H W"]], *, title: str = "") -> Figure:
    """One row of overlays per entry, such as a board, its reconstruction by one model and by another."""
    columns = max(len(videos) for videos in rows.values())
    figure = new_figure(PANEL * len(rows) + 0.4, title, width=PANEL * columns + 0.4)
    panels = figure.subplots(len(rows), columns, squeeze=False)
    for axes in panels.flat:
        axes.set_axis_off()
    for line, (name, videos) in zip(panels, rows.items(), strict=True):
        line[0].set_title(plain(name), loc="left", fontsize=9.5, color=INK, pad=4)
        for axes, frames in zip(line, videos, strict=False):
            axes.imshow(overlay(frames), cmap=POSTERIOR_MAP, interpolation="nearest")
    return figure
