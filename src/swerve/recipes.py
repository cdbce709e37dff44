"""Recipes by name: the default, and what the paper does."""

import dataclasses

from swerve.config import Config, Recipe, Variant
from swerve.errors import InputError, nearest

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


RECIPES = {"default": Recipe(), "paper": PAPER, "paper-short": shortened(PAPER), "paper-ball": PAPER_BALL}
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
PARTS = {
    "default": ({}, {}, {}),
    "paper": (PAPER_MODEL, PAPER_POSTERIOR, {"steps": 300_000, "restarts": 1, "merging": 0.0}),
    "paper-short": (PAPER_MODEL, PAPER_POSTERIOR, {"steps": 20_000, "restarts": 1, "merging": 0.0}),
    "paper-ball": (
        PAPER_MODEL | {"dynamics": "gru", "dynamics_hidden": (4,)},
        PAPER_POSTERIOR,
        {"steps": 10_000, "restarts": 1, "merging": 0.0},
    ),
}
"""What belongs to a recipe besides its numbers: settings of the model, the posterior and the training."""


def with_recipe(config: Config, name: str) -> Config:
    """The named recipe, with the model parts and the number of steps that belong to it."""
    if name not in RECIPES:
        raise InputError(f"There is no recipe '{name}'{nearest(name, RECIPES)}")
    if name == config.recipe.name:
        return config
    model, posterior, training = PARTS[name]
    plain = Config()
    forgotten = [
        {key: getattr(section, key) for key in settings}
        for section, settings in zip(
            (plain.model, plain.posterior, plain.training), PARTS[config.recipe.name], strict=True
        )
    ]
    return dataclasses.replace(
        config,
        recipe=RECIPES[name],
        model=dataclasses.replace(config.model, **forgotten[0] | model),
        posterior=dataclasses.replace(config.posterior, **forgotten[1] | posterior),
        training=dataclasses.replace(config.training, **forgotten[2] | training),
    )
