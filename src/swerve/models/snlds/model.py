"""The SNLDS with its inference: q(z | x) proposes states, the regimes are marginalised exactly."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from swerve.inference import messages
from swerve.inference.chunks import AbstractWalk, First, Stretch
from swerve.inference.frames import Frames, Key
from swerve.models.model import Drawn, Futures, Inference, Knobs, Model, Weighed
from swerve.models.snlds.bound import elbo, evidence, prior_of, regime_chain, sequence_terms
from swerve.models.snlds.emission import ImageEmission, MlpEmission
from swerve.models.snlds.generative import FORBIDDEN, Generative
from swerve.models.snlds.noise import ScalarNoise
from swerve.models.snlds.posterior import AROUND, Place, Posterior, Start, frame_noise
from swerve.views.coordconv import CoordConvDecoder

PATHS = 40  # of the hidden states up to now; from the end of each, several futures start


class Snlds(Model):
    """A switching (non)linear system and its inference network."""

    model: Generative
    posterior: Posterior

    @property
    def regimes(self):
        return self.model.regimes

    def terms(self, frames, knobs, lead=None, *, key):
        return sequence_terms(self.model, self.posterior, frames, knobs, lead, key=key)

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

    def walk(self, *, ahead=True):
        """The same walk for both: q looks ahead in any case."""
        return CollapsedWalk(self)

    def states(self, frames, *, samples, key):
        """The average of q's means over draws of the states before."""

        def one(i):
            draw, _, _ = regime_chain(self.model, self.posterior, frames, Knobs(), key=jax.random.fold_in(key, i))
            return draw.mean

        return jax.vmap(one)(jnp.arange(samples)).mean(axis=0)

    def draw(self, u, *, key):
        drawn = self.model.sample(u, key=key)
        return Drawn(drawn.x, drawn.s)

    def futures(self, frames, u, *, samples, key):
        """z_1..z_T ~ q, s_T ~ p(s_T | x, z), and from there on the model alone."""
        paths = min(PATHS, samples)
        each = -(-samples // paths)

        def of_path(key):
            draw_key, future_key = jax.random.split(key)
            draw, chain, _ = regime_chain(self.model, self.posterior, frames, Knobs(), key=draw_key)
            log_now = messages.filter(*chain).log_filtered[-1]

            def one(key):
                regime_key, future_key = jax.random.split(key)
                s = jax.random.categorical(regime_key, log_now)
                return self.model.go_on(self.model.moment(frames, draw.z, s), u, key=future_key)

            return jax.vmap(one)(jax.random.split(future_key, each))

        drawn = jax.vmap(of_path)(jax.random.split(key, paths))
        x, s = (leaf.reshape(paths * each, *leaf.shape[2:]) for leaf in (drawn.x, drawn.s))
        return Futures(x, jax.nn.one_hot(s, self.regimes).mean(axis=0))

    def weigh(self, frames, *, key):
        draw, chain, _ = regime_chain(self.model, self.posterior, frames, Knobs(), key=key)
        return Weighed(elbo(draw, chain), messages.smooth(*chain).marginals, chain.log_evidence)

    def forbid(self, regime):
        allowed = self.model.log_allowed.at[regime].set(FORBIDDEN)
        return Snlds(dataclasses.replace(self.model, log_allowed=allowed), self.posterior)

    def on_pixels(self, code, settings):
        """With the decoder as its emission, so that it can be trained on images."""
        emission, (height, width) = self.model.emission, code.decoder.image
        assert isinstance(emission, MlpEmission)
        noise = ScalarNoise(
            self.regimes if settings.emission_noise_per_regime else 1,
            height * width,
            scale=code.error,
            floor=settings.emission_noise_floor,
        )
        decoder = CoordConvDecoder(code.decoder.network, code.decoder.image, rectified=settings.emission_rectified)
        drawing = ImageEmission(networks=emission.networks, decoder=decoder, noise=noise)
        return Snlds(dataclasses.replace(self.model, emission=drawing, reader=code.reader), self.posterior)


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
    """`Snlds.infer` and its bound, chunk by chunk (docs/how-it-works.md, "Long recordings")."""

    system: Snlds

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
