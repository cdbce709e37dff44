"""Regimes that the data do not need: merge two, train on, keep the simpler model if held-out windows allow it.

A merge starts from labels: the frames of both regimes guide one of them, the other may no longer be used. The same
model without the merge is trained as long beside it, so that a merge gains nothing by the training alone
(docs/decisions/0014).
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from swerve.choosing.rule import FEWEST_WINDOWS, paired_change, simplest
from swerve.choosing.use import in_use
from swerve.inference.frames import Frames, Key
from swerve.learning import restarts as axis
from swerve.learning.proposals import merged
from swerve.learning.schedule import Schedule
from swerve.learning.step import Restart, TrainingData, for_every_sequence, start
from swerve.models.model import Model, Weighed

PAIRS = 3  # merges tried at a time, those that cost least before any training
HOPELESS = 0.3  # nats per frame that a merge lacks after some of its steps and will not make good


@jax.jit
def look_closely(system: Model, frames: Frames) -> Weighed:
    """Held-out windows, one by one."""
    with jax.default_matmul_precision("highest"):
        return for_every_sequence(lambda one, key: system.weigh(one, key=key), frames)


class Merge(NamedTuple):
    """What became of one attempt to do without a regime."""

    kept: int
    dropped: int
    change: float
    """Of the held-out bound, in nats per frame, against the same model trained on without the merge."""
    error: float
    """Its standard error over held-out windows."""
    accepted: bool
    given_up: bool = False
    """Judged before all its steps, for being far off."""


class Simplified(NamedTuple):
    """A system without surplus regimes, and every merge that was judged on the way."""

    system: Model
    merges: list[Merge]


class _Trial(NamedTuple):
    owner: int
    source: int
    pair: tuple[int, int] | None
    """Kept and dropped; None for the model as it is."""
    system: Model
    guide: Float[np.ndarray, "N T K"]


def without_surplus(
    systems: Sequence[Model],
    sources: Sequence[int],
    training: Frames,
    validation: Frames,
    schedule: Schedule,
    *,
    calls: int,
    steps_per_call: int,
    batch_size: int,
    key: Key,
    on_merge: Callable[[int, Merge], None] = lambda owner, merge: None,
    on_call: Callable[[int, int], None] = lambda done, calls: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[Simplified]:
    """Merges regimes of every system, one pair after the other, until each further merge would cost too much.

    A merge may lower the held-out bound by one standard error of the paired difference. Two regimes always stay:
    a single one segments nothing. All systems are trained side by side, each on the frames of its source. Once
    `should_stop` says so, what was found so far is returned; with too few held-out windows, that is nothing.
    """
    systems = list(systems)
    merges: list[list[Merge]] = [[] for _ in systems]

    def so_far() -> list[Simplified]:
        return [Simplified(*both) for both in zip(systems, merges, strict=True)]

    unfinished = list(range(len(systems))) if validation.x.shape[1] >= FEWEST_WINDOWS else []
    size, round_number = 0, 0
    while unfinished:
        trials = [
            trial
            for owner in unfinished
            for trial in _trials(owner, sources[owner], systems[owner], training, validation)
        ]
        if not trials:
            break
        size = max(size, len(trials))
        states, restarts, data = _as_restarts(trials, size, training, schedule, jax.random.fold_in(key, round_number))
        trained, given_up = [], False
        for done in range(calls):
            on_call(done, calls)
            if should_stop():
                return so_far()
            states, _ = axis.advance_all(states, data, restarts, steps=steps_per_call, batch_size=batch_size)
            trained = [axis.pick(states.system, i) for i in range(len(trials))]
            given_up = done + 1 < calls and _all_hopeless(trials, trained, validation)
            if given_up:
                break
        accepted = []
        for owner in dict.fromkeys(trial.owner for trial in trials):
            own = [(t, system) for t, system in zip(trials, trained, strict=True) if t.owner == owner]
            merge, system = _judge(systems[owner], own, axis.pick(validation, sources[owner]), given_up=given_up)
            on_merge(owner, merge)
            merges[owner].append(merge)
            if merge.accepted:
                systems[owner] = system
                accepted.append(owner)
        unfinished, round_number = accepted, round_number + 1
    return so_far()


def shares_in_use(windows: Weighed) -> Float[np.ndarray, " K"]:
    """The share of the frames that each regime holds by label, 0 for one that hardly occurs."""
    regimes = np.asarray(windows.regimes)
    labels = regimes.argmax(axis=-1)[regimes.any(axis=-1)]
    share = np.bincount(labels, minlength=regimes.shape[-1]) / len(labels)
    return np.where(in_use(share), share, 0.0)


def _trials(owner: int, source: int, system: Model, training: Frames, validation: Frames) -> list[_Trial]:
    """The model as it is, and its most promising merges; nothing where there is nothing to merge."""
    pairs = cheapest_merges(look_closely(system, axis.pick(validation, source)))
    if not pairs:
        return []
    labels = np.asarray(look_closely(system, axis.pick(training, source)).regimes)
    as_it_is = _Trial(owner, source, None, system, labels)
    return [as_it_is, *(_merged(as_it_is, pair) for pair in pairs)]


def cheapest_merges(windows: Weighed) -> list[tuple[int, int]]:
    """(kept, dropped) of pairs of regimes, those first whose frames lose least evidence; the rarer one is dropped."""
    share = shares_in_use(windows)
    if np.count_nonzero(share) <= 2:
        return []
    used = sorted(np.flatnonzero(share).tolist(), key=lambda k: -share[k])
    pairs = itertools.combinations(used, 2)
    regimes, evidence = (np.asarray(part) for part in (windows.regimes, windows.evidence))

    def cost(pair: tuple[int, int]) -> float:
        kept, dropped = pair
        return float(np.sum(regimes[..., dropped] * (evidence[..., dropped] - evidence[..., kept])))

    return sorted(pairs, key=cost)[:PAIRS]


def _merged(as_it_is: _Trial, pair: tuple[int, int]) -> _Trial:
    system = as_it_is.system.forbid(pair[1])
    assert system is not None
    return as_it_is._replace(pair=pair, system=system, guide=merged.propose(as_it_is.guide, *pair).preferences)


def _as_restarts(trials: list[_Trial], size: int, training: Frames, schedule: Schedule, key: Key):
    """Every trial as a restart. An accelerator gets as many as in the first round, so that it compiles once."""
    if jax.default_backend() != "cpu":
        trials = [*trials, *[trials[-1]] * (size - len(trials))]
    keys = [jax.random.fold_in(key, trial.owner) for trial in trials]  # the same batches and noise, merged or not
    restarts = [
        Restart(schedule, key, jnp.asarray(i), jnp.asarray(trial.source))
        for i, (trial, key) in enumerate(zip(trials, keys, strict=True))
    ]
    guides = jnp.stack([jnp.asarray(trial.guide) for trial in trials])
    states = axis.stack([start(trial.system) for trial in trials])
    return states, axis.stack(restarts), TrainingData(training, guides)


def _all_hopeless(trials: list[_Trial], trained: list[Model], validation: Frames) -> bool:
    """Whether no merge of any owner comes near its owner's model, trained as long without one."""
    bounds: dict[int, list[float]] = {}
    for trial, system in zip(trials, trained, strict=True):
        frames = axis.pick(validation, trial.source)
        per_frame = _bounds(system, frames).sum() / np.asarray(frames.valid).sum()
        bounds.setdefault(trial.owner, []).append(per_frame)
    return all(max(merged) < as_it_is - HOPELESS for as_it_is, *merged in bounds.values())


def _bounds(system: Model, frames: Frames) -> Float[np.ndarray, " N"]:
    """Of every window, in nats; as low as can be where it is not finite."""
    bound = np.asarray(look_closely(system, frames).bound, float)
    return np.where(np.isfinite(bound), bound, -np.inf)


def _judge(
    before: Model, trials: list[tuple[_Trial, Model]], validation: Frames, *, given_up: bool
) -> tuple[Merge, Model]:
    """The merge with the highest held-out bound against the better of the model before and after more training.

    The rule decides, by errors alone: what a true regime gains may be less than a share of all (docs/decisions/0031).
    """
    lengths = np.asarray(validation.valid).sum(axis=1)
    (_, control), *merges = trials
    reference = max((_bounds(one, validation) for one in (before, control)), key=lambda bound: bound.sum())
    merged = [_bounds(system, validation) for _, system in merges]
    best = int(np.argmax([bound.sum() for bound in merged]))
    as_good = simplest([merged[best], reference], lengths, order=[0, 1]).chosen == 0
    change, error = paired_change(merged[best], reference, lengths)
    trial, system = merges[best]
    assert trial.pair is not None
    return Merge(*trial.pair, change, error, accepted=as_good and not given_up, given_up=given_up), system
