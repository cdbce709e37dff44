"""The contract of models, and of those who make them: all that is known of a model outside this room."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from swerve.choosing.trust import Warned
from swerve.inference.chunks import AbstractWalk
from swerve.inference.frames import FrameMask, Frames, Key
from swerve.settings import kinds
from swerve.settings.sections import Config, ModelConfig
from swerve.views.codes import ImageCode
from swerve.views.coordconv import CodeReader, CoordConvDecoder


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


class Drawn(NamedTuple):
    """One draw of x and s."""

    x: Float[Array, "T D"]
    s: Int[Array, " T"]


class Futures(NamedTuple):
    """Draws of the frames that follow a sequence, and how probable each regime is in them."""

    x: Float[Array, "S H D"]
    probabilities: Float[Array, "H K"]


class Weighed(NamedTuple):
    """What a model makes of one sequence when regimes are weighed against each other: one draw of what is hidden."""

    bound: Float[Array, "*batch"]
    """ELBO in nats."""
    regimes: Float[Array, "*batch T K"]
    """p(s_t = k | x); 0 where there is no frame."""
    evidence: Float[Array, "*batch T K"]
    """log B_t(k)."""


class Model(eqx.Module):
    """The contract: a model and its inference. Every leaf is a floating-point array.

    Methods speak of one sequence, whose padded and missing values may hold anything (`Frames.blanked`). A model needs
    `regimes`, `terms` and `infer`; what else it can do its kind says under `offers` (settings/kinds.py).
    """

    @property
    @abstractmethod
    def regimes(self) -> int:
        """K."""

    @abstractmethod
    def terms(self, frames: Frames, knobs: Knobs, lead: Float[Array, "T K"] | None = None, *, key: Key) -> Terms:
        """What training maximises. With the default knobs `elbo` is a true bound on log p(x), in nats."""

    @abstractmethod
    def infer(self, frames: Frames, *, samples: int, key: Key) -> Inference:
        """Regimes and expected observations, averaged over draws of what is hidden where there are draws."""

    def walk(self, *, ahead: bool = True) -> AbstractWalk | None:
        """The same chunk by chunk (LONG). A bound's walk may not look ahead: `ahead` is for labels."""

    def states(self, frames: Frames, *, samples: int, key: Key) -> Float[Array, "T L"] | None:
        """E[z_t | x] (STATES)."""

    def draw(self, u: Float[Array, "T U"], *, key: Key) -> Drawn | None:
        """A sequence of its own, one frame per row of u (SERIES)."""

    def futures(self, frames: Frames, u: Float[Array, "H U"], *, samples: int, key: Key) -> Futures | None:
        """Draws of what follows a sequence, one frame per row of u (SERIES)."""

    def weigh(self, frames: Frames, *, key: Key) -> Weighed | None:
        """How well each regime explains each frame (FEWER)."""

    def forbid(self, regime: int) -> "Model | None":
        """The same without a regime (FEWER)."""

    def on_pixels(self, code: ImageCode, settings: ModelConfig) -> "Model":
        """A model of codes as one of the images themselves."""
        return OfImages(self, code.reader, code.decoder)

    def facts(self) -> dict[str, Any]:
        """What a blank of it must know besides settings, as JSON."""
        return {}


class OfImages(Model):
    """A model of codes that reads images: bounds are those of the codes, what is expected is drawn from theirs."""

    system: Model
    reader: CodeReader
    decoder: CoordConvDecoder

    @property
    def regimes(self):
        return self.system.regimes

    def terms(self, frames, knobs, lead=None, *, key):
        return self.system.terms(self._codes(frames), knobs, lead, key=key)

    def infer(self, frames, *, samples, key):
        found = self.system.infer(self._codes(frames), samples=samples, key=key)
        return found._replace(expected=jax.vmap(self.decoder)(found.expected))

    def _codes(self, frames: Frames) -> Frames:
        frames = frames.blanked()
        codes, seen = self.reader.read(frames.x, frames.observed)
        return frames._replace(x=codes, observed=seen)


class Shape(NamedTuple):
    """What must be known of recordings before a model of them can be built."""

    channels: int
    controls: int
    change_scale: Float[Array, " D"] | None = None
    """How much x moves from frame to frame."""


class Found(NamedTuple):
    """What a kind's own search has found: models of one shape, the one to use first, and how they do on held-out data.

    The first may be a consensus that has seen the held-out part: its windows are those of the best that has not.
    """

    models: list[Model]
    windows: list[Float[np.ndarray, " N"]]
    """log p(x), or a bound on it, of every held-out window in nats."""
    labels: list[Int[np.ndarray, " F"]]
    """Of the held-out frames."""
    doubtful: bool
    """Whether its regimes may be artefacts."""
    config: Config
    """The settings, with what was found out about the recordings."""
    alike: Config
    """Those with which another number of regimes is searched alike."""


class Maker(ABC):
    """Builds the models of one kind."""

    search: Callable[..., Found | None] | None = None
    """(training, held_out, config, *, key, unseen, on_note, should_stop) -> Found, where a kind fits itself. With
    `unseen` no model has seen the held-out part; None if nothing could be fitted."""

    @abstractmethod
    def build(self, config: Config, shape: Shape, *, stickiness, allowed, key: Key) -> "Model":
        """Fresh parameters. The first `allowed` regimes may be used."""

    def blank(self, config: Config, shape: Shape, facts: Mapping[str, Any]) -> "Model":
        """The shapes of a model without values; `facts` are what it said of itself when it was saved."""

        def build(key: Key):
            return self.build(config, shape, stickiness=0.0, allowed=config.model.regimes, key=key)

        return jax.eval_shape(build, jax.random.key(0))

    def like(self, config: Config, model: Model) -> Config:
        """Settings with which others like this model are searched; only of kinds that fit themselves."""
        return config

    def remarks(self, asked: Config, used: Config) -> tuple[Warned, ...]:
        """What a person should know of settings that a search has changed."""
        return ()


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


def bonus_of(lead: Float[Array, "T K"] | None, knobs: Knobs, valid: FrameMask, regimes: int) -> Float[Array, "T K"]:
    """Nats that every frame gains in every regime: the lead's, where there is one."""
    if lead is None:
        return jnp.zeros((len(valid), regimes))
    return jnp.where(valid[:, None], knobs.guidance * lead, 0.0)


def usage_entropy(usage: Float[Array, " K"]) -> Float[Array, ""]:
    """Entropy of the share of frames each regime holds; its exponential is the number of regimes in use."""
    share = jnp.maximum(usage / usage.sum(), 1e-9)  # an unused regime must not stop the gradient
    return -jnp.sum(share * jnp.log(share))
