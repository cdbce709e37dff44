"""Surplus regimes: merged where the data do not tell them apart, kept where they do."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swerve.data.windows import to_frames
from swerve.learning import pruning as surplus
from swerve.learning.fit import in_words, make_schedule
from swerve.learning.pruning import Merge, cheapest_merges, look_closely, shares_in_use, without_surplus
from swerve.learning.restarts import stack
from swerve.learning.step import Restart, TrainingData, advance, start
from swerve.models.model import Weighed
from swerve.models.snlds.maker import build_collapsed
from swerve.models.snlds.model import Snlds
from swerve.settings.sections import Config, Variant
from swerve.types import Recording

LENGTH, STEPS, CALLS = 60, 400, 4
SMALL = dataclasses.replace(
    Config(),
    model=dataclasses.replace(
        Config().model, regimes=3, state_size=1, dynamics="linear", switching_hidden=(4,), initial_components=1
    ),
    posterior=dataclasses.replace(Config().posterior, encoder_size=4, causal_size=4),
)


def drifting(drifts, count, seed):
    """One channel that moves by one of the drifts at a time; regimes change every 20 frames."""
    rng = np.random.default_rng(seed)
    s = np.repeat([rng.permutation(len(drifts))[[0, 1, -1]] for _ in range(count)], 20, axis=1)
    steps = np.asarray(drifts)[s] + 0.02 * rng.normal(size=s.shape)
    x = np.cumsum(steps, axis=1)[..., None] + 0.02 * rng.normal(size=(*s.shape, 1))
    return jax.tree.map(jnp.asarray, to_frames([Recording(one) for one in x], length=LENGTH)), s


def trained(frames, labels):
    """A system that was taught these labels."""
    system = build_collapsed(
        SMALL.model, SMALL.posterior, channels=1, controls=0, stickiness=3.0, allowed=3, key=jax.random.key(0)
    )
    first = jnp.asarray(0)
    restart = Restart(make_schedule(SMALL.recipe, Variant(), STEPS), jax.random.key(1), guide=first, source=first)
    data = TrainingData(stack([frames]), jnp.asarray(np.eye(3)[labels][None], jnp.float32))
    state, _ = advance(start(system), data, restart, steps=STEPS, batch_size=16)
    return state.system


def simplified(system, training, validation, **options):
    (found,) = without_surplus(
        [system],
        [0],
        stack([training]),
        stack([validation]),
        make_schedule(SMALL.recipe, Variant(), STEPS),
        calls=CALLS,
        steps_per_call=STEPS // CALLS,
        batch_size=16,
        key=jax.random.key(2),
        **options,
    )
    return found


@pytest.fixture(scope="module")
def two_names():
    """A system that calls every other downward drift by another name, and frames of two drifts."""
    training, s = drifting((0.2, -0.2), 80, seed=0)
    validation, _ = drifting((0.2, -0.2), 40, seed=1)
    return trained(training, np.where((s == 1) & (np.arange(80)[:, None] % 2 == 0), 2, s)), training, validation


@pytest.mark.slow
def test_two_names_for_one_motion_become_one(two_names):
    system, training, validation = two_names
    assert np.count_nonzero(shares_in_use(look_closely(system, validation))) == 3
    calls = []
    found = simplified(system, training, validation, on_call=lambda done, _: calls.append(done))
    assert [merge.accepted for merge in found.merges] == [True]
    assert calls == [0, 1, 2, 3]
    assert found.merges[0].dropped in (1, 2)
    assert np.count_nonzero(shares_in_use(look_closely(found.system, validation))) == 2


@pytest.mark.slow
def test_three_motions_stay_three():
    training, s = drifting((0.2, -0.2, 0.0), 80, seed=0)
    validation, _ = drifting((0.2, -0.2, 0.0), 40, seed=1)
    system = trained(training, s)
    calls = []
    found = simplified(system, training, validation, on_call=lambda done, _: calls.append(done))
    assert [merge.accepted for merge in found.merges] == [False]
    assert calls == [0], "merges that are far off are given up early"
    assert found.merges[0].change < -3 * found.merges[0].error
    assert found.system is system


def test_the_cheapest_merge_is_that_of_regimes_with_the_same_evidence():
    regimes = np.eye(3)[[[0, 0, 0, 1, 1, 2]]]
    evidence = np.zeros((1, 6, 3))
    evidence[0, 3:5, 0], evidence[0, 5, 0], evidence[0, 5, 1] = -9.0, -1.0, -5.0
    windows = Weighed(np.zeros(1), regimes, evidence)
    assert cheapest_merges(windows) == [(0, 2), (1, 2), (0, 1)]
    two = Weighed(np.zeros(1), np.eye(3)[[[0, 0, 1]]], np.zeros((1, 3, 3)))
    assert cheapest_merges(two) == []


@pytest.mark.slow
def test_too_few_windows_and_a_stop_merge_nothing(two_names):
    system, training, validation = two_names
    few = jax.tree.map(lambda leaf: leaf[:7], validation)
    assert simplified(system, training, few).merges == []
    stopped = simplified(system, training, validation, should_stop=lambda: True)
    assert stopped.merges == []
    assert stopped.system is system


def test_a_merge_is_told_in_words():
    assert in_words(Merge(0, 2, -0.001, 0.002, accepted=True)).startswith("regimes 0 and 2 merged")
    assert "kept apart before all steps" in in_words(Merge(0, 2, -0.5, 0.002, accepted=False, given_up=True))
    assert "kept apart: as one, the held-out bound changes by -0.100" in in_words(
        Merge(0, 2, -0.1, 0.002, accepted=False)
    )


def called(name) -> Snlds:
    """A system that is nothing but a name."""
    system = object.__new__(Snlds)
    object.__setattr__(system, "model", name)
    return system


def test_merges_are_given_up_once_those_of_every_owner_are_far_off(monkeypatch):
    frames, _ = drifting((0.2, -0.2), 4, seed=0)
    systems = [called(name) for name in ("first", "first merged", "second", "second merged")]
    trials = [surplus._Trial(i // 2, 0, (0, 1) if i % 2 else None, one, None) for i, one in enumerate(systems)]

    def given_up(*bounds):
        per_frame = dict(zip((one.model for one in systems), bounds, strict=True))
        monkeypatch.setattr(
            surplus, "_bounds", lambda system, frames: np.full(len(frames.valid), LENGTH * per_frame[system.model])
        )
        return surplus._all_hopeless(trials, systems, stack([frames]))

    assert given_up(1.0, 0.6, 5.0, 4.6)
    assert not given_up(1.0, 0.8, 5.0, 4.6)
    assert not given_up(1.0, 0.6, 5.0, 4.8)


def test_a_merge_that_was_given_up_or_is_not_finite_is_never_accepted(monkeypatch):
    validation, _ = drifting((0.2, -0.2), 9, seed=0)
    bounds = {
        "before": [0.0, 0.0, 0.0],
        "merged": [-30.0, 9.0, 9.0],
        "surely worse": [-1.0, -1.1, -1.0],
        "lost": [-np.inf, 0.0, 0.0],
        "wild": [0.0, np.inf, 0.0],
    }
    monkeypatch.setattr(
        surplus, "look_closely", lambda system, _: Weighed(np.tile(bounds[system.model], 3), None, None)
    )

    def accepted(name, **options):
        before, merged = called("before"), called(name)
        trial = surplus._Trial(0, 0, (0, 1), merged, None)
        trials = [(trial._replace(pair=None), before), (trial, merged)]
        return surplus._judge(before, trials, validation, **options)[0].accepted

    assert accepted("merged", given_up=False)
    assert not accepted("merged", given_up=True)
    assert not accepted("surely worse", given_up=False)
    assert not accepted("lost", given_up=False)
    assert not accepted("wild", given_up=False)
