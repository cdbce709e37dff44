"""What a code of images gets wrong: shared by the tests of the code and of the models that start as one."""

import jax
import jax.numpy as jnp


def image_errors(code, x, observed):
    """x - decoder(code(x)), zero where x was not observed."""
    drawn = jax.vmap(lambda frame, seen: code.decoder(code.read(frame, seen)))(x, observed)
    return jnp.where(observed, x - drawn, 0.0)
