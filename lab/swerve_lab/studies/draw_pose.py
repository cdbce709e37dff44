"""Draws a dancer as recorded and as seen from the body itself, for docs/pose.md.

python -m swerve_lab.studies.draw_pose
"""

import sys
from dataclasses import replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from swerve.data.bvh import read_bvh
from swerve.types import Recording, Skeleton
from swerve.views.egocentric import Egocentric

ROOT = Path.cwd()
RECORDING = ROOT.parent / "shared" / "data" / "cmu_salsa" / "60_01.bvh.gz"
METRES = 0.056444  # per unit of this file
FRAMES = range(195, 255, 5)  # at 20 frames per second, a figure for each quarter of a second


def main(recording: Path = RECORDING, out: Path = ROOT / "docs" / "images" / "pose.png") -> None:
    whole = read_bvh(recording)
    dancer = replace(whole, x=whole.x[1::6] * METRES, times=whole.times[1::6])
    seen = Egocentric().read(dancer)
    figure, rows = plt.subplots(3, 1, figsize=(9, 5), height_ratios=[1, 1, 0.9], constrained_layout=True)
    for axes, series, what in zip(rows, (dancer, seen), ("as recorded", "seen from the body"), strict=False):
        for i, frame in enumerate(FRAMES):
            draw_figure(axes, points_of(series)[frame], series.skeleton, 0.95 * i)
        axes.set_aspect("equal")
        axes.set_title(f"{what}: from the front, every 0.25 s", loc="left", fontsize=9)
        axes.set_axis_off()
    turning = np.degrees(seen.x[:, seen.columns.index("body.turning")])
    rows[2].plot(dancer.times - dancer.times[0], turning, color="#3b6fb6", linewidth=1)
    rows[2].axhline(0, color="0.8", linewidth=0.8, zorder=0)
    rows[2].axvspan(FRAMES[0] / 20, FRAMES[-1] / 20, color="0.93", zorder=0)
    rows[2].set(xlabel="seconds", ylabel="turning\n(degrees / s)")
    for side in ("top", "right"):
        rows[2].spines[side].set_visible(False)
    figure.savefig(out, dpi=90)


def points_of(series: Recording) -> np.ndarray:
    place = {name: i for i, name in enumerate(series.columns)}
    nothing = np.zeros(len(series))  # the root stands over the origin
    columns = [series.x[:, place[name]] if name in place else nothing for name in series.skeleton.columns]
    return np.stack(columns, axis=1).reshape(len(series), -1, 3)


def draw_figure(axes, points: np.ndarray, skeleton: Skeleton, shift: float) -> None:
    for name, ends in zip(skeleton.joints, zip(points, points[list(skeleton.parents)], strict=True), strict=True):
        if name != skeleton.joints[0]:
            x, y, _ = np.transpose(ends)
            color = "#3b6fb6" if name[0] == "L" else "#d1602e" if name[0] == "R" else "0.3"
            axes.plot(x - points[0, 0] + shift, y, color=color, linewidth=1.4, solid_capstyle="round")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
