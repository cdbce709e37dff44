"""Small drawings as SVG inside the page: sharp on any screen, and in the colours of its light or dark scheme.

Classes (style.css) give ink and grid; `regime_paint` gives a regime its colour.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from swerve.report.markup import Markup, tag

MOST_POINTS = 300
FEWEST_EXITS = 0.03


def regime_paint(regime: int) -> str:
    """The colour of a regime in either scheme."""
    return f"var(--r{regime})"


def drawing(width: float | int, height: float | int, label: str, *parts: Markup) -> Markup:
    """A picture of this many units, as wide as its place."""
    return tag("svg", *parts, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=label)


def words(x: float | int, y: float | int, text: str, anchor: str = "middle", **look: str | float) -> Markup:
    """Text at a place."""
    return tag("text", text, x=float(x), y=float(y), text_anchor=anchor, **look)


def number(value: float | int) -> str:
    """Short, with thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def durations(lengths: Int[np.ndarray, " n"], regime: int) -> Markup:
    """A histogram of how long stays last."""
    width, height, bottom = 240, 92, 74
    longest = int(lengths.max())
    bin_width = -(-longest // 24)
    counts = np.bincount((lengths - 1) // bin_width)
    bar = width / len(counts)
    gap = 1.0 if bar > 3 else 0.0
    tall = (bottom - 16) * counts / counts.max()
    bars = [
        tag(
            "rect",
            tag("title", f"{i * bin_width + 1}-{(i + 1) * bin_width} frames: {count:,} stays"),
            x=float(i * bar),
            y=float(bottom - max(tall[i], 1.5)),
            width=float(bar - gap),
            height=float(max(tall[i], 1.5)),
            fill=regime_paint(regime),
        )
        for i, count in enumerate(counts)
        if count
    ]
    axis = tag("line", x1=0, x2=width, y1=bottom, y2=bottom, class_="axis")
    ticks = [
        words(0, height - 4, "1", "start"),
        words(width / 2, height - 4, "frames in one stay"),
        words(width, height - 4, f"{len(counts) * bin_width:,}", "end"),
        words(width, 10, f"highest bar: {counts.max():,}", "end"),
    ]
    return drawing(width, height, "Histogram of how long stays last", *bars, axis, *ticks)


def successors(shares: Float[np.ndarray, "K K"], time: Float[np.ndarray, " K"], names: Sequence[str]) -> Markup:
    """Regimes in a circle, as large as their share of the time; an arrow is as broad as it is often taken."""
    used = np.flatnonzero(time > 0)
    size, ring = 400.0, 122.0 if len(used) > 2 else 92.0
    angles = -np.pi / 2 + 2 * np.pi * np.arange(len(used)) / max(len(used), 1) + (np.pi / 2 if len(used) == 2 else 0)
    circle = size / 2 + ring * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    place = dict(zip(used.tolist(), circle, strict=True))
    biggest = min(40.0, 2.2 * ring / max(len(used), 2))
    radius = {k: max(9.0, biggest * float(np.sqrt(time[k] / time.max()))) for k in place}
    arrows = [
        _arrow(place[j], place[k], radius[j], radius[k], float(shares[j, k]), j, f"{names[j]} to {names[k]}")
        for j in place
        for k in place
        if j != k and shares[j, k] > FEWEST_EXITS  # NaN where nothing leaves
    ]
    nodes = [
        tag("circle", tag("title", f"{names[k]}: {time[k]:.1%} of the time"), cx=float(place[k][0]),
            cy=float(place[k][1]), r=radius[k], fill=regime_paint(k))
        for k in place
    ]  # fmt: skip
    labels = [_node_label(place[k], radius[k], names[k], size) for k in place]
    return drawing(size, size, "Which regime follows which", *arrows, *nodes, *labels)


def _arrow(start, end, away: float, before: float, share: float, regime: int, what: str) -> Markup:
    """Bent to its left, so that the way there and the way back lie apart."""
    along = (end - start) / np.linalg.norm(end - start)
    aside = np.array([along[1], -along[0]])
    width = 1.2 + 7 * share
    first = start + away * (0.92 * along + 0.38 * aside)
    tip = end - (before + 3) * (0.92 * along - 0.38 * aside)
    bend = (first + tip) / 2 + 0.16 * np.linalg.norm(tip - first) * aside
    heading = (tip - bend) / np.linalg.norm(tip - bend)
    across = np.array([heading[1], -heading[0]])
    back, half = 7 + width, 3 + width * 0.75
    base = tip - back * heading
    head = " L".join(f"{x:.1f},{y:.1f}" for x, y in (tip, base + half * across, base - half * across))
    curve = f"M{first[0]:.1f},{first[1]:.1f} Q{bend[0]:.1f},{bend[1]:.1f} {base[0]:.1f},{base[1]:.1f}"
    middle = 0.25 * first + 0.5 * bend + 0.25 * base + (9 + width / 2) * aside
    return tag(
        "g",
        tag("title", f"{what}: {share:.0%} of the exits"),
        tag("path", d=curve, fill="none", stroke=regime_paint(regime), stroke_width=width),
        tag("path", d=f"M{head}Z", fill=regime_paint(regime)),
        *([words(middle[0], middle[1] + 4, f"{share:.0%}", class_="small")] if share >= 0.1 else []),
        class_="arrow",
    )


def _node_label(place, radius: float, name: str, size: float) -> Markup:
    """Above the nodes of the upper half, below the others: beside them there is no room."""
    down = place[1] > size / 2 - 1
    return words(place[0], place[1] + (radius + 17 if down else -radius - 8), short(name, 16), class_="name")


def short(text: str, longest: int) -> str:
    """Cut where there is no room for more."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def curves(
    step: Int[np.ndarray, " S"],
    values: Float[np.ndarray, "R S"],
    chosen: int,
    title: str,
    *,
    unit: str = "",
    window: tuple[float, float] | None = None,
) -> Markup:
    """A line for every restart over the steps of training; the chosen one on top."""
    width, height, left, bottom, top = 420.0, 200.0, 46.0, 172.0, 24.0
    finite = values[np.isfinite(values)]
    if not len(finite):
        return Markup("")
    low, high = window or (float(finite.min()), float(finite.max()))
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
    thin = slice(None, None, -(-len(step) // MOST_POINTS))
    across = left + (width - left - 8) * (step[thin] - step[0]) / max(step[-1] - step[0], 1)
    up = bottom - (bottom - top) * np.clip((values[:, thin] - low) / (high - low), -0.02, 1)
    order = [r for r in range(len(values)) if r != chosen] + [chosen]
    lines = [
        tag("path", tag("title", f"restart {r}" + (", chosen" if r == chosen else "")), d=polyline(across, up[r]),
            class_="chosen" if r == chosen else "restart")
        for r in order
    ]  # fmt: skip
    grid = [
        part
        for level in np.linspace(low, high, 4)
        for y in [bottom - (bottom - top) * (level - low) / (high - low)]
        for part in (
            tag("line", x1=left, x2=width - 8, y1=float(y), y2=float(y), class_="grid"),
            words(left - 6, y + 3.5, f"{number(level)}{unit}", "end"),
        )
    ]
    ends = [words(left, 192, f"{step[0]:,}", "start"), words(width - 8, 192, f"{step[-1]:,}", "end")]
    name = words(left, 12, title, "start", class_="name")
    return drawing(width, height, title, *grid, *lines, *ends, words((width + left) / 2, 192, "training step"), name)


def polyline(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> str:
    """A path that breaks where y is NaN; a lone point becomes a dot."""
    seen = np.isfinite(y)
    begins = seen & ~np.r_[False, seen[:-1]]
    alone = begins & ~np.r_[seen[1:], False]
    parts = [
        f"{'M' if begins[i] else 'L'}{x[i]:.1f},{y[i]:.1f}{'h0.1' if alone[i] else ''}" for i in np.flatnonzero(seen)
    ]
    return "".join(parts)
