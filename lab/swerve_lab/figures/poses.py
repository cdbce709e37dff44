"""What a model believes about a dance, and how the dancer moves in each regime: the paper's figure of salsa."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swerve.report.canvas import new_figure, note, share_frames, styled
from swerve.report.marginals import RIBBON, SHARES, draw_shares
from swerve.report.palette import regime_colors
from swerve.report.panels import add_regime_legend, draw_ribbon

BODY = 1.5  # inches
SHOWN = 7  # poses of a regime


def posed_marginals(
    truth: Int[np.ndarray, " T"],
    marginals: Float[np.ndarray, "T K"],
    pose: Float[np.ndarray, "T J 3"],
    parents: Sequence[int],
    *,
    regimes: Sequence[str] = (),
    title: str = "",
) -> Figure:
    """A ribbon of what stands in for the truth, p(s_t = k | x), and poses from the longest stay in every regime.

    Bodies are seen from one side (x to the right, y up); time goes from left to right and from pale to dark. Columns of
    the marginals are in the numbers of the truth.
    """
    labels = marginals.argmax(axis=1)
    found = np.unique(labels)
    heights = [RIBBON, SHARES, *[BODY] * len(found)]
    figure = new_figure(sum(heights) + 0.3 * len(heights) + 0.9, title)
    column = list(figure.subplots(len(heights), 1, gridspec_kw={"height_ratios": heights}))
    draw_ribbon(column[0], truth, "direction of turns")
    draw_shares(column[1], marginals, "found")
    note(column[1], "height of a colour: p(s = k | x)")
    column[0].set_xlim(-0.5, len(truth) - 0.5)
    share_frames(column[:2], len(truth))
    for axes, regime in zip(column[2:], found, strict=True):
        begin, stop = longest_stay(labels, int(regime))
        frames = np.unique(np.linspace(begin, stop - 1, SHOWN).round().astype(int))
        name = regimes[regime] if regime < len(regimes) else f"regime {regime}"
        _draw_bodies(
            axes, pose[frames], parents, regime_colors(np.array([regime]))[0], f"{name}, frames {begin} to {stop - 1}"
        )
    add_regime_legend(figure, np.unique(np.concatenate([truth, found])), regimes)
    return figure


def longest_stay(labels: Int[np.ndarray, " T"], regime: int) -> tuple[int, int]:
    """First frame of the longest run of a regime, and the frame after its last."""
    inside = np.concatenate([[0], (labels == regime).astype(int), [0]])
    begins, stops = np.flatnonzero(np.diff(inside) > 0), np.flatnonzero(np.diff(inside) < 0)
    longest = int(np.argmax(stops - begins))
    return int(begins[longest]), int(stops[longest])


def _draw_bodies(axes: Axes, pose: Float[np.ndarray, "F J 3"], parents: Sequence[int], color, title: str) -> None:
    """Side by side, a body's width apart, so that turns can be followed."""
    styled(axes, title, grid=False)
    centred = pose - pose[:, :1] * np.array([1.0, 0.0, 1.0])
    apart = 1.4 * max(float(np.ptp(centred[..., 0])), 0.4 * float(np.ptp(centred[..., 1])))
    for i, body in enumerate(centred):
        for joint, parent in enumerate(parents):
            if parent >= 0:
                line = body[[parent, joint]]
                axes.plot(
                    line[:, 0] + i * apart, line[:, 1], color=color, alpha=0.4 + 0.6 * (i + 1) / len(centred), lw=1.6
                )
    axes.set(aspect="equal", xticks=(), yticks=(), anchor="W")
    axes.spines[["left", "bottom"]].set_visible(False)
