"""Milliseconds per training step, for 1, 8 and 64 restarts, and how the cost grows with T and K.

Ratios are taken within the run: against the first version of the trainer's posterior (`start = "origin"`, the
paper's network), and against linear growth. Runs unchanged on a CPU or a GPU: python benchmarks/train_step.py
"""

import argparse
import dataclasses
import json
import resource
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from swerve.build import build_system
from swerve.config import ModelConfig, PosteriorConfig, Recipe, Variant
from swerve.fitting import make_schedule
from swerve.reproduce import surroundings
from swerve.training.restarts import count, pick
from swerve.training.step import Restart, TrainingData, advance, advance_together, start
from swerve.types import Frames

BALL = (
    ModelConfig(regimes=3, state_size=4),
    PosteriorConfig(encoder_size=16, causal_size=16),
    {"length": 100, "channels": 1},
)
REACHER = (
    ModelConfig(
        regimes=5, state_size=8, dynamics_hidden=(64,), emission_hidden=(256, 256), embedding_hidden=(256, 256)
    ),
    PosteriorConfig(cell="lstm", encoder_size=32, causal_size=64, shares_embedding=True),
    {"length": 50, "channels": 36},
)
SHAPES = {"ball": BALL, "reacher": REACHER}
SEQUENCES, BATCH = 128, 32


def problem(model, posterior, shape, restarts):
    length, channels = shape["length"], shape["channels"]
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((SEQUENCES, length, channels)).cumsum(axis=1) / np.sqrt(length), jnp.float32)
    frames = Frames(x, jnp.ones(x.shape, bool), jnp.ones(x.shape[:2], bool), jnp.zeros((*x.shape[:2], 0)))
    data = TrainingData(frames, jnp.zeros((1, *x.shape[:2], model.regimes)))

    def build(key):
        return start(
            build_system(
                model, posterior, channels=channels, controls=0, stickiness=3.0, allowed=model.regimes, key=key
            )
        )

    keys = jax.random.split(jax.random.key(0), restarts)
    states = jax.tree.map(jnp.array, jax.jit(jax.vmap(build))(keys))
    schedule = jax.tree.map(lambda v: jnp.full(restarts, v), make_schedule(Recipe(), Variant(), 10_000))
    return states, data, Restart(schedule, keys, jnp.zeros(restarts, int))


def measure(model, posterior, shape, restarts, steps):
    """(milliseconds per step, seconds to compile). On a CPU restarts run in turn, as in training."""
    states, data, axis = problem(model, posterior, shape, restarts)
    if jax.default_backend() == "cpu":
        one = pick(states, 0)

        def go(state):
            return advance(state, data, pick(axis, 0), steps=steps, batch_size=BATCH)

        factor = count(states)
    else:
        one = states

        def go(state):
            return advance_together(state, data, axis, steps=steps, batch_size=BATCH)

        factor = 1
    began = time.perf_counter()
    one = jax.block_until_ready(go(one))
    first = time.perf_counter() - began
    times = []
    for _ in range(3):
        began = time.perf_counter()
        one = jax.block_until_ready(go(one))
        times.append(time.perf_counter() - began)
    best = min(times)
    return 1e3 * best / steps * factor, first - best


def peak_memory() -> float:
    """MiB: of the device where it tells, otherwise of this process."""
    stats = jax.devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in stats:
        return stats["peak_bytes_in_use"] / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def restarts_rows(quick, shapes):
    """One row at a time; one restart is also measured with the paper's posterior."""
    for restarts in (1, 8) if quick else (1, 64, 8):
        for name in shapes:
            model, posterior, shape = SHAPES[name]
            steps = 20 if quick else 50
            per_step, compile_seconds = measure(model, posterior, shape, restarts, steps)
            row = {
                "shape": name,
                "restarts": restarts,
                "ms_per_step": per_step,
                "ms_per_step_and_restart": per_step / restarts,
                "steps_per_second": 1e3 / per_step,
                "compile_seconds": compile_seconds,
                "peak_mib": peak_memory(),
            }
            if restarts == 1:
                paper = dataclasses.replace(posterior, start="origin", initial_gain=0.0, reads_changes=False)
                row["cost_against_paper_posterior"] = per_step / measure(model, paper, shape, 1, steps)[0]
            yield row


def growth_rows(quick):
    """Cost against T and K; the ratio is to linear growth from the smallest case."""
    model, posterior, shape = BALL
    cases = [("T", length) for length in ((100, 1000) if quick else (100, 1000, 10_000))]
    cases += [("K", regimes) for regimes in ((2, 8) if quick else (2, 8, 32, 64))]
    first = {}
    for vary, value in cases:
        if vary == "T":
            per_step, _ = measure(model, posterior, shape | {"length": value}, 1, max(1, 2000 // value))
        else:
            per_step, _ = measure(dataclasses.replace(model, regimes=value), posterior, shape, 1, 10)
        base_value, base = first.setdefault(vary, (value, per_step))
        yield {
            "vary": vary,
            "value": value,
            "ms_per_step": per_step,
            "cost_ratio_over_linear": per_step / base / (value / base_value),
        }


def show(title, rows):
    table = Table(title=title)
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        table.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(f"{v:.3g}" if isinstance(v := row.get(n, ""), float) else str(v) for n in names))
    Console(width=150).print(table)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller cases")
    parser.add_argument("--only", choices=("restarts", "growth"))
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {**surroundings()}
    tables = {"restarts": restarts_rows(options.quick, options.shapes), "growth": growth_rows(options.quick)}
    titles = {
        "restarts": f"Training step, batch {BATCH}, {results['hardware']}",
        "growth": "Growth with T and K (1 = linear, below 1 = better)",
    }
    for name, rows in tables.items():
        if options.only not in (None, name):
            continue
        results[name] = []
        for row in rows:
            print({key: round(v, 3) if isinstance(v, float) else v for key, v in row.items()}, flush=True)
            results[name].append(row)
            if options.json:  # row by row: a run that is cut off keeps what it has
                options.json.write_text(json.dumps(results, indent=2) + "\n")
        show(titles[name], results[name])


if __name__ == "__main__":
    main()
