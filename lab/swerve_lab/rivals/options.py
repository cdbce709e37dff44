"""Settings that the systems of others have of their own."""

from dataclasses import dataclass

from swerve.settings.limits import at_least


@dataclass(frozen=True)
class CompileOptions:
    """Settings of its own."""

    segments: int = at_least(1, 4)
    """M, of every window. Fewer are found where the last ones are left empty, or neighbours have the same code."""
    window: int = at_least(2, 50)
    """Frames that are segmented together."""
    mean_length: float | None = at_least(1.0, None)
    """Frames that a segment is expected to last; without it, M equal parts of the window."""
    temperature: float = at_least(1e-3, 1.0)
    """Of relaxed boundaries and codes, at the start of training."""
    last_temperature: float = at_least(1e-3, 0.1)
    """At its end."""
    divergence_weight: float = at_least(0.0, 0.1)
    """Of both KL terms in training, as its authors have it; in the bound it is 1."""


@dataclass(frozen=True)
class GumbelOptions:
    """Settings of its own."""

    first_temperature: float = at_least(1e-3, 1.0)
    """tau when training starts."""
    last_temperature: float = at_least(1e-3, 0.3)
    """tau from `anneal` on."""
    anneal: float = at_least(0.0, 0.8)
    """Share of the training in which tau falls, by the same factor at every step."""
    hidden: int = at_least(1, 32)
    """Units of the hidden layer of g."""


@dataclass(frozen=True)
class KvaeOptions:
    """Settings of its own."""

    code_size: int | None = at_least(1, None)
    """Numbers that stand for a frame; as many as the state has unless told, but at most one per channel."""
    network_size: int = at_least(1, 32)
    """Units of the LSTM that weighs the systems."""
    uniform_until: float = at_least(0.0, 0.1)
    """Share of the training in which all systems have the same weight, so that code and dynamics come first."""


@dataclass(frozen=True)
class RsldsOptions:
    """Settings of its own."""

    rounds: int = at_least(1, 6)
    """Of the E-step: a step of Newton for q(z), then the exact q(s)."""
    recurrent_from: float = at_least(0.0, 0.6)
    """Share of the training after which z drives the switches; until then the model is an SLDS that an AR-HMM leads."""


@dataclass(frozen=True)
class SvaeOptions:
    """Settings of its own."""

    one_regime: float = at_least(0.0, 0.2)
    """Share of the steps in which all regimes move alike, as one; then they part."""
    parting: float = at_least(0.0, 0.1)
    """How far the regimes' b_k, and nothing else of them, then lie apart."""
    rounds: int = at_least(1, 10)
    """At most so often do q(z) and q(s) follow each other."""
    tolerance: float = at_least(0.0, 1e-2)
    """They have settled when no probability of a regime changes by more than this."""
