"""Autoregressive HMM by EM: Swerve beside hmmlearn and dynamax on the same data in one run.

Every tool runs the same number of EM iterations from the same number of its own starts: hmmlearn on levels
(no lags), dynamax on Dubins paths (two lags). dynamax lets the regimes explain the first frame, of which its lags
are copies, so its likelihood is a little higher.
dynamax gets an environment of its own, `.envs/dynamax`, made on first use.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from hmmlearn.hmm import GaussianHMM
from rich.console import Console
from rich.table import Table

from swerve.choosing.scores import score
from swerve.inference.frames import Frames
from swerve.models import arhmm
from swerve_lab.boards import dubins
from swerve_lab.experiments.reproduce import surroundings

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE.parent / ".envs" / "dynamax"


@dataclass(frozen=True)
class Problem:
    """Sequences (N, T, D), the truth (N, T) and the model to fit."""

    name: str
    x: np.ndarray
    s: np.ndarray
    regimes: int
    lags: int
    stickiness: float
    covariance: arhmm.Covariance


@dataclass(frozen=True)
class Row:
    """One tool on one problem; `seconds` is for all restarts and their starts, without compilation."""

    problem: str
    tool: str
    compile_seconds: float = float("nan")
    seconds: float = float("nan")
    cpu_seconds: float = float("nan")
    ms_per_iteration: float = float("nan")
    nats_per_frame: float = float("nan")
    frames_percent: float = float("nan")
    note: str = ""


class Times(NamedTuple):
    """Of one run, by the clock and of all cores together: the latter suffers less from a busy machine."""

    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Settings:
    """What all tools share."""

    restarts: int
    iterations: int


def main() -> None:
    arguments = parse_arguments()
    settings = Settings(arguments.restarts, arguments.iterations)
    levels = gaussian_hmm_problem(arguments.sequences)
    paths = dubins_problem(arguments.sequences)
    tools = [
        partial(run_swerve, levels, settings),
        partial(run_hmmlearn, levels, settings),
        partial(run_swerve, paths, settings),
        partial(run_dynamax, paths, settings, float64=False),
        partial(run_dynamax, paths, settings, float64=True),
    ]
    # Round by round, so that a busy moment of the machine does not fall on one tool alone.
    rounds = [[tool() for tool in tools] for _ in range(arguments.rounds)]
    rows = [fastest(repeats) for repeats in zip(*rounds, strict=True)]
    print_table(rows, settings)
    if arguments.json:
        report = {
            **surroundings("hmmlearn"),
            "load_average": os.getloadavg()[0],
            "cores": os.cpu_count(),
            "data": {problem.name: problem.x.shape for problem in (levels, paths)},
            "settings": asdict(settings),
            "rows": [asdict(row) | ratios(row, rows) for row in rows],
        }
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=200)
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3, help="each tool's fastest of so many runs counts")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def gaussian_hmm_problem(sequences: int, regimes: int = 5, channels: int = 4, length: int = 100) -> Problem:
    """Levels one standard deviation of the noise apart, each held for 20 frames on average."""
    rng = np.random.default_rng(0)
    switches = rng.random((sequences, length)) < 0.05
    hops = np.where(switches, rng.integers(1, regimes, (sequences, length)), 0)
    s = (rng.integers(regimes, size=(sequences, 1)) + np.cumsum(hops, axis=1)) % regimes
    x = rng.normal(size=(regimes, channels))[s] + rng.normal(size=(sequences, length, channels))
    x = (x - x.mean()) / x.std()
    name = "levels, no lags, diagonal"
    return Problem(name, x.astype(np.float32), s, regimes, 0, 0.0, arhmm.Covariance.DIAGONAL)


def dubins_problem(sequences: int) -> Problem:
    board = dubins.positions(sequences, seed=0, noise=0.01)
    x = ((board.x - board.x.mean()) / board.x.std()).astype(np.float32)
    return Problem("Dubins, AR(2), full", x, board.s, 3, 2, 100.0, arhmm.Covariance.FULL)


def run_swerve(problem: Problem, settings: Settings) -> Row:
    x = jnp.asarray(problem.x)
    everywhere = jnp.ones(x.shape, bool)
    frames = Frames(x, everywhere, everywhere[..., 0], jnp.zeros((*x.shape[:2], 0)))
    options = arhmm.ArHmmOptions(
        regimes=problem.regimes,
        lags=problem.lags,
        covariance=problem.covariance,
        stickiness=problem.stickiness,
        restarts=settings.restarts,
        max_iterations=settings.iterations,
        tolerance=float("-inf"),
    )

    def fit():
        return jax.block_until_ready(arhmm.fit(frames, options, key=jax.random.key(0)))

    jax.clear_caches()
    first, _ = timed(fit)
    times, fitted = timed(fit)
    labels = jax.vmap(arhmm.smooth, in_axes=(None, 0))(fitted.model, frames).argmax(axis=-1)
    compile_seconds = first.seconds - times.seconds
    return judge(problem, "Swerve", settings, compile_seconds, times, fitted.log_likelihood, labels)


def run_hmmlearn(problem: Problem, settings: Settings) -> Row:
    """Its best restart by likelihood; `tol` = -inf so that no iteration is left out."""
    flat, lengths = problem.x.reshape(-1, problem.x.shape[-1]), [problem.x.shape[1]] * len(problem.x)
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)

    def fit_one(seed):
        model = GaussianHMM(problem.regimes, "diag", n_iter=settings.iterations, tol=-np.inf, random_state=seed)
        return model.fit(flat, lengths)

    def fit():
        models = map(fit_one, range(settings.restarts))
        return max(models, key=lambda model: model.monitor_.history[-1])

    times, model = timed(fit)
    labels = model.predict_proba(flat, lengths).argmax(axis=-1).reshape(problem.s.shape)
    return judge(problem, "hmmlearn", settings, 0.0, times, model.score(flat, lengths), labels)


def run_dynamax(problem: Problem, settings: Settings, *, float64: bool) -> Row:
    tool = f"dynamax, float{64 if float64 else 32}"
    try:
        answer = ask_dynamax(problem, settings, float64)
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or "").strip().splitlines()
        return Row(problem.name, tool, note=lines[-1] if lines else str(error))
    failed = int(answer["failed"])
    note = f"{failed} of {settings.restarts} restarts ended in NaN" if failed else ""
    times = Times(float(answer["seconds"]), float(answer["cpu_seconds"]))
    compile_seconds = float(answer["compile_seconds"])
    return judge(problem, tool, settings, compile_seconds, times, answer["log_likelihood"], answer["labels"], note)


def ask_dynamax(problem: Problem, settings: Settings, float64: bool) -> dict[str, np.ndarray]:
    """What arhmm_dynamax.py says, run in its environment."""
    python = dynamax_python()
    question = asdict(settings) | {"float64": float64}
    question |= {name: getattr(problem, name) for name in ("x", "lags", "regimes", "stickiness")}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "question.npz"), Path(folder, "answer.npz")
        np.savez(source, **question)
        call([python, HERE / "arhmm_dynamax.py", source, target])
        with np.load(target) as answer:
            return dict(answer)


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


def timed(action: Callable) -> tuple[Times, Any]:
    began, cpu_began = time.perf_counter(), time.process_time()
    result = action()
    return Times(time.perf_counter() - began, time.process_time() - cpu_began), result


def fastest(repeats: Sequence[Row]) -> Row:
    """The row with the shortest run, and the least compilation and CPU time of any."""
    quickest = min(repeats, key=lambda row: row.seconds)
    least = {name: min(getattr(row, name) for row in repeats) for name in ("compile_seconds", "cpu_seconds")}
    return replace(quickest, **least)


def judge(
    problem: Problem, tool, settings: Settings, compile_seconds, times: Times, log_likelihood, labels, note=""
) -> Row:
    scores = score(list(np.asarray(labels, np.int64)), list(problem.s.astype(np.int64)))
    return Row(
        problem.name,
        tool,
        compile_seconds,
        *times,
        1e3 * times.seconds / (settings.restarts * settings.iterations),
        float(log_likelihood) / problem.s.size,
        scores.matched.frame_f1,
        note,
    )


def ratios(row: Row, rows: list[Row]) -> dict[str, float]:
    """This row's times over Swerve's on the same problem: above 1, Swerve is faster."""
    ours = next(other for other in rows if other.problem == row.problem and other.tool == "Swerve")
    return {
        "ratio_run": row.seconds / ours.seconds,
        "ratio_cpu": row.cpu_seconds / ours.cpu_seconds,
        "ratio_with_compile": (row.seconds + row.compile_seconds) / (ours.seconds + ours.compile_seconds),
    }


def print_table(rows: list[Row], settings: Settings) -> None:
    table = Table(
        title=f"EM with its starts: {settings.restarts} restarts of {settings.iterations} iterations; "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    table.add_column("problem")
    table.add_column("tool")
    measured = ("compile s", "run s", "CPU s", "ms / iteration", "nats / frame", "frames %")
    for name in (*measured, "run: peer / ours", "CPU: peer / ours", "with compile"):
        table.add_column(name, justify="right")
    for one in rows:
        ratio = ratios(one, rows)
        numbers = (one.compile_seconds, one.seconds, one.cpu_seconds, one.ms_per_iteration)
        numbers += (one.nats_per_frame, one.frames_percent)
        numbers += (ratio["ratio_run"], ratio["ratio_cpu"], ratio["ratio_with_compile"])
        table.add_row(one.problem, one.tool, *(f"{number:.2f}" for number in numbers))
    console = Console(width=140)
    console.print(table)
    for one in rows:
        if one.note:
            console.print(f"{one.tool}: {one.note}")


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)
    main()
