"""Video at both ends of training: the code of its images, and the steps on the images themselves (decision 12)."""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from swerve.data.trees import load_tree, save_tree
from swerve.errors import InputError
from swerve.inference.frames import Frames, Key
from swerve.learning.restarts import stack
from swerve.learning.step import Restart, TrainingData, advance, evaluate, start
from swerve.models.model import Model
from swerve.settings.sections import Config
from swerve.views.codes import CodeOptions, ImageCode, fit_code
from swerve.views.coordconv import Image

CODES = 3  # learned at most, one after the other, until one draws something
AGAIN = 1000  # keys of later codes; the first ones are those that a code splits its own into
DRAWS_NOTHING = (
    0.95  # root mean square error, 1 for an empty picture: 0.97 of codes that failed, 0.1 of the others (dubins)
)
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
    for attempt in range(CODES if options.steps else 1):
        if attempt:
            on_note(f"the code of the images has not learned to draw them: beginning again, {attempt} of {CODES - 1}")
        own_key = jax.random.fold_in(key, AGAIN + attempt) if attempt else key
        code = fit_code(frames, image, options, key=own_key, on_progress=tell, should_stop=should_stop)
        if code is None:
            raise InputError("Stopped while a code of the images was learned: there is no model yet.")
        if all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(code)):
            codes.append(code)
            if code.error < DRAWS_NOTHING:
                return code
    if not codes:
        raise InputError("The code of the images diverged: try --set code.learning_rate=1e-3.")
    if options.steps:
        on_note("no code draws the images, so that regimes may mean little: try --set code.steps=10000")
    return min(codes, key=lambda code: float(code.error))


def train_on_images(
    system: Model,
    training: Frames,
    validation: Frames,
    restart: Restart,
    config: Config,
    *,
    on_note: Callable[[str], None] = lambda note: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Model:
    """The steps that a restart has left after those on codes, and no guide any more; fewer if it should stop.

    They stay only if they raise the held-out bound.
    """
    done, steps = config.steps_on_codes, config.training.steps
    if done >= steps:
        return system
    own = jax.tree.map(jnp.copy, system)  # what is trained is donated, and the code belongs to others too
    state = start(own)._replace(step=jnp.int32(done))
    first = jnp.asarray(0)
    schedule = restart.schedule._replace(channel_gap_rate=jnp.float32(0.0))  # a camera loses frames, not pixels
    alone = restart._replace(schedule=schedule, guide=first, source=first)
    data = TrainingData(stack([training]), jnp.zeros((1, *training.valid.shape, system.regimes)))
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
