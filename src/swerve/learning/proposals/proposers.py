"""Who proposes: asked in turn, the first who has something to say leads all restarts."""

from pathlib import Path

import jax

from swerve.learning.proposals import arhmm, events, proposal
from swerve.learning.proposals.proposal import Asked, Proposals
from swerve.models.arhmm.search import fit_candidates
from swerve.settings.sections import Config


def propose(cache: Path | None, asked: Asked, config: Config, *, strength: float) -> Proposals:
    """Kept in a file, so that an interrupted run need not make them again. `strength` is that of counted events."""
    kept = None if cache is None else proposal.load(cache, asked.wanted)
    if kept is not None:
        return kept
    fits = {count: _fitted(asked, config, count) for count in sorted(set(asked.wanted) - {0})}
    found = events.propose(asked, fits, config.arhmm, config.recipe, strength=strength)
    found = proposal.rounded(found or arhmm.propose(asked, fits))
    if cache is not None:
        proposal.save(cache, asked.wanted, found)
    return found


def _fitted(asked: Asked, config: Config, count: int):
    some = jax.tree.map(lambda leaf: leaf[: config.arhmm.seed_windows], asked.training)
    key = jax.random.fold_in(asked.key, count)
    return fit_candidates(some, asked.held_out, config.arhmm, regimes=count, key=key).candidates
