"""Video at both ends of training: the code of its images, and the steps on the images themselves (decision 12)."""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from swerve.config import Config
from swerve.coordconv import Image
from swerve.errors import InputError
from swerve.imagecode import CodeOptions, ImageCode, fit_code
from swerve.training.checkpoint import load_tree, save_tree
from swerve.training.restarts import stack
from swerve.training.step import Restart, System, TrainingData, advance, evaluate, start
from swerve.types import Frames, Key

STEPS_AT_ONCE = 10  # on images: between two of them a person can stop


def cached_code(
    cache: Path | None,
    frames: Frames,
    image: Image,
    config: Config,
    *,
    key: Key,
    on_note: Callable[[str], None] = lambda note: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> ImageCode:
    """A code of these images, kept in a file so that an interrupted run need not learn it again."""
    size, settings = config.code_size, config.code
    if cache is not None and cache.is_file():
        code, _ = load_tree(cache, jax.eval_shape(lambda: ImageCode(size, image, key=key)))
        return jax.tree.map(jnp.asarray, code)
    options = CodeOptions(size, settings.steps, settings.batch_size, settings.learning_rate)

    def tell(step: int, error: float) -> None:
        on_note(f"learning a code of the images: step {step} of {options.steps}, mean square error {error:.3f}")

    code = fit_code(frames, image, options, key=key, on_progress=tell, should_stop=should_stop)
    if code is None:
        raise InputError("Stopped while a code of the images was learned: there is no model yet.")
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(code)):
        raise InputError("The code of the images diverged: try --set code.learning_rate=1e-3.")
    if cache is not None:
        save_tree(cache, code, {})
    return code


def train_on_images(
    system: System,
    training: Frames,
    validation: Frames,
    restart: Restart,
    config: Config,
    *,
    on_note: Callable[[str], None] = lambda note: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> System:
    """The steps that a restart has left after those on codes, and no guide any more; fewer if it should stop.

    They stay only if they raise the held-out bound.
    """
    done, steps = config.steps_on_codes, config.training.steps
    if done >= steps:
        return system
    own = jax.tree.map(jnp.copy, system)  # what is trained is donated, and the code belongs to others too
    state = start(own)._replace(step=jnp.int32(done))
    first = jnp.asarray(0)
    alone = restart._replace(guide=first, source=first)
    data = TrainingData(stack([training]), jnp.zeros((1, *training.valid.shape, system.model.regimes)))
    for step in range(done, steps, STEPS_AT_ONCE):
        if should_stop():
            break
        on_note(f"training on the images: step {step} of {steps}")
        at_once = min(STEPS_AT_ONCE, steps - step)
        state, _ = jax.block_until_ready(
            advance(state, data, alone, steps=at_once, batch_size=config.training.batch_size)
        )
    before, after = (float(evaluate(one, validation).bound) for one in (system, state.system))
    stay = after > before
    on_note(f"on the images the held-out bound went from {before:.3f} to {after:.3f}{'' if stay else ': undone'}")
    return state.system if stay else system
