"""An AR-HMM on its way through a long recording."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from swerve.inference.bridges import REACH
from swerve.inference.chunks import AbstractWalk, First, Stretch
from swerve.inference.frames import Frames
from swerve.models.arhmm.gaps import Filled, bridged, carried, lags_known
from swerve.models.arhmm.model import ArHmm, log_evidence, residuals
from swerve.models.arhmm.prediction import expected_from


class Place(NamedTuple):
    """The last frames as the lags read them."""

    x: Float[Array, "rows D"]
    known: Bool[Array, "rows D"]


class ArHmmWalk(AbstractWalk):
    """Smoothing and Viterbi, chunk by chunk. Nothing is drawn: there is one chain, whatever the keys."""

    model: ArHmm
    looks_ahead: bool = eqx.field(static=True, default=True)
    """Bridges gaps and tempers evidence, as labels ask for; a likelihood does neither."""

    @property
    def before(self):
        return REACH if self.looks_ahead else 0

    @property
    def after(self):
        return REACH if self.looks_ahead else 0

    @property
    def first_frame_tells(self):
        return True

    def nothing_behind(self):
        return ()

    def read_back(self, behind, frames):
        return behind

    def begin(self, behind, frames, keys):
        filled = self._filled(frames, self.model.start_mean)
        evidence = log_evidence(self.model, filled) / self._temperature
        repeats = (self.model.lags + 1, 1)
        place = Place(jnp.tile(filled.x, repeats), jnp.tile(filled.known, repeats))
        return First(place, self.model.log_initial, evidence, jnp.zeros(1))

    def onward(self, place, behind, frames, first, keys):
        filled = self._filled(frames, place.x[-1])
        known = jnp.concatenate([place.known, filled.known])
        tells = filled.observed & lags_known(known[1:], self.model.lags)
        x = jnp.concatenate([place.x, filled.x])
        window = self.model.window(x)[self.model.lags :]
        residual = residuals(self.model, filled.x, window[1:])
        evidence = self.model.noise.log_density(residual, tells, True) / self._temperature
        nothing = jnp.zeros((1, len(filled.x)))
        ahead = Place(x[-len(place.x) :], known[-len(place.known) :])
        return Stretch(ahead, self.model.log_transition[None], evidence[None], nothing, window)

    def expected(self, path, marginals):
        return expected_from(self.model, path, marginals[0])

    @property
    def _temperature(self) -> float:
        return self.model.temperature if self.looks_ahead else 1.0

    def _filled(self, frames: Frames, before_first: Float[Array, " D"]) -> Filled:
        """A chunk's own frames."""
        fill = bridged if self.looks_ahead else carried
        every = fill(frames, before_first, self.model.lags)
        return Filled(*(leaf[self.before : len(leaf) - self.after] for leaf in every))
