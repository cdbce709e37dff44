"""What all these systems are told of the data and of the networks."""

from typing import NamedTuple


class Shape(NamedTuple):
    """Sizes and starting values that the systems share; each has options of its own beside them."""

    regimes: int
    state_size: int
    channels: int
    controls: int
    dynamics_hidden: tuple[int, ...]
    emission_hidden: tuple[int, ...]
    embedding_hidden: tuple[int, ...]
    encoder_size: int
    causal_size: int
    dynamics_noise_start: float
    dynamics_noise_floor: float
    emission_noise_start: float
    emission_noise_floor: float
    stickiness: float
    """Added to the diagonal of the switch logits."""
