"""An AR-HMM on its way through a long recording."""

import jax.numpy as jnp

from swerve.arhmm.model import ArHmm, carry_forward, log_evidence, residuals
from swerve.arhmm.prediction import expected_from
from swerve.chunks import AbstractWalk, First, Stretch


class ArHmmWalk(AbstractWalk):
    """Smoothing and Viterbi, chunk by chunk. Nothing is drawn: there is one chain, whatever the keys.

    Its place is the last frames as the lags read them, missing values filled from those before.
    """

    model: ArHmm

    @property
    def before(self):
        return 0

    @property
    def after(self):
        return 0

    @property
    def first_frame_tells(self):
        return True

    def nothing_behind(self):
        return ()

    def read_back(self, behind, frames):
        return behind

    def begin(self, behind, frames, keys):
        filled = carry_forward(frames, self.model.start_mean).x
        past = jnp.tile(filled, (self.model.lags + 1, 1))
        return First(past, self.model.log_initial, log_evidence(self.model, frames), jnp.zeros(1))

    def onward(self, place, behind, frames, first, keys):
        filled = carry_forward(frames, place[-1])
        x = jnp.concatenate([place, filled.x])
        window = self.model.window(x)[self.model.lags :]
        residual = residuals(self.model, filled.x, window[1:])
        evidence = self.model.noise.log_density(residual, filled.observed, True)[None]
        nothing = jnp.zeros((1, len(frames.x)))
        return Stretch(x[-len(place) :], self.model.log_transition[None], evidence, nothing, window)

    def expected(self, path, marginals):
        return expected_from(self.model, path, marginals[0])
