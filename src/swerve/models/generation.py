"""What a model says beyond the regimes of a sequence, compiled: hidden states, sequences of its own, and futures."""

from functools import partial

import jax
from jaxtyping import Array, Float

from swerve.inference.frames import Frames, Key
from swerve.models.model import Drawn, Futures, Model


@partial(jax.jit, static_argnames="samples")
def mean_states(model: Model, frames: Frames, *, samples: int, key: Key) -> Float[Array, "T L"]:
    """E[z_t | x] of one sequence."""
    with jax.default_matmul_precision("highest"):
        found = model.states(frames, samples=samples, key=key)
    assert found is not None
    return found


@jax.jit
def sequence(model: Model, u: Float[Array, "T U"], *, key: Key) -> Drawn:
    """A draw from p(x, s), one frame per row of u."""
    with jax.default_matmul_precision("highest"):
        found = model.draw(u, key=key)
    assert found is not None
    return found


@partial(jax.jit, static_argnames="samples")
def futures(model: Model, frames: Frames, u: Float[Array, "H U"], *, samples: int, key: Key) -> Futures:
    """Draws from p(x_{T+1}..x_{T+H}, s_{T+1}..s_{T+H} | x_1..x_T), one frame per row of u."""
    with jax.default_matmul_precision("highest"):
        found = model.futures(frames, u, samples=samples, key=key)
    assert found is not None
    return found
