"""Builds AR-HMMs from settings."""

from collections.abc import Mapping
from typing import Any

from swerve.inference.frames import Key
from swerve.models.arhmm.fitting import Covariance
from swerve.models.arhmm.model import ArHmm
from swerve.models.arhmm.prediction import blank
from swerve.models.model import Maker, Shape
from swerve.settings.sections import Config


class ArHmmMaker(Maker):
    """AR-HMMs come from a search of their own."""

    def build(self, config: Config, shape: Shape, *, stickiness, allowed, key: Key) -> ArHmm:
        return self.blank(config, shape, {"lags": max(config.arhmm.lags)})

    def blank(self, config: Config, shape: Shape, facts: Mapping[str, Any]) -> ArHmm:
        return blank(
            config.model.regimes,
            shape.channels,
            facts["lags"],
            Covariance(config.arhmm.covariance),
            features=facts.get("features") or 0,
            temperature=config.arhmm.temperature(shape.channels),
        )


MAKER = ArHmmMaker()
