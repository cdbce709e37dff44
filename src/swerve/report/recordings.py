"""Figures of one recording: its regimes, its marginals, its reconstruction."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from swerve.report.canvas import legend_above, new_figure, note, plain, share_frames, styled
from swerve.report.palette import POSTERIOR_MAP, TRUTH_MAP
from swerve.report.panels import (
    MOST_CHANNELS,
    add_regime_legend,
    channel_name,
    deviations,
    draw_change_lines,
    draw_channel,
    draw_channel_map,
    draw_marginals,
    draw_path,
    draw_reconstruction,
    draw_ribbon,
    opacity,
)
from swerve.report.spans import change_points

_RIBBON, _MAP, _MARGIN = 0.34, 2.4, 1.5


def ribbon(
    x: Float[np.ndarray, "T D"],
    probabilities: Float[np.ndarray, "T K"],
    labels: Int[np.ndarray, " T"],
    *,
    truth: Int[np.ndarray, " T"] | None = None,
    columns: Sequence[str] = (),
    title: str = "",
    names: Sequence[str] = (),
    reconstruction: Float[np.ndarray, "T D"] | None = None,
) -> Figure:
    """The series, and beneath it which regime was active: colour is the regime, opacity the confidence.

    `truth` must already be matched to the labels, so that one colour means one regime in both ribbons. More
    than eight channels become one heat map; two channels are also drawn as a path in the plane.
    """
    series_heights = _series_heights(x.shape[1], reconstruction is not None)
    ribbons = 1 if truth is None else 2
    heights = [*series_heights, *[_RIBBON] * ribbons]
    figure = new_figure(sum(heights) + 0.3 * len(heights) + _MARGIN, title)
    column, plane = _time_column(figure, heights, beside=x.shape[1] == 2)

    _draw_series(column[: len(series_heights)], x, reconstruction, columns)
    for axes in column[: len(series_heights)]:
        draw_change_lines(axes, change_points(labels))
    confidence = probabilities[np.arange(len(labels)), labels]
    regimes_axes = column[len(series_heights)]
    draw_ribbon(regimes_axes, labels, "regimes found", opacity(confidence, probabilities.shape[1]))
    note(regimes_axes, "paler = less certain")
    if truth is not None:
        draw_ribbon(column[-1], truth, "true regimes")
    share_frames(column, len(x))
    if plane is not None:
        draw_path(plane, x, labels)
        styled(plane, "path, coloured by regime")
        plane.set(xlabel=plain(channel_name(columns, 0), 40), ylabel=plain(channel_name(columns, 1), 40))
    add_regime_legend(figure, np.union1d(labels, labels if truth is None else truth), names)
    return figure


def marginals_beside_truth(
    marginals: Mapping[str, Float[np.ndarray, "T _"]],
    truth: Int[np.ndarray, " T"] | None = None,
    *,
    title: str = "",
) -> Figure:
    """The true regimes, then each model's p(s_t = k | x) for the same sequence; lighter = more probable."""
    rows = dict(marginals)
    counts = [probabilities.shape[1] for probabilities in rows.values()]
    true_rows = [] if truth is None else [int(truth.max()) + 1]
    heights = [marginal_height(count) for count in true_rows + counts]
    figure = new_figure(sum(heights) + 0.3 * len(heights) + 0.9, title)
    column, _ = _time_column(figure, heights)
    if truth is not None:
        draw_truth(column[0], truth)
    for axes, (name, probabilities) in zip(column[len(true_rows) :], rows.items(), strict=True):
        draw_marginals(axes, probabilities, name, POSTERIOR_MAP)
    share_frames(column, len(next(iter(rows.values()))))
    return figure


