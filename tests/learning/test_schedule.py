"""Schedules at the steps where something happens, and the paper's own numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swerve.learning.fit import make_schedule
from swerve.learning.schedule import Schedule, knobs, learning_rate
from swerve.settings.recipes import RECIPES
from swerve.settings.sections import Config, Variant
from swerve.settings.text import with_setting


def rate(schedule, step):
    return float(learning_rate(schedule, jnp.asarray(step)))


def knob(schedule, step):
    return jax.tree.map(float, knobs(schedule, jnp.asarray(step)))


def test_the_rate_warms_up_in_a_line_and_falls_along_a_cosine():
    schedule = Schedule(0.1, 0.02, 0.01, warmup_steps=100.0, cosine_end=300.0)
    expected = {0: 0.02, 50: 0.06, 100: 0.1, 150: 0.01 + 0.045 * (1 + np.cos(np.pi / 4)), 200: 0.055, 300: 0.01}
    for step, value in {**expected, 9_999: 0.01}.items():
        assert rate(schedule, step) == pytest.approx(value, rel=1e-5)


def test_without_an_end_the_rate_stays_flat():
    schedule = Schedule(0.1, 0.02, 0.01, warmup_steps=0.0, cosine_end=np.inf)
    assert [rate(schedule, step) for step in (0, 1, 10**6)] == pytest.approx([0.1] * 3)


def test_nothing_is_bent_by_default():
    assert knob(Schedule(), 0)[:5] == knob(Schedule(), 10**6)[:5] == (1.0, 1.0, 0.0, 0.0, 0.0)


def test_progress_is_the_share_of_the_steps_that_are_over():
    assert [knob(Schedule(steps=200.0), step).progress for step in (0, 50, 200, 900)] == [0.0, 0.25, 1.0, 1.0]


def test_evidence_temperature_and_balance_decay_to_their_ends():
    schedule = Schedule(
        evidence_temperature=10.0, evidence_decay_steps=50.0, balance=1.0, last_balance=0.2, balance_decay_steps=100.0
    )
    for step in (0, 50, 100):
        found = knob(schedule, step)
        assert found.evidence_temperature == pytest.approx(1 + 9 * np.exp(-step / 50))
        assert found.balance == pytest.approx(0.2 + 0.8 * np.exp(-step / 100))
    assert knob(schedule, 10**6)[1:4:2] == pytest.approx((1.0, 0.2))


def test_guidance_is_held_and_then_let_go_in_a_line():
    schedule = Schedule(guidance=20.0, guidance_hold=100.0, guidance_release_steps=50.0)
    found = [knob(schedule, step).guidance for step in (0, 100, 125, 150, 999)]
    assert found == pytest.approx([20.0, 20.0, 10.0, 0.0, 0.0])


@pytest.fixture(scope="module")
def paper():
    return make_schedule(RECIPES["paper"], Variant(), 300_000)


def test_the_papers_learning_rate(paper):
    found = [rate(paper, step) for step in (0, 5_000, 20_000, 100_000)]
    assert found == pytest.approx([1e-5, 1e-3, 1e-5, 1e-5], rel=1e-3)


def test_the_papers_beta_and_tau(paper):
    for step in (0, 25_000, 50_000):
        assert knob(paper, step).uniformity == pytest.approx(1000.0)
    for step in (0, 50_000, 100_000):
        assert knob(paper, step).temperature == pytest.approx(1000.0)
    for passed in (1, 2, 40):
        factor = 0.975**passed
        assert knob(paper, 50_000 + 500 * passed).uniformity == pytest.approx(1000 * factor, rel=1e-4)
        assert knob(paper, 100_000 + 500 * passed).temperature == pytest.approx(1000 * factor, rel=1e-4)
    assert knob(paper, 300_000).temperature == 1.0


def test_a_variant_departs_from_the_recipe_where_it_says_so():
    recipe = RECIPES["default"]
    central = make_schedule(recipe, Variant(), 1000)
    other = make_schedule(recipe, Variant(learning_rate=0.5, balance=0.7, guidance=0.0), 1000)
    changed = {name for name in Schedule._fields if getattr(central, name) != getattr(other, name)}
    assert changed == {"learning_rate", "balance", "guidance"}
    assert float(other.learning_rate) == 0.5


@pytest.mark.parametrize("name", [*RECIPES])
def test_a_longer_run_anneals_more_slowly(name):
    short, long = (make_schedule(RECIPES[name], Variant(), steps) for steps in (10_000, 20_000))
    for step in (0, 2_000, 5_000, 9_999):
        assert knob(short, step) == pytest.approx(knob(long, 2 * step), rel=1e-4)


def test_wide_layers_learn_more_slowly_but_not_in_the_papers_recipe():
    plain, wide = (make_schedule(RECIPES["default"], Variant(), 1000, widest_layer=width) for width in (64, 256))
    assert float(wide.learning_rate) == pytest.approx(float(plain.learning_rate) / 4)
    assert float(plain.learning_rate) == pytest.approx(RECIPES["default"].learning_rate)
    paper = make_schedule(RECIPES["paper"], Variant(), 1000, widest_layer=256)
    assert float(paper.learning_rate) == pytest.approx(1e-3)
    assert with_setting(Config(), "model.emission_hidden=[16, 256]").widest_layer == 256
