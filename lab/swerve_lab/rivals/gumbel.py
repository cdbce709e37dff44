"""Gumbel-Softmax SNLDS: our p(x, z, s) and q(z | x), but regimes are drawn where we sum them out (Dong et al. 2020).

    q(s | x) = prod_t q(s_t | s_{t-1}, x),  q(s_t | s_{t-1}, x) = softmax g(h_t, s_{t-1}),  h a bidirectional RNN over x

A draw is relaxed: s_t = softmax((log q(. | s_{t-1}, x) + Gumbel noise) / tau) is a point of the simplex, on which the
next frame depends in turn. It weighs the factors of log p(x, z, s), which at the corners is log p itself:

    s_1 . log pi + sum_t s_{t-1} . log A_t s_t + sum_t s_t . log B_t + sum_t H(q(s_t | s_{t-1}, x)) + H(q(z | x))

tau falls as training goes on. That is no bound. With nothing relaxed q(s | x) is a Markov chain, so once training is
over the expectation over s is taken exactly, and only z is drawn: the bound that is reported, and the labels.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from swerve.inference import messages
from swerve.inference.frames import FrameMask, Frames, Key
from swerve.inference.networks import Bidirectional, scan_unroll
from swerve.models.model import Inference, Knobs, Model, watched
from swerve.models.snlds.bound import RegimeChain, kl_from_uniform, regime_chain
from swerve.models.snlds.generative import Generative
from swerve.models.snlds.model import Snlds
from swerve.models.snlds.posterior import Posterior, changes
from swerve_lab.rivals.options import GumbelOptions


class Regimes(NamedTuple):
    """What q says of the regimes: of one relaxed draw, or in expectation."""

    shares: Float[Array, "T K"]
    """s_t, or q(s_t = k | x); nothing in padding."""
    pairs: Float[Array, "T-1 K K"]
    """s_{t-1, j} s_{t, k}, or q(s_{t-1} = j, s_t = k | x); nothing in padding."""
    log_probabilities: Float[Array, "T K"]
    """log q(s_t | s_{t-1}, x) along the draw, or log q(s_t | x)."""
    entropy: Float[Array, ""]


class RegimePosterior(eqx.Module):
    """q(s | x), of which g is a perceptron with one hidden layer.

    It reads x_t, which of it was observed, u_t and, where q(z | x) does, how x changes from frame to frame.
    """

    encoder: Bidirectional
    change_gain: Float[Array, " D"] | None
    from_frame: eqx.nn.Linear
    from_regime: eqx.nn.Linear
    readout: eqx.nn.Linear

    def __init__(self, options: GumbelOptions, own: Snlds, *, controls: int, key: Key):
        encoder_key, frame_key, regime_key, readout_key = jax.random.split(key, 4)
        like, self.change_gain = own.posterior.encoder.forward, own.posterior.change_gain
        seen = own.posterior.gain.shape[1] * (2 if self.change_gain is None else 4) + controls
        self.encoder = Bidirectional(type(like), seen, like.size, key=encoder_key)
        self.from_frame = eqx.nn.Linear(self.encoder.size + seen, options.hidden, key=frame_key)
        self.from_regime = eqx.nn.Linear(own.regimes, options.hidden, use_bias=False, key=regime_key)
        self.readout = eqx.nn.Linear(options.hidden, own.regimes, key=readout_key)

    def read(self, frames: Frames) -> Float[Array, "T H"]:
        """What every frame tells the hidden layer of g."""
        seen = [frames.x, frames.observed.astype(frames.x.dtype), frames.u]
        if self.change_gain is not None:
            seen.append(changes(frames.x, frames.observed, self.change_gain))
        inputs = jnp.concatenate(seen, axis=1)
        return jax.vmap(self.from_frame)(jnp.concatenate([self.encoder(inputs, frames.valid), inputs], axis=1))

    def log_q(
        self, read: Float[Array, " H"], before: Float[Array, " K"], log_allowed: Float[Array, " K"]
    ) -> Float[Array, " K"]:
        """log q(s_t | s_{t-1}, x); before the first frame there is no regime, and `before` holds zeros."""
        hidden = jnp.tanh(read + self.from_regime(before))
        return jax.nn.log_softmax(self.readout(hidden) + log_allowed)

    def relaxed(
        self,
        read: Float[Array, "T H"],
        valid: FrameMask,
        log_allowed: Float[Array, " K"],
        temperature: Float[Array, ""] | float,
        *,
        key: Key,
    ) -> Regimes:
        """One draw. Noise is keyed by frame index, so that padding changes nothing."""
        keys = jax.vmap(lambda t: jax.random.fold_in(key, t))(jnp.arange(len(read)))
        noise = jax.vmap(lambda k: jax.random.gumbel(k, log_allowed.shape))(keys)

        def step(before, frame):
            read, noise = frame
            log_q = self.log_q(read, before, log_allowed)
            drawn = jax.nn.softmax((log_q + noise) / temperature)
            return drawn, (drawn, log_q)

        nothing = jnp.zeros_like(log_allowed)
        _, (drawn, log_q) = jax.lax.scan(step, nothing, (read, noise), unroll=scan_unroll())
        shares = jnp.where(valid[:, None], drawn, 0.0)
        entropies = -jnp.sum(jnp.exp(log_q) * log_q, axis=1, where=valid[:, None])
        return Regimes(shares, shares[:-1, :, None] * shares[1:, None, :], log_q, entropies.sum())

    def chain(self, read: Float[Array, "T H"], valid: FrameMask, log_allowed: Float[Array, " K"]) -> RegimeChain:
        """q(s | x) as a Markov chain that needs no evidence: it has read x."""
        to_next = jax.vmap(lambda r: jax.vmap(lambda j: self.log_q(r, j, log_allowed))(jnp.eye(len(log_allowed))))
        first = self.log_q(read[0], jnp.zeros_like(log_allowed), log_allowed)
        return RegimeChain(first, to_next(read[1:]), jnp.zeros((len(read), len(first))), valid)


def expected(chain: RegimeChain) -> Regimes:
    """What whole regimes drawn from such a chain hold on average.

    q(s_t = k | x) = sum_j q(s_{t-1} = j | x) q(s_t = k | s_{t-1} = j, x), and H(q) = -E[log q(s | x)].
    """
    step, first = jnp.exp(chain.log_transition), jnp.exp(chain.log_initial)
    _, later = jax.lax.scan(lambda share, q: (share @ q, share @ q), first, step, unroll=scan_unroll())
    shares = jnp.where(chain.mask[:, None], jnp.concatenate([first[None], later]), 0.0)
    pairs = jnp.where(chain.mask[1:, None, None], shares[:-1, :, None] * step, 0.0)
    log_shares = jnp.log(jnp.maximum(shares, jnp.finfo(shares.dtype).tiny))
    return Regimes(shares, pairs, log_shares, -log_joint(chain, shares, pairs))


class GumbelSystem(Model):
    """A switching (non)linear system whose regimes an inference network of their own finds."""

    model: Generative
    posterior: Posterior
    regime_posterior: RegimePosterior
    options: GumbelOptions = eqx.field(static=True)

    @property
    def regimes(self):
        return self.model.regimes

    def terms(self, frames, knobs, lead=None, *, key):
        """Relaxed while training goes on, exact in s at its end."""
        state_key, regime_key = jax.random.split(key)
        draw, chain, bends = regime_chain(self.model, self.posterior, frames, knobs, lead, key=state_key)
        read, log_allowed = self.regime_posterior.read(frames.blanked()), jax.lax.stop_gradient(self.model.log_allowed)
        tau = temperature(self.options, knobs.progress)
        found = jax.lax.cond(
            jnp.asarray(knobs.progress) < 1.0,
            lambda: self.regime_posterior.relaxed(read, frames.valid, log_allowed, tau, key=regime_key),
            lambda: expected(self.regime_posterior.chain(read, frames.valid, log_allowed)),
        )
        log_p = log_joint(chain, found.shares, found.pairs)
        return watched(
            log_p + found.entropy + jnp.sum(draw.entropy, where=frames.valid),
            found.shares,
            frames.valid,
            uniform_kl=jnp.sum(kl_from_uniform(found.log_probabilities, self.model.allowed), where=frames.valid),
            tempering=jnp.sum(found.shares * bends.tempering, where=frames.valid[:, None]),
            guidance=jnp.sum(found.shares * bends.guidance, where=frames.valid[:, None]),
        )

    def infer(self, frames: Frames, *, samples: int, key: Key) -> Inference:
        """q(s_t | x) and the most probable path of q(s | x), both exact; x is expected over draws of z.

        Where the first frame does not tell its own regime, it takes the second's.
        """
        read = self.regime_posterior.read(frames.blanked())
        chain = self.regime_posterior.chain(read, frames.valid, self.model.log_allowed)
        probabilities, path = expected(chain).shares, messages.viterbi(*chain)
        if len(path) > 1 and not self.model.first_frame_tells:
            first = frames.valid[1].astype(int)
            probabilities, path = probabilities.at[0].set(probabilities[first]), path.at[0].set(path[first])

        def one(key):
            draw, _, _ = regime_chain(self.model, self.posterior, frames, Knobs(), key=key)
            return jax.vmap(self.model.expected_observation)(draw.z, probabilities)

        seen = jax.vmap(one)(jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(samples)))
        return Inference(probabilities, path, seen.mean(axis=0))


def temperature(options: GumbelOptions, progress: Array | float) -> Float[Array, ""]:
    """tau = first (last / first)^(progress / anneal), and no lower than the last."""
    share = jnp.clip(jnp.asarray(progress) / max(options.anneal, 1e-6), 0.0, 1.0)
    return options.first_temperature * (options.last_temperature / options.first_temperature) ** share


def log_joint(chain: RegimeChain, shares: Float[Array, "T K"], pairs: Float[Array, "T-1 K K"]) -> Float[Array, ""]:
    """s_1 . log pi + sum_t s_{t-1} . log A_t s_t + sum_t s_t . log B_t, or its expectation."""
    valid, moves = chain.mask[:, None], chain.log_transition
    moves = jnp.where(valid[1:, None], moves if moves.ndim == 3 else moves[None], 0.0)
    evidence = jnp.where(valid, chain.log_evidence, 0.0)
    return shares[0] @ chain.log_initial + jnp.sum(pairs * moves) + jnp.sum(shares * evidence)


def build(options: GumbelOptions, own: Snlds, *, controls: int, key: Key) -> Model:
    """With fresh parameters."""
    return GumbelSystem(own.model, own.posterior, RegimePosterior(options, own, controls=controls, key=key), options)
