"""Switching linear systems by variational Laplace-EM: recurrent (rSLDS) and with constant switches (SLDS).

    p(s_t = k | s_{t-1} = j, z_{t-1}) = softmax(R_j + W z_{t-1} + V u_t)_k      (W = V = 0: `slds-em`)
    p(z_t | z_{t-1}, s_t = k)         = N(A_k z_{t-1} + b_k + B_k u_t, Q_k)
    p(x_t | z_t)                      = N(C z_t + d, diag(r^2))

The model is that of Linderman et al. (2017), the inference that of Zoltowski, Pillow and Linderman (2020): q(z) q(s),
where q(s) is exact given q(z), and q(z) is a Gaussian around the mode of E_q(s)[log p(x, z, s)] whose precision is
the curvature there, block tridiagonal over time.

EM becomes a training by gradients in the generalised way. In every step the E-step finds q for the batch with the
parameters held still, and Adam moves the parameters up the bound with q held still. At the optimal q(s) the terms
that hold s add up to the log Z of its chain, whose gradient is that of the expectations.
"""

from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from swerve.inference import messages
from swerve.inference.frames import Frames, Key, LogEvidence, LogTransition
from swerve.models.model import Inference, Model, bonus_of, watched
from swerve.models.snlds.bound import RegimeChain
from swerve.models.snlds.noise import DiagonalNoise, FullNoise
from swerve_lab.rivals import kalman
from swerve_lab.rivals.kalman import LOG_TWO_PI, Blocks, LinearDynamics, LinearEmission, posterior_of_blocks
from swerve_lab.rivals.options import RsldsOptions
from swerve_lab.rivals.shape import Shape
from swerve_lab.rivals.triangles import cholesky, inverse, lower_factor

STEP_SIZES = (1.0, 0.5, 0.25)  # of which a step of Newton takes the best
COUPLING = 0.2  # of the states, in every regime its own: a state that x does not show must move one that it does


class States(NamedTuple):
    """q(z): means and covariances of the frames, `cross_covariance[t]` = Cov(z_{t+1}, z_t), and its entropy."""

    mean: Float[Array, "T L"]
    covariance: Float[Array, "T L L"]
    cross_covariance: Float[Array, "T-1 L L"]
    entropy: Float[Array, ""]

    def pairs(self) -> Float[Array, "steps M M"]:
        """Cov([z_t, z_{t-1}])."""
        before = jnp.concatenate([self.covariance[1:], self.cross_covariance], axis=2)
        after = jnp.concatenate([self.cross_covariance.mT, self.covariance[:-1]], axis=2)
        return jnp.concatenate([before, after], axis=1)