def reconstruction(
    x: Float[np.ndarray, "T D"],
    mean: Float[np.ndarray, "T D"],
    std: Float[np.ndarray, "T D"] | None = None,
    *,
    columns: Sequence[str] = (),
    title: str = "",
) -> Figure:
    """What was observed and what the model makes of it; many channels become heat maps with the residual."""
    if x.shape[1] > MOST_CHANNELS:
        return _reconstruction_maps(x, mean, std, title)
    heights = _series_heights(x.shape[1], True)
    figure = new_figure(sum(heights) + 0.3 * len(heights) + 1.2, title)
    column, _ = _time_column(figure, heights)
    names = [f"{channel_name(columns, d)} ({_error(x[:, d], mean[:, d])})" for d in range(x.shape[1])]
    _draw_series(column, x, mean, names, std)
    share_frames(column, len(x))
    return figure


def draw_truth(axes: Axes, truth: Int[np.ndarray, " T"]) -> None:
    """The truth drawn as marginals are: one row per regime, light where it is active."""
    one_hot = truth[:, None] == np.arange(max(1, int(truth.max()) + 1))
    draw_marginals(axes, one_hot.astype(float), "truth", TRUTH_MAP)


def marginal_height(regimes: int) -> float:
    """Inches that K rows need to be told apart."""
    return min(0.35 + 0.13 * regimes, 2.6)


def _series_heights(channels: int, reconstructed: bool) -> list[float]:
    if channels > MOST_CHANNELS:
        return [_MAP] * (2 if reconstructed else 1)
    return [max(0.62, min(2.0, 3.0 / channels))] * channels


def _time_column(figure: Figure, heights: Sequence[float], *, beside: bool = False) -> tuple[list[Axes], Axes | None]:
    """Panels on one time axis, and one square panel at their right when asked for."""
    widths = [1.75, 1] if beside else [1]
    grid = GridSpec(len(heights), len(widths), figure, height_ratios=heights, width_ratios=widths)
    first = figure.add_subplot(grid[0, 0])
    column = [first, *(figure.add_subplot(grid[row, 0], sharex=first) for row in range(1, len(heights)))]
    return column, figure.add_subplot(grid[:, 1]) if beside else None


def _draw_series(
    panels: Sequence[Axes],
    x: Float[np.ndarray, "T D"],
    mean: Float[np.ndarray, "T D"] | None,
    columns: Sequence[str],
    std: Float[np.ndarray, "T D"] | None = None,
) -> None:
    if x.shape[1] > MOST_CHANNELS:
        draw_channel_map(panels[0], deviations(x, x), f"all {x.shape[1]} channels")
        note(panels[0], "in standard deviations, -3 (blue) to 3 (orange); grey = missing")
        if mean is not None:
            draw_channel_map(panels[1], deviations(mean, x), "reconstruction")
        return
    for channel, axes in enumerate(panels):
        styled(axes, channel_name(columns, channel))
        draw_channel(axes, x[:, channel], behind=mean is not None)
        if mean is not None:
            draw_reconstruction(axes, mean[:, channel], None if std is None else std[:, channel])
    if mean is not None:
        legend_above(panels[0])


def _reconstruction_maps(
    x: Float[np.ndarray, "T D"],
    mean: Float[np.ndarray, "T D"],
    std: Float[np.ndarray, "T D"] | None,
    title: str,
) -> Figure:
    figure = new_figure(3 * _MAP + 1.2, title)
    column, _ = _time_column(figure, [_MAP] * 3)
    _draw_series(column[:2], x, mean, ())
    residual = deviations(x, x) - deviations(mean, x) if std is None else (x - mean) / std
    name = "observed minus reconstruction" + ("" if std is None else ", in the model's standard deviations")
    draw_channel_map(column[2], residual, name)
    share_frames(column, len(x))
    return figure


def _error(observed: Float[np.ndarray, " T"], mean: Float[np.ndarray, " T"]) -> str:
    error = (observed - mean)[np.isfinite(observed - mean)]
    return f"rms error {np.sqrt(np.mean(error**2)):.3g}" if len(error) else "nothing observed"
