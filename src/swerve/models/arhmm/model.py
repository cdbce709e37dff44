"""The autoregressive HMM: what it says about one sequence, what it makes of it, and what it would make up itself."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from swerve.inference import messages
from swerve.inference.bridges import REACH
from swerve.inference.chunks import AbstractWalk, First, Stretch
from swerve.inference.frames import Frames, Key
from swerve.models.arhmm.gaps import Filled, bridged, carried, lags_known
from swerve.models.arhmm.noise import NOISE, AbstractNoise, Covariance, einsum
from swerve.models.arhmm.waves import Waves, blank_waves
from swerve.models.model import Drawn, Futures, Inference, Model, watched


class ArHmm(Model):
    """K linear regimes that take turns by a Markov chain.

    p(s_1 = k) = pi_k,  p(s_t = k | s_{t-1} = j) = A_jk,
    x_t | s_t = k ~ N(W_k [x_{t-1}; ...; x_{t-lags}; 1], Q_k)  for t > 1,
    or, with waves, N(W_k [x_{t-1}; ...; x_{t-lags}; 1; phi(x_{t-1})], Q_k): regimes that bend.
    x_1 ~ N(m, V), whatever the regime; without lags x_1 is like every other frame.
    """

    log_initial: Float[Array, " K"]
    log_transition: Float[Array, "K K"]
    weights: Float[Array, "K D P"]
    noise: AbstractNoise
    start_mean: Float[Array, " D"]
    start_noise: AbstractNoise
    waves: Waves | None = None
    temperature: float = eqx.field(static=True, default=1.0)
    """What the evidence of a frame is divided by when regimes are inferred (docs/decisions/0026)."""

    @property
    def regimes(self) -> int:
        """K."""
        return self.weights.shape[-3]

    @property
    def lags(self) -> int:
        """How many frames a regime looks back."""
        return (self.weights.shape[-1] - 1 - self.features) // self.weights.shape[-2]

    @property
    def features(self) -> int:
        """How many nonlinear features of the last frame a regime reads."""
        return 0 if self.waves is None else self.waves.count

    def window(self, x: Float[Array, "T D"]) -> Float[Array, "T P"]:
        """[x_{t-1}; ...; x_{t-lags}; 1; phi(x_{t-1})]; the first frame stands in for those before it."""
        times = jnp.arange(x.shape[0])
        past = [x[jnp.maximum(times - lag, 0)] for lag in range(1, self.lags + 1)]
        bent = [] if self.waves is None else [self.waves(past[0])]
        return jnp.concatenate([*past, jnp.ones_like(x[:, :1]), *bent], axis=-1)

    def terms(self, frames, knobs, lead=None, *, key):
        """The exact likelihood; nothing bends it."""
        return watched(log_likelihood(self, frames), smooth(self, frames), frames.valid)

    def infer(self, frames, *, samples, key):
        """Exactly; nothing is drawn."""
        probable = smooth(self, frames)
        return Inference(probable, viterbi(self, frames), expected(self, frames, probable))

    def walk(self, *, ahead=True):
        return ArHmmWalk(self, ahead)

    def draw(self, u, *, key):
        return sample(self, len(u), key=key)

    def futures(self, frames, u, *, samples, key):
        """The regimes follow their chain whatever x does, so that their probabilities are exact: p(s_T | x) A^h."""
        log_now, past = log_regimes(self, frames), last_frames(self, frames)

        def one(key):
            regime_key, future_key = jax.random.split(key)
            s = jax.random.categorical(regime_key, log_now)
            return go_on(self, past, s, len(u), key=future_key).x

        def step(now, _):
            after = now @ jnp.exp(self.log_transition)
            return after, after

        _, probabilities = jax.lax.scan(step, jnp.exp(log_now), None, length=len(u))
        return Futures(jax.vmap(one)(jax.random.split(key, samples)), probabilities)

    def facts(self):
        return {"lags": self.lags, "features": self.features}


def log_likelihood(model: ArHmm, frames: Frames, *, partial: bool = True) -> Float[Array, ""]:
    """log p(x) of all observed values of one sequence, in nats: the sum over every regime path, exactly.

    Here and below `partial` = False, which `seen_in_part` can tell, is faster with full covariances.
    """
    evidence = log_evidence(model, carried(frames, model.start_mean, model.lags), partial=partial)
    return messages.log_normalizer(model.log_initial, model.log_transition, evidence, frames.valid)


def bridged_likelihood(model: ArHmm, frames: Frames, *, partial: bool = True) -> Float[Array, ""]:
    """The same of the values that tell once gaps are bridged: what EM climbs. Without gaps it is the likelihood."""
    evidence = log_evidence(model, bridged(frames, model.start_mean, model.lags), partial=partial)
    return messages.log_normalizer(model.log_initial, model.log_transition, evidence, frames.valid)


def smooth(model: ArHmm, frames: Frames, *, partial: bool = True) -> Float[Array, "T K"]:
    """p(s_t = k | x_1..x_T) of one sequence; zeros in padding."""
    evidence = _tempered_evidence(model, frames, partial)
    return messages.smooth(model.log_initial, model.log_transition, evidence, frames.valid).marginals


def viterbi(model: ArHmm, frames: Frames, *, partial: bool = True) -> Int[Array, " T"]:
    """argmax_s p(s | x), the single most probable regime path of one sequence."""
    evidence = _tempered_evidence(model, frames, partial)
    return messages.viterbi(model.log_initial, model.log_transition, evidence, frames.valid)


def _tempered_evidence(model: ArHmm, frames: Frames, partial: bool) -> Float[Array, "T K"]:
    return log_evidence(model, bridged(frames, model.start_mean, model.lags), partial=partial) / model.temperature


def log_evidence(model: ArHmm, filled: Filled, *, partial: bool = True) -> Float[Array, "T K"]:
    """log p(x_t | s_t = k, its lags) of the values that tell, missing ones marginalised out: 0 if none does."""
    residual = residuals(model, filled.x, model.window(filled.x))
    return with_start(model, model.noise.log_density(residual, filled.tells, partial), filled, partial=partial)


def with_start(model: ArHmm, evidence: Float[Array, "T K"], filled: Filled, *, partial: bool) -> Float[Array, "T K"]:
    """Where there are lags, the first frame's evidence is that of the start distribution."""
    if model.lags == 0:
        return evidence
    start = (filled.x[:1] - model.start_mean[None])[:, None]
    start_evidence = model.start_noise.log_density(start, filled.observed[:1], partial)
    return evidence.at[0].set(start_evidence[0, 0])


