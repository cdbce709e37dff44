"""Structured VAE (Johnson et al. 2016): linear regimes, a nonlinear emission, and messages in both parts of q(z) q(s).

    p(s_t | s_{t-1}) = softmax(base)[s_{t-1}, s_t],     p(z_t | z_{t-1}, s_t = k) = N(A_k z_{t-1} + B_k u_t + b_k, Q_k),
    p(z_1) = N(m, S),                                   p(x_t | z_t) = N(g(z_t), R)

A recognition network reads single frames and gives each a Gaussian potential psi_t(z_t) in place of the p(x_t | z_t)
that is not conjugate. Given these, q(z) q(s) is the structured mean field that raises

    E_q[log p(z, s) + sum_t psi_t(z_t)] + H(q(z)) + H(q(s))

as far as it goes, one factor after the other:

    q(z) ~ exp( E_q(s)[log p(z | s)] + sum_t psi_t(z_t) )   a Gaussian whose precision is block tridiagonal
    q(s) ~ p(s) exp( sum_t l_t(s_t) ),   l_t(k) = E_q(z)[log p(z_t | z_{t-1}, s_t = k)]   a Markov chain

Whatever q(z), the q(s) that follows it makes -KL(q(z) q(s) || p(z, s)) = H(q(z)) + E_q(z)[log p(z_1)] + log Z(l), with
log Z the normaliser of that chain. So E_q(z)[log p(x | z)], from one draw, and this are a bound on log p(x) however
early the alternation stops. Parameters are point estimates, as in all our systems, where the paper has a mean field
over those of the dynamics as well.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from swerve.inference import messages
from swerve.inference.frames import FrameMask, Frames, Key, LogEvidence, LogInitial, LogTransition
from swerve.inference.networks import Mlp
from swerve.models.model import Inference, Knobs, Model, bonus_of, watched
from swerve.models.snlds.emission import MlpEmission
from swerve.models.snlds.noise import DiagonalNoise
from swerve_lab.rivals import kalman
from swerve_lab.rivals.kalman import LOG_TWO_PI, BlockPosterior, Blocks
from swerve_lab.rivals.options import SvaeOptions
from swerve_lab.rivals.shape import Shape

SMALLEST_VARIANCE = 1e-5  # of the dynamics: float32 holds no precision that is sharper than this beside the potentials
WANDER = 0.1  # of what starts as an identity

Marginals = Float[Array, "T K"]


class Chain(NamedTuple):
    """All that decides q(z) q(s) in one sequence."""

    first_mean: Float[Array, " L"]
    first_variance: Float[Array, " L"]
    matrix: Float[Array, "K L L"]
    """A_k."""
    offset: Float[Array, "steps K L"]
    """B_k u_t + b_k, from the second frame on."""
    variance: Float[Array, "K L"]
    """The diagonal of Q_k."""
    seen_precision: Float[Array, "T L"]
    """psi_t(z) = -1/2 z' diag(seen_precision_t) z + seen_linear_t' z; 0 where nothing was observed."""
    seen_linear: Float[Array, "T L"]
    log_initial: LogInitial
    log_transition: LogTransition
    bonus: LogEvidence
    """What a lead adds to l_t(k)."""
    valid: FrameMask


def states_given(chain: Chain, marginals: Marginals) -> Blocks:
    """q(z) where the regimes have these probabilities: E_q(s)[log p(z | s)] + sum_t psi_t, a quadratic form.

    A regime's step into frame t adds, times its probability, to J_tt, J_{t,t-1} and J_{t-1,t-1} the products
    Q^{-1}, -Q^{-1} A and A' Q^{-1} A, and to h_t and h_{t-1} the products Q^{-1} c_t and -A' Q^{-1} c_t.
    """
    steps = marginals[1:]
    precision = 1 / chain.variance
    moved = precision[:, :, None] * chain.matrix
    own = jnp.concatenate([1 / chain.first_variance[None], steps @ precision]) + chain.seen_precision
    left = jnp.einsum("tk,kij->tij", steps, jnp.einsum("kmi,kmj->kij", chain.matrix, moved))
    pushed = jnp.einsum("tk,kl,tkl->tl", steps, precision, chain.offset)
    pulled = jnp.einsum("tk,kml,tkm->tl", steps, moved, chain.offset)
    started = (chain.first_mean / chain.first_variance)[None]
    return Blocks(
        diagonal=jax.vmap(jnp.diag)(jnp.where(chain.valid[:, None], own, 1.0)).at[:-1].add(left),
        below=-jnp.einsum("tk,kij->tij", steps, moved),
        linear=(chain.seen_linear + jnp.concatenate([started, pushed])).at[:-1].add(-pulled),
    )


def evidence_of(chain: Chain, states: BlockPosterior) -> LogEvidence:
    """l_t(k) = E_q(z)[log N(z_t; A_k z_{t-1} + c_tk, Q_k)]; nothing tells the regime of the first frame.

    E[(z_t - A z_{t-1} - c)^2] = (m_t - A m_{t-1} - c)^2 + diag(S_t - 2 A Cov(z_{t-1}, z_t) + A S_{t-1} A').
    """
    expected = jnp.einsum("kij,tj->tki", chain.matrix, states.mean[:-1]) + chain.offset
    error = states.mean[1:, None] - expected
    spread = (
        jnp.diagonal(states.covariance[1:], axis1=1, axis2=2)[:, None]
        - 2 * jnp.einsum("kij,tij->tki", chain.matrix, states.cross_covariance)
        + jnp.einsum("kil,tlm,kim->tki", chain.matrix, states.covariance[:-1], chain.matrix)
    )
    variance = chain.variance[None]
    per_entry = -0.5 * ((error**2 + spread) / variance + jnp.log(variance) + LOG_TWO_PI)
    log_evidence = jnp.concatenate([jnp.zeros((1, len(chain.matrix))), per_entry.sum(axis=2)])
    return jnp.where(chain.valid[:, None], log_evidence, 0.0) + chain.bonus


def follow(chain: Chain, marginals: Marginals) -> Marginals:
    """One round: q(z) follows q(s), then q(s) follows q(z)."""
    states = kalman.posterior_of_blocks(states_given(chain, marginals))
    return messages.smooth(chain.log_initial, chain.log_transition, evidence_of(chain, states), chain.valid).marginals


def guessed(chain: Chain) -> Marginals:
    """Where the rounds start: a filter with one Gaussian over z_t tries every regime in each frame.

    If all regimes were equally likely instead, two that move z opposite ways would hold it still in q(z), which then
    tells them apart no more: a point that rounds do not leave. Here regime k moves N(m, P) to N(A m + c, A P A' + Q),
    and psi_t tells how well it did: exp(psi_t) ~ N(a; z, diag(1/w)) is seen one coordinate after the other,

        log p(a_l) = -1/2 log(1 + w_l P_ll) - 1/2 w_l (a_l - m_l)^2 / (1 + w_l P_ll) + const.

    Then the K Gaussians become one of the same mean and covariance. What psi_t told is the evidence of a chain.
    """
    size = len(chain.first_mean)

    def see(mean, covariance, precision, linear):
        log_density = jnp.zeros(())
        for i in range(size):
            column, gain = covariance[:, i], 1 / (1 + precision[i] * covariance[i, i])
            # w a = linear, so that w (a - m) needs no division by a precision of 0.
            error = linear[i] - precision[i] * mean[i]
            log_density += 0.5 * (jnp.log(gain) - gain * error**2 / jnp.maximum(precision[i], 1e-12))
            mean = mean + gain * error * column
            covariance = covariance - gain * precision[i] * column[:, None] * column[None, :]
        return mean, covariance, log_density

    def step(before, frame):
        mean, covariance, weights = before
        offset, *potential, bonus, valid = frame
        means = jnp.einsum("kij,j->ki", chain.matrix, mean) + offset
        moved = jnp.einsum("kil,lm,kjm->kij", chain.matrix, covariance, chain.matrix)
        moved = moved + jax.vmap(jnp.diag)(chain.variance)
        means, covariances, log_density = jax.vmap(lambda m, p: see(m, p, *potential))(means, moved)
        weights = jax.nn.softmax(jnp.log(weights @ jnp.exp(chain.log_transition)) + log_density + bonus)
        mean = weights @ means
        apart = means - mean[None]
        covariance = jnp.einsum("k,kij->ij", weights, covariances + apart[:, :, None] * apart[:, None, :])
        after = jax.tree.map(lambda new, old: jnp.where(valid, new, old), (mean, covariance, weights), before)
        return after, log_density

    potentials = chain.seen_precision, chain.seen_linear
    first = see(chain.first_mean, jnp.diag(chain.first_variance), *(each[0] for each in potentials))[:2]
    frames = (chain.offset, *(each[1:] for each in potentials), chain.bonus[1:], chain.valid[1:])
    _, told = jax.lax.scan(step, (*first, jax.nn.softmax(chain.log_initial + chain.bonus[0])), frames)
    log_evidence = jnp.concatenate([jnp.zeros((1, len(chain.matrix))), told]) + chain.bonus
    return messages.smooth(chain.log_initial, chain.log_transition, log_evidence, chain.valid).marginals


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def settled(chain: Chain, rounds: int, tolerance: float) -> Marginals:
    """The fixed point gamma = F(chain, gamma) of `follow`, started from `guessed`.

    Its derivative is that of the fixed point itself, not of the way there (implicit function theorem): with
    J = dF/dgamma, a gradient g on gamma becomes lambda = g + J' lambda, which dF/dchain pulls back to the chain. Its
    series g + J'g + J'J'g + ... is what ever more unrolled rounds would give, and it converges as the rounds do: both
    by the spectral radius of J, below 1 at a maximum that rounds climb to. It needs no more memory than one round.
    The probabilities, and not l, are the point: bounded, so that one tolerance suits all data.
    """
    return _repeat(partial(follow, chain), guessed(chain), rounds, tolerance)


def _settled_forward(chain, rounds, tolerance):
    marginals = settled(chain, rounds, tolerance)
    return marginals, (chain, marginals)


def _settled_backward(rounds, tolerance, kept, gradient):
    chain, marginals = kept
    _, pulled = jax.vjp(follow, chain, marginals)
    adjoint = _repeat(lambda adjoint: gradient + pulled(adjoint)[1], gradient, rounds, tolerance)
    return pulled(adjoint)[:1]


settled.defvjp(_settled_forward, _settled_backward)


def _repeat(step, start, rounds, tolerance):
    """step(step(... start)) until nothing changes by more than `tolerance` of the largest value."""

    def goes_on(carry):
        count, value, change = carry
        return (count < rounds) & (change > tolerance * jnp.abs(value).max())

    def once_more(carry):
        count, value, _ = carry
        after = step(value)
        return count + 1, after, jnp.abs(after - value).max()

    return jax.lax.while_loop(goes_on, once_more, (0, start, jnp.array(jnp.inf, start.dtype)))[1]


class Svae(Model):
    """A structured VAE. Regimes are a shared dynamics and deviations from it, which the first stage leaves out."""

    base: Float[Array, "K K"]
    first_mean: Float[Array, " L"]
    first_noise: DiagonalNoise
    shared: Float[Array, "L N"]
    """[A, B, b], read by [z_{t-1}, u_t, 1]."""
    deviations: Float[Array, "K L N"]
    log_scale: Float[Array, " L"]
    log_scale_deviations: Float[Array, "K L"]
    emission: MlpEmission
    recognition: Mlp
    """[x_t, observed_t] -> where z_t lies, and the logarithm of how far from there."""
    potential_floor: float = eqx.field(static=True)
    options: SvaeOptions = eqx.field(static=True)

    def __init__(self, options: SvaeOptions, shape: Shape, *, key: Key):
        shared_key, deviation_key, emission_key, recognition_key = jax.random.split(key, 4)
        K, L, D = shape.regimes, shape.state_size, shape.channels
        reads = L + shape.controls + 1
        self.options = options
        self.base = shape.stickiness * jnp.eye(K)
        self.first_mean = jnp.zeros(L)
        self.first_noise = DiagonalNoise(1, L, scale=1.0, floor=shape.dynamics_noise_floor)
        wander = WANDER * jax.random.normal(shared_key, (L, reads)) / jnp.sqrt(reads)
        self.shared = jnp.eye(L, reads) + wander
        drifts = options.parting * jax.random.normal(deviation_key, (K, L))
        self.deviations = jnp.zeros((K, L, reads)).at[:, :, -1].set(drifts)
        self.log_scale = jnp.full(L, jnp.log(shape.dynamics_noise_start))
        self.log_scale_deviations = jnp.zeros((K, L))
        noise = DiagonalNoise(1, D, scale=shape.emission_noise_start, floor=shape.emission_noise_floor)
        self.emission = MlpEmission(1, L, D, shape.emission_hidden, noise=noise, key=emission_key)
        self.recognition = self._begun(shape, recognition_key)
        self.potential_floor = shape.emission_noise_floor

    def _begun(self, shape: Shape, key: Key) -> Mlp:
        """Sure of z as the emission is of x and, where both are linear, looking the emission's way back."""
        L, D = shape.state_size, shape.channels
        network = Mlp((2 * D, *shape.embedding_hidden, 2 * L), activation=jnp.tanh, key=key)
        last = network.layers[-1]
        weight = last.weight.at[L:].multiply(WANDER)
        if not shape.embedding_hidden and not shape.emission_hidden:
            back = jnp.linalg.pinv(self.emission.networks.layers[0].weight[0])
            weight = (WANDER * weight).at[:L, :D].add(back)
        bias = jnp.zeros(2 * L).at[L:].set(jnp.log(shape.emission_noise_start))
        return eqx.tree_at(lambda n: (n.layers[-1].weight, n.layers[-1].bias), network, (weight, bias))

    @property
    def regimes(self):
        return len(self.base)

    def chain(self, frames: Frames, knobs: Knobs, lead: Float[Array, "T K"] | None = None) -> Chain:
        """What q(z) q(s) is made of. Before the regimes part, all have the shared dynamics."""
        apart = jnp.where(jnp.asarray(knobs.progress) < self.options.one_regime, 0.0, 1.0)
        size = len(self.first_mean)
        weights = self.shared[None] + apart * self.deviations
        inputs = jnp.concatenate([frames.u, jnp.ones((len(frames.u), 1))], axis=1)
        log_scale = self.log_scale[None] + apart * self.log_scale_deviations
        read = jnp.concatenate([frames.x, frames.observed.astype(frames.x.dtype)], axis=1)
        place, log_distance = jnp.split(jax.vmap(self.recognition)(read), 2, axis=1)
        seen = frames.observed.any(axis=1)[:, None]
        seen_precision = jnp.where(seen, 1 / (self.potential_floor + jnp.exp(2 * log_distance)), 0.0)
        return Chain(
            first_mean=self.first_mean,
            first_variance=self.first_noise.variance[0],
            matrix=weights[:, :, :size],
            offset=jnp.einsum("kln,tn->tkl", weights[:, :, size:], inputs[1:]),
            variance=SMALLEST_VARIANCE + jnp.exp(2 * log_scale),
            seen_precision=seen_precision,
            seen_linear=seen_precision * place,
            log_initial=jax.nn.log_softmax(jnp.zeros(self.regimes)),
            log_transition=jax.nn.log_softmax(self.base, axis=1),
            bonus=bonus_of(lead, knobs, frames.valid, self.regimes),
            valid=frames.valid,
        )

    def terms(self, frames, knobs, lead=None, *, key):
        frames = frames.blanked()
        chain = self.chain(frames, knobs, lead)
        marginals = self._settled(chain)
        blocks = states_given(chain, marginals)
        states = kalman.posterior_of_blocks(blocks)
        log_z = messages.log_normalizer(
            chain.log_initial, chain.log_transition, evidence_of(chain, states), chain.valid
        )
        z = kalman.sample(blocks, key=key)
        log_emission = self.emission.log_prob(frames.x, frames.observed, z)[:, 0]
        elbo = (
            jnp.where(frames.valid, log_emission, 0.0).sum()
            + log_z
            + self._first(states)
            + entropy(blocks, frames.valid)
        )
        return watched(elbo, marginals, frames.valid, guidance=jnp.sum(marginals * chain.bonus))

    def _settled(self, chain: Chain) -> Marginals:
        return settled(chain, self.options.rounds, self.options.tolerance)  # pyright: ignore[reportReturnType]

    def _first(self, states: BlockPosterior) -> Float[Array, ""]:
        """E_q(z)[log p(z_1)]."""
        variance = self.first_noise.variance[0]
        squares = (states.mean[0] - self.first_mean) ** 2 + jnp.diagonal(states.covariance[0])
        return -0.5 * jnp.sum(squares / variance + jnp.log(variance) + LOG_TWO_PI)

    def infer(self, frames: Frames, *, samples: int, key: Key) -> Inference:
        """q(s), its most probable path and the emission at the mean of q(z): nothing is drawn.

        The first frame, into which nothing moved, has the second's regime.
        """
        frames = frames.blanked()
        chain = self.chain(frames, Knobs())
        marginals = self._settled(chain)
        states = kalman.posterior_of_blocks(states_given(chain, marginals))
        potentials = chain.log_initial, chain.log_transition, evidence_of(chain, states), chain.valid
        probabilities = messages.smooth(*potentials).marginals
        path = messages.viterbi(*potentials)
        if len(path) > 1:
            first = frames.valid[1].astype(int)
            probabilities, path = probabilities.at[0].set(probabilities[first]), path.at[0].set(path[first])
        return Inference(probabilities, path, jax.vmap(self.emission.mean)(states.mean)[:, 0])


def entropy(blocks: Blocks, valid: FrameMask) -> Float[Array, ""]:
    """H(q(z)) = 1/2 log |2 pi e J^{-1}| over the valid frames.

    From log Z at h = 0, where no h'J^{-1}h of a million nats swallows the digits of the determinant.
    """
    centred = kalman.posterior_of_blocks(blocks._replace(linear=jnp.zeros_like(blocks.linear)))
    half_size = 0.5 * blocks.linear.shape[1]
    return centred.log_normalizer + half_size * (jnp.sum(valid) - LOG_TWO_PI * jnp.sum(~valid))


def build(options: SvaeOptions, shape: Shape, *, key: Key) -> Svae:
    """With fresh parameters."""
    return Svae(options, shape, key=key)
