"""The dynamax side of benchmarks/kalman.py: its Kalman smoother, run in an environment of its own.

Usage: kalman_dynamax.py IN.npz OUT.npz. Reads x (B, T, D) and the system, writes smoothed means and times.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def measure(smooth: Callable, system: Any, x: jax.Array, repeats: int) -> dict:
    """Of one sequence's (means, covariances, ...) over a batch, each sequence with a copy of the system."""
    systems = jax.tree.map(lambda leaf: jnp.tile(leaf, (len(x),) + (1,) * leaf.ndim), system)
    began = time.perf_counter()
    compiled = jax.jit(jax.vmap(smooth)).lower(systems, x).compile()
    compile_seconds = time.perf_counter() - began
    mean, covariance, *_ = jax.block_until_ready(compiled(systems, x))
    times = []
    for _ in range(repeats):
        began, cpu_began = time.perf_counter(), time.process_time()
        jax.block_until_ready(compiled(systems, x))
        times.append((time.perf_counter() - began, time.process_time() - cpu_began))
    seconds, cpu_seconds = np.min(times, axis=0)
    return {
        "mean": np.asarray(mean),
        "smallest_variance": np.linalg.eigvalsh(np.asarray(covariance, float)).min(),
        "compile_s": compile_seconds,
        "ms": 1e3 * seconds,
        "cpu_ms": 1e3 * cpu_seconds,
    }


def main(source: str, target: str) -> None:
    question = np.load(source)
    jax.config.update("jax_enable_x64", bool(question["float64"]))
    from dynamax.linear_gaussian_ssm import lgssm_smoother  # reads the precision when imported
    from dynamax.linear_gaussian_ssm.inference import make_lgssm_params

    x, matrix, noise, looks, sight = (
        jnp.asarray(question[name], float) for name in ("x", "matrix", "noise", "looks", "sight")
    )
    size = len(matrix)
    parameters = make_lgssm_params(
        jnp.zeros(size), jnp.eye(size), matrix, jnp.diag(noise**2), looks, jnp.diag(sight**2)
    )

    def smooth(parameters, x):
        smoothed = lgssm_smoother(parameters, x)
        return (
            smoothed.smoothed_means,
            smoothed.smoothed_covariances,
            smoothed.smoothed_cross_covariances,
            smoothed.marginal_loglik,
        )

    np.savez(target, **measure(smooth, parameters, x, int(question["repeats"])))


if __name__ == "__main__":
    main(*sys.argv[1:])
