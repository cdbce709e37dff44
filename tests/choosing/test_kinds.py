"""Which model wins, by how much, and in what units."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from swerve.choosing import kinds as selection
from swerve.data.windows import Standardizer, to_frames
from swerve.types import Recording

LENGTHS = np.full(20, 50)
NOTHING = np.zeros(20)
SECONDS = {"arhmm": 1.0, "snlds": 60.0}


def chosen(arhmm, snlds, lengths=LENGTHS, jacobian=NOTHING):
    return selection.select({"arhmm": arhmm, "snlds": snlds}, lengths, SECONDS, jacobian=jacobian)


def noise(scale=1.0):
    return scale * np.random.default_rng(0).standard_normal(20)


def test_the_clearly_better_model_wins_and_says_by_how_much():
    found = chosen(np.zeros(20), 50 * 0.3 + noise())
    assert found["chosen"] == "snlds"
    behind, best = found["candidates"]
    assert (behind["verdict"], best["verdict"]) == ("worse", "chosen")
    assert behind["behind"] == pytest.approx(-0.3, abs=0.02)
    assert 0 < behind["error"] < 0.01
    assert f"better than the AR-HMM by {-behind['behind']:.3f} +- {behind['error']:.3f} nats" in found["reason"]
    assert found["windows"] == 20


def test_of_models_that_can_not_be_told_apart_the_simplest_wins():
    gain = noise(5.0)
    found = chosen(np.zeros(20), gain - gain.mean() + 0.5)
    assert found["chosen"] == "arhmm"
    assert [one["verdict"] for one in found["candidates"]] == ["chosen", "as good, less simple"]
    assert "less than one standard error" in found["reason"]


def test_the_simpler_model_may_be_the_better_one():
    found = chosen(15 + noise(), np.zeros(20))
    assert found["chosen"] == "arhmm"
    assert "better than the SNLDS" in found["reason"]


def test_few_windows_call_nothing_equal_and_say_so():
    found = chosen(np.zeros(3), np.array([1.0, -1.0, 0.5]), np.full(3, 50), np.zeros(3))
    assert found["chosen"] == "snlds"
    assert "weak reason" in found["reason"]
    assert chosen(np.zeros(1), np.ones(1), np.full(1, 50), np.zeros(1))["chosen"] == "snlds"


def test_a_model_without_a_finite_bound_loses():
    assert chosen(np.zeros(20), np.full(20, np.nan))["chosen"] == "arhmm"


def test_numbers_are_in_the_units_of_the_data():
    """log p of x itself, missing values and padding left out, against scipy."""
    x = np.array([[1.0, 50.0], [2.0, np.nan], [4.0, 70.0]])
    standardizer = Standardizer(np.array([2.0, 60.0]), np.array([0.5, 20.0]))
    frames = to_frames(standardizer.apply_to([Recording(x)]), length=5)
    frames = type(frames)(*(jnp.asarray(part) for part in frames))
    ours = np.where(frames.observed, norm.logpdf(np.asarray(frames.x)), 0.0).sum()
    theirs = np.nansum(norm.logpdf(x, standardizer.mean, standardizer.scale))
    assert ours + selection.data_units(standardizer, frames)[0] == pytest.approx(theirs, abs=1e-4)
