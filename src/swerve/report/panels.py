"""What one panel shows: a channel, a ribbon, a heat map, a path in the plane."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch

from swerve.report.canvas import plain, styled, whole_numbers
from swerve.report.palette import DEVIATION_MAP, GAP, INK, MUTED, OBSERVED, regime_colors
from swerve.report.spans import true_spans

MOST_CHANNELS = 8
MOST_COLUMNS = 800
# Beyond this many, lines would hide the series they are to explain; the ribbon still shows every change.
MOST_CHANGE_LINES = 100
FAINTEST = 0.2


def channel_name(columns: Sequence[str], channel: int) -> str:
    """The column's name, or its number when it has none."""
    return columns[channel] if channel < len(columns) and columns[channel] else f"channel {channel}"


def draw_channel(axes: Axes, values: Float[np.ndarray, " T"], *, behind: bool = False) -> None:
    """A line that breaks at missing values; lone observed frames become dots, gaps are shaded.

    A line that lies `behind` another is broad and pale, so that both can be seen where they agree.
    """
    color, width = (OBSERVED, 3.0) if behind else (INK, 1.2)
    finite = np.isfinite(values)
    shown = np.where(finite, values, np.nan)
    lone = _lone(finite)
    axes.plot(shown, color=color, linewidth=width, label="observed", solid_joinstyle="round")
    axes.plot(lone, shown[lone], ".", color=color, markersize=3 + width)
    shade_spans(axes, true_spans(~finite))


def draw_reconstruction(axes: Axes, mean: Float[np.ndarray, " T"], std: Float[np.ndarray, " T"] | None = None) -> None:
    """The model's line over the observed one, with a band of two standard deviations."""
    if std is not None:
        band = {"color": INK, "alpha": 0.13, "linewidth": 0, "label": "± 2 std"}
        axes.fill_between(np.arange(len(mean)), mean - 2 * std, mean + 2 * std, **band)
    marker = "." if len(mean) == 1 else ""
    axes.plot(mean, color=INK, linewidth=1.0, marker=marker, label="reconstruction")


def shade_spans(axes: Axes, spans: Int[np.ndarray, "n 2"]) -> None:
    """Grey columns behind the data, one for each span of missing frames."""
    corners = [[(a - 0.5, 0), (a - 0.5, 1), (b - 0.5, 1), (b - 0.5, 0)] for a, b in spans]
    columns = PolyCollection(corners, facecolor=GAP, edgecolor="none", zorder=0.5)
    columns.set_transform(axes.get_xaxis_transform())
    axes.add_collection(columns, autolim=False)


def draw_change_lines(axes: Axes, changes: Int[np.ndarray, " n"]) -> None:
    """A thin line at the border before every change point."""
    if len(changes) > MOST_CHANGE_LINES:
        return
    ends = [[(t - 0.5, 0), (t - 0.5, 1)] for t in changes]
    lines = LineCollection(ends, colors=MUTED, linewidths=0.7, alpha=0.55, zorder=1.5, gid="change points")
    lines.set_transform(axes.get_xaxis_transform())
    axes.add_collection(lines, autolim=False)


def opacity(confidence: Float[np.ndarray, " T"], regimes: int) -> Float[np.ndarray, " T"]:
    """1 where the regime is certain, faint where it is no likelier than chance (1 / K)."""
    if regimes == 1:
        return np.ones_like(confidence)
    above_chance = (confidence - 1 / regimes) / (1 - 1 / regimes)
    return FAINTEST + (1 - FAINTEST) * np.clip(np.nan_to_num(above_chance), 0, 1)


def draw_ribbon(
    axes: Axes, labels: Int[np.ndarray, " T"], title: str, alpha: Float[np.ndarray, " T"] | None = None
) -> AxesImage:
    """One coloured cell for every frame, thinned towards white by `alpha`."""
    thinned = np.ones(len(labels)) if alpha is None else alpha
    on_white = 1 - thinned[:, None] * (1 - regime_colors(labels))
    axes.set_yticks([])
    return _draw_cells(axes, on_white[:, None], title)


def draw_marginals(axes: Axes, probabilities: Float[np.ndarray, "T K"], title: str, colormap: Colormap) -> AxesImage:
    """K rows by T frames, lighter for more probable, with each regime's colour at the left of its row."""
    image = _draw_cells(axes, probabilities, title, cmap=colormap, vmin=0, vmax=1)
    axes.yaxis.set_major_locator(whole_numbers(6))
    axes.tick_params(axis="y", length=0, pad=11)
    keys = axes.inset_axes((-0.011, 0, 0.007, 1))
    keys.imshow(regime_colors(np.arange(probabilities.shape[1]))[:, None], aspect="auto", interpolation="nearest")
    keys.set_axis_off()
    return image


