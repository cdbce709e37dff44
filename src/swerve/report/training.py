"""Figures of how a model learned."""

from collections.abc import Mapping
from typing import TypedDict

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, PercentFormatter

from swerve.report.canvas import legend_above, new_figure, share_frames, styled, whole_numbers
from swerve.report.palette import BLUE, INK, MUTED, ORANGE, PALE_BLUE, POSTERIOR_MAP
from swerve.report.panels import draw_channel, draw_marginals, draw_reconstruction
from swerve.report.recordings import draw_truth, marginal_height

_STORY_CHANNELS = 3


class History(TypedDict):
    """What training wrote down at S evaluations of R restarts."""

    step: Int[np.ndarray, " S"]
    bound: Float[np.ndarray, "R S"]
    """Held-out bound, nats per frame; NaN after a restart was dropped."""
    regimes_in_use: Int[np.ndarray, "R S"] | Float[np.ndarray, "R S"]
    frame_f1: Float[np.ndarray, " S"] | None
    """Of the chosen restart, 0..1, where the truth is known."""
    chosen: int


def training_curves(history: History, *, title: str = "") -> Figure:
    """Held-out bound of every restart, the same on the paper's log scale, regimes in use, and frame F1."""
    small = 2 if history["frame_f1"] is None else 3
    figure = new_figure(6.4, title)
    grid = GridSpec(2, small, figure, height_ratios=[1.35, 1])
    step, bound, chosen = history["step"], _finite(history["bound"]), history["chosen"]

    top = styled(figure.add_subplot(grid[0, :]), "held-out bound, nats per frame (higher is better)")
    _draw_bounds(top, step, bound, chosen)
    logs = styled(figure.add_subplot(grid[1, 0]), "ln(nll - min(nll) + 1), per frame")
    _draw_restarts(logs, step, log_relative(-bound), chosen)
    used = styled(figure.add_subplot(grid[1, 1]), "regimes in use")
    in_use = np.where(np.isfinite(bound), history["regimes_in_use"], np.nan)
    _draw_restarts(used, step, in_use, chosen, drawstyle="steps-post")
    used.yaxis.set_major_locator(whole_numbers(6))
    if history["frame_f1"] is not None:
        scored = styled(figure.add_subplot(grid[1, 2]), "frame F1 of the chosen restart")
        draw_curve(scored, step, history["frame_f1"], color=BLUE)
        percent(scored)
    for axes in figure.axes:
        name_steps(axes)
    return figure


def learning_story(
    x: Float[np.ndarray, "T D"],
    reconstruction: Float[np.ndarray, "T D"],
    truth: Int[np.ndarray, " T"],
    marginals_by_step: Mapping[int, Float[np.ndarray, "T K"]],
    history_steps: Int[np.ndarray, " S"],
    nll: Float[np.ndarray, " S"],
    frame_f1: Float[np.ndarray, " S"],
    *,
    title: str = "",
) -> Figure:
    """The paper's bouncing-ball figure: a sequence, its truth, how the marginals find it, and when."""
    channels = min(x.shape[1], _STORY_CHANNELS)
    regimes = [int(truth.max()) + 1, *(m.shape[1] for m in marginals_by_step.values())]
    heights = [1.3] * channels + [marginal_height(count) for count in regimes]
    frames_height, progress_height = sum(heights) + 0.3 * len(heights) + 0.6, 2.6
    figure = new_figure(frames_height + progress_height, title)
    sheets = figure.subfigures(2, 1, squeeze=False, height_ratios=[frames_height, progress_height])
    above, below = sheets.flat
    column = list(above.subplots(len(heights), 1, sharex=True, gridspec_kw={"height_ratios": heights}))

    for channel, axes in enumerate(column[:channels]):
        styled(axes, "input and reconstruction" if channel == 0 else f"channel {channel}")
        draw_channel(axes, x[:, channel], behind=True)
        draw_reconstruction(axes, reconstruction[:, channel])
    legend_above(column[0])
    draw_truth(column[channels], truth)
    for axes, step in zip(column[channels + 1 :], sorted(marginals_by_step), strict=True):
        draw_marginals(axes, marginals_by_step[step], f"marginals at step {step:,}", POSTERIOR_MAP)
    share_frames(column, len(x))
    _draw_progress(below.subplots(), history_steps, nll, frame_f1, sorted(marginals_by_step))
    return figure


