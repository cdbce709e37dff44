"""The training run: who goes on, who is chosen, what happens when restarts diverge, and stopping half-way."""

from dataclasses import replace

import equinox as eqx
import numpy as np
import pytest
from test_step import (
    BATCH,
    POISON,
    STEPS,
    held_out,
    quick_compiles,  # noqa: F401
    same,
    toy_data,
    toy_restart,
    toy_state,
)

from swerve.choosing.rule import FEWEST_WINDOWS
from swerve.errors import InputError
from swerve.learning import loop
from swerve.learning.loop import Plan, Rung, TrainingDivergedError, choose
from swerve.learning.restarts import count, pick, stack
from swerve.learning.step import HeldOut, TrainingLog, advance

REPORTS = 4
PLAN = Plan(REPORTS * STEPS, BATCH, STEPS, rungs=(Rung(0.5, 0.5),))
SEEDS = (0, 1, 2, 3)
NO_LOG = TrainingLog(*np.zeros((len(TrainingLog._fields), 1)))


def with_nan(state):
    broken = eqx.tree_at(lambda m: m.initial.means, state.system.model, replace_fn=lambda leaf: leaf * np.nan)
    return state._replace(system=replace(state.system, model=broken))


def train(plan=PLAN, broken=(), poisoned=(), seeds=SEEDS, **options):
    states = [with_nan(toy_state(seed)) if seed in broken else toy_state(seed) for seed in seeds]
    restarts = [toy_restart(seed, int(POISON * (seed in poisoned)), learning_rate=0.01 * (1 + seed)) for seed in seeds]
    return loop.train(plan, stack(states), stack(restarts), toy_data(), held_out(), **options)


@pytest.fixture(scope="module")
def uninterrupted():
    reports = []
    return train(on_report=reports.append), reports


def test_a_rung_drops_the_restarts_with_the_lowest_bounds(uninterrupted):
    trained, _ = uninterrupted
    before = train(plan=replace(PLAN, steps=2 * STEPS, rungs=()))
    favourite = choose(before.held_out)
    by_bound = sorted(SEEDS, key=lambda r: (r != favourite, -trained.history.bound[1][r]))
    assert trained.alive == sorted(by_bound[:2])
    assert count(trained.systems) == 2
    assert set(trained.history.retired) == {str(r) for r in SEEDS if r not in trained.alive}


def test_history_is_none_where_a_restart_was_dropped(uninterrupted):
    trained, _ = uninterrupted
    assert trained.history.step == [STEPS * (1 + i) for i in range(REPORTS)]
    for row, rest in zip(trained.history.bound, (SEEDS, SEEDS, trained.alive, trained.alive), strict=True):
        assert [r for r, value in enumerate(row) if value is not None] == list(rest)


def test_the_chosen_restart_is_returned(uninterrupted):
    trained, _ = uninterrupted
    position = choose(trained.held_out)
    assert trained.chosen == trained.alive[position]
    assert same(trained.system, pick(trained.systems, position))
    assert trained.finished


WINDOWS = 16
UNCERTAIN = 0.5  # differences between the windows of two restarts: up and down by this


def judged(bounds, in_use, durations):
    """Restarts of which the first one's windows differ from those of the others by UNCERTAIN, this way and that."""
    bounds = np.array(bounds, float)
    windows = np.tile(bounds[:, None], WINDOWS)
    windows[0] += UNCERTAIN * np.where(np.arange(WINDOWS) % 2, 1.0, -1.0)
    ones, counts = np.ones_like(bounds), np.array(in_use, float)
    return HeldOut(bounds, ones, np.array(durations, float), ones, counts, windows)


ERROR = UNCERTAIN / np.sqrt(WINDOWS - 1)
EQUAL, BETTER = 3.0 + 0.9 * ERROR, 3.0 + 1.1 * ERROR


@pytest.mark.parametrize(
    ("bounds", "in_use", "durations", "expected"),
    [
        ([1.0, 3.0, 2.0], [2, 4, 2], [9.0, 9.0, 9.0], 1),
        ([3.0, EQUAL, 1.0], [2, 4, 2], [9.0, 9.0, 9.0], 0),
        ([3.0, BETTER, 1.0], [2, 4, 2], [9.0, 9.0, 9.0], 1),
        ([3.0, EQUAL, 1.0], [3, 3, 2], [9.0, 5.0, 99.0], 0),
        ([3.0, EQUAL, 1.0], [2, 2, 2], [9.0, 8.0, 9.0], 1),
        ([3.0, EQUAL, 1.0], [1, 4, 2], [9.0, 5.0, 9.0], 1),
        ([3.0, EQUAL, 1.0], [1, 1, 2], [9.0, 8.0, 9.0], 1),
        ([3.0, np.nan, 1.0], [2, 0, 2], [9.0, np.nan, 9.0], 0),
    ],
    ids=[
        "best bound",
        "fewest regimes",
        "a difference that windows agree on",
        "longest segments",
        "equally calm",
        "not a single one",
        "but if all are",
        "not finite",
    ],
)
def test_the_best_bound_is_chosen_and_the_simplest_of_equals(bounds, in_use, durations, expected):
    assert choose(judged(bounds, in_use, durations)) == expected


