"""The switching nonlinear dynamical system, assembled from its parts.

p(x, z, s) = p(s_1) p(z_1|s_1) p(x_1|z_1)
             prod_t p(s_t | s_{t-1}, [x_{t-1}], [z_{t-1}], [u_t])
                    p(z_t | z_{t-1}, s_t, [x_{t-1}], [u_t]) p(x_t | z_t, [s_t])

Edges in brackets are options. A switching *linear* system is this class with linear parts.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from swerve.inference.frames import Frames, Key, LogInitial, LogTransition
from swerve.inference.networks import scan_unroll
from swerve.models.snlds.base import AbstractDynamics, AbstractEmbedding, AbstractEmission, AbstractSwitching
from swerve.models.snlds.initial import Initial
from swerve.models.snlds.switching import ConstantSwitching
from swerve.views.coordconv import CodeReader

FORBIDDEN = -1e9  # as good as minus infinity, and its gradient is an honest zero


class Potentials(NamedTuple):
    """What exact inference over regimes needs of one sequence, given a state path z."""

    log_initial: LogInitial
    log_transition: LogTransition
    log_dynamics: Float[Array, "T K"]
    """log p(z_t | z_{t-1}, s_t = k); at t = 1, log p(z_1 | s_1 = k)."""
    log_emission: Float[Array, "T R"]
    """log p(x_t | z_t, [s_t = k]) of the observed channels; R is K or 1."""


class Sampled(NamedTuple):
    """One ancestral draw."""

    x: Float[Array, "T D"]
    z: Float[Array, "T L"]
    s: Int[Array, " T"]


class Moment(NamedTuple):
    """All of one frame and of those before it that the next frame depends on."""

    s: Int[Array, ""]
    z: Float[Array, " L"]
    reading: Float[Array, " C"]
    observed: Bool[Array, " C"]
    features: Float[Array, "history F"]
    """Of the last frames, those before the first being zero."""
    memory: PyTree[Array]


class Generative(eqx.Module):
    """p(x, z, s) of one sequence."""

    initial: Initial
    dynamics: AbstractDynamics
    switching: AbstractSwitching
    emission: AbstractEmission
    embedding: AbstractEmbedding
    log_allowed: Float[Array, " K"]
    """0 for a regime that may be used, FORBIDDEN for one that may not; never trained."""
    reader: CodeReader | None = None
    """Of images: everything but the emission sees their codes."""
    dynamics_reads_x: bool = eqx.field(static=True, default=False)
    dynamics_reads_u: bool = eqx.field(static=True, default=False)

    @property
    def regimes(self) -> int:
        """K."""
        return len(self.log_allowed)

    @property
    def allowed(self) -> Bool[Array, " K"]:
        """Which regimes may be used."""
        return self.log_allowed > 0.5 * FORBIDDEN

    @property
    def first_frame_tells(self) -> bool:
        """Whether x_1 and z_1 speak for some regime rather than another; otherwise only s_2 tells s_1."""
        state = jnp.zeros(self.initial.means.shape[-1])
        emitted = jax.eval_shape(lambda z: self.emission.noise.log_prob(self.emission.mean(z)), state)
        return self.initial.logits is not None or len(self.initial.weights) > 1 or len(emitted) > 1

    @property
    def log_initial(self) -> LogInitial:
        """log p(s_1), normalised over the allowed regimes."""
        return jax.nn.log_softmax(self.initial.regime_logits + jax.lax.stop_gradient(self.log_allowed))

    def readings(self, frames: Frames) -> Frames:
        """What is read of each frame: x itself, or the code of an image."""
        if self.reader is None:
            return frames
        codes, seen = self.reader.read(frames.x, frames.observed)
        return frames._replace(x=codes, observed=seen)

    def features(self, readings: Frames) -> Float[Array, "T F"]:
        """What the switching network makes of them."""
        return self.embedding(readings.x, readings.observed)

    def contexts(self, readings: Frames) -> Float[Array, "steps C"]:
        """c_t for t = 2..T: what the dynamics read besides z_{t-1}."""
        return jax.vmap(self._context)(readings.x[:-1], readings.observed[:-1], readings.u[1:])

    def predicted_states(self, readings: Frames, z: Float[Array, "T L"]) -> Float[Array, "T-1 K L"]:
        """f_k(z_{t-1}, c_t) for t = 2..T and every regime."""
        return self.predicted_onward(self.dynamics.initial_memory(), readings, z)[1]

    def predicted_onward(
        self, memory: PyTree[Array], readings: Frames, z: Float[Array, "T L"]
    ) -> tuple[PyTree[Array], Float[Array, "T-1 K L"]]:
        """The same for a stretch of a sequence, from the dynamics' memory before it to that after it."""
        transitions = (z[:-1], self.contexts(readings))
        if not jax.tree.leaves(memory):
            return memory, jax.vmap(lambda z, c: self.dynamics.step(memory, z, c)[1])(*transitions)
        return jax.lax.scan(
            lambda memory, frame: self.dynamics.step(memory, *frame), memory, transitions, unroll=scan_unroll()
        )

    def expected_observation(self, z: Float[Array, " L"], shares: Float[Array, " K"]) -> Float[Array, " D"]:
        """g(z); where the emission depends on the regime, weighed by the shares of the regimes."""
        return _shared(self.emission.mean(z), shares)

    def expected_reading(self, z: Float[Array, " L"], shares: Float[Array, " K"]) -> Float[Array, " C"]:
        """What is expected to be read of that observation."""
        return _shared(self.emission.reading(z), shares)

    def potentials(
        self,
        frames: Frames,
        features: Float[Array, "T F"],
        z: Float[Array, "T L"],
        predicted: Float[Array, "T-1 K L"],
        *,
        temperature: Array | float = 1.0,
        earlier: Float[Array, "earlier F"] | None = None,
    ) -> Potentials:
        """All factors of p(x, z, s) that involve s, and the emission, for the path z.

        Of a stretch of a sequence, `earlier` holds the features of the frames before it that switches read.
        """
        residuals = z[1:, None] - predicted
        later = jax.vmap(self.dynamics.noise.log_prob)(residuals)
        return Potentials(
            self.log_initial,
            self._log_transition(frames, features, z, temperature, earlier),
            jnp.concatenate([self.initial.log_prob(z[0])[None], later]),
            self.emission.log_prob(frames.x, frames.observed, z),
        )

    def sample(self, u: Float[Array, "T U"], *, key: Key) -> Sampled:
        """Ancestral sampling, one frame per row of u (of width 0 when there are no controls)."""
        start_key, emit_key, loop_key = jax.random.split(key, 3)
        regime_key, state_key = jax.random.split(start_key)
        s = jax.random.categorical(regime_key, self.log_initial)
        z = self.initial.sample(s, key=state_key)
        x = self._emit(s, z, key=emit_key)
        feature, reading = self._look(x)
        features = jnp.zeros((self.switching.history, len(feature))).at[-1].set(feature)
        moment = Moment(s, z, reading, jnp.ones(reading.shape, bool), features, self.dynamics.initial_memory())
        rest = self.go_on(moment, u[1:], key=loop_key)
        return jax.tree.map(lambda first, others: jnp.concatenate([first[None], others]), Sampled(x, z, s), rest)

    def go_on(self, moment: Moment, u: Float[Array, "T U"], *, key: Key) -> Sampled:
        """One draw of the frames that follow, one per row of u."""

        def step(now: Moment, frame):
            u, key = frame
            switch_key, move_key, emit_key = jax.random.split(key, 3)
            logits = self.switching.logits(now.features, now.z, u)[now.s]
            s = jax.random.categorical(switch_key, logits + self.log_allowed)
            context = self._context(now.reading, now.observed, u)
            memory, means = self.dynamics.step(now.memory, now.z, context)
            z = means[s] + self.dynamics.noise.sample(s, key=move_key)
            x = self._emit(s, z, key=emit_key)
            feature, reading = self._look(x)
            features = jnp.concatenate([now.features[1:], feature[None]])
            return Moment(s, z, reading, jnp.ones_like(now.observed), features, memory), Sampled(x, z, s)

        return jax.lax.scan(step, moment, (u, jax.random.split(key, len(u))))[1]

    def moment(self, frames: Frames, z: Float[Array, "T L"], s: Int[Array, ""]) -> Moment:
        """The last valid frame of a sequence whose states are z, where the regime is s."""
        readings = self.readings(frames.blanked())
        last = frames.valid.sum() - 1
        features = self.features(readings)
        padded = jnp.concatenate([jnp.zeros((self.switching.history - 1, features.shape[1])), features])
        recent = jax.lax.dynamic_slice_in_dim(padded, last, self.switching.history)
        memory = self._memory(readings, z)
        return Moment(s, z[last], readings.x[last], readings.observed[last], recent, memory)

    def _memory(self, readings: Frames, z: Float[Array, "T L"]) -> PyTree[Array]:
        """What the dynamics remember at the last valid frame."""

        def step(memory, frame):
            z, context, valid = frame
            moved, _ = self.dynamics.step(memory, z, context)
            return jax.tree.map(lambda new, old: jnp.where(valid, new, old), moved, memory), None

        transitions = (z[:-1], self.contexts(readings), readings.valid[1:])
        return jax.lax.scan(step, self.dynamics.initial_memory(), transitions)[0]

    def _look(self, x: Float[Array, " D"]) -> tuple[Float[Array, " F"], Float[Array, " C"]]:
        """Features and reading of a fully observed frame."""
        frame = Frames(x[None], jnp.ones((1, len(x)), bool), jnp.ones(1, bool), jnp.zeros((1, 0)))
        reading = self.readings(frame)
        return self.features(reading)[0], reading.x[0]

    def _context(self, x_before, observed_before, u):
        parts = [x_before, observed_before.astype(x_before.dtype)] if self.dynamics_reads_x else []
        parts += [u] if self.dynamics_reads_u else []
        return jnp.concatenate(parts) if parts else jnp.zeros(0)

    def _log_transition(self, frames: Frames, features, z, temperature, earlier) -> LogTransition:
        allowed = jax.lax.stop_gradient(self.log_allowed)
        if isinstance(self.switching, ConstantSwitching):
            return jax.nn.log_softmax(self.switching.base / temperature + allowed[None], axis=-1)
        history = self.switching.history
        earlier = jnp.zeros((history - 1, features.shape[1])) if earlier is None else earlier
        padded = jnp.concatenate([earlier, features[:-1]])
        windows = jnp.stack([padded[i : i + len(features) - 1] for i in range(history)], axis=1)
        logits = jax.vmap(self.switching.logits)(windows, z[:-1], frames.u[1:])
        return jax.nn.log_softmax(logits / temperature + allowed[None, None], axis=-1)

    def _emit(self, s, z, *, key: Key) -> Float[Array, " D"]:
        means = self.emission.mean(z)
        return means[jnp.minimum(s, len(means) - 1)] + self.emission.noise.sample(s, key=key)


def _shared(rows: Float[Array, "R N"], shares: Float[Array, " K"]) -> Float[Array, " N"]:
    """The one row there is, or the rows weighed by the shares of the regimes."""
    return rows[0] if len(rows) == 1 else shares @ rows
