"""Our own system: q(z | x) proposes states, the regimes are marginalised exactly."""

import jax
import jax.numpy as jnp

from swerve import messages
from swerve.model.snlds import Snlds
from swerve.objective import regime_chain, sequence_terms
from swerve.posterior import Posterior
from swerve.system import AbstractSystem, Inference, Knobs
from swerve.types import Frames, Key


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