def log_relative(nll: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """ln(nll - min(nll) + 1): zero at the best value ever seen, so that late progress stays visible."""
    finite = nll[np.isfinite(nll)]
    return np.log(_finite(nll) - finite.min(initial=np.inf) + 1) if len(finite) else _finite(nll)


def _draw_progress(
    axes: Axes,
    steps: Int[np.ndarray, " S"],
    nll: Float[np.ndarray, " S"],
    frame_f1: Float[np.ndarray, " S"],
    shown_steps: list[int],
) -> None:
    styled(axes, "training progress; dotted: the steps shown above")
    draw_curve(axes, steps, log_relative(nll), color=ORANGE)
    axes.set_ylabel("ln(nll - min(nll) + 1)", color=ORANGE)
    for step in shown_steps:
        axes.axvline(step, color=MUTED, linewidth=1, linestyle=":")
    scored = axes.twinx()
    styled(scored, grid=False)
    draw_curve(scored, steps, frame_f1, color=BLUE)
    percent(scored)
    scored.set_ylabel("frame F1", color=BLUE)
    name_steps(axes)


def _draw_bounds(axes: Axes, step: Int[np.ndarray, " S"], bound: Float[np.ndarray, "R S"], chosen: int) -> None:
    _draw_restarts(axes, step, bound, chosen)
    lowest, highest = shown_range(bound)
    last = [np.flatnonzero(np.isfinite(row))[-1:] for row in bound]
    dropped = [(r, t) for r, ends in enumerate(last) for t in ends if t < len(step) - 1]
    for restart, t in dropped:
        # One that ended below the shown range is marked on its lower edge.
        height = max(bound[restart, t], lowest)
        axes.scatter(step[t], height, marker="x", s=26, color=MUTED, linewidths=1.2, clip_on=False)
    if lowest < highest:
        axes.set_ylim(lowest, highest)
    keys = _bound_keys(chosen, len(bound), bool(dropped))
    axes.legend(handles=keys, loc="lower right", fontsize=9, labelcolor=INK, edgecolor="none")


def shown_range(bound: Float[np.ndarray, "R S"]) -> tuple[float, float]:
    """Early bounds can be thousands of nats down: show where restarts part; the log scale has the climb."""
    late = bound[:, bound.shape[1] // 3 :]
    finite = late[np.isfinite(late)]
    if len(finite) == 0:
        return -np.inf, -np.inf
    lowest, highest = np.percentile(finite, 5), finite.max()
    margin = 0.08 * (highest - lowest)
    return float(lowest - margin), float(highest + margin)


def _bound_keys(chosen: int, restarts: int, dropped: bool) -> list[Line2D]:
    keys = [Line2D([], [], color=BLUE, linewidth=2.2, label=f"chosen (restart {chosen})")]
    if restarts > 1:
        keys.append(Line2D([], [], color=PALE_BLUE, linewidth=1.2, label="other restarts"))
    if dropped:
        keys.append(Line2D([], [], color=MUTED, marker="x", linestyle="", markersize=5, label="dropped"))
    return keys


def _draw_restarts(
    axes: Axes, step: Int[np.ndarray, " S"], values: Float[np.ndarray, "R S"], chosen: int, **look
) -> None:
    for restart, row in enumerate(values):
        if restart != chosen:
            draw_curve(axes, step, row, color=PALE_BLUE, linewidth=1.0, alpha=0.8, **look)
    draw_curve(axes, step, values[chosen], color=BLUE, linewidth=2.2, zorder=3, gid="chosen", **look)


def draw_curve(axes: Axes, step: Int[np.ndarray, " S"], values: np.ndarray, **look) -> None:
    """A line, or a dot where there is a single point."""
    alone = "o" if np.isfinite(values).sum() == 1 else ""
    axes.plot(step, values, marker=alone, **{"linewidth": 1.8, **look})


def _finite(values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    return np.where(np.isfinite(values), values, np.nan)


def percent(axes: Axes) -> None:
    """Shares from 0 to 1, written as percent."""
    axes.set_ylim(0, 1.04)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def name_steps(axes: Axes) -> None:
    """Training steps along the bottom."""
    axes.set_xlabel("training step")
    axes.xaxis.set_major_locator(whole_numbers(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
