"""Time budgets: what a fit takes is computed from measured rates, so that no test here looks at a clock."""

import dataclasses

import numpy as np
import pytest
from tiny import SETTINGS

from swerve import api
from swerve.errors import InputError
from swerve.learning import budget
from swerve.learning.budget import Rates, choose, in_words, measure, parse_duration, plan, seconds_of, updates
from swerve.learning.loop import Plan, Rung
from swerve.learning.preparation import prepare
from swerve.runs import fit as run
from swerve_lab.boards import bouncing_ball

CONFIG = api.make_config(3)
RATES = Rates(seeds=20.0, start=1.0, compilation=10.0, step=0.05, look=0.2, at_once=2)
WINDOWS = 20

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def recordings():
    return bouncing_ball.generate(5, seed=3).series()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("2h", 7200), ("600", 600), ("1h30m", 5400), ("1.5h", 5400), (" 5 M ", 300)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "10 minutes", "-5m", "m", "5m1h", "1e3", "nan", "inf"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(InputError, match="looks like 90s, 10m, 2h or 1h30m"):
        parse_duration(text)


def test_no_time_at_all_is_refused():
    with pytest.raises(InputError, match="longer than nothing"):
        parse_duration("0m")


def test_durations_in_words():
    assert [in_words(s) for s in (7.0, 89.0, 600.0, 7000.0, 9000.0)] == [
        "7 s",
        "89 s",
        "10 min",
        "117 min",
        "2 h 30 min",
    ]


def test_updates_count_restarts_in_rounds_until_a_rung_drops_them():
    steps = Plan(1000, report_every=100, rungs=(Rung(0.7, 0.5),))
    assert updates(steps, 4, at_once=2) == 2 * 700 + 1 * 300
    assert updates(steps, 4, at_once=4) == 1000
    assert updates(steps, 1, at_once=2) == 1000
    assert updates(Plan(250, report_every=100), 3, at_once=1) == 750


def test_the_parts_of_a_fit_add_up():
    config = api.make_config(3, settings=("training.steps=1000", "training.report_every=100"))
    training = (2 * 700 + 300) * 0.05 + 2 * 10 * 0.2
    merging = 2 * 10.0 + 0.25 * 1000 * 2 * 0.05
    assert seconds_of(config, RATES, WINDOWS) == pytest.approx(2 * 20 + 4 + 10 + training + merging)
    assert seconds_of(config, RATES, 2) == pytest.approx(2 * 20 + 4 + 10 + training)  # too few windows to merge
    unguided = dataclasses.replace(config, recipe=dataclasses.replace(config.recipe, guidance=0.0))
    assert seconds_of(unguided, RATES, 2) == pytest.approx(4 + 10 + training)


def test_a_fit_that_has_the_time_is_left_as_it_is():
    enough = seconds_of(CONFIG, RATES, WINDOWS)
    assert choose(CONFIG, RATES, 1.1 * enough, WINDOWS) == CONFIG


def test_less_time_means_fewer_steps_then_fewer_restarts_then_nothing():
    whole = seconds_of(CONFIG, RATES, WINDOWS)
    chosen = [choose(CONFIG, RATES, share * whole, WINDOWS) for share in (0.9, 0.6, 0.4, 0.25)]
    amounts = [(one.training.restarts, one.training.steps) for one in chosen if one is not None]
    assert amounts == sorted(amounts, reverse=True)
    assert amounts[0][0] == 4
    assert 3000 <= amounts[0][1] < 6000
    assert amounts[-1][0] < 4
    assert choose(CONFIG, RATES, 60.0, WINDOWS) is None


