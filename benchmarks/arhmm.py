"""Autoregressive HMM by EM: Swerve beside hmmlearn and dynamax on the same data in one run.

Every tool runs the same number of EM iterations from the same number of its own starts, on Dubins paths.
dynamax gets an environment of its own, `.envs/dynamax`, made on first use.
"""

import argparse
import json
import logging
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from hmmlearn.hmm import GaussianHMM
from rich.console import Console
from rich.table import Table

from swerve import arhmm
from swerve.data import dubins
from swerve.evaluation.scores import score
from swerve.types import Frames

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE.parent / ".envs" / "dynamax"
REGIMES = 3
STICKINESS = 100.0


@dataclass(frozen=True)
class Row:
    """One tool on one problem; `seconds` is for all restarts, without compilation."""

    problem: str
    tool: str
    compile_seconds: float = float("nan")
    seconds: float = float("nan")
    ms_per_iteration: float = float("nan")
    nats_per_frame: float = float("nan")
    frames_percent: float = float("nan")
    note: str = ""


@dataclass(frozen=True)
class Settings:
    """What all tools share."""

    restarts: int
    iterations: int
    repeats: int


def main() -> None:
    arguments = parse_arguments()
    settings = Settings(arguments.restarts, arguments.iterations, arguments.repeats)
    board = dubins.positions(arguments.sequences, seed=0, noise=0.01)
    x = ((board.x - board.x.mean()) / board.x.std()).astype(np.float32)
    steps = np.diff(x, axis=1, prepend=x[:, :1])
    steps = steps / steps.std()

    rows = [
        run_swerve(steps, board.s, settings, lags=0, covariance=arhmm.Covariance.DIAGONAL),
        run_hmmlearn(steps, board.s, settings),
        run_swerve(x, board.s, settings, lags=2, covariance=arhmm.Covariance.FULL),
        run_dynamax(x, board.s, settings, lags=2, float64=False),
        run_dynamax(x, board.s, settings, lags=2, float64=True),
    ]
    print_table(rows, x.shape, settings)
    if arguments.json:
        report = {
            "machine": {
                "processor": platform.machine(),
                "cores": os.cpu_count(),
                "backend": jax.default_backend(),
            },
            "versions": {name: version(name) for name in ("jax", "hmmlearn", "numpy", "swerve")},
            "data": {"board": "dubins positions, noise 0.01", "shape": x.shape},
            "settings": asdict(settings),
            "rows": [asdict(row) | ratios(row, rows) for row in rows],
        }
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sequences", type=int, default=300)
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3, help="the fastest of so many runs counts")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def run_swerve(x, truth, settings: Settings, *, lags: int, covariance: arhmm.Covariance) -> Row:
    everywhere = jnp.ones(x.shape, bool)
    frames = Frames(jnp.asarray(x), everywhere, everywhere[..., 0], jnp.zeros((*x.shape[:2], 0)))
    options = arhmm.ArHmmOptions(
        regimes=REGIMES,
        lags=lags,
        covariance=covariance,
        stickiness=STICKINESS if lags else 0.0,
        restarts=settings.restarts,
        max_iterations=settings.iterations,
        tolerance=float("-inf"),
    )

    def fit():
        return jax.block_until_ready(arhmm.fit(frames, options, key=jax.random.key(0)))

    began = time.perf_counter()
    fit()
    first = time.perf_counter() - began
    seconds, fitted = fastest(fit, settings.repeats)
    labels = np.asarray(jax.vmap(arhmm.smooth, in_axes=(None, 0))(fitted.model, frames)).argmax(axis=-1)
    return row(
        problem_name(lags), "Swerve", first - seconds, seconds, fitted.log_likelihood, labels, truth, settings
    )


def run_hmmlearn(x, truth, settings: Settings) -> Row:
    """Its best restart by likelihood; `tol` = -inf so that all iterations are run."""
    flat, lengths = x.reshape(-1, x.shape[-1]), [x.shape[1]] * len(x)
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)

    def fit():
        models = [
            GaussianHMM(
                REGIMES, covariance_type="diag", n_iter=settings.iterations, tol=-np.inf, random_state=seed
            ).fit(flat, lengths)
            for seed in range(settings.restarts)
        ]
        return max(models, key=lambda model: model.monitor_.history[-1])

    seconds, model = fastest(fit, settings.repeats)
    labels = model.predict_proba(flat, lengths).argmax(axis=-1).reshape(truth.shape)
    return row(problem_name(0), "hmmlearn", 0.0, seconds, model.score(flat, lengths), labels, truth, settings)


