"""q(z | x): embed -> bidirectional RNN -> causal RNN over (h_t, z_{t-1}) -> diagonal Gaussian."""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from swerve.inference.bridges import REACH, bridge
from swerve.inference.frames import Frames, Key
from swerve.inference.networks import AbstractCell, Bidirectional, Mlp, scan_unroll

HALF_LOG_TWO_PI_E = 1.4189385332046727
SMALLEST_SCALE = 1e-4
WEIGHTS_HIDDEN = 16
AROUND = REACH + 1  # frames on either side that a frame's reading may depend on: changes, between ends of bridges


class Draw(NamedTuple):
    """One path from q with the parameters of every step."""

    z: Float[Array, "T L"]
    mean: Float[Array, "T L"]
    scale: Float[Array, "T L"]
    expected: Float[Array, "T M L"]
    """What the model expected before q corrected it."""

    @property
    def entropy(self) -> Float[Array, " T"]:
        """H(q(z_t | z_{1:t-1}, x)) = sum_l log scale_tl + (L/2) log 2 pi e."""
        return jnp.log(self.scale).sum(axis=1) + self.scale.shape[1] * HALF_LOG_TWO_PI_E


class Step(NamedTuple):
    """All that q reads to take its steps, a row per frame; none of it depends on z."""

    logits: Float[Array, "T M"]
    gates: Float[Array, "T G"]
    direct: Float[Array, "T H"]
    noise: Float[Array, "T L"]
    x: Float[Array, "T D"]
    observed: Bool[Array, "T D"]


class Place(NamedTuple):
    """Where q stands on its way from left to right, after some frame."""

    memory: Float[Array, " S"]
    z: Float[Array, " L"]
    prior_memory: PyTree[Array]


class Start(Enum):
    """Where q's mean starts from, before the network corrects it."""

    DYNAMICS = "dynamics"
    """The regimes' own predictions, weighed by the network, and what they got wrong about x_t."""
    STATE = "state"
    """z_{t-1}: the mean is a residual on it."""
    ORIGIN = "origin"
    """Nothing: the mean comes from the network alone, as in the paper."""


class Prior(NamedTuple):
    """What the model itself expects of the next frame: the point from which q starts."""

    first: Float[Array, "M L"]
    """Expected states at t = 1, one per regime, or a single one."""
    first_scales: Float[Array, "M L"]
    """The unit of q's corrections at t = 1, where no dynamics tell how far a state strays."""
    memory: PyTree[Array]
    contexts: Float[Array, "T-1 C"]
    predict: Callable
    """(memory, z_{t-1}, context_t) -> (memory, M expected states)."""
    log_allowed: Float[Array, " M"]
    """0 for an expectation that counts, as good as minus infinity for that of a regime that may not be used."""
    scales: Float[Array, "M L"]
    """How far the state strays from each expectation: q's corrections and scales are in these units."""
    observe: Callable | None
    """(z_t, weights of the M expectations) -> expected x_t, or its code; None when q does not look at errors."""


