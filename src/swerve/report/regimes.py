"""What each regime is like: how much of the time, for how long, and what comes next."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swerve.report.canvas import new_figure, note, plain, styled, whole_numbers
from swerve.report.palette import INK, MUTED, SHARE_MAP, regime_colors
from swerve.report.spans import regime_spans

_LEAST_PER_ROW, _MOST_PER_ROW = 3, 5
_MOST_NUMBERED = 12
_LONGEST_NAME = 24  # characters


def regime_cards(
    labels: Sequence[Int[np.ndarray, "_"]], regimes: int, *, names: Sequence[str] = (), title: str = ""
) -> Figure:
    """Share of time, durations and successors of each of K regimes, pooled over recordings."""
    names = names or [f"regime {k}" for k in range(regimes)]
    spells = regime_spells(labels)
    shown = [regime for regime in range(regimes) if len(spells.get(regime, ()))]
    per_row = min(max(len(shown), _LEAST_PER_ROW), _MOST_PER_ROW)
    rows = -(-len(shown) // per_row)
    top, cards = max(2.6, 0.27 * regimes + 0.7), 1.75 * rows
    figure = new_figure(top + cards + 0.6, title)
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=[top, cards]).flat
    share_axes, successor_axes = above.subplots(1, 2, width_ratios=[1.5 if regimes <= _MOST_NUMBERED else 1, 1])
    _draw_shares(share_axes, np.array([spells[k].sum() if k in spells else 0 for k in range(regimes)]), names)
    _draw_successors(successor_axes, successor_shares(labels, regimes))
    _draw_durations(list(below.subplots(rows, per_row, squeeze=False).flat), spells, shown, names)
    return figure


def regime_spells(labels: Sequence[Int[np.ndarray, "_"]]) -> dict[int, Int[np.ndarray, " n"]]:
    """Lengths in frames of every unbroken stay, by regime; stays cut by a recording's ends are included."""
    spells: dict[int, list[int]] = {}
    for sequence in labels:
        for first, end in regime_spans(sequence):
            spells.setdefault(int(sequence[first]), []).append(int(end - first))
    return {regime: np.array(lengths) for regime, lengths in spells.items()}


def successor_shares(labels: Sequence[Int[np.ndarray, "_"]], regimes: int) -> Float[np.ndarray, "K K"]:
    """[from j, to k]: share of the exits from j that lead to k; NaN if j never ends, and for j = k."""
    counts = np.zeros((regimes, regimes))
    for sequence in labels:
        known = (sequence[:-1] >= 0) & (sequence[1:] >= 0)
        np.add.at(counts, (sequence[:-1][known], sequence[1:][known]), 1)
    np.fill_diagonal(counts, 0)
    exits = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, exits, out=np.full_like(counts, np.nan), where=exits > 0)
    np.fill_diagonal(shares, np.nan)
    return shares


def _draw_shares(axes: Axes, frames: Int[np.ndarray, " K"], names: Sequence[str]) -> None:
    styled(axes, "share of time")
    axes.grid(False, axis="y")
    shares = frames / max(1, frames.sum())
    axes.barh(range(len(frames)), shares, height=0.7, color=regime_colors(np.arange(len(frames))))
    for regime, share in enumerate(shares):
        text = f"{100 * share:.1f}%" if share else "not used"
        axes.text(share + 0.015 * shares.max(), regime, text, va="center", fontsize=9, color=INK if share else MUTED)
    axes.set(ylim=(len(frames) - 0.4, -0.6), xlim=(0, min(1.0, shares.max()) * 1.2))
    axes.set_yticks(range(len(frames)), [plain(name, _LONGEST_NAME) for name in names])
    axes.xaxis.set_major_formatter(_percent)


def _percent(share: float, _: float | int | None) -> str:
    return f"{round(100 * share, 6):g}%" if share <= 1 else ""


def _draw_successors(axes: Axes, shares: Float[np.ndarray, "K K"]) -> None:
    styled(axes, "next regime when one ends (%)", grid=False)
    axes.spines[:].set_visible(False)
    axes.imshow(np.ma.masked_invalid(shares), cmap=SHARE_MAP, vmin=0, vmax=1, interpolation="nearest")
    axes.set_anchor("N")
    axes.set(xlabel="to regime", ylabel="from regime")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(whole_numbers(13))
    if not np.isfinite(shares).any():
        axes.text(0.5, 0.5, "no regime ends", transform=axes.transAxes, ha="center", fontsize=9, color=INK)
    if len(shares) > _MOST_NUMBERED:
        return
    for (row, column), share in np.ndenumerate(shares):
        if np.isfinite(share):
            color = "white" if share > 0.65 else INK
            axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=8.5, color=color)


def _draw_durations(
    panels: Sequence[Axes], spells: dict[int, Int[np.ndarray, " n"]], shown: list[int], names: Sequence[str]
) -> None:
    colors = regime_colors(np.array(shown, dtype=int))
    for axes, regime, color in zip(panels, shown, colors, strict=False):
        lengths = spells[regime]
        width = -(-int(lengths.max()) // 18)
        edges = np.arange(0.5, lengths.max() + width + 0.5, width)
        styled(axes, names[regime], longest=_LONGEST_NAME)
        note(axes, f"median {np.median(lengths):g}")
        axes.hist(lengths, bins=edges.tolist(), color=color)
        axes.yaxis.set_major_locator(whole_numbers(3))
        axes.xaxis.set_major_locator(whole_numbers(4))
        axes.set_xlabel("duration, frames")
    panels[0].set_ylabel("stays")
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