def draw_channel_map(axes: Axes, values: Float[np.ndarray, "T D"], title: str) -> AxesImage:
    """D rows by T frames of values in standard deviations; missing ones are grey."""
    image = _draw_cells(axes, values, title, cmap=DEVIATION_MAP, vmin=-3, vmax=3)
    axes.yaxis.set_major_locator(whole_numbers(6))
    return image


def draw_path(axes: Axes, x: Float[np.ndarray, "T 2"], labels: Int[np.ndarray, " T"]) -> None:
    """The way through the plane. The step from t - 1 to t has the colour of s_t, the regime that made it."""
    colors = regime_colors(labels)
    steps = np.stack([x[:-1], x[1:]], axis=1)
    seen = np.isfinite(steps).all(axis=(1, 2))
    axes.add_collection(LineCollection(list(steps[seen]), colors=colors[1:][seen], linewidths=1.8, capstyle="round"))
    whole = np.asarray(np.isfinite(x).all(axis=1))
    lone, first = _lone(whole), np.flatnonzero(whole)[:1]
    axes.scatter(*x[first].T, s=50, facecolor="white", edgecolor=INK, zorder=3)
    axes.scatter(*x[lone].T, c=colors[lone], s=14, linewidths=0, zorder=4)
    axes.autoscale_view()
    axes.set_anchor("N")
    if whole.any() and _comparable(np.ptp(x[whole], axis=0)):
        axes.set_aspect("equal", adjustable="box")


def add_regime_legend(figure: Figure, regimes: Int[np.ndarray, " n"], names: Sequence[str] = ()) -> None:
    """Which colour is which regime, below everything else; true regimes may have names, others then match none."""
    handles = [
        Patch(facecolor=color, label=_regime_name(int(regime), names))
        for regime, color in zip(regimes, regime_colors(regimes), strict=True)
    ]
    columns = min(len(handles), 14)
    # Legends fill column by column; a reader expects the numbers to run along the rows.
    by_row = [handle for column in range(columns) for handle in handles[column::columns]]
    legend = figure.legend(
        handles=by_row,
        title="regime",
        loc="outside lower left",
        ncols=columns,
        frameon=False,
        fontsize=9,
        title_fontsize=9,
        labelcolor=INK,
        alignment="left",
        handlelength=1.2,
        handleheight=0.9,
        columnspacing=1.3,
    )
    legend.get_title().set_color(INK)


def _regime_name(regime: int, names: Sequence[str]) -> str:
    if regime < 0:
        return "unknown"
    if not names:
        return f"{regime}"
    if regime >= len(names):
        return "unmatched"
    name = plain(names[regime], 40)
    return f" {name}" if name.startswith("_") else name  # a legend leaves out what begins with an underscore


def deviations(x: Float[np.ndarray, "T D"], of: Float[np.ndarray, "T D"]) -> Float[np.ndarray, "T D"]:
    """x in standard deviations from the mean of each channel of `of`; constant channels are not scaled."""
    seen = np.ma.masked_invalid(of)
    scale = np.ma.filled(seen.std(axis=0), 1.0)
    return (x - np.ma.filled(seen.mean(axis=0), 0.0)) / np.where(scale > 0, scale, 1.0)


def _draw_cells(axes: Axes, cells: Float[np.ndarray, "T rows *rgb"], title: str, **look) -> AxesImage:
    styled(axes, title, grid=False)
    axes.spines[:].set_visible(False)
    # With more frames than pixels, sampling would drop short regimes: blend whole blocks of frames instead.
    block = -(-len(cells) // MOST_COLUMNS)
    pooled = np.ma.masked_invalid(_blocks(cells, block)).mean(axis=1)
    extent = (-0.5, len(pooled) * block - 0.5, cells.shape[1] - 0.5, -0.5)
    return axes.imshow(np.ma.swapaxes(pooled, 0, 1), aspect="auto", extent=extent, interpolation="nearest", **look)


def _blocks(cells: Float[np.ndarray, "T *rest"], size: int) -> Float[np.ndarray, "blocks size *rest"]:
    missing = -len(cells) % size
    padded = np.pad(cells, [(0, missing)] + [(0, 0)] * (cells.ndim - 1), constant_values=np.nan)
    return padded.reshape(-1, size, *cells.shape[1:])


def _lone(seen: Bool[np.ndarray, " T"]) -> Int[np.ndarray, " n"]:
    spans = true_spans(seen)
    return spans[spans[:, 1] - spans[:, 0] == 1, 0]


def _comparable(ranges: Float[np.ndarray, " 2"]) -> bool:
    return bool(0 < ranges.max() <= 5 * ranges.min())
