"""Draws the paper's figures from rows that have been run: python -m swerve_lab.studies.figures [NAME ...]

Pictures lie in docs/images, each with a JSON beside it that says what it was made from. A figure shows the model of
every row's first run on the first test sequences in which all true regimes occur; nothing is chosen by how it looks.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from swerve.data.trees import write_json
from swerve.errors import InputError
from swerve.report import figures
from swerve.runs.run import Run
from swerve.types import Segmentation
from swerve_lab.boards import dubins_video, reacher
from swerve_lab.boards.board import Board, Recordings
from swerve_lab.boards.naming import in_true_numbers
from swerve_lab.experiments import finished
from swerve_lab.experiments.reproduce import surroundings
from swerve_lab.figures.arm import arm
from swerve_lab.figures.paths import paths
from swerve_lab.figures.poses import posed_marginals
from swerve_lab.figures.reconstructions import video_reconstructions

HERE = Path("experiments")
IMAGES = Path("docs/images")
MODELS = {
    "snlds": "SNLDS",
    "slds": "SLDS",
    "arhmm": "AR-HMM",
    "slds-em": "SLDS by EM",
    "rslds": "rSLDS",
    "svae": "SVAE",
    "kvae": "KVAE",
    "gumbel": "Gumbel-Softmax SNLDS",
    "compile": "CompILE",
}
REGIMES = {
    "ball": ("down", "up"),
    "dubins": ("straight", "left", "right"),
    "salsa": ("neither", "clockwise", "counter-clockwise"),
    "reacher": ("first target", "second target", "third target", "finished"),
}

Runs = Mapping[str, Run]


class Drawing(NamedTuple):
    """A figure of so many test sequences; rows that have not been run are left out."""

    rows: tuple[str, ...]
    sequences: int
    draw: Callable[..., Figure]


def draw_paths(test: Board, shown: Sequence[int], runs: Runs) -> Figure:
    positions = test.x[shown] if test.image is None else dubins_video.locate(as_images(test.x[shown]))
    labels = {name: np.stack([one.labels for one in found_by(run, test, shown)]) for name, run in runs.items()}
    labels = {"truth": test.s[shown].astype(int), **labels}
    return paths(positions, labels, sequences=names_of(shown), regimes=REGIMES[test.name])


def draw_arm(test: Board, shown: Sequence[int], runs: Runs) -> Figure:
    [sequence] = shown
    found = {name: found_by(run, test, shown)[0].labels for name, run in runs.items()}
    parts = reacher.parts(test.x[sequence])
    return arm(*parts, test.s[sequence], found, regimes=REGIMES[test.name])


def draw_marginals(test: Board, shown: Sequence[int], runs: Runs) -> Figure:
    [sequence] = shown
    marginals = {name: found_by(run, test, shown)[0].probabilities for name, run in runs.items()}
    return figures.stacked_marginals(test.s[sequence], marginals, regimes=REGIMES[test.name])


def draw_reconstructions(test: Board, shown: Sequence[int], runs: Runs) -> Figure:
    series = [test.series()[i] for i in shown]
    drawn = {name: as_images(np.stack([one.expected for one in run.infer(series)])) for name, run in runs.items()}
    return video_reconstructions(as_images(test.x[shown]), drawn, sequences=names_of(shown))


def draw_salsa(test: Board | Recordings, shown: Sequence[int], runs: Runs) -> Figure:
    [sequence], [run] = shown, runs.values()
    one = test.series()[sequence]
    assert one.skeleton is not None and one.s is not None
    marginals = found_by(run, test, shown)[0].probabilities
    pose = one.x.reshape(len(one), -1, 3)
    return posed_marginals(one.s, marginals, pose, one.skeleton.parents, regimes=REGIMES["salsa"])


DRAWINGS = {
    "salsa": Drawing(("salsa/snlds",), 1, draw_salsa),
    "salsa-arhmm": Drawing(("salsa/arhmm",), 1, draw_salsa),
    "paths": Drawing(("dubins-positions/snlds", "dubins-positions/arhmm"), 4, draw_paths),
    "paths-video": Drawing(("dubins/snlds", "dubins/slds"), 4, draw_paths),
    "arm": Drawing(("reacher/snlds", "reacher/slds", "reacher/arhmm"), 1, draw_arm),
    "marginals": Drawing(("reacher/snlds", "reacher/slds", "reacher/arhmm"), 1, draw_marginals),
    "marginals-ball": Drawing(("bouncing-ball/snlds", "bouncing-ball/slds", "bouncing-ball/arhmm"), 1, draw_marginals),
    "segmentation-ball": Drawing(tuple(f"segmentation/ball-{model}" for model in MODELS), 1, draw_marginals),
    "segmentation-reacher": Drawing(tuple(f"segmentation/reacher-{model}" for model in MODELS), 1, draw_marginals),
    "reconstructions": Drawing(("dubins/snlds", "dubins/slds"), 5, draw_reconstructions),
}


def found_by(run: Run, test: Board | Recordings, shown: Sequence[int]) -> list[Segmentation]:
    """Regimes are matched over the whole test set, as for scores."""
    every = in_true_numbers(run.segment(test.series()), list(test.s))
    return [every[i] for i in shown]


def first_with_all_regimes(test: Board | Recordings, count: int) -> list[int]:
    regimes = len(np.unique(np.concatenate(list(test.s))))
    return [i for i, s in enumerate(test.s) if len(np.unique(s)) == regimes][:count]


def as_images(x: np.ndarray) -> np.ndarray:
    return x.reshape(*x.shape[:2], *dubins_video.IMAGE)


def names_of(shown: Sequence[int]) -> list[str]:
    return [f"sequence {i}" for i in shown]


def draw(name: str, drawing: Drawing, folder: Path = HERE, images: Path = IMAGES) -> None:
    rows = load_rows(name, drawing.rows, folder)
    if not rows:
        print(f"{name}: not drawn.")
        return
    test = next(iter(rows.values())).test
    shown = first_with_all_regimes(test, drawing.sequences)
    runs = {MODELS[row.stored["model"]]: row.run for row in rows.values()}
    picture = save_small(drawing.draw(test, shown, runs), images / f"{name}.png")
    about = {
        "board": next(iter(rows.values())).stored["board"],
        "rows": {row: {part: one.stored[part] for part in ("commit", "seeds")} for row, one in rows.items()},
        "run": 0,
        "sequences": shown,
        **surroundings(),
    }
    write_json(picture.with_suffix(".json"), about)
    print(f"{name}: drew {picture}.")


def save_small(figure: Figure, path: Path) -> Path:
    """With 256 colours, which nobody can tell from all of them here, a picture takes a third of the space."""
    with Image.open(figures.save(figure, path)) as picture:
        few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    return path


load_row = cache(finished.load)  # several figures show the same rows, and some take minutes to load


def load_rows(name: str, rows: Sequence[str], folder: Path) -> dict[str, finished.Finished]:
    loaded = {}
    for row in rows:
        try:
            loaded[row] = load_row(folder / f"{row}.toml")
        except InputError as error:
            print(f"{name}: {error}")
    return loaded


def main():
    names = sys.argv[1:] or list(DRAWINGS)
    unknown = set(names) - set(DRAWINGS)
    if unknown:
        sys.exit(f"There is no figure {', '.join(sorted(unknown))}; there are {', '.join(DRAWINGS)}.")
    for name in names:
        draw(name, DRAWINGS[name])


if __name__ == "__main__":
    main()
