"""How late do the switches of rows come that have been run?

    python -m swerve_lab.studies.delays reacher/compile reacher/svae

For every true switch of 200 development sequences, by how many frames the nearest found one is later. A model that
puts all its switches a frame early misses every exact one, and knows no less for it.
"""

import sys

import numpy as np

from swerve.choosing.scores import score
from swerve.data.trees import write_json
from swerve_lab.boards import catalog as boards
from swerve_lab.boards.naming import in_true_numbers
from swerve_lab.experiments import finished
from swerve_lab.experiments.reproduce import surroundings
from swerve_lab.experiments.tables import COLUMNS
from swerve_lab.studies.decoding import HERE, OFFSETS, SEED, SEQUENCES, offsets

FOUND = HERE / "results" / "diagnosis"


def measure(row: str) -> dict:
    done = finished.load(HERE / f"{row}.toml")
    board = boards.find(done.stored["board"]).generate(SEQUENCES, seed=SEED)
    labels = [one.labels for one in in_true_numbers(done.run.segment(board.series()), list(board.s))]
    late = offsets(labels, board.s)
    counts, _ = np.histogram(late, OFFSETS)
    every = score(labels, list(board.s)).as_dict()
    moved = {str(by): score([moved_by(by, one) for one in labels], list(board.s)).as_dict() for by in (-1, 1)}
    return {
        "row": row,
        "scores": {name: round(every[name], 2) for name in COLUMNS},
        "exact_if_moved_by": {by: round(one["switch_f1_tol0"], 2) for by, one in moved.items()},
        "late": {
            "median": float(np.median(late)) if len(late) else None,
            "from": [None if np.isinf(begin) else begin for begin in OFFSETS[:-1]],
            "switches": counts.tolist(),
        },
        "commit_of_row": done.stored["commit"],
        "seed": SEED,
        "sequences": SEQUENCES,
        **surroundings(),
    }


def moved_by(frames: int, labels: np.ndarray) -> np.ndarray:
    """Later, or earlier where negative; the label at the edge lasts longer."""
    return labels[np.clip(np.arange(len(labels)) - frames, 0, len(labels) - 1)]


def main():
    if not sys.argv[1:]:
        sys.exit(__doc__)
    FOUND.mkdir(exist_ok=True)
    for row in sys.argv[1:]:
        found = measure(row)
        write_json(FOUND / f"delays-{row.replace('/', '-')}.json", found)
        print(row, found["scores"], found["exact_if_moved_by"], found["late"], flush=True)


if __name__ == "__main__":
    main()
