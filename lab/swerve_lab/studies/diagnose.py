"""Search trouble or model trouble? Trains a row's model from the truth and from nothing, on development data.

    python -m swerve_lab.studies.diagnose experiments/reacher/snlds.toml --steps 5600 --json out.json

A start guides training as AR-HMM seeds do and then lets go. Where a model that was started from the truth leaves it,
the model or its posterior is at fault; where it stays with a higher bound, the search is. Labels serve this
diagnosis alone: the data are drawn with development seeds, and nothing here chooses a setting by itself.
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from swerve.choosing.scores import score
from swerve.data.windows import split_validation
from swerve.learning import loop
from swerve.learning.fit import make_schedule
from swerve.learning.preparation import Prepared, prepare
from swerve.learning.restarts import pick, stack
from swerve.learning.step import Restart, TrainingData, start
from swerve.models.model import Shape, maker_of
from swerve.runs.run import with_model
from swerve.settings.sections import Config, Variant
from swerve.settings.text import as_dict
from swerve_lab.boards import catalog as boards
from swerve_lab.experiments.reproduce import surroundings
from swerve_lab.experiments.rows import read_row

TRAINING_SEED, TEST_SEED, TEST_SEQUENCES = 101, 102, 200
SHOWN = ("frame_f1", "switch_f1_tol0", "switch_f1_tol5")
GUIDED = Variant(guidance=20.0)
UNGUIDED = {
    "nothing": Variant(guidance=0.0),
    "balance": Variant(guidance=0.0, balance=1.0),
    "tempered": Variant(guidance=0.0, balance=1.0, evidence_temperature=10.0),
}


def guides_from(labels: np.ndarray, regimes: int) -> dict[str, np.ndarray]:
    """Ways to start: the truth, the truth a frame early, and the course of time, cut into as many equal parts."""
    truth = np.eye(regimes)[labels]
    time_cut = np.arange(labels.shape[1]) * regimes // labels.shape[1]
    return {
        "truth": truth,
        "early": np.concatenate([truth[:, 1:], truth[:, -1:]], axis=1),
        "time": np.broadcast_to(np.eye(regimes)[time_cut], truth.shape),
    }


def train(prepared: Prepared, config: Config, starts: list[str], guides: dict[str, np.ndarray], seconds: float):
    """Every start as a restart, side by side, until the steps or the seconds are over."""
    steps, names = config.training.steps, list(guides)
    states, restarts = [], []
    for i, name in enumerate(starts):
        system = maker_of(config).build(
            config,
            Shape(prepared.training.x.shape[-1], 0, prepared.change_scale),
            stickiness=config.recipe.stickiness,
            allowed=config.model.regimes,
            key=jax.random.key(i),
        )
        variant = UNGUIDED.get(name, GUIDED)
        schedule = make_schedule(config.recipe, variant, steps, widest_layer=config.widest_layer)
        states.append(start(system))
        restarts.append(
            Restart(
                schedule,
                jax.random.key(100 + i),
                guide=jnp.asarray(names.index(name) if name in names else 0),
                source=jnp.asarray(0),
            )
        )
    began = time.perf_counter()

    def show(report: loop.Report) -> None:
        print(report.step, np.round(report.bounds, 2).tolist(), f"{report.steps_per_second:.1f} steps/s", flush=True)

    training, validation = (
        jax.tree.map(lambda leaf: leaf[None], part) for part in (prepared.training, prepared.validation)
    )
    return loop.train(
        loop.Plan(steps, config.training.batch_size, max(1, steps // 8)),
        stack(states),
        stack(restarts),
        TrainingData(training, jnp.asarray(np.stack(list(guides.values())), jnp.float32)),
        validation,
        on_report=show,
        should_stop=lambda: time.perf_counter() - began > seconds,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", type=Path)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop training after this time")
    parser.add_argument("--sequences", type=int, help="training sequences, if not the row's")
    parser.add_argument("--starts", nargs="+", default=["truth", "early", "time", "balance", "tempered"])
    parser.add_argument("--json", type=Path, help="keep the result here")
    options = parser.parse_args()

    experiment, config = read_row(options.row)
    config = dataclasses.replace(config, training=dataclasses.replace(config.training, steps=options.steps))
    board = boards.find(experiment.board)
    series = board.generate(options.sequences or experiment.training_sequences, seed=TRAINING_SEED).series()
    test = board.generate(TEST_SEQUENCES, seed=TEST_SEED)
    prepared = prepare(series, config)
    known, _ = split_validation(series, config.training.validation_share, seed=config.seed)
    guides = guides_from(np.stack([one.s for one in known]), config.model.regimes)
    if prepared.image is not None or guides["truth"].shape[:2] != prepared.training.valid.shape:
        raise SystemExit("Only rows of numbers whose windows are whole sequences can be started from their labels.")
    trained = train(prepared, config, options.starts, guides, options.seconds)

    rows = []
    for position, restart in enumerate(trained.alive):
        run = with_model(pick(trained.systems, position), prepared, config, held_out=float("nan"))
        scores = score([one.labels for one in run.segment(test.series())], list(test.s)).as_dict()
        bounds = [bound[restart] for bound in trained.history.bound]
        rows.append({"start": options.starts[restart], "bounds": bounds, **{name: scores[name] for name in SHOWN}})
        print(
            options.starts[restart], round(bounds[-1], 2), {name: round(scores[name], 1) for name in SHOWN}, flush=True
        )
    if options.json:
        about = {"row": str(options.row), "steps": trained.history.step[-1], "of": options.steps}
        about |= {"config": as_dict(config), "seeds": [TRAINING_SEED, TEST_SEED], "starts": rows}
        options.json.write_text(json.dumps({**about, **surroundings()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
