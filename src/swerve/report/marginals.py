"""What each model believes about one sequence, stacked in the colours of the true regimes."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swerve.report.canvas import new_figure, note, share_frames, styled
from swerve.report.checks import check_shapes
from swerve.report.palette import regime_colors
from swerve.report.panels import add_regime_legend, draw_ribbon
from swerve.report.training import percent

RIBBON, SHARES = 0.3, 0.85  # inches
LEAST = 0.02  # a regime that is never more probable than this is not in the legend


def stacked_marginals(
    truth: Int[np.ndarray, " T"],
    marginals: Mapping[str, Float[np.ndarray, "_ _"]],
    *,
    regimes: Sequence[str] = (),
    title: str = "",
) -> Figure:
    """A ribbon of the truth, and for each model p(s_t = k | x) (T, K) stacked over k.

    Columns are in the numbers of the true regimes, so that one colour is one regime in all panels.
    """
    check_shapes({name: shares[:, 0] for name, shares in marginals.items()}, truth.shape)
    heights = [RIBBON, *[SHARES] * len(marginals)]
    figure = new_figure(sum(heights) + 0.3 * len(heights) + 0.9, title)
    column = list(figure.subplots(len(heights), 1, sharex=True, gridspec_kw={"height_ratios": heights}))
    draw_ribbon(column[0], truth, "truth")
    for axes, (name, shares) in zip(column[1:], marginals.items(), strict=True):
        draw_shares(axes, shares, name)
    note(column[1], "height of a colour: p(s = k | x)")
    share_frames(column, len(truth))
    believed = [np.flatnonzero(shares.max(axis=0) > LEAST) for shares in marginals.values()]
    add_regime_legend(figure, np.unique(np.concatenate([truth, *believed])), regimes)
    return figure


def draw_shares(axes: Axes, shares: Float[np.ndarray, "T K"], title: str) -> None:
    """Probabilities of regimes, one above the other."""
    styled(axes, title, grid=False)
    # A frame is as broad as in the ribbon: half a frame to both sides of its number.
    edges = np.arange(len(shares) + 1) - 0.5
    steps = np.concatenate([shares, shares[-1:]])
    axes.stackplot(edges, steps.T, step="post", colors=list(regime_colors(np.arange(shares.shape[1]))), linewidth=0)
    percent(axes)
    axes.set(ylim=(0, 1), yticks=(0, 0.5, 1))