def run_dynamax(x, truth, settings: Settings, *, lags: int, float64: bool) -> Row:
    tool = f"dynamax, float{64 if float64 else 32}"
    try:
        python = dynamax_python()
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "problem.npz"), Path(folder, "answer.npz")
            np.savez(
                source,
                x=x,
                lags=lags,
                regimes=REGIMES,
                stickiness=STICKINESS,
                restarts=settings.restarts,
                iterations=settings.iterations,
                float64=float64,
            )
            answers = []
            for _ in range(settings.repeats):
                call([python, HERE / "arhmm_dynamax.py", source, target])
                with np.load(target) as answer:
                    answers.append(dict(answer))
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or "").strip().splitlines()
        return Row(problem_name(lags), tool, note=lines[-1] if lines else str(error))
    answer = min(answers, key=lambda one: float(one["seconds"]))
    failed = int(answer["failed"])
    return row(
        problem_name(lags),
        tool,
        float(answer["compile_seconds"]),
        float(answer["seconds"]),
        answer["log_likelihood"],
        answer["labels"],
        truth,
        settings,
        note=f"{failed} of {settings.restarts} restarts ended in NaN" if failed else "",
    )


def dynamax_python() -> Path:
    """The interpreter of `.envs/dynamax`, installed under benchmarks/constraints-dynamax.txt if need be."""
    python = ENVIRONMENT / "bin" / "python"
    ready = ENVIRONMENT / "ready"
    if not ready.exists():
        Console(stderr=True).print("making .envs/dynamax, once ...")
        call([sys.executable, "-m", "venv", "--clear", ENVIRONMENT])
        constraints = HERE / "constraints-dynamax.txt"
        call([python, "-m", "pip", "install", "--quiet", "-c", constraints, "dynamax"])
        ready.touch()
    return python


def call(command: list) -> None:
    subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)


def fastest(fit: Callable, repeats: int):
    """The shortest time of `repeats` runs, and the last result."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        result = fit()
        times.append(time.perf_counter() - began)
    return min(times), result


def row(
    problem, tool, compile_seconds, seconds, log_likelihood, labels, truth, settings: Settings, note=""
) -> Row:
    percent = score(list(labels.astype(np.int64)), list(truth)).matched.frame_f1
    return Row(
        problem,
        tool,
        compile_seconds,
        seconds,
        1e3 * seconds / (settings.restarts * settings.iterations),
        float(log_likelihood) / truth.size,
        percent,
        note,
    )


def problem_name(lags: int) -> str:
    return f"AR({lags}), full" if lags else "Gaussian HMM on steps, diagonal"


def ratios(row: Row, rows: list[Row]) -> dict[str, float]:
    """This row's times over Swerve's on the same problem: above 1, Swerve is faster."""
    ours = next(other for other in rows if other.problem == row.problem and other.tool == "Swerve")
    return {
        "ratio_run": row.seconds / ours.seconds,
        "ratio_with_compile": (row.seconds + row.compile_seconds) / (ours.seconds + ours.compile_seconds),
    }


def print_table(rows: list[Row], shape: tuple[int, ...], settings: Settings) -> None:
    table = Table(
        title=f"EM on {shape[0]} Dubins paths of {shape[1]} frames: "
        f"{settings.restarts} restarts of {settings.iterations} iterations, {os.cpu_count()} cores"
    )
    columns = ("problem", "tool", "compile s", "run s", "ms / iteration", "nats / frame", "frames %")
    for name in (*columns, "run: peer / ours", "with compile"):
        table.add_column(name, justify="left" if name in columns[:2] else "right")
    for one in rows:
        ratio = ratios(one, rows)
        numbers = (one.compile_seconds, one.seconds, one.ms_per_iteration, one.nats_per_frame)
        numbers += (one.frames_percent, ratio["ratio_run"], ratio["ratio_with_compile"])
        table.add_row(one.problem, one.tool, *(f"{number:.2f}" for number in numbers))
    console = Console(width=140)
    console.print(table)
    for one in rows:
        if one.note:
            console.print(f"{one.tool}: {one.note}")


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)
    main()
