"""The abstract parts of p(x, z, s). Each part speaks of one frame; `snlds.py` assembles sequences from them."""

from abc import abstractmethod

import equinox as eqx
from jaxtyping import Array, Bool, Float, PyTree

from swerve.models.snlds.noise import AbstractNoise


class AbstractEmbedding(eqx.Module):
    """What networks read of a sequence: its zero-filled values and which of them were observed."""

    @abstractmethod
    def __call__(self, x: Float[Array, "T D"], observed: Bool[Array, "T D"]) -> Float[Array, "T F"]:
        """Features of every frame, from the frame itself."""


class AbstractDynamics(eqx.Module):
    """p(z_t | z_{t-1}, s_t = k, c_t) = N(f_k(z_{t-1}, c_t), Q_k), all K regimes as one stacked module.

    The context c_t holds the optional edges: x_{t-1} with its mask, and u_t.
    """

    noise: eqx.AbstractVar[AbstractNoise]

    @abstractmethod
    def initial_memory(self) -> PyTree[Array]:
        """Memory before the first transition; empty for dynamics without one. It never depends on s."""

    @abstractmethod
    def step(
        self, memory: PyTree[Array], z: Float[Array, " L"], context: Float[Array, " C"]
    ) -> tuple[PyTree[Array], Float[Array, "K L"]]:
        """The new memory and the K predicted means of the next state."""


class AbstractEmission(eqx.Module):
    """p(x_t | z_t, [s_t = k]) = N(g(z_t, [k]), R)."""

    noise: eqx.AbstractVar[AbstractNoise]

    @abstractmethod
    def mean(self, z: Float[Array, " L"]) -> Float[Array, "R D"]:
        """Predicted observation, one row per regime, or a single row shared by all."""

    @abstractmethod
    def log_prob(
        self, x: Float[Array, "T D"], observed: Bool[Array, "T D"], z: Float[Array, "T L"]
    ) -> Float[Array, "T R"]:
        """log p(x_t | z_t, [s_t = k]) of what was observed of every frame."""

    @abstractmethod
    def reading(self, z: Float[Array, " L"]) -> Float[Array, "R C"]:
        """What is expected to be read of that observation: itself, or the code of an image."""


class AbstractSwitching(eqx.Module):
    """p(s_t = k | s_{t-1} = j, drivers), the drivers being any of x_{t-1}, z_{t-1}, u_t."""

    history: eqx.AbstractVar[int]

    @abstractmethod
    def logits(
        self, features: Float[Array, "W F"], z: Float[Array, " L"], u: Float[Array, " U"]
    ) -> Float[Array, "K K"]:
        """Unnormalised log-probabilities [from j, to k], given the last `history` frames' features."""
