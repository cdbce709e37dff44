"""The dynamax side of benchmarks/arhmm.py: EM of its autoregressive HMM, run in an environment of its own.

Usage: arhmm_dynamax.py IN.npz OUT.npz. Reads x (N, T, D) and settings, writes labels, likelihood and times.
"""

import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def main(source: str, target: str) -> None:
    problem = np.load(source)
    jax.config.update("jax_enable_x64", bool(problem["float64"]))
    from dynamax.hidden_markov_model import LinearAutoregressiveHMM  # reads the precision when imported

    x = jnp.asarray(problem["x"], float)
    lags, iterations = int(problem["lags"]), int(problem["iterations"])
    model = LinearAutoregressiveHMM(
        int(problem["regimes"]), x.shape[-1], lags, transition_matrix_stickiness=float(problem["stickiness"])
    )
    # As in Swerve, the first frame stands in for those before it.
    inputs = jax.vmap(lambda one: model.compute_inputs(one, jnp.tile(one[:1], (lags, 1))))(x)
    keys = [jax.random.PRNGKey(seed) for seed in range(int(problem["restarts"]))]

    _, properties = model.initialize(keys[0], method="prior")

    # The body of fit_em, whose own jit would compile again for every restart.
    def step(parameters, _):
        statistics, log_likelihoods = jax.vmap(partial(model.e_step, parameters))(x, inputs)
        parameters, _ = model.m_step(parameters, properties, statistics, (None, None, None))
        return parameters, log_likelihoods.sum()

    @jax.jit
    def run(parameters):
        return jax.lax.scan(step, parameters, length=iterations)

    began = time.perf_counter()
    compiled = run.lower(model.initialize(keys[0], method="prior")[0]).compile()
    compile_seconds = time.perf_counter() - began

    began, cpu_began = time.perf_counter(), time.process_time()
    results = [compiled(model.initialize(key, method="prior")[0]) for key in keys]
    traces = np.stack([trace for _, trace in results])
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began

    final = traces[:, -1]
    best = int(np.nanargmax(final)) if np.isfinite(final).any() else 0
    smooth = jax.jit(jax.vmap(lambda one, past: model.smoother(results[best][0], one, past).smoothed_probs))
    np.savez(
        target,
        labels=np.asarray(smooth(x, inputs)).argmax(axis=-1),
        log_likelihood=final[best],
        failed=np.sum(~np.isfinite(final)),
        compile_seconds=compile_seconds,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
