"""CompILE (Kipf et al. 2019): a recording is explained one segment at a time.

A window of at most `window` frames is M segments. Segment i ends with frame b_i and has one of K codes c_i:

    p(b_i | b_{i-1})  Poisson over the length b_i - b_{i-1}, cut off at the last frame, with which segment M ends
    p(c_i)            uniform
    p(x_t | x_{t-1}, c_i)  = N(f_{c_i}(x_{t-1}, u_t), diagonal) for every frame of segment i

A recurrent network reads what is not yet explained, says where the segment ends and, in that frame, which code it
has; then it reads again, without what that segment explains. Training draws relaxed boundaries and codes:

    r_{i,t} = prod_{j<i} P(b_j < t)      share of frame t that segments before i leave over
    m_{i,t} = r_{i,t} P(b_i >= t)        share of it that belongs to segment i; they sum to 1
    ELBO    = sum_i E_q[sum_t m_{i,t} log p(x_t | x_{t-1}, c_i)] - KL(q(b_i) || p(b_i | b_{i-1})) - KL(q(c_i) || p(c_i))

With boundaries that are not relaxed it is a bound; the regime of a frame is the code of its segment. A longer recording
is cut into windows, each with M segments of its own, so that it is read as the ones that were trained on.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from swerve.inference.frames import FrameMask, Frames, Key
from swerve.inference.networks import Bidirectional, Lstm, Mlp
from swerve.models.model import Inference, Model, bonus_of, watched
from swerve.models.snlds.noise import DiagonalNoise
from swerve.models.snlds.posterior import changes
from swerve_lab.rivals.options import CompileOptions
from swerve_lab.rivals.shape import Shape

NOTHING = 1e-30  # as good as no probability, with a finite logarithm
OUTSIDE = -1e9  # a logit


class Noise(NamedTuple):
    """Standard Gumbel noise; zeros choose what is most probable."""

    boundaries: Float[Array, "M T"]
    codes: Float[Array, "M K"]


class Segments(NamedTuple):
    """One window cut into M segments."""

    masks: Float[Array, "M T"]
    """m: how far frame t belongs to segment i."""
    codes: Float[Array, "M K"]
    """q(c_i)."""
    drawn_codes: Float[Array, "M K"]
    """A relaxed draw from it; not relaxed, the expectation is exact and this is q(c_i) again."""
    divergence: Float[Array, " M"]
    """Of boundaries and codes from their priors."""

    @property
    def marginals(self) -> Float[Array, "T K"]:
        """The probability of every code in every frame."""
        return self.masks.T @ self.codes


class Compile(Model):
    """Both networks: the one that explains, and the one that predicts a frame from the last under every code."""

    encoder: Bidirectional
    boundary_head: Mlp
    code_head: Mlp
    decoder: Mlp
    noise: DiagonalNoise
    first_noise: DiagonalNoise
    """Of channels whose last value is not known: those of the first frame, and after a gap."""
    options: CompileOptions = eqx.field(static=True)

    def __init__(self, options: CompileOptions, shape: Shape, *, key: Key):
        encoder_key, boundary_key, code_key, decoder_key = jax.random.split(key, 4)
        K, D, U = shape.regimes, shape.channels, shape.controls
        self.encoder = Bidirectional(Lstm, 4 * D + U + 1, shape.encoder_size, key=encoder_key)
        self.boundary_head = Mlp((self.encoder.size, shape.encoder_size, 1), key=boundary_key)
        self.code_head = Mlp((self.encoder.size, shape.encoder_size, K), key=code_key)
        decoder = Mlp((2 * D + U + K, *shape.dynamics_hidden, D), key=decoder_key)
        # However many channels: between codes that nothing has been learned of, there is little to choose.
        self.decoder = eqx.tree_at(lambda d: d.layers[-1].weight, decoder, replace_fn=lambda w: w / jnp.sqrt(D))
        self.noise = DiagonalNoise(1, D, scale=shape.emission_noise_start, floor=shape.emission_noise_floor)
        self.first_noise = DiagonalNoise(1, D, scale=1.0, floor=shape.emission_noise_floor)
        self.options = options

    @property
    def regimes(self):
        return len(self.code_head.layers[-1].weight)

    def terms(self, frames, knobs, lead=None, *, key):
        frames = frames.blanked()
        options, exact = self.options, knobs.progress >= 1
        temperature = options.temperature * (options.last_temperature / options.temperature) ** knobs.progress
        temperature = jnp.where(exact, 0.0, temperature)
        bonus = bonus_of(lead, knobs, frames.valid, self.regimes)
        windows, log_prob = self.windows(frames), self._cut(self.log_prob(frames) + bonus)
        found = jax.vmap(self.segments, in_axes=(0, 0, 0, None))(
            *windows, self._noise(len(frames.x), key=key), temperature
        )
        fit = jnp.einsum("wik,wit,wtk->", found.drawn_codes, found.masks, log_prob)
        elbo = fit - jnp.where(exact, 1.0, options.divergence_weight) * found.divergence.sum()
        marginals = self._joined(found, len(frames.x))
        return watched(elbo, marginals, frames.valid, guidance=jnp.sum(marginals * bonus))

    def infer(self, frames: Frames, *, samples: int, key: Key) -> Inference:
        """Probabilities averaged over drawn boundaries; the path has each boundary and code where it is most probable,
        given the ones before. A frame is expected from the one before it."""
        frames = frames.blanked()
        windows, length = self.windows(frames), len(frames.x)
        segments = jax.vmap(self.segments, in_axes=(0, 0, 0, None))

        def one(key):
            return self._joined(segments(*windows, self._noise(length, key=key), jnp.zeros(())), length)

        probabilities = jax.vmap(one)(jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(samples))).mean(axis=0)
        silence = jax.tree.map(jnp.zeros_like, self._noise(length, key=key))
        path = jnp.argmax(self._joined(segments(*windows, silence, jnp.zeros(())), length), axis=1)
        expected = jnp.einsum("tk,tkd->td", probabilities, self.predicted(frames))
        return Inference(probabilities, path, expected)

    def windows(self, frames: Frames) -> tuple[Float[Array, "W T F"], Bool[Array, "W T"]]:
        """What the encoder reads of every frame, and whether there is such a frame."""
        gain = jax.lax.stop_gradient(1 / self.noise.scale[0])
        read = (frames.x, frames.observed, changes(frames.x, frames.observed, gain), frames.u)
        return self._cut(jnp.concatenate(read, axis=1)), self._cut(frames.valid)

    def segments(
        self, features: Float[Array, "T F"], valid: FrameMask, noise: Noise, temperature: Float[Array, ""]
    ) -> Segments:
        """One segment after the other. At temperature 0 boundaries are drawn as they are."""
        count, positions = self.options.segments, jnp.arange(len(valid), dtype=float)
        end = valid & ~jnp.append(valid[1:], False)
        mean_length = self.options.mean_length or jnp.maximum(valid.sum() / count, 1.0)

        def relaxed(log_q, gumbel):
            soft = jax.nn.softmax((log_q + gumbel) / jnp.where(temperature > 0, temperature, 1.0))
            return soft, jnp.where(temperature > 0, soft, jax.nn.one_hot(jnp.argmax(log_q + gumbel), len(log_q)))

        def explain(carry, inputs):
            left, last_end = carry
            is_last, gumbel = inputs
            seen = jnp.concatenate([features * left[:, None], left[:, None]], axis=1)
            encoded = self.encoder(seen, valid)

            possible = jnp.where(end, 0.0, jnp.log(jnp.maximum(left, NOTHING)))
            length = jnp.maximum(positions - last_end, 1.0)
            log_poisson = length * jnp.log(mean_length) - jax.scipy.special.gammaln(length + 1)
            logits = jax.vmap(self.boundary_head)(encoded)[:, 0]
            log_q, log_p = (
                jax.nn.log_softmax(jnp.where(valid, some + possible, OUTSIDE)) for some in (logits, log_poisson)
            )
            boundary = jnp.where(is_last, end.astype(float), relaxed(log_q, gumbel.boundaries)[1])
            boundary_kl = jnp.where(is_last, 0.0, jnp.sum(jnp.exp(log_q) * (log_q - log_p)))

            log_code = jax.nn.log_softmax(self.code_head(boundary @ encoded))
            codes = jnp.exp(log_code)
            drawn = jnp.where(temperature > 0, relaxed(log_code, gumbel.codes)[0], codes)
            code_kl = jnp.sum(codes * log_code) + jnp.log(len(codes))

            ended = jnp.cumsum(boundary) - boundary  # P(b_i < t)
            exists = jnp.sum(left * end)
            found = Segments(left * (1 - ended), codes, drawn, exists * (boundary_kl + code_kl))
            return (left * ended, boundary @ positions), found

        start = (valid.astype(float), jnp.array(-1.0))
        return jax.lax.scan(explain, start, (jnp.arange(count) == count - 1, noise))[1]

    def predicted(self, frames: Frames) -> Float[Array, "T K D"]:
        """f_k(x_{t-1}, u_t) = x_{t-1} + scale g(x_{t-1}, u_t, k) of every frame and code.

        The scale is that of the noise. What is missing is zero, and said to be missing. A code is as loud as everything
        else together.
        """
        before = jnp.concatenate([_before(frames.x), _before(frames.observed), frames.u], axis=1)
        codes = jnp.sqrt(before.shape[1]) * jnp.eye(self.regimes)

        def under_every_code(inputs):
            return jax.vmap(lambda code: self.decoder(jnp.concatenate([inputs, code])))(codes)

        return _before(frames.x)[:, None] + self.noise.scale[None] * jax.vmap(under_every_code)(before)

    def log_prob(self, frames: Frames) -> Float[Array, "T K"]:
        """log p(x_t | x_{t-1}, c = k) over the observed channels."""

        def of_frame(x, observed, known, predicted):
            error = x[None] - predicted
            moved = self.noise.log_prob(error, observed & known)
            return moved + self.first_noise.log_prob(error, observed & ~known)

        return jax.vmap(of_frame)(frames.x, frames.observed, _before(frames.observed), self.predicted(frames))

    def _noise(self, length: int, *, key: Key) -> Noise:
        """Of every window, keyed by frame: a window's codes have the noise of its first frame."""
        shape = (self.options.segments, 1 + self.regimes)
        keys = jax.vmap(lambda t: jax.random.fold_in(key, t))(jnp.arange(length))
        gumbel = self._cut(jax.vmap(lambda k: jax.random.gumbel(k, shape))(keys))
        return Noise(jnp.swapaxes(gumbel[..., 0], 1, 2), gumbel[:, 0, :, 1:])

    def _cut(self, rows: Array) -> Array:
        """T rows as windows; zeros fill the last one, which is all there is of a short sequence."""
        length = min(self.options.window, len(rows))
        count = -(-len(rows) // length)
        rows = jnp.pad(rows, [(0, count * length - len(rows))] + [(0, 0)] * (rows.ndim - 1))
        return rows.reshape(count, length, *rows.shape[1:])

    def _joined(self, found: Segments, length: int) -> Float[Array, "T K"]:
        """The inverse for what frames are."""
        return jax.vmap(lambda one: one.marginals)(found).reshape(-1, self.regimes)[:length]


def _before(rows: Array) -> Array:
    """Row t - 1 in place of row t; nothing before the first."""
    return jnp.concatenate([jnp.zeros_like(rows[:1]), rows[:-1]])


def build(options: CompileOptions, shape: Shape, *, key: Key) -> Model:
    """With fresh parameters."""
    return Compile(options, shape, key=key)
