"""Other tools on the published recordings: python -m swerve_lab.studies.peers [bees|mocap6|salsa ...] [--data FOLDER]

Stores a result beside ours for hmmlearn's Gaussian HMM, ruptures with k-means and ClaSP with k-means. They run in an
environment of their own, because ClaSP wants an older NumPy than we do:

    python -m venv .envs/peers
    .envs/peers/bin/pip install -c lab/constraints-peers.txt hmmlearn ruptures claspy

Each gets what ours gets: the same standardised channels, the same K, 5 fits of 5 restarts. Labels only score.
"""

import argparse
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from swerve.choosing.scores import regimes_that_occur
from swerve.data.trees import write_json
from swerve.data.windows import Standardizer
from swerve.types import Recording
from swerve_lab.boards import published
from swerve_lab.boards.board import Recordings
from swerve_lab.experiments.reproduce import score_labels, summary, surroundings

HERE = Path("experiments")
PYTHON = Path(".envs") / "peers" / "bin" / "python"
FITS, RESTARTS = 5, 5
BOARDS = {"bees": ("honeybee", 3), "mocap6": ("mocap6", 12), "salsa": ("salsa", 3)}
ROWS = {
    "hmmlearn": ("hmmlearn", False, "Gaussian HMM with diagonal covariances, the best of 5 restarts by its likelihood"),
    "hmmlearn-differences": ("hmmlearn", True, "the same, reading x_t - x_{t-1} beside x_t"),
    "ruptures": ("ruptures", False, "PELT with the BIC as penalty, then k-means of segments"),
    "clasp": ("clasp", False, "ClaSP with its own number of changes, then k-means of segments"),
}
ON_FOLDS = ("hmmlearn", "hmmlearn-differences")  # the others can not be trained on one recording and used on another


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(BOARDS), metavar="NAME")
    parser.add_argument("--data", type=Path, default=published.DATA)
    parser.add_argument("--python", type=Path, default=PYTHON, help="of the environment with the other tools")
    arguments = parser.parse_args()
    for name in arguments.names:
        board, regimes = BOARDS[name]
        recordings = published.read(board, arguments.data)
        for file, (tool, differences, row) in ROWS.items():
            result = HERE / "results" / name / f"{file}.json"
            if result.is_file() or (name == "salsa" and file not in ON_FOLDS):
                continue
            write(result, run(recordings, tool, differences, regimes, arguments.python), board, tool, row, regimes)


def run(recordings: Recordings, tool: str, differences: bool, regimes: int, python: Path) -> dict:
    """Every fit's scores; of salsa a fit is a fold."""
    began = time.perf_counter()
    pairs = recordings.folds() if recordings.name == "salsa" else [(recordings, recordings)] * FITS
    scores, version = [], ""
    for seed, (training, test) in enumerate(pairs):
        labels, version = ask(python, tool, training.series(), test.series(), differences, regimes, seed)
        scores.append(score_labels(labels, test))
    return {
        "scores": scores,
        "true": regimes_that_occur(recordings.s),
        "version": version,
        "seconds": time.perf_counter() - began,
    }


def ask(
    python: Path,
    tool: str,
    training: Sequence[Recording],
    test: Sequence[Recording],
    differences: bool,
    regimes: int,
    seed: int,
) -> tuple[list[np.ndarray], str]:
    """A tool's labels of every test recording, and its version."""
    standardizer = Standardizer.fit(training)
    parts = {}
    for name, series in (("train_", training), ("", test)):
        read = [features(one.x, differences) for one in standardizer.apply_to(series)]
        parts |= {f"{name}x": np.concatenate(read), f"{name}lengths": np.array([len(one) for one in read])}
    with tempfile.TemporaryDirectory() as folder:
        question, answer = Path(folder) / "question.npz", Path(folder) / "answer.npz"
        np.savez(question, tool=tool, regimes=regimes, restarts=RESTARTS, seed=seed, **parts)
        subprocess.run([python, Path(__file__).with_name("peers_side.py"), question, answer], check=True)
        with np.load(answer, allow_pickle=False) as stored:
            labels, version = stored["labels"].astype(int), str(stored["version"])
    return np.split(labels, np.cumsum(parts["lengths"])[:-1]), version


def features(x: np.ndarray, differences: bool) -> np.ndarray:
    if not differences:
        return x
    change = np.diff(x, axis=0, prepend=x[:1])
    return np.concatenate([x, change / (change.std(axis=0) + 1e-9)], axis=1)


def write(result: Path, found: dict, board: str, tool: str, row: str, regimes: int) -> None:
    around = surroundings()
    around["versions"] |= {tool: found["version"]}
    scores = found["scores"]
    result.parent.mkdir(parents=True, exist_ok=True)
    write_json(
        result,
        {
            "board": board,
            "model": tool,
            "row": row,
            "scores": summary(scores),
            "success_rate": None,
            "regimes": {"true": found["true"], "found": [one["regimes"] for one in scores]},
            "details": [{"regimes": regimes, "restarts_of_a_fit": RESTARTS}],
            "seeds": {"runs": list(range(len(scores)))},
            "wall_seconds": round(found["seconds"], 1),
            **around,
        },
    )
    print(f"{result.parent.name}/{result.stem}: {summary(scores)['frame_f1']['mean']:.1f} % of frames", flush=True)


if __name__ == "__main__":
    main()
