"""p(z_1 | s_1) against scipy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from swerve.model.initial import Initial

K, L = 3, 2


def test_log_prob_is_a_gaussian_around_each_regimes_mean():
    rng = np.random.default_rng(0)
    means, log_scale = rng.normal(size=(2, K, L)).astype(np.float32)
    z = rng.normal(size=L).astype(np.float32)

    @jax.jit
    def log_prob():
        made = Initial(K, L, floor=0.01)
        moved = eqx.tree_at(lambda i: (i.mean, i.noise.log_scale), made, (jnp.asarray(means), log_scale))
        return made.log_prob(jnp.ones(L)), moved.log_prob(jnp.asarray(z))

    fresh, trained = log_prob()
    expected = norm.logpdf(z[None], means, np.sqrt(0.01 + np.exp(2 * log_scale))).sum(axis=1)
    np.testing.assert_allclose(trained, expected, rtol=1e-5)
    np.testing.assert_allclose(fresh, np.full(K, L * norm.logpdf(1.0, scale=np.sqrt(1.01))), rtol=1e-5)
