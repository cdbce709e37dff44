"""What we take for granted of the libraries below us."""

import jax
import jax.numpy as jnp
import numpy as np


def test_compiled_products_of_many_rows_add_up():
    """jaxlib 0.10.2 gets them wrong on a CPU, without a word (jax-ml/jax#39103): that version is refused."""
    rows = np.arange(40_000, dtype=np.float32)[:, None] * np.eye(1, 3, dtype=np.float32)
    found = jax.jit(jax.vmap(lambda row: jnp.sum((jnp.eye(3) @ row) ** 2)))(rows)
    np.testing.assert_allclose(found, np.square(rows).sum(axis=1), rtol=1e-5)
