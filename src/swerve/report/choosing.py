"""How many regimes: the held-out bound and the agreement of restarts for every number that was tried."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from swerve.report.canvas import new_figure, styled
from swerve.report.palette import BLUE, INK, MUTED


def choosing(
    regimes: Int[np.ndarray, " N"],
    behind: Float[np.ndarray, " N"],
    error: Float[np.ndarray, " N"],
    agreement: Float[np.ndarray, " N"],
    *,
    chosen: int,
    threshold: float,
    title: str = "",
) -> Figure:
    """Two panels over the number of regimes; the chosen one is marked in both. Unknown agreement is NaN."""
    figure = new_figure(3.6, title)
    bound, agree = figure.subplots(1, 2)
    styled(bound, "held-out bound, less the best (nats per frame)")
    bound.errorbar(regimes, behind, yerr=error, color=BLUE, marker="o", markersize=5, capsize=3, linewidth=1.2)
    bound.axhline(0.0, color=MUTED, linewidth=0.8, linestyle=":")
    styled(agree, "agreement of restarts (adjusted Rand index)")
    agree.plot(regimes, agreement, color=BLUE, marker="o", markersize=5, linewidth=1.2)
    agree.axhline(threshold, color=MUTED, linewidth=0.8, linestyle="--")
    agree.set_ylim(min(0.0, np.nanmin([*agreement, 0.0])) - 0.03, 1.05)
    for axes, values in ((bound, behind), (agree, agreement)):
        _mark(axes, regimes, values, chosen)
        axes.set_xlabel("regimes (bars: one standard error of the difference)" if axes is bound else "regimes")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _mark(axes, regimes: Sequence[int] | np.ndarray, values: np.ndarray, chosen: int) -> None:
    value = float(values[list(regimes).index(chosen)])
    axes.axvline(chosen, color=INK, linewidth=0.8, alpha=0.25)
    if np.isfinite(value):
        axes.plot([chosen], [value], marker="o", markersize=12, fillstyle="none", color=INK)
        label = {"fontsize": 9, "color": INK, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1}}
        axes.annotate("chosen", (chosen, value), xytext=(9, -22), textcoords="offset points", **label)