class Rslds(Model):
    """The linear parts, each a matrix, an offset and noise. Without `recurrence` the switches are constant."""

    first_mean: Float[Array, " L"]
    first_noise: DiagonalNoise
    dynamics: Float[Array, "K L L"]
    dynamics_offset: Float[Array, "K L"]
    dynamics_controls: Float[Array, "K L U"]
    dynamics_noise: FullNoise
    emission: Float[Array, "D L"]
    emission_offset: Float[Array, " D"]
    emission_noise: DiagonalNoise
    switching: Float[Array, "K K"]
    recurrence: Float[Array, "K L"] | None
    switching_controls: Float[Array, "K U"] | None
    options: RsldsOptions = eqx.field(static=True)

    @property
    def regimes(self):
        return len(self.switching)

    def terms(self, frames, knobs, lead=None, *, key):
        """The bound is a closed form: no draws, so that `key` has nothing to do."""
        frames = frames.blanked()
        system = self._at(knobs.progress)
        bend = bonus_of(lead, knobs, frames.valid, self.regimes)
        states = jax.lax.stop_gradient(system.infer_states(frames, bend))
        chain = system.regime_chain(frames, states, bend)
        marginals = jax.lax.stop_gradient(messages.smooth(*chain).marginals)
        elbo = messages.log_normalizer(*chain) + system.expected_without_regimes(frames, states) + states.entropy
        return watched(elbo, marginals, frames.valid, guidance=jnp.sum(marginals * bend))

    def infer(self, frames: Frames, *, samples: int, key: Key) -> Inference:
        """q(s), its most probable path and C E[z] + d. No dynamics lead to the first frame: it takes the second's."""
        frames = frames.blanked()
        nothing = jnp.zeros((len(frames.x), self.regimes))
        states = self.infer_states(frames, nothing)
        chain = self.regime_chain(frames, states, nothing)
        probabilities, path = messages.smooth(*chain).marginals, messages.viterbi(*chain)
        if len(path) > 1:
            first = frames.valid[1].astype(int)
            probabilities, path = probabilities.at[0].set(probabilities[first]), path.at[0].set(path[first])
        return Inference(probabilities, path, states.mean @ self.emission.T + self.emission_offset[None])

    def infer_states(self, frames: Frames, bend: LogEvidence) -> States:
        """The E-step: q(z) after some rounds of q(z) given q(s), q(s) given q(z). `bend` adds to the evidence of s.

        A step of Newton from the last mean finds q(z): exactly where z does not drive the switches.
        """
        still = jax.lax.stop_gradient(self)
        mean, chain = still.guess(frames, bend)
        square = jnp.zeros((*mean.shape, mean.shape[1]))
        states = States(mean, square, square[1:], jnp.zeros(()))

        def improve(_, q):
            states, marginals = q
            states = still.newton_step(frames, states.mean, marginals)
            return states, messages.smooth(*still.regime_chain(frames, states, bend)).marginals

        start = states, messages.smooth(*chain).marginals
        return jax.lax.fori_loop(0, self.options.rounds, improve, start)[0]

    def guess(self, frames: Frames, bend: LogEvidence) -> tuple[Float[Array, "T L"], RegimeChain]:
        """Where the E-step starts: K interacting Kalman filters (Blom and Bar-Shalom, 1988).

        Filter k takes each step as if s_t = k, from what the filters together know of z_{t-1} given that: a mixture,
        replaced by one Gaussian. What the filters expect of x_t tells the regimes apart. A q(s) that starts without
        such a guess ends far from the best where a state shows only through how it moves others.
        """
        size = len(self.first_mean)
        noise = jax.vmap(cholesky)(self.dynamics_noise.covariance)
        emission = LinearEmission(self.emission[None], self.emission_offset[None], self.emission_noise.scale)
        no_steps = jnp.zeros((0, size, size)), jnp.zeros((0, size)), jnp.zeros((0, size, size))

        def look(mean, scale, x, seen):
            dynamics = LinearDynamics(mean, scale, *no_steps)
            found = kalman.filter(dynamics, emission, x[None], seen[None], jnp.ones(1, bool))
            return found.mean[0], found.scale[0], found.log_likelihood

        def step(before, frame):
            log_weights, means, scales = before
            x, seen, u, bend = frame
            pushes = self._pushes(means, jnp.broadcast_to(u, (self.regimes, len(u))))
            log_transition = jax.nn.log_softmax(self.switching + pushes, axis=1)
            joint = log_weights[:, None] + log_transition
            arriving = jax.nn.logsumexp(joint, axis=0)
            shares = jnp.exp(joint - arriving[None])

            def move(share, matrix, offset, controls, noise):
                mean = share @ means
                spread = jnp.concatenate([scales, (means - mean[None])[:, :, None]], axis=2)
                spread = jnp.concatenate(list(jnp.sqrt(share)[:, None, None] * spread), axis=1)
                scale = lower_factor(jnp.concatenate([matrix @ spread, noise], axis=1))
                return look(matrix @ mean + offset + controls @ u, scale, x, seen)

            parts = shares.T, self.dynamics, self.dynamics_offset, self.dynamics_controls, noise
            means, scales, log_likelihood = jax.vmap(move)(*parts)
            log_weights = jax.nn.log_softmax(arriving + log_likelihood + bend)
            return (log_weights, means, scales), (log_transition, log_likelihood, jnp.exp(log_weights) @ means)

        mean, scale, _ = look(self.first_mean, jnp.diag(self.first_noise.scale[0]), frames.x[0], frames.observed[0])
        uniform = jax.nn.log_softmax(jnp.zeros(self.regimes))
        first = jax.nn.log_softmax(bend[0]), *(jnp.stack([part] * self.regimes) for part in (mean, scale))
        later = frames.x[1:], frames.observed[1:], frames.u[1:], bend[1:]
        _, (log_transition, evidence, means) = jax.lax.scan(step, first, later)
        evidence = jnp.concatenate([jnp.zeros((1, self.regimes)), evidence]) + bend
        means = jnp.where(frames.valid[:, None], jnp.concatenate([mean[None], means]), 0.0)
        return means, RegimeChain(uniform, log_transition, evidence, frames.valid)

    def newton_step(self, frames: Frames, z: Float[Array, "T L"], marginals: Float[Array, "T K"]) -> States:
        """A Gaussian with the curvature at z, around the z that a step of Newton leads to."""

        def height(z):
            return self.expected_log_joint(frames, z, marginals)

        slope = jax.grad(height)(z)
        found = posterior_of_blocks(self.curvature(frames, z, marginals)._replace(linear=slope))
        moved = z + found.mean
        if self.recurrence is not None:
            tried = z[None] + jnp.array(STEP_SIZES)[:, None, None] * found.mean[None]
            moved = tried[jnp.argmax(jax.vmap(height)(tried))]
        # log |2 pi J^{-1}|^{1/2}, of which padding has its share, and 1/2 for every number that exists.
        log_volume = found.log_normalizer - 0.5 * jnp.sum(slope * found.mean)
        exists = jnp.broadcast_to(frames.valid[:, None], z.shape)
        entropy = log_volume + 0.5 * jnp.where(exists, 1.0, -LOG_TWO_PI).sum()
        return States(moved, found.covariance, found.cross_covariance, entropy)

    def expected_log_joint(
        self, frames: Frames, z: Float[Array, "T L"], marginals: Float[Array, "T K"]
    ) -> Float[Array, ""]:
        """E_q(s)[log p(x, z, s)] as a function of z, up to a constant."""
        total = self._log_looks(frames, z) + jnp.sum(marginals[1:] * self._log_steps(frames, z))
        if self.recurrence is None:
            return total
        pushes = self._pushes(z[:-1], frames.u[1:])
        leaving = jnp.where(frames.valid[1:, None], marginals[:-1], 0.0)
        normalisers = jax.nn.logsumexp(self.switching[None] + pushes[:, None], axis=2)
        return total + jnp.sum(marginals[1:] * pushes) - jnp.sum(leaving * normalisers)

    def curvature(self, frames: Frames, z: Float[Array, "T L"], marginals: Float[Array, "T K"]) -> Blocks:
        """Minus the second derivatives of `expected_log_joint`, the identity in padding.

        log sum exp is convex: each of its terms can only add to the precision.
        """
        size = z.shape[1]
        steps = jnp.einsum("tk,kij->tij", marginals[1:], self._step_precision())
        seen = frames.observed / self.emission_noise.variance
        diagonal = jnp.einsum("td,di,dj->tij", seen, self.emission, self.emission)
        diagonal = diagonal + jnp.where(frames.valid[:, None, None], 0.0, jnp.eye(size)[None])
        diagonal = diagonal.at[0].add(jnp.diag(1 / self.first_noise.variance[0]))
        diagonal = diagonal.at[1:].add(steps[:, :size, :size]).at[:-1].add(steps[:, size:, size:])
        if self.recurrence is not None:
            leaving = jnp.where(frames.valid[1:, None], marginals[:-1], 0.0)
            switches = jax.nn.softmax(self.switching[None] + self._pushes(z[:-1], frames.u[1:])[:, None], axis=2)
            centred = self.recurrence[None, None] - (switches @ self.recurrence)[:, :, None]
            weights = leaving[:, :, None] * switches
            diagonal = diagonal.at[:-1].add(jnp.einsum("tjk,tjkl,tjkm->tlm", weights, centred, centred))
        return Blocks(diagonal, steps[:, :size, size:], jnp.zeros_like(z))

    def regime_chain(self, frames: Frames, states: States, bend: LogEvidence) -> RegimeChain:
        """The potentials of q(s): expectations under q(z), with `bend` added to the evidence. p(s_1) is uniform.

        E[log N(z_t; A_k z_{t-1} + b_k + B_k u_t, Q_k)] is exact. No dynamics lead to the first frame.
        """
        blur = jnp.einsum("kij,tij->tk", self._step_precision(), states.pairs())
        steps = self._log_steps(frames, states.mean) - 0.5 * blur
        evidence = jnp.concatenate([jnp.zeros((1, self.regimes)), steps]) + bend
        uniform = jax.nn.log_softmax(jnp.zeros(self.regimes))
        return RegimeChain(uniform, self._expected_log_transition(frames, states), evidence, frames.valid)

    def expected_without_regimes(self, frames: Frames, states: States) -> Float[Array, ""]:
        """E[log p(x | z) + log p(z_1)]."""
        blur = jnp.einsum("di,tij,dj->td", self.emission, states.covariance, self.emission)
        blur = jnp.sum(frames.observed * blur / self.emission_noise.variance)
        first = jnp.sum(jnp.diag(states.covariance[0]) / self.first_noise.variance[0])
        return self._log_looks(frames, states.mean) - 0.5 * (blur + first)

    def _at(self, progress: Array | float) -> "Rslds":
        """As it is at this time of the training: z and u drive the switches only in the last stage."""
        on = jnp.asarray(progress) >= self.options.recurrent_from
        drivers = jax.tree.map(lambda leaf: jnp.where(on, leaf, 0.0), (self.recurrence, self.switching_controls))
        return replace(self, recurrence=drivers[0], switching_controls=drivers[1])

    def _log_looks(self, frames: Frames, z: Float[Array, "T L"]) -> Float[Array, ""]:
        """log p(x | z) + log p(z_1)."""
        error = frames.x - z @ self.emission.T - self.emission_offset[None]
        looks = jax.vmap(lambda e, seen: self.emission_noise.log_prob(e[None], seen)[0])(error, frames.observed)
        return looks.sum() + self.first_noise.log_prob((z[0] - self.first_mean)[None])[0]

    def _log_steps(self, frames: Frames, z: Float[Array, "T L"]) -> Float[Array, "T-1 K"]:
        """log p(z_t | z_{t-1}, s_t = k)."""
        pushes = jnp.einsum("klu,tu->tkl", self.dynamics_controls, frames.u[1:]) + self.dynamics_offset[None]
        error = z[1:, None] - jnp.einsum("klm,tm->tkl", self.dynamics, z[:-1]) - pushes
        whitening = self._whitening()
        white = jnp.einsum("klm,tkm->tkl", whitening, error)
        log_density = jnp.log(jnp.diagonal(whitening, axis1=1, axis2=2)).sum(axis=1) - 0.5 * z.shape[1] * LOG_TWO_PI
        return log_density[None] - 0.5 * jnp.sum(white**2, axis=2)

    def _whitening(self) -> Float[Array, "K L L"]:
        """F_k^{-1}, with F_k F_k' = Q_k."""
        return jax.vmap(lambda covariance: inverse(cholesky(covariance)))(self.dynamics_noise.covariance)

    def _step_precision(self) -> Float[Array, "K M M"]:
        """[I, -A_k]' Q_k^{-1} [I, -A_k]: minus the second derivatives of log p(z_t | z_{t-1}, k) in [z_t, z_{t-1}]."""
        whitening = self._whitening()
        white = jnp.concatenate([whitening, -whitening @ self.dynamics], axis=2)
        return white.mT @ white

    def _pushes(self, z: Float[Array, "N L"], u: Float[Array, "N U"]) -> Float[Array, "N K"]:
        """W z + V u: what moves the logits of the switches."""
        if self.recurrence is None or self.switching_controls is None:
            return jnp.zeros((len(z), self.regimes))
        return z @ self.recurrence.T + u @ self.switching_controls.T

    def _expected_log_transition(self, frames: Frames, states: States) -> LogTransition:
        """A lower bound on E[log p(s_t = k | s_{t-1} = j, z_{t-1})], exact to second order in z.

        a = R_j + W z + V u is Gaussian. For any weights p, here softmax(E[a]), Jensen's inequality gives
        E[log sum_k exp a_k] = E[p'a] + E[log sum_k exp(a_k - p'a)] <= log sum_k exp(E[a_k] + Var(a_k - p'a) / 2).
        """
        if self.recurrence is None:
            return jax.nn.log_softmax(self.switching)
        logits = self.switching[None] + self._pushes(states.mean[:-1], frames.u[1:])[:, None]
        weights = jax.nn.softmax(logits, axis=2)
        covariance = jnp.einsum("kl,tlm,nm->tkn", self.recurrence, states.covariance[:-1], self.recurrence)
        mixed = weights @ covariance
        variance = jnp.diagonal(covariance, axis1=1, axis2=2)[:, None] - 2 * mixed
        variance = variance + jnp.sum(mixed * weights, axis=2, keepdims=True)
        return logits - jax.nn.logsumexp(logits + 0.5 * variance, axis=2, keepdims=True)


