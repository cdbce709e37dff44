"""Builds the systems of others from settings."""

import jax

from swerve.inference.frames import Key
from swerve.models.model import Maker, Model
from swerve.models.model import Shape as Recorded
from swerve.models.snlds.maker import MAKER as SNLDS
from swerve.settings.sections import Config
from swerve_lab.rivals import compile, gumbel, kvae, rslds, svae
from swerve_lab.rivals.shape import Shape


class GumbelMaker(Maker):
    """It has our p(x, z, s) and q(z | x)."""

    def build(self, config: Config, shape: Recorded, *, stickiness, allowed, key: Key) -> Model:
        own_key, key = jax.random.split(key)
        own = SNLDS.build(config, shape, stickiness=stickiness, allowed=allowed, key=own_key)
        return gumbel.build(config.own, own, controls=shape.controls, key=key)


class PlainMaker(Maker):
    """A system that is told of the data and the networks, and has options of its own."""

    def __init__(self, function, **told):
        self.function, self.told = function, told

    def build(self, config: Config, shape: Recorded, *, stickiness, allowed, key: Key) -> Model:
        return self.function(config.own, _shape(config, shape, stickiness), **self.told, key=key)


GUMBEL = GumbelMaker()
SLDS_EM = PlainMaker(rslds.build, recurrent=False)
RSLDS = PlainMaker(rslds.build, recurrent=True)
SVAE = PlainMaker(svae.build)
KVAE = PlainMaker(kvae.build)
COMPILE = PlainMaker(compile.build)


def _shape(config: Config, recorded: Recorded, stickiness: float) -> Shape:
    model, posterior = config.model, config.posterior
    return Shape(
        regimes=model.regimes,
        state_size=model.state_size,
        channels=recorded.channels,
        controls=recorded.controls,
        dynamics_hidden=model.dynamics_hidden,
        emission_hidden=model.emission_hidden,
        embedding_hidden=posterior.embedding_hidden or model.embedding_hidden,
        encoder_size=posterior.encoder_size,
        causal_size=posterior.causal_size,
        dynamics_noise_start=model.dynamics_noise_start,
        dynamics_noise_floor=model.dynamics_noise_floor,
        emission_noise_start=model.emission_noise_start,
        emission_noise_floor=model.emission_noise_floor,
        stickiness=stickiness,
    )
