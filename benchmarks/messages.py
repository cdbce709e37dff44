"""Smoothing over regimes: Swerve against hmmlearn's compiled core and a plain differentiated scan.

    python benchmarks/messages.py [--quick] [--json FILE]

Time is the best of several runs after compilation. Errors are against a float64 reference: log Z relative,
marginals absolute. Swerve and the plain scan compute in float32, hmmlearn in float64. A ratio says how many
times faster Swerve is.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import log_softmax, logsumexp
from rich.console import Console
from rich.table import Table

from swerve.inference import messages
from swerve_lab.experiments.reproduce import surroundings

try:
    from hmmlearn import _hmmc
except ImportError:
    _hmmc = None

FRAMES, REGIMES = (100, 1_000, 10_000, 100_000), (2, 4, 16, 64)
QUICK_FRAMES, QUICK_REGIMES = (100, 1_000), (2, 8)
MEMORY_LIMIT = 2e9


def potentials(T: int, K: int, seed: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """A sticky chain and evidence of a few nats, in float32."""
    rng = np.random.default_rng(seed)
    raw = rng.normal(size=K), rng.normal(size=(K, K)) + 3 * np.eye(K), 3 * rng.normal(size=(T, K))
    initial, transition, evidence = (jnp.asarray(array, jnp.float32) for array in raw)
    return log_softmax(initial), log_softmax(transition), evidence


def reference(log_initial, log_transition, log_evidence):
    """Scaled forward-backward in float64: log Z and marginals."""
    offset = log_evidence.max(axis=1)
    likelihood, transition = np.exp(log_evidence - offset[:, None]), np.exp(log_transition)
    forward, backward = np.empty_like(likelihood), np.ones_like(likelihood)
    scale = np.empty(len(likelihood))
    predicted = np.exp(log_initial)
    for t, now in enumerate(likelihood):
        joint = predicted * now
        scale[t] = joint.sum()
        forward[t] = joint / scale[t]
        predicted = forward[t] @ transition
    for t in range(len(likelihood) - 2, -1, -1):
        backward[t] = transition @ (likelihood[t + 1] * backward[t + 1]) / scale[t + 1]
    return np.log(scale).sum() + offset.sum(), forward * backward


def hmmlearn_smooth(initial, transition, log_evidence):
    log_z, forward = _hmmc.forward_log(initial, transition, log_evidence)
    log_marginals = forward + _hmmc.backward_log(initial, transition, log_evidence)
    log_marginals -= np.logaddexp.reduce(log_marginals, axis=1, keepdims=True)
    return log_z, np.exp(log_marginals)


def plain_log_z(log_initial, log_transition, log_evidence):
    """The textbook recursion, with a transition per frame or one for all."""
    varying = log_transition.ndim == 3

    def step(alpha, frame):
        evidence, transition = frame
        transition = transition if varying else log_transition
        return logsumexp(alpha[:, None] + transition, axis=0) + evidence, None

    frames = (log_evidence[1:], log_transition if varying else None)
    alpha, _ = jax.lax.scan(step, log_initial + log_evidence[0], frames)
    return logsumexp(alpha)


def seconds(function: Callable, budget: float = 1.0) -> float:
    """Best of up to 30 runs that together take about `budget` seconds."""
    jax.block_until_ready(function())
    times = []
    while len(times) < 30 and sum(times) < budget:
        start = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - start)
    return min(times)


def measure(function: Callable, args: tuple, truth: tuple) -> dict:
    log_z, marginals = function(*args)
    return {
        "ms": 1e3 * seconds(lambda: function(*args)),
        "log_z_error": float(abs(float(log_z) - truth[0]) / abs(truth[0])),
        "marginal_error": float(np.abs(np.asarray(marginals, float) - truth[1]).max()),
    }


def smoothing(T: int, K: int, seed: int) -> dict:
    args = potentials(T, K, seed)
    double = tuple(np.asarray(array, float) for array in args)
    truth = reference(*double)

    @jax.jit
    def ours(*args):
        smoothed = messages.smooth(*args)
        return smoothed.log_z, smoothed.marginals

    row = {"T": T, "K": K, "swerve": measure(ours, args, truth), "hmmlearn": None, "autodiff": None}
    if _hmmc is not None:
        probabilities = np.exp(double[0]), np.exp(double[1]), double[2]
        row["hmmlearn"] = measure(hmmlearn_smooth, probabilities, truth)
    # The tape holds at least the exponentials and their normalised form for every frame.
    if 2 * 4 * T * K * K <= MEMORY_LIMIT:
        row["autodiff"] = measure(jax.jit(jax.value_and_grad(plain_log_z, 2)), args, truth)
    return row


def training(sequences: int, T: int, K: int, seed: int) -> list[dict]:
    """Gradients as training takes them: a batch, and a transition for every frame."""
    rng = np.random.default_rng(seed)
    shapes = (sequences, K), (sequences, T - 1, K, K), (sequences, T, K)
    initial, transition, evidence = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes)
    args = log_softmax(initial), log_softmax(transition), evidence

    def entropy(marginals):
        return -jnp.sum(marginals * jnp.log(marginals + 1e-6))

    def ours(*args):
        smoothed = messages.smooth(*args)
        return smoothed.log_z + entropy(smoothed.marginals)

    def plain(*args):
        log_z, marginals = jax.value_and_grad(plain_log_z, 2)(*args)
        return log_z + entropy(marginals)

    rows = []
    pairs = {"log Z": (messages.log_normalizer, plain_log_z), "log Z + entropy of marginals": (ours, plain)}
    for name, functions in pairs.items():
        times = []
        for function in functions:
            total = lambda *a, f=function: jax.vmap(f)(*a).sum()  # noqa: E731
            gradient = jax.jit(jax.value_and_grad(total, (0, 1, 2)))
            times.append(1e3 * seconds(lambda g=gradient: g(*args)))
        rows.append({"loss": name, "swerve_ms": times[0], "autodiff_ms": times[1]})
    return rows


def ratio(row: dict, peer: str) -> str:
    return f"{row[peer]['ms'] / row['swerve']['ms']:.1f}x" if row[peer] else "-"


def cells(result: dict | None, absent: str) -> tuple[str, str, str]:
    if result is None:
        return absent, "-", "-"
    return f"{result['ms']:.3g}", f"{result['log_z_error']:.0e}", f"{result['marginal_error']:.0e}"


def smoothing_table(rows: list[dict]) -> Table:
    table = Table(title="Smoothing one sequence, constant transition (ms; relative error of log Z; of marginals)")
    for name in (
        "T",
        "K",
        "swerve",
        "log Z",
        "marg",
        "hmmlearn",
        "log Z",
        "marg",
        "autodiff",
        "log Z",
        "marg",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("hmmlearn/swerve", justify="right")
    table.add_column("autodiff/swerve", justify="right")
    for row in rows:
        table.add_row(
            str(row["T"]),
            str(row["K"]),
            *cells(row["swerve"], ""),
            *cells(row["hmmlearn"], "absent"),
            *cells(row["autodiff"], "> 2 GB"),
            ratio(row, "hmmlearn"),
            ratio(row, "autodiff"),
        )
    return table


def training_table(rows: list[dict], title: str) -> Table:
    table = Table(title=title)
    for name in ("value and gradient of", "swerve", "autodiff", "autodiff/swerve"):
        table.add_column(name, justify="right")
    for row in rows:
        times = row["swerve_ms"], row["autodiff_ms"]
        table.add_row(row["loss"], *[f"{ms:.3g}" for ms in times], f"{times[1] / times[0]:.1f}x")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two lengths and two numbers of regimes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    console = Console()
    lengths, regimes = (QUICK_FRAMES, QUICK_REGIMES) if options.quick else (FRAMES, REGIMES)
    rows = []
    for T in lengths:
        for K in regimes:
            with console.status(f"T = {T}, K = {K}"):
                rows.append(smoothing(T, K, options.seed))
    console.print(smoothing_table(rows))
    shape = {"sequences": 32, "T": 100, "K": 3}
    steps = training(**shape, seed=options.seed)
    console.print(training_table(steps, "32 sequences, T = 100, K = 3, a transition per frame (ms)"))
    if options.json:
        result = {**surroundings("hmmlearn"), "smoothing": rows, "training": {**shape, "rows": steps}}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
