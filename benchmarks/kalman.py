"""Kalman smoothing: Swerve's square-root smoother beside dynamax's `lgssm_smoother`, both in float32.

    python benchmarks/kalman.py [--quick] [--rounds N] [--json FILE]

Every sequence has a system of its own, the same in all frames: dynamax keeps it as such, Swerve reads its matrices
frame by frame. Time is the best of several runs after compilation, of all rounds together; CPU time counts all cores
and suffers less from a busy machine.
Errors are the largest of any smoothed mean, against dynamax in float64. `stiff` has dynamics with almost no noise.
dynamax gets an environment of its own, `.envs/dynamax`, made on first use.
"""

import argparse
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from arhmm import call, dynamax_python
from kalman_dynamax import measure
from rich.console import Console
from rich.table import Table

from swerve_lab.experiments.reproduce import surroundings
from swerve_lab.rivals import kalman

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Shape:
    """B sequences of T frames, L states, D channels; the scale of the noise that moves the states."""

    name: str
    B: int
    T: int
    L: int
    D: int
    noise: float = 0.3


SHAPES = (Shape("batch", 64, 200, 4, 8), Shape("long", 1, 5_000, 4, 8), Shape("stiff", 64, 200, 4, 8, noise=1e-5))
QUICK = (Shape("batch", 8, 50, 4, 8), Shape("long", 1, 500, 4, 8))


def problem(shape: Shape, seed: int = 0) -> dict[str, np.ndarray]:
    """A slowly turning state seen through noise, and draws from it."""
    rng = np.random.default_rng(seed)
    B, T, L, D = shape.B, shape.T, shape.L, shape.D
    skew = 0.1 * rng.normal(size=(L, L))
    turn = np.linalg.qr(np.eye(L) + skew - skew.T)[0]
    matrix = 0.999 * turn * np.sign(np.diag(turn))
    looks, sight = rng.normal(size=(D, L)), rng.uniform(0.3, 0.6, size=D)
    z, x = rng.normal(size=(B, L)), np.empty((B, T, D))
    for t in range(T):
        x[:, t] = z @ looks.T + sight * rng.normal(size=(B, D))
        z = z @ matrix.T + shape.noise * rng.normal(size=(B, L))
    return {"x": x, "matrix": matrix, "noise": shape.noise * np.ones(L), "looks": looks, "sight": sight}


def ask_swerve(question: dict[str, np.ndarray], repeats: int) -> dict:
    single = {name: jnp.asarray(array, jnp.float32) for name, array in question.items()}
    x, (D, L) = single["x"], single["looks"].shape
    T = x.shape[1]

    def every(array, frames):
        return jnp.broadcast_to(array, (frames, *array.shape))

    noise = every(jnp.diag(single["noise"]), T - 1)
    dynamics = kalman.LinearDynamics(
        jnp.zeros(L), jnp.eye(L), every(single["matrix"], T - 1), jnp.zeros((T - 1, L)), noise
    )
    emission = kalman.LinearEmission(every(single["looks"], T), jnp.zeros((T, D)), every(single["sight"], T))
    masks = jnp.ones((T, D), bool), jnp.ones(T, bool)

    def smooth(system, x):
        smoothed = kalman.smooth(*system, x, *masks)
        return smoothed.mean, smoothed.covariance, smoothed.cross_covariance, smoothed.log_likelihood

    return measure(smooth, (dynamics, emission), x, repeats)


def ask_dynamax(question: dict[str, np.ndarray], repeats: int, float64: bool = False) -> dict:
    """What kalman_dynamax.py says, run in its environment."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "question.npz"), Path(folder, "answer.npz")
        np.savez(source, **question, repeats=repeats, float64=float64)
        call([dynamax_python(), HERE / "kalman_dynamax.py", source, target])
        with np.load(target) as answer:
            return dict(answer)


def compare(shape: Shape, rounds: int, repeats: int) -> dict:
    question = problem(shape)
    exact = ask_dynamax(question, repeats=1, float64=True)
    row = asdict(shape)
    for tool, ask in (("swerve", ask_swerve), ("dynamax", ask_dynamax)):
        answers = [ask(question, repeats) for _ in range(rounds)]
        row[tool] = {name: min(float(a[name]) for a in answers) for name in ("compile_s", "ms", "cpu_ms")}
        row[tool]["mean_error"] = float(np.abs(np.asarray(answers[0]["mean"], float) - exact["mean"]).max())
        row[tool]["smallest_variance"] = float(answers[0]["smallest_variance"])
        row[tool]["means"] = answers[0]["mean"]
    row["mean_difference"] = float(np.abs(row["swerve"].pop("means") - row["dynamax"].pop("means")).max())
    row["ratio"], row["ratio_cpu"] = (row["dynamax"][time] / row["swerve"][time] for time in ("ms", "cpu_ms"))
    return row


def table_of(rows: list[dict]) -> Table:
    table = Table(title=f"Smoothing with covariances; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for name in ("", "B", "T", "L", "D"):
        table.add_column(name, justify="right")
    columns = ("compile s", "ms", "CPU ms", "error", "least eigenvalue")
    for name in (*columns, "dynamax:\n" + columns[0], *columns[1:], "means\ndiffer", "dynamax/\nswerve", "by CPU"):
        table.add_column(name, justify="right")
    for row in rows:
        cells = [row["name"], *(str(row[size]) for size in "BTLD")]
        for tool in ("swerve", "dynamax"):
            one = row[tool]
            cells += [f"{one['compile_s']:.1f}", f"{one['ms']:.3g}", f"{one['cpu_ms']:.3g}"]
            cells += [f"{one['mean_error']:.0e}", f"{one['smallest_variance']:.0e}"]
        table.add_row(*cells, f"{row['mean_difference']:.0e}", f"{row['ratio']:.1f}x", f"{row['ratio_cpu']:.1f}x")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small shapes, few runs")
    parser.add_argument("--rounds", type=int, default=2, help="the tools take turns so many times")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here")
    options = parser.parse_args()

    console = Console(width=160)
    rows = []
    for shape in QUICK if options.quick else SHAPES:
        with console.status(shape.name):
            rows.append(compare(shape, options.rounds, repeats=3 if options.quick else 20))
    console.print(table_of(rows))
    if options.json:
        load = {"cores": os.cpu_count(), "load_average": os.getloadavg()[0]}
        options.json.write_text(json.dumps({**surroundings(), **load, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    jax.config.update("jax_numpy_rank_promotion", "raise")
    main()