def build(options: RsldsOptions, shape: Shape, *, recurrent: bool, key: Key) -> Rslds:
    """With fresh parameters: z moves slowly, and x is its first coordinates, or a random view of all of them."""
    K, L, D, U = shape.regimes, shape.state_size, shape.channels, shape.controls
    view_key, dynamics_key = jax.random.split(key)
    coupling = COUPLING / jnp.sqrt(L) * jax.random.normal(dynamics_key, (K, L, L))
    view = jnp.eye(D, L) if D <= L else jax.random.normal(view_key, (D, L)) / jnp.sqrt(L)
    return Rslds(
        first_mean=jnp.zeros(L),
        first_noise=DiagonalNoise(1, L, scale=1.0, floor=shape.dynamics_noise_floor),
        dynamics=jnp.eye(L)[None] + coupling,
        dynamics_offset=jnp.zeros((K, L)),
        dynamics_controls=jnp.zeros((K, L, U)),
        dynamics_noise=FullNoise(K, L, scale=shape.dynamics_noise_start, floor=shape.dynamics_noise_floor),
        emission=view,
        emission_offset=jnp.zeros(D),
        emission_noise=DiagonalNoise(1, D, scale=shape.emission_noise_start, floor=shape.emission_noise_floor),
        switching=shape.stickiness * jnp.eye(K),
        recurrence=jnp.zeros((K, L)) if recurrent else None,
        switching_controls=jnp.zeros((K, U)) if recurrent else None,
        options=options,
    )
