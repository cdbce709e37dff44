"""Recordings to make pages from: made up, without any model."""

import numpy as np

from swerve.report.packing import Shown
from swerve.types import Recording, Skeleton

EVIL = '</script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1">\'&<!--'
SKELETON = Skeleton(("hips", "head", "left", "right"), (-1, 0, 0, 0))


def stays(frames: int, length: int = 20, regimes: int = 3) -> np.ndarray:
    return (np.arange(frames) // length % regimes).astype(np.int64)


def recording(x, *, name="walk", labels=None, truth=None, length=0, **rest) -> Shown:
    labels = stays(len(x)) if labels is None else labels
    probabilities = 0.85 * np.eye(3)[labels] + 0.05
    return Shown(Recording(x, name=name, **rest), labels, probabilities, 0.5 * x, truth, length)


def walks(frames: int = 300, channels: int = 3, count: int = 2, **rest) -> list[Shown]:
    rng = np.random.default_rng(0)
    return [
        recording(rng.standard_normal((frames, channels)).cumsum(axis=0), name=f"walk {i}", **rest)
        for i in range(count)
    ]


def poses(frames: int = 120) -> list[Shown]:
    body = np.array([[0.0, 1.0, 0.0], [0.0, 1.7, 0.0], [-0.4, 1.3, 0.0], [0.4, 1.3, 0.0]])
    t = np.arange(frames)
    angle = np.where(stays(frames) == 1, -0.1, 0.1).cumsum()
    turned = body[:, 0] * np.cos(angle)[:, None], body[:, 0] * np.sin(angle)[:, None]
    x = np.stack([turned[0] + 0.01 * t[:, None], np.broadcast_to(body[:, 1], (frames, 4)), turned[1]], axis=2)
    return [recording(x.reshape(frames, -1), name="dance", columns=SKELETON.columns, skeleton=SKELETON, times=t / 20)]


def videos(frames: int = 60, size: int = 10) -> list[Shown]:
    x = np.zeros((frames, size, size))
    x[np.arange(frames), np.arange(frames) % size, 3] = 1.0
    x = x.reshape(frames, -1)
    columns = tuple(f"pixel-{i}" for i in range(size * size))
    return [recording(x, name="film", columns=columns, image=(size, size))]
