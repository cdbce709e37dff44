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

CODES = 3  # learned at most, one after the other, until one draws something
DRAWS_NOTHING = 0.95  # error of such a code, where 1 is that of an empty drawing; one that draws well has a tenth of it
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
    code = _learned_code(frames, image, options, key, on_note, should_stop)
    if cache is not None:
        save_tree(cache, code, {})
    return code


def _learned_code(
    frames: Frames,
    image: Image,
    options: CodeOptions,
    key: Key,
    on_note: Callable[[str], None],
    should_stop: Callable[[], bool],
) -> ImageCode:
    """The first code that draws something; if none does, the best of all, and a warning."""

    def tell(step: int, error: float) -> None:
        on_note(f"learning a code of the images: step {step} of {options.steps}, mean square error {error:.3f}")

    codes: list[ImageCode] = []
    for start_key in [key, *jax.random.split(key, CODES - 1)]:
        code = fit_code(frames, image, options, key=start_key, on_progress=tell, should_stop=should_stop)
        if code is None:
            raise InputError("Stopped while a code of the images was learned: there is no model yet.")
        if all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(code)):
            codes.append(code)
            if code.error < DRAWS_NOTHING:
                return code
        on_note("this code draws nothing; another one is learned")
    if not codes:
        raise InputError("The code of the images diverged: try --set code.learning_rate=1e-3.")
    on_note("no code of the images draws anything, so that regimes will mean little: try --set code.steps=10000")
    return min(codes, key=lambda code: float(code.error))


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
