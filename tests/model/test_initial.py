"""p(z_1 | s_1) against scipy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from swerve.model.initial import Initial

K, L = 3, 2


@pytest.mark.parametrize("per_regime", [True, False])
def test_log_prob_is_a_gaussian_around_each_mean_or_a_shared_one(per_regime):
    rng = np.random.default_rng(0)
    means, log_scale = rng.normal(size=(2, K if per_regime else 1, L)).astype(np.float32)
    z = rng.normal(size=L).astype(np.float32)

    @jax.jit
    def log_prob():
        made = Initial(K, L, per_regime=per_regime, floor=0.01)
        moved = eqx.tree_at(lambda i: (i.means, i.noise.log_scale), made, (jnp.asarray(means), log_scale))
        return made.log_prob(jnp.ones(L)), moved.log_prob(jnp.asarray(z))

    fresh, trained = log_prob()
    expected = norm.logpdf(z[None], means, np.sqrt(0.01 + np.exp(2 * log_scale))).sum(axis=1)
    np.testing.assert_allclose(trained, np.broadcast_to(expected, K), rtol=1e-5)
    np.testing.assert_allclose(fresh, np.full(K, L * norm.logpdf(1.0, scale=np.sqrt(1.01))), rtol=1e-5)
