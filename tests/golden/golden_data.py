"""Small recordings and files, made with NumPy alone: the same numbers whatever becomes of the package."""

from pathlib import Path

import numpy as np

import swerve

SETTINGS = (
    "training.steps=20",
    "training.report_every=10",
    "training.restarts=2",
    "training.batch_size=4",
    "training.window=40",
    "training.validation_share=0.2",
    "training.merging=0",
    "posterior.encoder_size=4",
    "posterior.causal_size=4",
    "model.state_size=2",
    "model.dynamics_hidden=[4]",
    "model.switching_hidden=[4]",
    "arhmm.lags=[1]",
    "arhmm.features=[0]",
    "arhmm.restarts=1",
    "arhmm.max_iterations=5",
)
LENGTHS = (100, 98, 97, 100, 99)
COLUMNS = ("height", "weight")
IMAGE = (16, 16)
BVH = """HIERARCHY
ROOT Hips
{
  OFFSET 0 0 0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation
  JOINT Arm
  {
    OFFSET 1 0 0
    CHANNELS 3 Zrotation Yrotation Xrotation
    End Site
    {
      OFFSET 0 2 0
    }
  }
}
MOTION
"""
ASF = """:version 1.10
:name arm
:units
  length 0.45
  angle deg
:root
   order TX TY TZ RX RY RZ
   axis XYZ
   position 0 0 0
   orientation 0 0 0
:bonedata
  begin
     id 1
     name upper
     direction 1 0 0
     length 2
     axis 0 0 90  XYZ
     dof rx rz
     limits (-160.0 20.0)
            (-70.0 70.0)
  end
  begin
     id 2
     name lower
     direction 0 1 0
     length 3
     axis 0 0 0  XYZ
  end
:hierarchy
  begin
    root upper
    upper lower
  end
"""
AMC = """#!OML:ASF arm.ASF
:FULLY-SPECIFIED
:DEGREES
1
root 0 0 0 0 0 0
upper 0 0
2
root 10 20 30 0 90 0
upper 10 90
3
root 1 2 3 4 5 6
upper 90 20
"""
DEEPLABCUT = """scorer,net,net,net,net,net,net
bodyparts,nose,nose,nose,tail,tail,tail
coords,x,y,likelihood,x,y,likelihood
0,1.0,2.0,0.9,3.0,4.0,0.99
1,1.5,2.5,0.2,3.5,4.5,1.0
3,2.0,3.0,0.7,,,
"""
SLEAP = """track,frame_idx,instance.score,nose.x,nose.y,nose.score,tail.x,tail.y,tail.score
a,2,0.9,1,2,0.9,3,4,0.9
b,2,0.9,5,6,0.9,7,8,0.9
a,4,0.9,1.5,2.5,0.1,3.5,4.5,0.9
a,5,0.9,2,3,0.9,,,
"""