class Posterior(eqx.Module):
    """q(z_t | z_{1:t-1}, x) = N(m_t + r_t (d(h_t) + o(h_t) G e_t), (r_t scale(h_t))^2).

    m_t = sum_m w_m a_m(z_{t-1}) weighs the model's expectations a_m, the weights read from both RNNs and z_{t-1}.
    r_t weighs their noise scales likewise, so that KL(q || p) does not change when the dynamics become more
    certain, and nothing holds Q up (docs/decisions/0003). e_t = x_t - g(m_t) is what the expectation got wrong,
    zero where x_t is missing, and o(h_t) how far the door is open for it. h_t = RNN(h_{t-1}, h^x_t, z_{t-1}, e_t).
    `embedding` is None when the model's own features are read instead. With `change_gain` the RNNs also read how x
    changes from frame to frame, at a scale where it can be seen (docs/decisions/0008).
    """

    embedding: Callable | None
    encoder: Bidirectional
    weights: eqx.nn.Linear
    weights_from_state: Mlp
    causal: AbstractCell
    state_gates: eqx.nn.Linear
    head: eqx.nn.Linear
    gain: Float[Array, "L D"]
    change_gain: Float[Array, " D"] | None
    state_size: int = eqx.field(static=True)
    start: Start = eqx.field(static=True)

    def __init__(
        self,
        make_cell: Callable[..., AbstractCell],
        *,
        embedding: Callable | None,
        feature_size: int,
        channels: int,
        control_size: int,
        state_size: int,
        regimes: int,
        start: Start,
        encoder_size: int,
        causal_size: int,
        initial_scale: float,
        initial_gain: float,
        change_gain: Float[Array, " D"] | None,
        key: Key,
    ):
        encoder_key, weights_key, state_key, causal_key, gates_key, head_key, gain_key = jax.random.split(key, 7)
        self.embedding = embedding
        self.state_size = state_size
        self.start = start
        self.change_gain = change_gain
        seen = feature_size + (0 if change_gain is None else 2 * channels)
        self.encoder = Bidirectional(make_cell, seen + control_size, encoder_size, key=encoder_key)
        read = self.encoder.size + seen
        expectations = regimes if start is Start.DYNAMICS else 1
        self.weights = eqx.nn.Linear(read, expectations, key=weights_key)
        self.weights_from_state = Mlp(
            (causal_size + state_size, WEIGHTS_HIDDEN, expectations), activation=jnp.tanh, key=state_key
        )
        self.causal = make_cell(read, causal_size, key=causal_key)
        gate_size = self.causal.project(jnp.zeros(read)).shape[0]
        self.state_gates = eqx.nn.Linear(state_size + channels, gate_size, use_bias=False, key=gates_key)
        head = eqx.nn.Linear(causal_size + read, 3 * state_size, key=head_key)
        # A quiet start: small shifts, one scale for every frame, and states that track what is observed.
        scale_rows = slice(state_size, 2 * state_size)
        bias = jnp.zeros(3 * state_size).at[scale_rows].set(jnp.log(jnp.expm1(initial_scale)))
        weight = (0.1 * head.weight).at[scale_rows].set(0.0)
        self.head = eqx.tree_at(lambda h: (h.weight, h.bias), head, (weight, bias))
        wander = 0.1 * jax.random.normal(gain_key, (state_size, channels))
        self.gain = initial_gain * (wander + jnp.eye(state_size, channels))

    def __call__(self, frames: Frames, model_features: Float[Array, "T F"], prior: Prior, *, key: Key) -> Draw:
        """A path z ~ q(z | x). Noise is keyed by frame index, so that padding and chunking change nothing.

        `frames` hold x itself or, for images, their codes in its place.
        """
        seen = self.look(frames, model_features)
        encoded = self.encoder(jnp.concatenate([seen, frames.u], axis=1), frames.valid)
        steps = self.steps(frames, seen, encoded, frame_noise(key, len(seen), self.state_size))
        place, first = self.begin(prior, jax.tree.map(lambda a: a[0], steps))
        _, rest = self.onward(prior, place, jax.tree.map(lambda a: a[1:], steps))
        return jax.tree.map(lambda one, many: jnp.concatenate([one[None], many]), first, rest)

    def look(self, frames: Frames, model_features: Float[Array, "T F"]) -> Float[Array, "T S"]:
        """What both RNNs read of every frame and its neighbours, controls apart.

        Gaps are bridged, and the embedding is told where (docs/decisions/0030).
        """
        found = bridge(frames)
        x = jnp.where(found.reached, found.x, 0.0)
        features = model_features
        if self.embedding is not None:
            features = self.embedding(x, frames.observed)
        if self.change_gain is not None:
            features = jnp.concatenate([features, changes(x, found.reached, self.change_gain)], axis=1)
        return features

    def steps(
        self,
        frames: Frames,
        seen: Float[Array, "T S"],
        encoded: Float[Array, "T H"],
        noise: Float[Array, "T L"],
    ) -> Step:
        """What the way from left to right needs of every frame, taken out of its loop."""
        read = jnp.concatenate([encoded, seen], axis=1)
        _, from_read = self._head_weights()
        assert self.head.bias is not None
        return Step(
            jax.vmap(self.weights)(read),
            jax.vmap(self.causal.project)(read),
            read @ from_read.T + self.head.bias[None],
            noise,
            frames.x,
            frames.observed,
        )

    def begin(self, prior: Prior, step: Step) -> tuple[Place, Draw]:
        """The first frame."""
        nowhere = jnp.zeros(self.state_size)
        propose = self._proposer(prior)
        memory, first = propose(self.causal.initial(), nowhere, prior.first, prior.first_scales, step)
        return Place(memory, first.z, prior.memory), first

    def onward(self, prior: Prior, place: Place, steps: Step) -> tuple[Place, Draw]:
        """Any number of frames after the place where q stands."""
        propose = self._proposer(prior)

        def move(place, frame):
            context, step = frame
            prior_memory, expected = prior.predict(place.prior_memory, place.z, context)
            memory, draw = propose(place.memory, place.z, expected, prior.scales, step)
            return Place(memory, draw.z, prior_memory), draw

        return jax.lax.scan(move, place, (prior.contexts, steps), unroll=scan_unroll())

    def _head_weights(self):
        return jnp.split(self.head.weight, [self.causal.size], axis=1)

    def _proposer(self, prior: Prior) -> Callable:
        """One step: (memory, z_{t-1}, expected states, their scales, what is read) -> (memory, Draw)."""
        from_memory, _ = self._head_weights()

        def propose(memory, z, expected, scales, step: Step):
            own = self.weights_from_state(jnp.concatenate([memory[: self.causal.size], z]))
            weights = jax.nn.softmax(step.logits + own + prior.log_allowed)
            mean = weights @ expected
            error = jnp.zeros_like(step.x)
            if prior.observe is not None:
                error = jnp.where(step.observed, step.x - prior.observe(mean, weights), 0.0)
            memory = self.causal.step(memory, step.gates + self.state_gates(jnp.concatenate([z, error])))
            outputs = from_memory @ memory[: self.causal.size] + step.direct
            shift, raw_scale, door = jnp.split(outputs, 3)
            unit = weights @ scales
            mean = mean + unit * (shift + 2 * jax.nn.sigmoid(door) * (self.gain @ error))
            scale = unit * (SMALLEST_SCALE + jax.nn.softplus(raw_scale))
            return memory, Draw(mean + scale * step.noise, mean, scale, expected)

        return propose


def changes(x: Float[Array, "T D"], seen: Bool[Array, "T D"], gain: Float[Array, " D"]) -> Float[Array, "T 2*D"]:
    """gain (x_t - x_{t-1}) and gain (x_{t+1} - x_t), zero where a value or its neighbour was not seen."""
    both = seen[1:] & seen[:-1]
    steps = jnp.where(both, gain[None] * (x[1:] - x[:-1]), 0.0)
    border = jnp.zeros((1, steps.shape[1]))
    return jnp.concatenate([jnp.concatenate([border, steps]), jnp.concatenate([steps, border])], axis=1)


def frame_noise(key: Key, length: int, size: int, first: Int[Array, ""] | int = 0) -> Float[Array, "T L"]:
    """Standard normal noise whose rows depend on the key and on the frames' indices alone."""
    keys = jax.vmap(lambda t: jax.random.fold_in(key, t))(first + jnp.arange(length))
    return jax.vmap(lambda k: jax.random.normal(k, (size,)))(keys)
