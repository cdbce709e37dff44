"""Recordings that others have published, by name. They lie beside the project, never in it (docs/boards.md)."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from scipy.io import loadmat
from scipy.ndimage import gaussian_filter1d

from swerve.errors import InputError
from swerve.types import Recording, Skeleton
from swerve_lab.boards.board import Recordings

DATA = Path("../shared/data")
"""Where they are looked for, seen from a checkout."""
DANCES = (4, 5, 6)  # of the six dances, those whose every frame is labelled
SALSA_RATE = 20.0  # frames per second: every 6th of 120
SMOOTHING = 5.0  # frames, the standard deviation of the kernel that smooths the yaw: a quarter of a second
TURNING = 60.0  # degrees per second
PARENTS = (
    *(-1, 0, 1, 2, 3, 4, 0, 6, 7, 8, 9),  # root, legs
    *(0, 11, 12, 13, 14, 15),  # back, neck, head
    *(13, 17, 18, 19, 20, 21, 20),  # left arm
    *(13, 24, 25, 26, 27, 28, 27),  # right arm
)
"""Of the 31 joints of CMU's skeleton."""
NEITHER, CLOCKWISE, COUNTER_CLOCKWISE = 0, 1, 2


def read(name: str, folder: Path) -> Recordings:
    """The recordings of this name in a folder of published data."""
    where, reader = PUBLISHED[name]
    path = folder / where
    if not path.is_file():
        raise InputError(
            f"The recordings '{name}' are not in {folder} ({where} is missing): --data names the folder that holds"
            " them; docs/boards.md says where they come from."
        )
    return reader(path)


def honeybee(path: Path) -> Recordings:
    """Waggle dances 4 to 6: position and heading of a bee; turns to the right and left, and waggling."""
    with np.load(path, allow_pickle=False) as stored:
        return _recordings(
            "honeybee",
            [
                Recording(
                    stored[f"seq{i}_obs"].astype(float),
                    s=stored[f"seq{i}_label"].astype(int),
                    name=f"dance-{i}",
                    columns=("x", "y", "sin", "cos"),
                )
                for i in DANCES
            ],
        )


def mocap6(path: Path) -> Recordings:
    """Six recordings of people who do exercises, twelve channels, every frame labelled with one of twelve exercises."""
    stored = loadmat(path, squeeze_me=True)
    columns = tuple(str(name) for name in stored["ChannelNames"])
    return _recordings(
        "mocap6",
        [
            Recording(
                one["X"].astype(float), s=one["TrueZ"].astype(int) - 1, name=str(one["filename"]), columns=columns
            )
            for one in stored["DataBySeq"]
        ],
    )


def salsa(path: Path) -> Recordings:
    """Thirty recordings of salsa, 31 joints, both partners of a take in one group; turns stand in for regimes."""
    with np.load(path, allow_pickle=False) as stored:
        joints = [str(name) for name in stored["joint_names"]]
        names = sorted(set(stored.files) - {"joint_names"})
        poses = {name: stored[name].astype(float) for name in names}
    skeleton = Skeleton(tuple(joints), PARENTS)
    left, right = joints.index("LeftUpLeg"), joints.index("RightUpLeg")
    series = [
        Recording(
            pose.reshape(len(pose), -1),
            s=turns(yaw_rate(pose[:, left] - pose[:, right], SALSA_RATE)),
            name=name,
            columns=skeleton.columns,
            skeleton=skeleton,
        )
        for name, pose in poses.items()
    ]
    return _recordings("salsa", series, takes=tuple(name.split("_")[1] for name in poses))


def yaw_rate(hips: Float[np.ndarray, "T 3"], rate: float) -> Float[np.ndarray, " T"]:
    """Degrees per second that the line from the right hip to the left one turns about the vertical (y), smoothed.

    Seen from above, counter-clockwise is positive: turning by a about y takes (x, z) from angle f to f + a with
    f = atan2(-z, x).
    """
    yaw = np.unwrap(np.arctan2(-hips[:, 2], hips[:, 0]))
    return np.degrees(np.gradient(gaussian_filter1d(yaw, SMOOTHING, mode="nearest"))) * rate


def turns(rates: Float[np.ndarray, " T"]) -> Int[np.ndarray, " T"]:
    """Clockwise, counter-clockwise or neither."""
    return np.where(rates > TURNING, COUNTER_CLOCKWISE, np.where(rates < -TURNING, CLOCKWISE, NEITHER)).astype(np.int64)


def _recordings(name: str, series: list[Recording], takes: tuple[str, ...] = ()) -> Recordings:
    return Recordings(name, tuple(series), takes or tuple(one.name for one in series))


PUBLISHED: dict[str, tuple[str, Callable[[Path], Recordings]]] = {
    "honeybee": ("honeybee/honeybee.npz", honeybee),
    "mocap6": ("mocap6/mocap6.mat", mocap6),
    "salsa": ("cmu_salsa/salsa_xyz31_20hz.npz", salsa),
}
