"""AR-HMMs on the honeybee dances 4-6, every restart: python experiments/bees.py ../shared/data/honeybee/honeybee.npz

The peer to compare with is `ssm` (sticky AR(2)-HMM, EM), whose restarts gave 82-89 % of frames on the same sequences.
Labels score; they choose nothing.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from swerve import arhmm
from swerve.arhmm import ArHmmOptions
from swerve.data.windows import Standardizer, to_frames
from swerve.evaluation.scores import score
from swerve.reproduce import surroundings
from swerve.seeds import responsibilities
from swerve.training.checkpoint import write_json
from swerve.types import Series

RESULT = Path(__file__).parent / "results" / "honeybee" / "arhmm.json"
DANCES = (4, 5, 6)
STICKINESS = (10.0, 100.0, 300.0, 1000.0)
SEED, RESTARTS, LAGS, REGIMES = 0, 10, 2, 3


def main(path: Path):
    with np.load(path, allow_pickle=False) as stored:
        series = [Series(stored[f"seq{i}_obs"].astype(float), name=str(i)) for i in DANCES]
        truth = [stored[f"seq{i}_label"].astype(int) for i in DANCES]
    frames = jax.tree.map(jnp.asarray, to_frames(Standardizer.fit(series).apply_to(series)))
    rows = {}
    for stickiness in STICKINESS:
        options = ArHmmOptions(regimes=REGIMES, lags=LAGS, stickiness=stickiness, restarts=RESTARTS)
        fitted = arhmm.fit(frames, options, key=jax.random.key(SEED))
        restarts = [
            {"objective": float(fitted.objectives[r]), **scores(fitted, r, frames, truth)} for r in range(RESTARTS)
        ]
        chosen = int(fitted.best)
        rows[str(stickiness)] = {"chosen": chosen, "scores": restarts[chosen], "restarts": restarts}
        every = [round(one["frame_f1"], 1) for one in restarts]
        print(f"stickiness {stickiness:g}: chosen {every[chosen]}, every restart {every}", flush=True)
    about = {"board": "honeybee", "model": "arhmm", "seed": SEED, "lags": LAGS, "regimes": REGIMES}
    write_json(RESULT, {**about, "by_stickiness": rows, **surroundings()})


def scores(fitted, restart, frames, truth):
    model = jax.tree.map(lambda leaf: jnp.asarray(leaf)[restart], fitted.models)
    labels = np.asarray(responsibilities(model, frames)).argmax(axis=-1)
    found = score([one[: len(t)] for one, t in zip(labels, truth, strict=True)], truth).as_dict()
    return {key: round(found[key], 2) for key in ("frame_f1", "nmi", "switch_f1_tol0", "switch_f1_tol5")}


if __name__ == "__main__":
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    main(Path(sys.argv[1]))
