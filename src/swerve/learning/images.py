"""Video at both ends of training: the code of its images, and the steps on the images themselves (decision 12)."""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp

from swerve.inference.frames import Frames, Key
from swerve.learning.preparation import Prepared
from swerve.learning.restarts import stack
from swerve.learning.step import Restart, TrainingData, advance, evaluate, start
from swerve.models.model import Model
from swerve.settings.sections import Config
from swerve.views.codes import CodeOptions, Codes
from swerve.views.view import load, save

STEPS_AT_ONCE = 10  # on images: between two of them a person can stop


def learned_codes(
    cache: Path | None,
    prepared: Prepared,
    config: Config,
    *,
    key: Key,
    on_note: Callable[[str], None] = lambda note: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Codes:
    """The view of these images as codes, kept in a file so that an interrupted run need not learn it again."""
    if cache is not None and cache.is_file():
        kept = jax.tree.map(jnp.asarray, load(cache))
        assert isinstance(kept, Codes)
        return kept
    settings, pixels = config.code, prepared.standardizer
    options = CodeOptions(config.code_size, settings.steps, settings.batch_size, settings.learning_rate)
    fresh = Codes(options, prepared.image, mean=float(pixels.mean[0]), scale=float(pixels.scale[0]))
    codes = fresh.learn_frames(prepared.training, key=key, on_note=on_note, should_stop=should_stop)
    if cache is not None:
        save(cache, codes)
    return codes


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
