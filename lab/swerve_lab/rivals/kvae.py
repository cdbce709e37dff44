"""Kalman VAE (Fraccaro, Kamronn, Paquet and Winther, 2017): a soft mixture of linear systems under a code of x.

    x_t = g(a_t) + noise                               a_t: the code of a frame, its "pseudo-observation"
    z_t = A_t z_{t-1} + B_t [u_t, 1] + noise           a_t = C_t z_t + noise
    (A_t, B_t, C_t) = sum_k alpha_tk (A_k, B_k, C_k)   alpha_t = softmax(LSTM(a_1 .. a_{t-1}))

There are no discrete regimes. The weights alpha_t, which move z_{t-1} to z_t, stand for their probabilities, and
nothing makes them sharp: two systems in a fixed proportion do as well as one system that is used alone.

q(a_t | x_t) is a diagonal Gaussian. Given the codes, alpha is known and everything else linear and Gaussian, so

    ELBO = E_q(a|x)[sum_t log p(x_t | a_t) + log p(a)] + sum_t H(q(a_t | x_t))

with log p(a) exact from the Kalman filter. The authors draw z from the smoother and take log p(a, z) - log p(z | a)
instead: the same expectation, with more noise. The constant beside the controls lets a system drift, which data with
their mean removed need and A_k z alone can not do.

A frame of which nothing was observed has no code: the filter steps over it, and the network reads zeros, and a bit that
says so, in its place. So alpha_t depends on the codes that were seen, and log p(a) stays exact. (The authors read the
filter's prediction there, which a network that remembers the earlier codes can make for itself.)
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from swerve.inference.frames import FrameMask, Frames, Key
from swerve.inference.networks import Lstm, Mlp, scan_unroll
from swerve.models.model import Inference, Model, bonus_of, watched
from swerve.models.snlds.noise import DiagonalNoise
from swerve.models.snlds.posterior import HALF_LOG_TWO_PI_E, SMALLEST_SCALE, frame_noise
from swerve_lab.rivals import kalman
from swerve_lab.rivals.options import KvaeOptions
from swerve_lab.rivals.shape import Shape

ENCODER_HIDDEN = (32,)  # where the settings name no layers
FIRST_CODE_SCALE = 0.1  # of q(a | x)
SPREAD = 0.1  # how far the systems differ to begin with: equal ones would stay equal


class Codes(NamedTuple):
    """q(a_t | x_t) = N(mean_t, diag(scale_t^2)) in the frames of which something was seen."""

    mean: Float[Array, "T M"]
    scale: Float[Array, "T M"]
    seen: FrameMask

    def draw(self, key: Key) -> Float[Array, "T M"]:
        """a ~ q(a | x); zeros where there is no code."""
        return jnp.where(self.seen[:, None], self.mean + self.scale * frame_noise(key, *self.mean.shape), 0.0)

    @property
    def entropy(self) -> Float[Array, ""]:
        """sum_t H(q(a_t | x_t))."""
        return jnp.where(self.seen[:, None], jnp.log(self.scale) + HALF_LOG_TWO_PI_E, 0.0).sum()


class Kvae(Model):
    """p(x, a, z) and q(a | x)."""

    encoder: Mlp
    decoder: Mlp
    x_noise: DiagonalNoise
    before_first: Float[Array, " M"]
    """What the network reads before there is a code."""
    network: Lstm
    weights: eqx.nn.Linear
    transition: Float[Array, "K L L"]
    drive: Float[Array, "K L I"]
    emission: Float[Array, "K M L"]
    first_mean: Float[Array, " L"]
    first_noise: DiagonalNoise
    z_noise: DiagonalNoise
    a_noise: DiagonalNoise
    uniform_until: float = eqx.field(static=True)

    @property
    def regimes(self):
        return len(self.transition)

    def terms(self, frames, knobs, lead=None, *, key):
        """From a single draw of the codes."""
        frames = frames.blanked()
        codes = self.codes(frames)
        a = codes.draw(key)
        alpha = self.mixture(a, codes.seen, sharpness=jnp.where(knobs.progress < self.uniform_until, 0.0, 1.0))
        seen = jnp.broadcast_to(codes.seen[:, None], a.shape)
        log_a = kalman.filter(*self.linear_system(alpha, frames.u), a, seen, frames.valid).log_likelihood
        residuals = frames.x - jax.vmap(self.decoder)(a)
        log_x = jax.vmap(lambda r, o: self.x_noise.log_prob(r[None], o)[0])(residuals, frames.observed).sum()
        weights = _from_the_second(alpha, frames.valid)
        guidance = jnp.sum(weights * bonus_of(lead, knobs, frames.valid, self.regimes))
        return watched(log_x + log_a + codes.entropy + guidance, weights, frames.valid, guidance=guidance)

    def infer(self, frames, *, samples, key):
        """alpha averaged over draws of the codes, its largest entry, and what the smoothed state looks like."""
        frames = frames.blanked()
        codes = self.codes(frames)
        seen = jnp.broadcast_to(codes.seen[:, None], codes.mean.shape)

        def one(key):
            a = codes.draw(key)
            alpha = self.mixture(a, codes.seen)
            dynamics, emission = self.linear_system(alpha, frames.u)
            z = kalman.smooth(dynamics, emission, a, seen, frames.valid).mean
            return alpha, jax.vmap(lambda matrix, z: self.decoder(matrix @ z))(emission.matrix, z)

        alphas, expected = jax.vmap(one)(jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(samples)))
        probabilities = _from_the_second(alphas.mean(axis=0), frames.valid)
        return Inference(probabilities, jnp.argmax(probabilities, axis=1), expected.mean(axis=0))

    def codes(self, frames: Frames) -> Codes:
        """q(a | x), which sees what is missing."""
        read = jnp.concatenate([frames.x, frames.observed.astype(float)], axis=1)
        mean, raw_scale = jnp.split(jax.vmap(self.encoder)(read), 2, axis=1)
        return Codes(mean, SMALLEST_SCALE + jax.nn.softplus(raw_scale), frames.observed.any(axis=1))

    def mixture(
        self, a: Float[Array, "T M"], seen: FrameMask, *, sharpness: Float[Array, ""] | float = 1.0
    ) -> Float[Array, "T K"]:
        """alpha_t = softmax(sharpness W LSTM(a_1 .. a_{t-1})); with no sharpness, uniform."""
        before = jnp.concatenate([self.before_first[None], a[:-1]])
        told = jnp.concatenate([jnp.ones(1), seen[:-1].astype(float)])
        gates = jax.vmap(self.network.project)(jnp.concatenate([before, told[:, None]], axis=1))

        def step(state, gates):
            state = self.network.step(state, gates)
            return state, state[: self.network.size]

        _, memory = jax.lax.scan(step, self.network.initial(), gates, unroll=scan_unroll())
        return jax.nn.softmax(sharpness * jax.vmap(self.weights)(memory), axis=1)

    def linear_system(
        self, alpha: Float[Array, "T K"], u: Float[Array, "T U"]
    ) -> tuple[kalman.LinearDynamics, kalman.LinearEmission]:
        """p(z) and p(a | z) under the given weights."""
        length = len(alpha)
        transition, drive, emission = (
            jnp.einsum("tk,kij->tij", alpha, matrices) for matrices in (self.transition, self.drive, self.emission)
        )
        driven = jnp.einsum("tij,tj->ti", drive, jnp.concatenate([u, jnp.ones((length, 1))], axis=1))
        z_scale = jnp.diag(self.z_noise.scale[0])
        dynamics = kalman.LinearDynamics(
            first_mean=self.first_mean,
            first_scale=jnp.diag(self.first_noise.scale[0]),
            matrix=transition[1:],
            offset=driven[1:],
            scale=jnp.broadcast_to(z_scale, (length - 1, *z_scale.shape)),
        )
        size = emission.shape[1]
        return dynamics, kalman.LinearEmission(
            matrix=emission,
            offset=jnp.zeros((length, size)),
            scale=jnp.broadcast_to(self.a_noise.scale, (length, size)),
        )


def _from_the_second(alpha: Float[Array, "T K"], valid: FrameMask) -> Float[Array, "T K"]:
    """Nothing moves into the first frame: it takes the weights of the second, where there is one."""
    return alpha if len(alpha) == 1 else alpha.at[0].set(alpha[valid[1].astype(int)])


def build(options: KvaeOptions, shape: Shape, *, key: Key) -> Kvae:
    """With fresh parameters: systems that hardly move the state, whose first coordinates are the code."""
    K, L, D = shape.regimes, shape.state_size, shape.channels
    M = options.code_size or min(L, D)
    encoder_key, decoder_key, network_key, weights_key, *matrix_keys = jax.random.split(key, 7)
    encoder = Mlp((2 * D, *(shape.embedding_hidden or ENCODER_HIDDEN), 2 * M), key=encoder_key)
    last = encoder.layers[-1]
    # One small scale for every frame to begin with.
    quiet = last.weight.at[M:].set(0.0), jnp.zeros(2 * M).at[M:].set(jnp.log(jnp.expm1(FIRST_CODE_SCALE)))

    def systems(key, centre):
        return centre[None] + SPREAD * jax.random.normal(key, (K, *centre.shape))

    def noise(size, scale):
        return DiagonalNoise(1, size, scale=scale, floor=shape.dynamics_noise_floor)

    return Kvae(
        encoder=eqx.tree_at(lambda e: (e.layers[-1].weight, e.layers[-1].bias), encoder, quiet),
        decoder=Mlp((M, *shape.emission_hidden, D), key=decoder_key),
        x_noise=DiagonalNoise(1, D, scale=shape.emission_noise_start, floor=shape.emission_noise_floor),
        before_first=jnp.zeros(M),
        network=Lstm(M + 1, options.network_size, key=network_key),
        weights=eqx.nn.Linear(options.network_size, K, key=weights_key),
        transition=systems(matrix_keys[0], jnp.eye(L)),
        drive=systems(matrix_keys[1], jnp.zeros((L, shape.controls + 1))),
        emission=systems(matrix_keys[2], jnp.eye(M, L)),
        first_mean=jnp.zeros(L),
        first_noise=noise(L, 1.0),
        z_noise=noise(L, shape.dynamics_noise_start),
        a_noise=noise(M, shape.dynamics_noise_start),
        uniform_until=options.uniform_until,
    )
