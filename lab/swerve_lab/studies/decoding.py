"""Where do the switches go? Decodes rows that have been run in several ways, on development sequences.

    python -m swerve_lab.studies.decoding dubins-positions/snlds-0.1 fields/snlds

Labels come from regime probabilities averaged over draws of z, at a price for every switch. Does the price help, or
more draws, the most probable path instead, draws weighed by how probable the model finds them? Weights that are nearly
equal say that q is the model's own posterior, and that what is wrong is wrong in the model.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from swerve.choosing.scores import score
from swerve.data.trees import write_json
from swerve.data.windows import to_frames
from swerve.errors import InputError
from swerve.inference import messages
from swerve.inference.frames import Frames
from swerve.models.model import Knobs
from swerve.models.snlds.bound import regime_chain
from swerve.models.snlds.model import Snlds
from swerve.runs.run import Run
from swerve.runs.segment import worthwhile_labels
from swerve_lab.boards import catalog as boards
from swerve_lab.boards.board import Board
from swerve_lab.boards.naming import in_true_numbers
from swerve_lab.experiments import finished
from swerve_lab.experiments.reproduce import surroundings
from swerve_lab.experiments.tables import COLUMNS

HERE = Path("experiments")
FOUND = HERE / "results" / "decoding"
SEED, SEQUENCES, DRAWS, AT_ONCE = 102, 200, 64, 20
OFFSETS = (-np.inf, -5, -2, -1, 0, 1, 2, 3, 6, np.inf)


def weighed(run: Run, board: Board) -> tuple[np.ndarray, np.ndarray]:
    """Regime probabilities of draws weighed by p(x, z) / q(z | x), and the spread of the log weights by sequence."""
    if not isinstance(run.model, Snlds):
        raise InputError("An AR-HMM has no draws to weigh.")
    system, frames = run.model, to_frames(run.standardizer.apply_to(board.series()))
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(jnp.arange(DRAWS))

    def one(frames: Frames, key):
        draw, chain, _ = regime_chain(system.model, system.posterior, frames, Knobs(), key=key)
        log_q = jax.scipy.stats.norm.logpdf(draw.z, draw.mean, draw.scale)
        log_p = messages.log_normalizer(*chain)
        return messages.smooth(*chain).marginals, log_p - jnp.where(frames.valid[:, None], log_q, 0.0).sum()

    def all_draws(frames: Frames):
        marginals, log_weights = jax.vmap(lambda key: one(frames, key))(keys)
        return jnp.tensordot(jax.nn.softmax(log_weights), marginals, 1), log_weights.std()

    decode = jax.jit(lambda frames: jax.lax.map(all_draws, frames, batch_size=AT_ONCE))
    with jax.default_matmul_precision("highest"):
        weighed_draws, spread = decode(jax.tree.map(jnp.asarray, frames))
    probabilities = np.array(weighed_draws)
    if not system.model.first_frame_tells:
        probabilities[:, 0] = probabilities[:, 1]
    return probabilities, np.asarray(spread)


def offsets(found: list[np.ndarray], truth: np.ndarray) -> np.ndarray:
    """For every true switch, how many frames later the nearest found one is; sequences without any are left out."""
    late = []
    for labels, true in zip(found, truth, strict=True):
        switches = np.flatnonzero(np.diff(labels)) + 1
        if len(switches):
            late += [switches[np.argmin(np.abs(switches - at))] - at for at in np.flatnonzero(np.diff(true)) + 1]
    return np.array(late)


def scores(labels: list[np.ndarray], board: Board) -> dict[str, float]:
    every = score(labels, list(board.s)).as_dict()
    return {name: round(every[name], 2) for name in COLUMNS}


def measure(row: str) -> dict:
    done = finished.load(HERE / f"{row}.toml")
    board = boards.find(done.stored["board"]).generate(SEQUENCES, seed=SEED)
    series = board.series()

    def labels(**how) -> list[np.ndarray]:
        return [one.labels for one in in_true_numbers(done.run.segment(series, **how), list(board.s))]

    alone = [one.probabilities.argmax(axis=1) for one in done.run.segment(series)]
    probabilities, spread = weighed(done.run, board)
    every = np.ones(board.s.shape, bool)
    decoded = {
        "16 draws, each frame alone": alone,
        "1 draw": labels(samples=1),
        "16 draws": labels(),
        f"{DRAWS} draws": labels(samples=DRAWS),
        "16 draws, Viterbi": labels(viterbi=True),
        f"{DRAWS} draws, weighed": list(np.asarray(worthwhile_labels(probabilities, every))),
    }
    late = offsets(decoded["16 draws"], board.s)
    counts, _ = np.histogram(late, OFFSETS)
    return {
        "row": row,
        "board": done.stored["board"],
        "decoded": {how: scores(found, board) for how, found in decoded.items()},
        "late": {
            "median": float(np.median(late)),
            "from": [None if np.isinf(begin) else begin for begin in OFFSETS[:-1]],
            "switches": counts.tolist(),
        },
        "log_weight_sd": round(float(spread.mean()), 2),
        "commit_of_row": done.stored["commit"],
        "seed": SEED,
        "sequences": SEQUENCES,
        **surroundings(),
    }


def main():
    if not sys.argv[1:]:
        sys.exit(__doc__)
    FOUND.mkdir(exist_ok=True)
    for row in sys.argv[1:]:
        found = measure(row)
        write_json(FOUND / f"{row.replace('/', '-')}.json", found)
        print(row, found["decoded"], found["late"], "log weights' sd", found["log_weight_sd"])


if __name__ == "__main__":
    main()
