"""How a recording may go on: its past, a fan of quantiles, and the regimes of both."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from swerve.report.canvas import legend_above, new_figure, note, share_frames, styled
from swerve.report.palette import BLUE, MUTED
from swerve.report.panels import MOST_CHANNELS, add_regime_legend, channel_name, draw_channel, draw_ribbon, opacity

_PANEL, _RIBBON = 1.5, 0.34


def forecast(
    x: Float[np.ndarray, "T D"],
    labels: Int[np.ndarray, " T"],
    past_probabilities: Float[np.ndarray, "T K"],
    probabilities: Float[np.ndarray, "H K"],
    quantiles: Float[np.ndarray, "H Q D"],
    levels: Sequence[float],
    *,
    first_frame: int = 0,
    columns: Sequence[str] = (),
    title: str = "",
) -> Figure:
    """The last frames x and their regimes, the first of them being `first_frame`, and the frames that may follow.

    The fan shades the share of futures between each pair of quantiles; in the ribbon the future's colour is its most
    probable regime. Beyond eight channels only the first eight are drawn.
    """
    shown = min(x.shape[1], MOST_CHANNELS)
    heights = [max(0.7, min(_PANEL, 6.0 / shown))] * shown + [_RIBBON]
    figure = new_figure(sum(heights) + 0.3 * len(heights) + 1.5, title)
    grid = GridSpec(len(heights), 1, figure, height_ratios=heights)
    first = figure.add_subplot(grid[0])
    column = [first, *(figure.add_subplot(grid[row], sharex=first) for row in range(1, len(heights)))]

    now, horizon = len(x), len(probabilities)
    for channel, axes in enumerate(column[:-1]):
        styled(axes, channel_name(columns, channel))
        draw_channel(axes, x[:, channel])
        _draw_fan(axes, np.arange(now, now + horizon), quantiles[:, :, channel], levels)
    legend_above(column[0])
    if shown < x.shape[1]:
        note(column[1], f"the first {shown} of {x.shape[1]} channels")

    future = probabilities.argmax(axis=1)
    regimes = np.concatenate([labels, future])
    sure = np.concatenate([past_probabilities[np.arange(now), labels], probabilities.max(axis=1)])
    draw_ribbon(column[-1], regimes, "regimes found, then expected", opacity(sure, probabilities.shape[1]))
    note(column[-1], "paler = less certain")
    for axes in column:
        axes.axvline(now - 0.5, color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)))
    share_frames(column, now + horizon)
    column[-1].xaxis.set_major_formatter(lambda frame, _: f"{frame + first_frame:.0f}")
    add_regime_legend(figure, np.unique(regimes))
    return figure


def _draw_fan(axes: Axes, frames: Int[np.ndarray, " H"], quantiles: Float[np.ndarray, "H Q"], levels: Sequence[float]):
    """Bands between the outermost quantiles, then the next, and the one in the middle as a line."""
    count = len(levels)
    for outer in range(count // 2):
        low, high = levels[outer], levels[count - 1 - outer]
        look = {"color": BLUE, "alpha": 0.22, "linewidth": 0, "label": f"{low:.0%} to {high:.0%} of the futures"}
        axes.fill_between(frames, quantiles[:, outer], quantiles[:, count - 1 - outer], **look)
    if count % 2:
        middle = levels[count // 2]
        name = "median" if middle == 0.5 else f"{middle:.0%} of the futures lie below"
        marker = "." if len(frames) == 1 else ""
        axes.plot(frames, quantiles[:, count // 2], color=BLUE, linewidth=1.3, marker=marker, label=name)