def regimes_of(frames: int, rng: np.random.Generator, *, lasting: int = 20) -> np.ndarray:
    """0 and 1 in turn, each for about so many frames."""
    borders = np.cumsum(rng.integers(lasting // 2, 3 * lasting // 2, 2 + 2 * frames // lasting))
    return (np.searchsorted(borders, np.arange(frames), side="right") + rng.integers(2)) % 2


def walk(frames: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A height that rises and falls between 0 and some top, a weight that wavers, and which of both it is."""
    s = regimes_of(frames, rng)
    height = np.cumsum(np.where(s == 0, 1.0, -1.0) + 0.7 * rng.standard_normal(frames))
    weight = np.where(s == 0, 1.0, -0.5) * np.sin(0.4 * np.arange(frames)) + 0.5 * rng.standard_normal(frames)
    return np.stack([height, weight], axis=1), s


def whole(seed: int = 1) -> list[swerve.Series]:
    """Five recordings of two channels, nothing missing, with the truth."""
    made = [walk(100, np.random.default_rng([seed, i])) for i in range(5)]
    return [swerve.Series(x, s=s, name=str(i), columns=COLUMNS) for i, (x, s) in enumerate(made)]


def gapped() -> list[swerve.Series]:
    """The same cut to different lengths, with missing cells and a gap of whole frames."""
    xs = [one.x[:length].copy() for one, length in zip(whole(), LENGTHS, strict=True)]
    xs[1][20:26] = np.nan
    xs[2][::7, 0] = np.nan
    return [swerve.Series(x, name=str(i), columns=COLUMNS) for i, x in enumerate(xs)]


def mirrored() -> list[swerve.Series]:
    """The same upside down: what rises falls."""
    return [swerve.Series(-one.x, name=one.name, columns=COLUMNS) for one in gapped()]


def controlled() -> list[swerve.Series]:
    """A control pushes the height, and there are gaps."""
    pushed = []
    for i, one in enumerate(gapped()):
        u = np.random.default_rng([2, i]).standard_normal((len(one.x), 2))
        x = one.x + np.cumsum(0.5 * u[:, :1], axis=0)
        pushed.append(swerve.Series(x, u=u, name=one.name, columns=COLUMNS))
    return pushed


def joint_errors() -> list[swerve.Series]:
    """Six channels that all see the height, with noise of their own and more that they share."""
    made = []
    for i, one in enumerate(whole()):
        rng = np.random.default_rng([3, i])
        shared = np.cumsum(rng.standard_normal((len(one.x), 1)), axis=0)
        gains = np.array([1.0, -1.0, 0.5, 2.0, 1.5, -0.5])
        made.append(swerve.Series((one.x[:, :1] + shared) * gains + 0.1 * rng.standard_normal((100, 6)), name=str(i)))
    return made


def events() -> list[swerve.Series]:
    """Forty trials of 30 frames: something drifts, and an indicator drops in two single frames."""
    made = []
    for i in range(40):
        rng = np.random.default_rng([4, i])
        first, second = rng.integers(6, 12), rng.integers(16, 24)
        indicator = 2.0 - (np.arange(30) >= first) - (np.arange(30) >= second) + 0.001 * rng.standard_normal(30)
        drift = np.cumsum(0.1 * rng.standard_normal(30))
        made.append(swerve.Series(np.stack([drift, indicator], axis=1), name=str(i)))
    return made


def many_short() -> list[swerve.Series]:
    """Sixty recordings of 40 frames under a single law: enough held-out windows to judge that a regime is too many."""
    made = []
    for i in range(60):
        noise = np.random.default_rng([5, i]).standard_normal((40, 2))
        made.append(swerve.Series(noise + 0.5 * np.roll(noise, 1, axis=0), name=str(i), columns=COLUMNS))
    return made


def long() -> list[swerve.Series]:
    """One recording that is too long to be segmented in one go, with gaps."""
    x, _ = walk(25_000, np.random.default_rng(6))
    x[5_000:5_040] = np.nan
    x[::11, 1] = np.nan
    return [swerve.Series(x, name="long", columns=COLUMNS)]


def videos() -> list[swerve.Series]:
    """A soft spot that wanders to the right and back, six times, as 16 x 16 pixels."""
    made = []
    for i in range(6):
        rng = np.random.default_rng([7, i])
        s = (np.arange(40) + rng.integers(20)) // 10 % 2
        across = 6.5 + np.cumsum(np.where(s == 1, 0.3, -0.3))
        down = 7.5 + np.cumsum(0.1 * rng.standard_normal(40))
        grid = np.arange(16)[None]
        rows, columns = (np.exp(-((grid - at[:, None]) ** 2) / 2) for at in (down, across))
        x = (rows[:, :, None] * columns[:, None, :]).reshape(40, -1).astype(np.float32)
        names = tuple(f"pixel-{row}-{column}" for row in range(16) for column in range(16))
        made.append(swerve.Series(x, name=f"spot-{i}", columns=names, image=IMAGE))
    made[0].x[5] = np.nan
    made[1].x[7, :9] = np.nan
    return made


def write_bvh(path: Path, frames: int, seed: int) -> Path:
    """A body of two joints that walks about and turns its arm."""
    rng = np.random.default_rng([8, seed])
    steps = np.where(regimes_of(frames, rng) == 0, 1.0, -1.0)[:, None] * [1, 0, 0.5, 3, 0, 1, 5, 0, 2]
    motion = np.cumsum(steps + 0.2 * rng.standard_normal((frames, 9)), axis=0)
    rows = [" ".join(f"{value:.4f}" for value in row) for row in motion]
    path.write_text(f"{BVH}Frames: {frames}\nFrame Time: 0.05\n" + "\n".join([*rows, ""]))
    return path


def write_tables(folder: Path) -> list[Path]:
    """Six CSV files with times, true regimes and empty cells; the last one lacks frames between its times."""
    paths = []
    for one in [*whole(), *whole(seed=10)[:1]]:
        path = folder / f"walk{len(paths)}.csv"
        lines = ["t,s,height,weight"]
        for i, (x, s) in enumerate(zip(one.x, one.s, strict=True)):
            if path.stem == "walk5" and 40 <= i < 44:
                continue
            weight = "" if path.stem == "walk3" and i % 9 == 0 else f"{x[1]:.6f}"
            lines.append(f"{i / 10:.1f},{s},{x[0]:.6f},{weight}")
        path.write_text("\n".join([*lines, ""]))
        paths.append(path)
    return paths
