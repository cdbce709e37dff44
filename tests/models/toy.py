"""The smallest model there is, a Gaussian mixture with sticky switches: all that Swerve asks of a new one.

x_t ~ N(mean[s_t], diag(scale[s_t]^2)),   p(s_t = k | s_{t-1} = j) = softmax(moves[j])[k]
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from swerve.inference import messages
from swerve.models.model import Inference, Knobs, Maker, Model, bonus_of, watched
from swerve.settings.kinds import Kind, register
from swerve.settings.limits import at_least

FORBIDDEN = -1e4  # in log space


@dataclass(frozen=True)
class LevelsOptions:
    """What is there to set."""

    noise_floor: float = at_least(0.0, 0.05)


class Levels(Model):
    """Every regime is a level with noise around it."""

    means: Float[Array, "K D"]
    log_scales: Float[Array, "K D"]
    moves: Float[Array, "K K"]
    log_allowed: Float[Array, " K"]
    noise_floor: float = eqx.field(static=True)

    @property
    def regimes(self):
        return len(self.means)

    def terms(self, frames, knobs, lead=None, *, key):
        bonus = bonus_of(lead, knobs, frames.valid, self.regimes)
        chain = self._chain(frames, knobs, bonus)
        marginals = messages.smooth(*chain).marginals
        return watched(messages.log_normalizer(*chain), marginals, frames.valid, guidance=jnp.sum(marginals * bonus))

    def infer(self, frames, *, samples, key):
        chain = self._chain(frames, Knobs(), jnp.zeros((len(frames.x), self.regimes)))
        marginals = messages.smooth(*chain).marginals
        return Inference(marginals, messages.viterbi(*chain), marginals @ self.means)

    def _chain(self, frames, knobs, bonus):
        frames, log_allowed = frames.blanked(), jax.lax.stop_gradient(self.log_allowed)
        scales = jnp.exp(self.log_scales) + self.noise_floor
        each = jax.scipy.stats.norm.logpdf(frames.x[:, None], self.means[None], scales[None])
        evidence = jnp.sum(each, axis=2, where=frames.observed[:, None])
        moves = jax.nn.log_softmax(self.moves / knobs.temperature + log_allowed[None], axis=1)
        return jax.nn.log_softmax(log_allowed), moves, evidence + bonus, frames.valid


class LevelsMaker(Maker):
    """Levels lie anywhere to begin with."""

    def build(self, config, shape, *, stickiness, allowed, key):
        regimes, size = config.model.regimes, (config.model.regimes, shape.channels)
        return Levels(
            means=jax.random.normal(key, size),
            log_scales=jnp.zeros(size),
            moves=stickiness * jnp.eye(regimes),
            log_allowed=jnp.where(jnp.arange(regimes) < allowed, 0.0, FORBIDDEN),
            noise_floor=config.own.noise_floor,
        )


MAKER = LevelsMaker()
NOTHING_LEADS = {"recipe": {"guidance": 0.0, "balance": 0.0, "variants": ({},)}}
NAME = "levels"
register(Kind(NAME, f"{__name__}:MAKER", settings=NOTHING_LEADS, options=LevelsOptions, section="levels"))
