"""Seconds and memory to segment long recordings of 30 channels with an SNLDS of default size.

Every length runs in a process of its own. Cost per frame is a ratio to the shortest recording's, memory a ratio to the
2 GB that a million frames may take. CPU time stands beside the clock's: it is the one to trust on a busy machine.
Compilation is measured apart. python benchmarks/long_recording.py
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from swerve import api
from swerve.data.windows import Standardizer
from swerve.models.model import Shape, maker_of
from swerve.runs.run import Run
from swerve.types import Recording
from swerve_lab.experiments.reproduce import surroundings

CHANNELS, LENGTHS, QUICK = 30, (125_000, 250_000, 500_000, 1_000_000), (20_000, 40_000)
ALLOWED_MIB = 2e9 / 2**20


def recording(length):
    """Thirty mixtures of slow walks, with a little noise and one value in a hundred missing."""
    rng = np.random.default_rng(0)
    x = np.empty((length, CHANNELS))
    state, mixing = np.zeros(4), rng.standard_normal((4, CHANNELS))
    for begin in range(0, length, 10_000):
        rows = x[begin : begin + 10_000]
        walk = np.cumsum(0.1 * rng.standard_normal((len(rows), 4)), axis=0) + state
        state = 0.5 * walk[-1]
        rows[:] = np.tanh(walk) @ mixing + 0.05 * rng.standard_normal(rows.shape)
        rows[rng.random(rows.shape) < 0.01] = np.nan
    return Recording(x, name="long")


def fresh_run(kind):
    config = api.make_config(3, kind)
    system = maker_of(config).build(config, Shape(CHANNELS, 0), stickiness=3.0, allowed=3, key=jax.random.key(0))
    columns = tuple(f"x{i}" for i in range(CHANNELS))
    return Run(config, system, columns, 0, Standardizer(np.zeros(CHANNELS), np.ones(CHANNELS)), held_out=0.0)


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def measure(case):
    run, series = fresh_run(case["kind"]), recording(case["length"])
    before = peak_mib()
    began = time.perf_counter()
    run.segment([Recording(series.x[:10_000], name="short")])
    compiled = time.perf_counter() - began
    began, spent = time.perf_counter(), time.process_time()
    (found,) = run.segment([series])
    assert len(found.labels) == case["length"]
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - spent,
        "compile_seconds": compiled,
        "peak_mib": peak_mib(),
        "peak_mib_before": before,
        "surroundings": surroundings(),
    }


def measure_apart(**case):
    words = [sys.executable, __file__, "--case", json.dumps(case)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def row(length, kind):
    found = measure_apart(length=length, kind=kind)
    return {"kind": kind, "frames": length, "frames_per_cpu_second": length / found["cpu_seconds"], **found}


def with_ratios(rows):
    """Cost per frame against the shortest recording's, and memory against what is allowed."""
    rows = sorted(rows, key=lambda one: one["frames"])
    return [
        one
        | {
            "cost_per_frame_ratio": rows[0]["frames_per_cpu_second"] / one["frames_per_cpu_second"],
            "memory_ratio": one["peak_mib"] / ALLOWED_MIB,
        }
        for one in rows
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short recordings")
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS, help="frames; others in --json are kept")
    parser.add_argument("--kind", default="snlds")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.case)))
        return
    results = {"rows": []}
    if options.json and options.json.is_file():
        results = json.loads(options.json.read_text())
    for length in QUICK if options.quick else options.lengths:
        found = row(length, options.kind)
        results |= found.pop("surroundings")
        print({key: round(v, 3) if isinstance(v, float) else v for key, v in found.items()}, flush=True)
        others = [one for one in results["rows"] if one["frames"] != length]
        results["rows"] = with_ratios([*others, found])
        if options.json:  # row by row: a run that is cut off keeps what it has
            options.json.write_text(json.dumps(results, indent=2) + "\n")
    table = Table(title=f"Segmenting {CHANNELS} channels, {results['hardware']}")
    for name in results["rows"][0]:
        table.add_column(name.replace("_", " "), justify="right")
    for one in results["rows"]:
        table.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in one.values()))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
