"""Recipes by name: the default, and what the paper does."""

import dataclasses

from swerve.errors import InputError, nearest
from swerve.settings.sections import JOINT_ERRORS, Config, Recipe, Variant

PAPER = Recipe(
    name="paper",
    learning_rate=1e-3,
    full_rate_width=2**30,
    first_learning_rate=1e-5,
    last_learning_rate=1e-5,
    warmup=5_000 / 300_000,
    cosine_end=20_000 / 300_000,
    clip=5.0,
    uniformity=1000.0,
    uniformity_hold=50_000 / 300_000,
    temperature=1000.0,
    temperature_hold=100_000 / 300_000,
    anneal=19_749 / 300_000,  # a factor of 0.975 every 500 of 300,000 steps
    balance=0.0,
    guidance=0.0,
    gap_rate=0.0,
    stickiness=0.0,
    variants=(Variant(),),
)
PAPER_BALL = dataclasses.replace(PAPER, name="paper-ball", warmup=0.0, cosine_end=None, uniformity=0.0, temperature=1.0)


def shortened(paper: Recipe) -> Recipe:
    """The same shares of fewer steps, at a flat learning rate: one that falls in the same share would have fallen
    before anything is learned."""
    return dataclasses.replace(paper, name="paper-short", cosine_end=None)


MANY_CHANNELS = dataclasses.replace(Recipe(), name="many-channels")
RECIPES = {one.name: one for one in (Recipe(), MANY_CHANNELS, PAPER, shortened(PAPER), PAPER_BALL)}
PAPER_MODEL = {
    "dynamics_residual": False,
    "emission_rectified": True,
    "initial_per_regime": True,
    "initial_components": 1,
    "initial_learned": True,
    "switching_reads_z": False,
}
PAPER_POSTERIOR = {
    "start": "origin",
    "initial_scale": 0.6931,
    "initial_gain": 0.0,
    "reads_changes": False,
    "encoder_size": 16,
    "causal_size": 16,
}
PAPER_TRAINING = {"restarts": 1, "merging": 0.0}
PARTS = {
    "default": {},
    "many-channels": {"arhmm": JOINT_ERRORS},
    "paper": {"model": PAPER_MODEL, "posterior": PAPER_POSTERIOR, "training": {"steps": 300_000, **PAPER_TRAINING}},
    "paper-short": {
        "model": PAPER_MODEL,
        "posterior": PAPER_POSTERIOR,
        "training": {"steps": 20_000, **PAPER_TRAINING},
    },
    "paper-ball": {
        "model": PAPER_MODEL | {"dynamics": "gru", "dynamics_hidden": (4,)},
        "posterior": PAPER_POSTERIOR,
        "training": {"steps": 10_000, **PAPER_TRAINING},
    },
}
"""What belongs to a recipe besides its numbers, by section."""


def with_recipe(config: Config, name: str) -> Config:
    """The named recipe, with the settings that belong to it in place of those of the recipe before."""
    if name not in RECIPES:
        raise InputError(f"There is no recipe '{name}'{nearest(name, RECIPES)}")
    if name == config.recipe.name:
        return config
    plain, before, after = Config(), PARTS[config.recipe.name], PARTS[name]
    changed = {}
    for section in {**before, **after}:
        forgotten = {key: getattr(getattr(plain, section), key) for key in before.get(section, {})}
        changed[section] = dataclasses.replace(getattr(config, section), **forgotten | after.get(section, {}))
    return dataclasses.replace(config, recipe=RECIPES[name], **changed)
