"""Exact inference over the regimes of one sequence, in log space.

    p(s, evidence) = pi[s_1] B_1[s_1] prod_t A_t[s_{t-1}, s_t] B_t[s_t]

Every function takes `(log_initial, log_transition, log_evidence, mask)`. Transitions are indexed [from, to];
a constant (K, K) transition is never repeated over time. A frame whose mask is False is padding: an identity
transition that enters no sum, whatever its evidence and the transition into it hold. Padding comes last.

`begin`, `onward`, `smooth_between`, `best_onward` and `trace_back` do the same for a stretch of a longer sequence, from
one border to the next: a whole sequence in one go, or in any number of stretches, takes the same steps.
"""

from swerve.inference.messages.marginals import (
    Expectations,
    Filtered,
    Smoothed,
    expectations,
    filter,
    log_normalizer,
    smooth,
)
from swerve.inference.messages.paths import sample, viterbi
from swerve.inference.messages.stretches import begin, best_onward, onward, smooth_between, trace_back

__all__ = [
    "Expectations",
    "Filtered",
    "Smoothed",
    "begin",
    "best_onward",
    "expectations",
    "filter",
    "log_normalizer",
    "onward",
    "sample",
    "smooth",
    "smooth_between",
    "trace_back",
    "viterbi",
]
