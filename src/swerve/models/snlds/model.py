"""Our own system: q(z | x) proposes states, the regimes are marginalised exactly."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from swerve.inference import messages
from swerve.inference.chunks import AbstractWalk, First, Stretch
from swerve.inference.frames import Frames, Key
from swerve.models.model import AbstractSystem, Inference, Knobs
from swerve.models.snlds.bound import evidence, prior_of, regime_chain, sequence_terms
from swerve.models.snlds.generative import Snlds
from swerve.models.snlds.posterior import AROUND, Place, Posterior, Start, frame_noise


class System(AbstractSystem):
    """A switching (non)linear system and its inference network."""

    model: Snlds
    posterior: Posterior

    @property
    def regimes(self):
        return self.model.regimes

    def terms(self, frames, knobs, guide=None, *, key):
        return sequence_terms(self.model, self.posterior, frames, knobs, guide, key=key)

    def infer(self, frames: Frames, *, samples: int, key: Key) -> Inference:
        """Regime probabilities averaged over draws of z, their most probable path, and the expected observations.

        Where the first frame does not tell its own regime, it takes the second's.
        """

        def one(key):
            draw, chain, _ = regime_chain(self.model, self.posterior, frames, Knobs(), key=key)
            marginals = messages.smooth(*chain).marginals
            return marginals, chain, jax.vmap(self.model.expected_observation)(draw.z, marginals)

        marginals, chains, seen = jax.vmap(one)(jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(samples)))
        average = jax.tree.map(lambda leaf: leaf.mean(axis=0), chains._replace(mask=chains.mask.astype(float)))
        path = messages.viterbi(average.log_initial, average.log_transition, average.log_evidence, frames.valid)
        probabilities = marginals.mean(axis=0)
        if len(path) > 1 and not self.model.first_frame_tells:
            first = frames.valid[1].astype(int)
            probabilities, path = probabilities.at[0].set(probabilities[first]), path.at[0].set(path[first])
        return Inference(probabilities, path, seen.mean(axis=0))


class _Stand(NamedTuple):
    """Where the system stands after some frame: the forward RNN, and each draw with the memory of the dynamics."""

    ahead: Float[Array, " F"]
    places: Place
    memories: PyTree[Array]
    """Where q does not follow the dynamics itself; otherwise its own place holds their memory."""


class _Read(NamedTuple):
    """Frames around a chunk, as the networks read them."""

    frames: Frames
    readings: Frames
    features: Float[Array, "rows F"]
    seen: Float[Array, "rows S"]


class CollapsedWalk(AbstractWalk):
    """`System.infer` and its bound, chunk by chunk (docs/how-it-works.md, "Long recordings")."""

    system: System

    @property
    def before(self):
        """The frame that a chunk is entered from, those before it that switches and q read, and what codes look at."""
        return self._behind_codes + max(self.system.model.switching.history, AROUND)

    @property
    def after(self):
        """Those that q reads."""
        return AROUND

    @property
    def first_frame_tells(self):
        return self.system.model.first_frame_tells

    def nothing_behind(self):
        return self.system.posterior.encoder.initial()[1]

    def read_back(self, behind, frames):
        ahead, _ = self.system.posterior.encoder.initial()
        (_, behind), _ = self._encoded(self._read(frames), ahead, behind)
        return behind

    def begin(self, behind, frames, keys):
        model, posterior = self.system.model, self.system.posterior
        read = self._read(frames)
        ahead, _ = posterior.encoder.initial()
        (ahead, _), encoded = self._encoded(read, ahead, behind)
        prior = prior_of(model, posterior, _rows(read.readings, self._with_entry))
        first = _rows(read, self._inside)
        nothing_yet = jnp.zeros((0, model.regimes, posterior.state_size))

        def one(key):
            noise = frame_noise(key, 1, posterior.state_size)
            steps = posterior.steps(first.readings, first.seen, encoded, noise)
            place, draw = posterior.begin(prior, _rows(steps, 0))
            potentials = model.potentials(first.frames, first.features, draw.z[None], nothing_yet)
            log_evidence, _ = evidence(model, potentials, Knobs())
            return place, log_evidence[0], _rows(draw, None).entropy[0]

        places, log_evidence, entropy = jax.vmap(one)(keys)
        start = () if self._follows else model.dynamics.initial_memory()
        memories = jax.tree.map(lambda leaf: jnp.tile(leaf[None], (len(keys), *[1] * leaf.ndim)), start)
        return First(_Stand(ahead, places, memories), model.log_initial, log_evidence, entropy)

    def onward(self, place, behind, frames, first, keys):
        model, posterior = self.system.model, self.system.posterior
        read = self._read(frames)
        (ahead, _), encoded = self._encoded(read, place.ahead, behind)
        chunk, entered = _rows(read, self._inside), _rows(read, self._with_entry)
        prior = prior_of(model, posterior, entered.readings)

        def one(key, start, memory):
            noise = frame_noise(key, len(encoded), posterior.state_size, first)
            steps = posterior.steps(chunk.readings, chunk.seen, encoded, noise)
            end, draw = posterior.onward(prior, start, steps)
            z = jnp.concatenate([start.z[None], draw.z])
            predicted = draw.expected
            if not self._follows:
                memory, predicted = model.predicted_onward(memory, entered.readings, z)
            earlier = read.features[self.before - model.switching.history : self.before - 1]
            potentials = model.potentials(entered.frames, entered.features, z, predicted, earlier=earlier)
            log_evidence, _ = evidence(model, potentials, Knobs())
            return end, memory, potentials.log_transition, log_evidence[1:], draw.entropy, z

        places, memories, *chain = jax.vmap(one)(keys, place.places, place.memories)
        return Stretch(_Stand(ahead, places, memories), *chain)

    def expected(self, path, marginals):
        return jax.vmap(jax.vmap(self.system.model.expected_observation))(path, marginals).mean(axis=0)

    @property
    def _follows(self) -> bool:
        return self.system.posterior.start is Start.DYNAMICS

    @property
    def _behind_codes(self) -> int:
        """The code of an image looks at the image before it."""
        return 0 if self.system.model.reader is None else 1

    @property
    def _inside(self) -> slice:
        return slice(self.before, -self.after)

    @property
    def _with_entry(self) -> slice:
        return slice(self.before - 1, -self.after)

    def _read(self, frames: Frames) -> _Read:
        frames = frames.blanked()
        readings = self.system.model.readings(frames)
        # Switches read zeros in place of frames before the first.
        features = jnp.where(frames.valid[:, None], self.system.model.features(readings), 0.0)
        return _Read(frames, readings, features, self.system.posterior.look(readings, features))

    def _encoded(self, read: _Read, ahead, behind):
        seen, frames = read.seen[self._inside], _rows(read.frames, self._inside)
        inputs = jnp.concatenate([seen, frames.u], axis=1)
        return self.system.posterior.encoder.between((ahead, behind), inputs, frames.valid)


def _rows(tree, which):
    return jax.tree.map(lambda leaf: leaf[which], tree)
