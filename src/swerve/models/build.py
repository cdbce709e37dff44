"""Systems of codes as systems of the images themselves."""

import dataclasses

from swerve.models.model import AbstractSystem
from swerve.models.ofimages import OfImages
from swerve.models.snlds.emission import ImageEmission, MlpEmission
from swerve.models.snlds.model import System
from swerve.models.snlds.noise import ScalarNoise
from swerve.settings.sections import Config, ModelConfig
from swerve.views.codes import ImageCode
from swerve.views.coordconv import CoordConvDecoder


def with_images(system: AbstractSystem, code: ImageCode, config: Config) -> AbstractSystem:
    """A system of codes as one of the images themselves: it reads the codes, and draws the ones that it expects."""
    if isinstance(system, System):
        return _drawing(system, code, config.model)
    return OfImages(system, code.reader, code.decoder)


def _drawing(system: System, code: ImageCode, config: ModelConfig) -> System:
    """Our own model with the decoder as its emission, so that it can be trained on images."""
    emission, (height, width) = system.model.emission, code.decoder.image
    assert isinstance(emission, MlpEmission)
    noise = ScalarNoise(
        config.regimes if config.emission_noise_per_regime else 1,
        height * width,
        scale=code.error,
        floor=config.emission_noise_floor,
    )
    decoder = CoordConvDecoder(code.decoder.network, code.decoder.image, rectified=config.emission_rectified)
    drawing = ImageEmission(networks=emission.networks, decoder=decoder, noise=noise)
    return dataclasses.replace(system, model=dataclasses.replace(system.model, emission=drawing, reader=code.reader))
