"""How many regimes, on boards where that is known: python experiments/choosing.py [BOARD ...] [--quick]

Five draws of each board, every number of regimes, all restarts on one axis; results under experiments/results/choosing.
Stopped, it goes on where it was. Truth is for scoring the choice, and chooses nothing.
"""

import sys
import time
from pathlib import Path

import numpy as np

from swerve import api, boards, choosing, display
from swerve.preparation import prepare
from swerve.reproduce import surroundings
from swerve.training.checkpoint import write_json
from swerve.trust import agreement

RESULTS = Path(__file__).parent / "results" / "choosing"
WORK = Path("runs/choosing")
BOARDS = {
    "bouncing-ball": (2, []),
    "dubins-positions-0.01": (3, []),
    "fields-0.02": (3, ["model.state_size=2"]),
}
"""The true number of regimes, and settings."""
SEEDS = (7301, 7302, 7303, 7304, 7305)
SEQUENCES, TRIED = 300, range(1, 6)
SETTINGS = ["training.steps=3000", "training.report_every=500", "training.validation_share=0.15"]
QUICK = [
    *("training.steps=20", "training.report_every=10", "training.restarts=2", "posterior.encoder_size=4"),
    *("posterior.causal_size=4", "model.dynamics_hidden=[4]", "arhmm.lags=[1]", "arhmm.features=[0]"),
]


def main(name: str, *, quick: bool) -> None:
    truth, own = BOARDS[name]
    seeds, sequences, tried = (SEEDS[:2], 30, range(1, 4)) if quick else (SEEDS, SEQUENCES, TRIED)
    drawn = [boards.find(name).generate(sequences, seed=seed) for seed in seeds]
    frames = drawn[0].x.shape[1]
    config = api.make_config(
        max(tried), "snlds", settings=[f"training.window={frames}", *SETTINGS, *own, *(QUICK if quick else [])]
    )
    sources = [prepare(board.series(), config) for board in drawn]
    work = WORK / (f"{name}-quick" if quick else name)
    work.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    with display.stop_on_interrupt() as stop, display.training_progress(config.training.steps) as show:
        found = choosing.train_all(sources, config, tried, out=work, on_report=show, on_note=show, should_stop=stop)
    rows = [judged(one, source) for one, source in zip(found, sources, strict=True)]
    for seed, row in zip(seeds, rows, strict=True):
        row["seed"] = seed
        print(f"{name} {seed}: {row['choice']['regimes']} of {truth}: {row['choice']['reason']}", flush=True)
    right = sum(row["choice"]["regimes"] == truth for row in rows)
    print(f"{name}: right in {right} of {len(rows)}")
    about = {
        "board": name,
        "true_regimes": truth,
        "right": right,
        "sequences": sequences,
        "settings": [*SETTINGS, *own],
    }
    seconds = {"wall_seconds": round(time.perf_counter() - began, 1)}
    (work if quick else RESULTS).mkdir(parents=True, exist_ok=True)
    write_json((work if quick else RESULTS) / f"{name}.json", {**about, "rows": rows, **seconds, **surroundings()})


def judged(found, source) -> dict:
    """The choice, and what another rule would need to be tried on the same models."""
    lengths = np.asarray(source.validation.valid).sum(axis=1)
    every = {}
    for regimes, one in found.items():
        pairs = agreement([[labels] for labels in one.labels], max(found)).pairwise
        every[str(regimes)] = {
            "bounds": [round(float(w.sum() / lengths.sum()), 4) for w in one.windows],
            "windows": [np.round(w, 2).tolist() for w in one.windows],
            "pairwise": [round(pair, 4) for pair in pairs],
            "in_use": [np.bincount(labels, minlength=max(found)).tolist() for labels in one.labels],
        }
    return {"choice": choosing.decide(found, lengths).as_dict(), "by_regimes": every, "lengths": lengths.tolist()}


if __name__ == "__main__":
    words = sys.argv[1:]
    for board in [word for word in words if word != "--quick"] or BOARDS:
        main(board, quick="--quick" in words)
