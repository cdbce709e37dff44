"""What training, segmentation and every face of Swerve know of a model: an objective, and regimes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from swerve.inference.frames import FrameMask, Frames, Key
from swerve.settings import kinds
from swerve.settings.sections import Config


class Knobs(NamedTuple):
    """How far training bends the objective; the defaults bend nothing and give the true bound."""

    temperature: Array | float = 1.0
    """tau: divides the switch logits."""
    evidence_temperature: Array | float = 1.0
    """kappa: shrinks the differences between regimes in log p(z_t | z_{t-1}, s_t)."""
    uniformity: Array | float = 0.0
    """beta: weight of the paper's sum_t KL(uniform || gamma_t)."""
    balance: Array | float = 0.0
    """Weight per frame of the entropy of regime use, averaged over batch and time."""
    guidance: Array | float = 0.0
    """Nats a frame gains in the regime that an AR-HMM gave it."""
    progress: Array | float = 1.0
    """Share of the training that is over: stages and annealing of a system's own depend on it. 1 bends nothing."""


class Terms(NamedTuple):
    """One sequence's share of the objective and what a person watches; all are sums over valid frames."""

    elbo: Float[Array, ""]
    uniform_kl: Float[Array, ""]
    tempering: Float[Array, ""]
    """What tempered evidence adds to the expected log-evidence; 0 at kappa = 1."""
    guidance: Float[Array, ""]
    """What the guide adds to it; 0 without one."""
    usage: Float[Array, " K"]
    confidence: Float[Array, ""]
    switches: Float[Array, ""]
    frames: Float[Array, ""]


class Inference(NamedTuple):
    """What a system makes of one sequence."""

    probabilities: Float[Array, "T K"]
    path: Int[Array, " T"]
    """The most probable regimes as a whole."""
    expected: Float[Array, "T D"]
    """x as the system expects it, in every frame, observed or not."""


class AbstractSystem(eqx.Module):
    """A model and its inference: all that is trained, every leaf a floating-point array.

    Its methods speak of one sequence, whose padded and missing values may hold anything (`Frames.blanked`).
    """

    @property
    @abstractmethod
    def regimes(self) -> int:
        """K."""

    @abstractmethod
    def terms(self, frames: Frames, knobs: Knobs, guide: Float[Array, "T K"] | None = None, *, key: Key) -> Terms:
        """What training maximises. With the default knobs `elbo` is a true bound on log p(x), in nats."""

    @abstractmethod
    def infer(self, frames: Frames, *, samples: int, key: Key) -> Inference:
        """Regimes and expected observations, averaged over draws of what is hidden where there are draws."""


class Shape(NamedTuple):
    """What must be known of recordings before a model of them can be built."""

    channels: int
    controls: int
    change_scale: Float[Array, " D"] | None = None
    """How much x moves from frame to frame."""


class Maker(ABC):
    """Builds the models of one kind."""

    @abstractmethod
    def build(self, config: Config, shape: Shape, *, stickiness, allowed, key: Key) -> "AbstractSystem":
        """Fresh parameters. The first `allowed` regimes may be used."""

    def blank(self, config: Config, shape: Shape, facts: Mapping[str, Any]) -> "AbstractSystem":
        """The shapes of a model without values; `facts` are what it said of itself when it was saved."""

        def build(key: Key):
            return self.build(config, shape, stickiness=0.0, allowed=config.model.regimes, key=key)

        return jax.eval_shape(build, jax.random.key(0))


def maker_of(config: Config) -> Maker:
    """Who builds models of the config's kind."""
    return kinds.find(config.kind).maker()


def watched(
    elbo: Float[Array, ""],
    marginals: Float[Array, "T K"],
    valid: FrameMask,
    *,
    uniform_kl: Float[Array, ""] | float = 0.0,
    tempering: Float[Array, ""] | float = 0.0,
    guidance: Float[Array, ""] | float = 0.0,
) -> Terms:
    """The terms of a sequence whose regimes have these probabilities."""
    marginals = jnp.where(valid[:, None], marginals, 0.0)
    labels = jnp.argmax(marginals, axis=1)
    zero = jnp.zeros(())
    return Terms(
        elbo=elbo,
        uniform_kl=zero + uniform_kl,
        tempering=zero + tempering,
        guidance=zero + guidance,
        usage=marginals.sum(axis=0),
        confidence=marginals.max(axis=1).sum(),
        switches=((labels[1:] != labels[:-1]) & valid[1:]).sum().astype(float),
        frames=valid.sum().astype(float),
    )


def bonus_of(guide: Float[Array, "T K"] | None, knobs: Knobs, valid: FrameMask, regimes: int) -> Float[Array, "T K"]:
    """Nats that every frame gains in every regime: the guide's, where there is one."""
    if guide is None:
        return jnp.zeros((len(valid), regimes))
    return jnp.where(valid[:, None], knobs.guidance * guide, 0.0)


def usage_entropy(usage: Float[Array, " K"]) -> Float[Array, ""]:
    """Entropy of the share of frames each regime holds; its exponential is the number of regimes in use."""
    share = jnp.maximum(usage / usage.sum(), 1e-9)  # an unused regime must not stop the gradient
    return -jnp.sum(share * jnp.log(share))