@pytest.mark.parametrize("seconds", np.geomspace(100, 2000, 12))
def test_what_is_chosen_fits_and_looks_often_enough(seconds):
    chosen = choose(CONFIG, RATES, seconds, WINDOWS)
    if chosen is None:
        assert seconds < 200
        return
    assert seconds_of(chosen, RATES, WINDOWS) <= seconds
    training = chosen.training
    assert training.steps % training.report_every == 0
    assert training.steps >= 900
    rounds = -(-training.restarts // RATES.at_once)
    assert rounds * training.report_every * RATES.step <= 0.06 * seconds
    assert (chosen.kind, chosen.model, chosen.recipe) == (CONFIG.kind, CONFIG.model, CONFIG.recipe)


class Clock:
    """Time passes only when somebody says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def measured(monkeypatch):
    """Instead of measuring, which takes a second of the clock."""
    clock = Clock()

    def instead(prepared, config, clock, until):
        clock.now += 1.0
        return RATES

    monkeypatch.setattr(budget, "measure", instead)
    return clock


def test_the_plan_says_what_a_whole_fit_takes_and_what_fits(recordings, measured):
    prepared = prepare(recordings, CONFIG)
    planned = plan(prepared, CONFIG, 3600.0, clock=measured)
    assert planned.config == CONFIG
    assert planned.words.startswith("as asked for: 4 restarts of 6000 steps, about ")
    assert planned.words.endswith("this fits")
    planned = plan(prepared, CONFIG, 500.0, clock=measured)
    assert planned.config.kind == "snlds"
    assert planned.config.training.steps < 6000
    assert f"what fits: {budget.amount(planned.config)}, about" in planned.words


def test_where_no_training_fits_there_are_arhmms(recordings, measured):
    prepared = prepare(recordings, CONFIG)
    planned = plan(prepared, CONFIG, 100.0, clock=measured)
    assert planned.config.kind == "arhmm"
    assert "the least: 1 restart of " in planned.words
    assert measured.now == 1.0
    assert plan(prepared, CONFIG, 20.0, clock=measured).config.kind == "arhmm"
    assert measured.now == 1.0  # nothing was measured
    assert plan(prepared, api.make_config(3, "arhmm"), 3600.0, clock=measured).config.kind == "arhmm"
    with pytest.raises(InputError, match="too short for --model rslds"):
        plan(prepared, api.make_config(3, "rslds"), 20.0, clock=measured)


def test_video_has_no_plan_yet(recordings, measured):
    prepared = dataclasses.replace(prepare(recordings, CONFIG), image=(4, 4))
    with pytest.raises(InputError, match="video"):
        plan(prepared, CONFIG, 3600.0, clock=measured)


@pytest.mark.slow
def test_rates_are_measured(recordings):
    config = api.make_config(2, settings=SETTINGS)
    prepared = prepare(recordings, config)
    rates = measure(prepared, config)
    assert rates is not None
    assert all(value > 0 for value in dataclasses.astuple(rates))

    clock = Clock()
    assert measure(prepared, config, clock=clock, until=-1.0) is None


def test_where_measuring_takes_too_long_there_are_arhmms(recordings, monkeypatch):
    monkeypatch.setattr(budget, "measure", lambda *arguments, **options: None)
    planned = plan(prepare(recordings, CONFIG), CONFIG, 100.0)
    assert planned.config.kind == "arhmm"
    assert planned.words == "measuring alone takes over 40 s: AR-HMMs instead"


def test_a_fit_in_a_moment_is_an_arhmm_that_resumes_as_such(recordings, tmp_path):
    words: list[str] = []
    config = api.make_config(2, settings=SETTINGS)
    fitted = run.fit(recordings, config, out=tmp_path / "run", time_budget=5.0, on_plan=words.append)
    assert fitted.config.kind == "arhmm"
    assert words == ["5 s are too short to train a snlds: AR-HMMs instead"]
    again = run.fit(recordings, config, out=tmp_path / "run", resume=True, time_budget=5.0)
    assert again.config == fitted.config
    assert run.load(tmp_path / "run").config.kind == "arhmm"


@pytest.mark.slow
def test_training_stops_when_time_is_up_and_goes_on_with_the_same_settings(recordings, tmp_path, monkeypatch):
    config = api.make_config(2, settings=SETTINGS)
    smaller = dataclasses.replace(config, training=dataclasses.replace(config.training, restarts=1))
    planned = budget.Planned(smaller, "one restart", closing=1000.0)  # time is up before it began
    monkeypatch.setattr(budget, "plan", lambda *arguments, **options: planned)
    stopped = run.fit(recordings, config, out=tmp_path / "run", time_budget=100.0)
    assert not stopped.finished
    assert stopped.config == smaller
    resumed = run.fit(recordings, config, out=tmp_path / "run", resume=True)
    assert resumed.finished
    assert resumed.config == smaller
    assert resumed.history.step == [10, 20]
