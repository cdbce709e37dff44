"""A system of numbers that reads video: what it knows of an image is its code."""

import jax

from swerve.inference.frames import Frames
from swerve.models.model import AbstractSystem
from swerve.views.coordconv import CodeReader, CoordConvDecoder


class OfImages(AbstractSystem):
    """Bounds are those of the codes; what is expected is drawn from the expected code."""

    system: AbstractSystem
    reader: CodeReader
    decoder: CoordConvDecoder

    @property
    def regimes(self):
        return self.system.regimes

    def terms(self, frames, knobs, guide=None, *, key):
        return self.system.terms(self._codes(frames), knobs, guide, key=key)

    def infer(self, frames, *, samples, key):
        found = self.system.infer(self._codes(frames), samples=samples, key=key)
        return found._replace(expected=jax.vmap(self.decoder)(found.expected))

    def _codes(self, frames: Frames) -> Frames:
        frames = frames.blanked()
        codes, seen = self.reader.read(frames.x, frames.observed)
        return frames._replace(x=codes, observed=seen)