def seen_in_part(frames: Frames) -> bool:
    """Whether any frame, of one sequence or of many, has both observed and missing channels."""
    some, every = frames.observed.any(axis=-1), frames.observed.all(axis=-1)
    return bool((frames.valid & some & ~every).any())


def residuals(model: ArHmm, x: Float[Array, "rows D"], window: Float[Array, "rows P"]) -> Float[Array, "rows K D"]:
    """x_t - W_k window_t."""
    return x[:, None] - einsum("kdp,tp->tkd", model.weights, window)


def expected(model: ArHmm, frames: Frames, responsibilities: Float[Array, "T K"]) -> Float[Array, "T D"]:
    """E[x_t | its lags, regimes] = sum_k p(s_t = k | x) W_k window_t."""
    return expected_from(model, model.window(bridged(frames, model.start_mean, model.lags).x), responsibilities)


def expected_from(
    model: ArHmm, window: Float[Array, "T P"], responsibilities: Float[Array, "T K"]
) -> Float[Array, "T D"]:
    """The same from the windows of lags that each frame is predicted from."""
    return einsum("tk,kdp,tp->td", responsibilities, model.weights, window)


def blank(
    regimes: int, channels: int, lags: int, covariance: Covariance, *, features: int = 0, temperature: float = 1.0
) -> ArHmm:
    """A model of these shapes whose values mean nothing yet."""
    unit = jnp.tile(jnp.eye(channels)[None], (regimes, 1, 1))
    floor = jnp.asarray(1.0)
    return ArHmm(
        log_initial=jnp.zeros(regimes),
        log_transition=jnp.zeros((regimes, regimes)),
        weights=jnp.zeros((regimes, channels, channels * lags + 1 + features)),
        noise=NOISE[covariance].nearest(unit, floor=floor),
        start_mean=jnp.zeros(channels),
        start_noise=NOISE[covariance].nearest(unit[:1], floor=floor),
        waves=blank_waves(channels, features) if features else None,
        temperature=temperature,
    )


def sample(model: ArHmm, length: int, *, key: Key) -> Drawn:
    """A sequence from its first frame on."""
    start_key, regime_key, loop_key = jax.random.split(key, 3)
    s = jax.random.categorical(regime_key, model.log_initial)
    if model.lags == 0:
        past = jnp.zeros((0, model.weights.shape[1]))
        x = _emit(model, past, s, key=start_key)
    else:
        x = model.start_mean + model.start_noise.sample(jnp.asarray(0), key=start_key)
        past = jnp.tile(x[None], (model.lags, 1))
    rest = go_on(model, past, s, length - 1, key=loop_key)
    return jax.tree.map(lambda first, others: jnp.concatenate([first[None], others]), Drawn(x, s), rest)


def go_on(model: ArHmm, past: Float[Array, "lags D"], s: Int[Array, ""], length: int, *, key: Key) -> Drawn:
    """One draw of the frames that follow the regime s and the last frames, the latest first."""

    def step(carry, key):
        past, s = carry
        switch_key, emit_key = jax.random.split(key)
        s = jax.random.categorical(switch_key, model.log_transition[s])
        x = _emit(model, past, s, key=emit_key)
        return (jnp.concatenate([x[None], past])[: len(past)], s), Drawn(x, s)

    return jax.lax.scan(step, (past, s), jax.random.split(key, length))[1]


def log_regimes(model: ArHmm, frames: Frames) -> Float[Array, " K"]:
    """log p(s_T = k | x_1..x_T) at the last valid frame."""
    evidence = log_evidence(model, bridged(frames, model.start_mean, model.lags)) / model.temperature
    chain = (model.log_initial, model.log_transition, evidence, frames.valid)
    return messages.filter(*chain).log_filtered[-1]


def last_frames(model: ArHmm, frames: Frames) -> Float[Array, "lags D"]:
    """What the regimes will read of the frames up to the last valid one, the latest first."""
    filled = bridged(frames, model.start_mean, model.lags).x
    return filled[jnp.maximum(frames.valid.sum() - 1 - jnp.arange(model.lags), 0)]


def _emit(model: ArHmm, past: Float[Array, "lags D"], s: Int[Array, ""], *, key: Key) -> Float[Array, " D"]:
    bent = [] if model.waves is None else [model.waves(past[:1])[0]]
    window = jnp.concatenate([past.reshape(-1), jnp.ones(1), *bent])
    return einsum("dp,p->d", model.weights[s], window) + model.noise.sample(s, key=key)


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
