"""Milliseconds per training step, for 1, 8 and 64 restarts, and how the cost grows with T and K.

Every case runs in a process of its own. Ratios are taken within the run: against the paper's posterior network
(`start = "origin"`), and against linear growth. Runs unchanged on a CPU or a GPU: python benchmarks/train_step.py
"""

import argparse
import dataclasses
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from swerve.inference.frames import Frames
from swerve.learning.fit import make_schedule
from swerve.learning.restarts import advance_all
from swerve.learning.step import Restart, TrainingData, start
from swerve.models.snlds.maker import build_collapsed
from swerve.settings.sections import ModelConfig, PosteriorConfig, Recipe, Variant
from swerve_lab.experiments.reproduce import surroundings

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
SEQUENCES, BATCH, REPEATS = 128, 32, 3


def problem(model, posterior, shape, restarts):
    length, channels = shape["length"], shape["channels"]
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((SEQUENCES, length, channels)).cumsum(axis=1) / np.sqrt(length), jnp.float32)
    frames = Frames(x, jnp.ones(x.shape, bool), jnp.ones(x.shape[:2], bool), jnp.zeros((*x.shape[:2], 0)))
    data = TrainingData(jax.tree.map(lambda leaf: leaf[None], frames), jnp.zeros((1, *x.shape[:2], model.regimes)))

    def build(key):
        return start(
            build_collapsed(
                model, posterior, channels=channels, controls=0, stickiness=3.0, allowed=model.regimes, key=key
            )
        )

    keys = jax.random.split(jax.random.key(0), restarts)
    states = jax.tree.map(jnp.array, jax.jit(jax.vmap(build))(keys))
    schedule = jax.tree.map(lambda v: jnp.full(restarts, v), make_schedule(Recipe(), Variant(), 10_000))
    first = jnp.zeros(restarts, int)
    return states, data, Restart(schedule, keys, guide=first, source=first)


def measure(case: dict) -> dict:
    """Milliseconds per step of all restarts, seconds to compile, peak memory: as training runs them on this device."""
    model, posterior, shape = SHAPES[case["shape"]]
    model = dataclasses.replace(model, regimes=case.get("regimes", model.regimes))
    if case.get("paper"):
        posterior = dataclasses.replace(posterior, start="origin", initial_gain=0.0, reads_changes=False)
    shape = shape | {"length": case.get("length", shape["length"])}
    states, data, axis = problem(model, posterior, shape, case["restarts"])
    times = []
    for _ in range(1 + REPEATS):
        began = time.perf_counter()
        states, _ = jax.block_until_ready(advance_all(states, data, axis, steps=case["steps"], batch_size=BATCH))
        times.append(time.perf_counter() - began)
    best = min(times[1:])
    return {
        "ms_per_step": 1e3 * best / case["steps"],
        "compile_seconds": times[0] - best,
        "compilation": "from JAX's cache" if jax.config.jax_compilation_cache_dir else "fresh",
        "peak_mib": peak_memory(),
        "surroundings": surroundings(),
    }


def peak_memory() -> float:
    """MiB: of the device where it tells, otherwise of this process."""
    stats = jax.devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in stats:
        return stats["peak_bytes_in_use"] / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def measure_apart(**case) -> dict:
    """In a process of its own, so that memory and compilation are this case's alone."""
    words = [sys.executable, __file__, "--case", json.dumps(case)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def restarts_rows(quick, shapes):
    """One row at a time; one restart is also measured with the paper's posterior."""
    for name in shapes:
        for restarts in (1, 8) if quick else (1, 8, 64):
            steps = 10 if quick or restarts == 64 else 50
            found = measure_apart(shape=name, restarts=restarts, steps=steps)
            row = {
                "shape": name,
                "restarts": restarts,
                "ms_per_step_and_restart": found["ms_per_step"] / restarts,
                "steps_per_second": 1e3 / found["ms_per_step"],
                **found,
            }
            if restarts == 1:
                paper = measure_apart(shape=name, restarts=1, steps=steps, paper=True)
                row["cost_against_paper_posterior"] = found["ms_per_step"] / paper["ms_per_step"]
            yield row


def growth_rows(quick):
    """Cost against T and K; the ratio is to linear growth from the smallest case."""
    cases = [("length", length) for length in ((100, 1000) if quick else (100, 1000, 10_000))]
    cases += [("regimes", regimes) for regimes in ((2, 8) if quick else (2, 8, 32, 64))]
    first = {}
    for vary, value in cases:
        steps = max(2, 2000 // value) if vary == "length" else 10
        found = measure_apart(shape="ball", restarts=1, steps=steps, **{vary: value})
        base_value, base = first.setdefault(vary, (value, found["ms_per_step"]))
        ratio = found["ms_per_step"] / base / (value / base_value)
        yield {"vary": vary, "value": value, **found, "cost_ratio_over_linear": ratio}


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
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.case)))
        return
    results = {}
    tables = {"restarts": restarts_rows(options.quick, options.shapes), "growth": growth_rows(options.quick)}
    titles = {
        "restarts": f"Training step, batch {BATCH}",
        "growth": "Growth with T and K (1 = linear, below 1 = better)",
    }
    for name, rows in tables.items():
        if options.only not in (None, name):
            continue
        results[name] = []
        for row in rows:
            results |= row.pop("surroundings")
            print({key: round(v, 3) if isinstance(v, float) else v for key, v in row.items()}, flush=True)
            results[name].append(row)
            if options.json:  # row by row: a run that is cut off keeps what it has
                options.json.write_text(json.dumps(results, indent=2) + "\n")
        show(f"{titles[name]}, {results['hardware']}", results[name])


if __name__ == "__main__":
    main()
