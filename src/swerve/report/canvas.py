"""The sheet all figures are drawn on: one look, no global matplotlib state."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from swerve.data.atomic import whole_file
from swerve.report.palette import GRID, INK, MUTED

DOTS_PER_INCH = 150
WIDTH = 10.0


def new_figure(height: float, title: str = "", width: float = WIDTH) -> Figure:
    """An empty white sheet of the given size in inches."""
    layout = ConstrainedLayoutEngine(h_pad=0.05, w_pad=0.06, hspace=0.03, wspace=0.03)
    figure = Figure(figsize=(width, height), layout=layout, facecolor="white")
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(plain(title), x=0.012, ha="left", fontsize=13, fontweight="bold", color=INK)
    return figure


def styled(axes: Axes, title: str = "", *, grid: bool = True, longest: int = 90) -> Axes:
    """The house look: two quiet spines, a light grid behind the data, a small title at the left."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#b8bfca")
    axes.tick_params(colors=MUTED, labelsize=9, length=3, color="#b8bfca")
    axes.xaxis.label.set(fontsize=9.5, color=MUTED)
    axes.yaxis.label.set(fontsize=9.5, color=MUTED)
    axes.set_axisbelow(True)
    if grid:
        axes.grid(True, color=GRID, linewidth=0.8)
    if title:
        axes.set_title(plain(title, longest), loc="left", fontsize=9.5, color=INK, pad=4)
    return axes


def note(axes: Axes, text: str) -> None:
    """A quiet remark above the right end of a panel."""
    axes.set_title(plain(text), loc="right", fontsize=8.5, color=MUTED, pad=4)


def legend_above(axes: Axes) -> None:
    """A legend above the right end of a panel, where it covers no data."""
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=3,
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        borderaxespad=0.0,
        borderpad=0.2,
    )


def mark(label: str, **look: Any) -> Line2D:
    """A key for a mark without a line."""
    return Line2D([], [], linestyle="", label=label, **look)


def keys_on_top(figure: Figure, *keys: Line2D) -> None:
    """What marks stand for, above the right end of the whole figure."""
    figure.legend(
        handles=list(keys), loc="outside upper right", ncols=len(keys), frameon=False, fontsize=9, labelcolor=INK
    )


def share_frames(column: Sequence[Axes], frames: int) -> None:
    """Panels that share the time axis name it once, at the bottom, and show exactly the frames there are."""
    for axes in column[:-1]:
        axes.tick_params(labelbottom=False, bottom=False)
    column[-1].set(xlabel="frame", xlim=(-0.5, frames - 0.5))
    column[-1].xaxis.set_major_locator(whole_numbers(9))


def whole_numbers(most: int) -> MaxNLocator:
    """Ticks at round whole numbers, at most so many."""
    return MaxNLocator(most, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10])


def plain(text: str, longest: int = 90) -> str:
    """A user's words, cut to a length and never read as mathematics."""
    shown = text if len(text) <= longest else text[: longest - 1] + "…"
    return shown.replace("$", r"\$")


def png_bytes(figure: Figure) -> bytes:
    """The figure as a PNG file in memory."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return buffer.getvalue()


def save(figure: Figure, path: str | Path) -> Path:
    """Write the figure as a PNG with 150 dots per inch, whole or not at all, and make its folder if need be."""
    path = Path(path)
    content = png_bytes(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        temporary.write_bytes(content)
    return path
