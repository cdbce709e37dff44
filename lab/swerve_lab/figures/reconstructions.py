"""Videos as a model draws them, beneath the originals: each video is one picture, averaged over time."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from swerve.report.canvas import new_figure, note, plain
from swerve.report.checks import check_shapes
from swerve.report.palette import INK, SHARE_MAP
from swerve.report.video import FAINTEST, PANEL

GAMMA = 0.45  # < 1 lifts straight driving, which lights a pixel for a few frames only


def time_weighted(frames: Float[np.ndarray, "T H W"]) -> Float[np.ndarray, "H W"]:
    """The mean over t of w_t frame_t, where w_t rises from `FAINTEST` in the first frame to 1 in the last."""
    weights = np.linspace(FAINTEST, 1.0, len(frames)).astype(frames.dtype)
    return np.tensordot(weights, frames, axes=1) / len(frames)


def video_reconstructions(
    original: Float[np.ndarray, "N T H W"],
    models: Mapping[str, Float[np.ndarray, "_ _ _ _"]],
    *,
    sequences: Sequence[str] = (),
    title: str = "",
) -> Figure:
    """A column per video, the original above; darker means later or longer, on one scale for each column."""
    check_shapes(models, original.shape)
    rows, columns = {"original": original, **models}, len(original)
    figure = new_figure(PANEL * len(rows) + 0.5, title, width=PANEL * columns + 0.4)
    panels = figure.subplots(len(rows), columns, squeeze=False)
    scales = [PowerNorm(GAMMA, vmin=0, vmax=float(time_weighted(frames).max()), clip=True) for frames in original]
    for line, (name, videos) in zip(panels, rows.items(), strict=True):
        for axes, frames, scale in zip(line, videos, scales, strict=True):
            axes.imshow(time_weighted(frames), cmap=SHARE_MAP, norm=scale, interpolation="nearest")
            axes.set(xticks=(), yticks=())
            axes.spines[:].set_color("#b8bfca")
        line[0].set_title(plain(name), loc="left", fontsize=10.5, fontweight="bold", color=INK, pad=4)
    for axes, name in zip(panels[0], sequences, strict=False):
        note(axes, name)
    return figure