def test_a_few_windows_can_not_call_two_restarts_equal():
    equal = judged([3.0, EQUAL, 1.0], [2, 4, 2], [9.0] * 3)
    assert choose(equal) == 0
    assert choose(equal._replace(windows=equal.windows[:, : FEWEST_WINDOWS - 1])) == 1


def test_reports_tell_how_it_stands(uninterrupted):
    trained, reports = uninterrupted
    assert [r.step for r in reports] == trained.history.step
    assert [len(r.alive) for r in reports] == [4, 2, 2, 2]
    assert reports[-1].alive[reports[-1].best] == trained.chosen
    assert any("went on" in message for message in reports[1].messages)
    assert all(r.steps_per_second > 0 for r in reports)


def test_restarts_do_not_influence_each_other(uninterrupted):
    trained, _ = uninterrupted
    alone = train(seeds=(trained.chosen,))
    assert same(alone.system, trained.system)


def test_stopping_and_going_on_ends_at_the_same_bits(uninterrupted, tmp_path):
    whole, _ = uninterrupted
    path = tmp_path / "training.safetensors"
    for reached in (1, 3, 4):  # before the rung, after it, and at the end
        polls = iter([False, True]) if reached == 3 else iter([True])
        part = train(checkpoint=path, should_stop=lambda polls=polls: next(polls))
        assert len(part.history.step) == reached
        assert part.finished == (reached == REPORTS)
    assert same(part.systems, whole.systems)
    assert same(part.system, whole.system)
    assert (part.chosen, part.alive) == (whole.chosen, whole.alive)
    unlike = {"seconds": 0.0, "elapsed": []}
    assert replace(part.history, **unlike) == replace(whole.history, **unlike)
    assert sorted(whole.history.elapsed) == whole.history.elapsed
    assert len(whole.history.elapsed) == len(whole.history.step)


def test_a_finished_run_is_not_trained_again(uninterrupted, tmp_path):
    whole, _ = uninterrupted
    path, reports = tmp_path / "training.safetensors", []
    train(checkpoint=path)
    again = train(checkpoint=path, on_report=reports.append)
    assert same(again.system, whole.system)
    assert again.chosen == whole.chosen
    assert same(again.held_out, whole.held_out)
    assert not reports


def test_a_checkpoint_of_another_number_of_restarts_is_refused(tmp_path):
    path = tmp_path / "training.safetensors"
    train(Plan(STEPS, BATCH, STEPS), checkpoint=path)
    with pytest.raises(InputError, match=r"training\.safetensors.* 4 restarts, not 2"):
        train(seeds=(0, 1), checkpoint=path)


@pytest.mark.parametrize("trouble", ["broken", "poisoned"])
def test_a_diverged_restart_is_retired_and_the_others_go_on(monkeypatch, trouble):
    """Its bound is NaN from the start, or every one of its updates is skipped."""
    monkeypatch.setattr(loop, "DIVERGED_AFTER", STEPS)
    reports = []
    trained = train(Plan(2 * STEPS, BATCH, STEPS, ()), **{trouble: (1,)}, on_report=reports.append)
    assert trained.alive == [0, 2, 3]
    assert trained.chosen != 1
    assert trained.history.retired == {"1": "diverged"}
    assert trained.history.bound[-1][1] is None
    assert trained.history.skipped == [0, STEPS, 0, 0]
    assert "restart 1 diverged" in reports[0].messages[0]


def test_when_all_diverge_the_error_gives_advice_and_the_file_is_there(tmp_path):
    path = tmp_path / "training.safetensors"
    for _ in range(2):  # and again when one tries to go on
        with pytest.raises(TrainingDivergedError, match=r"learning_rate.*training\.safetensors"):
            train(broken=SEEDS, checkpoint=path)
        assert path.is_file()


def test_a_rung_never_drops_the_last_restart():
    trained = train(Plan(2 * STEPS, BATCH, STEPS, (Rung(0.5, 0.1), Rung(0.5, 0.1))), seeds=(0, 1))
    assert len(trained.alive) == 1


@pytest.mark.parametrize("steps", [3, STEPS, 2 * STEPS + 1])
def test_a_run_ends_at_its_last_step(monkeypatch, steps):
    """Whatever lies between reports: the last one comes at the end."""
    monkeypatch.setattr(loop.axis, "advance_all", lambda states, *_, **__: (states, NO_LOG))
    trained = train(Plan(steps, BATCH, STEPS), seeds=(0,))
    assert trained.history.step[-1] == steps
    assert trained.finished


def test_a_second_run_compiles_nothing(uninterrupted):
    before = advance._cache_size()
    train()
    assert advance._cache_size() == before
