"""Regimes that bend: the features they read, and when they are worth it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swerve import api
from swerve.choosing.rule import WORTH
from swerve.choosing.scores import score
from swerve.data.windows import to_frames
from swerve.learning.fit import fit_by_search
from swerve.learning.preparation import prepare
from swerve.models import arhmm
from swerve.models.arhmm.search import Candidate, random_walk, simplest_that_pays
from swerve.models.arhmm.waves import fit_waves
from swerve.settings.sections import Config
from swerve.settings.text import with_setting
from swerve.types import Recording
from swerve_lab.boards import catalog as boards


def test_features_are_uncorrelated_with_each_other_and_with_what_a_linear_map_sees():
    x = np.random.default_rng(0).normal(size=(3000, 2)).astype(np.float32)
    features = np.asarray(fit_waves(x, 10)(jnp.asarray(x)))
    seen = np.concatenate([x, np.ones((3000, 1)), features], axis=1)
    products = seen.T @ seen / 3000
    np.testing.assert_allclose(products[3:, :3], 0, atol=1e-3)
    np.testing.assert_allclose(products[3:, 3:], np.eye(10), atol=1e-3)


def test_features_too_faint_to_trust_are_silent():
    x = np.random.default_rng(0).normal(size=(500, 1)).astype(np.float32) / 100
    features = np.asarray(fit_waves(x, 10)(jnp.asarray(x)))
    assert (features == 0).all(axis=0).sum() >= 8
    assert np.isfinite(features).all()


def test_there_may_be_nothing_to_fit_them_to():
    assert np.isfinite(np.asarray(fit_waves(np.zeros((0, 2), np.float32), 4)(jnp.ones((3, 2))))).all()


@pytest.mark.slow
def test_curved_regimes_are_found_where_straight_ones_fail():
    """Two swings in opposite senses along the same curve: their best linear maps are the same."""
    rng = np.random.default_rng(0)
    x, s = np.zeros((40, 100, 1)), np.zeros((40, 100), int)
    for n in range(40):
        x[n, 0] = rng.uniform(-1, 1)
        for t in range(1, 100):
            s[n, t] = (t // 25 + n) % 2
            bend = np.cos(3 * x[n, t - 1]) * (1 if s[n, t] else -1)
            x[n, t] = 0.5 * x[n, t - 1] + 0.8 * bend + 0.05 * rng.normal()
        s[n, 0] = s[n, 1]
    frames = to_frames(boards.Board("bends", x, x, s, ("x",)).series(), length=100)
    frames = jax.tree.map(jnp.asarray, frames)
    accuracy = {}
    for features in (0, 10):
        options = arhmm.ArHmmOptions(regimes=2, features=features, restarts=4)
        fitted = arhmm.fit(frames, options, key=jax.random.key(0))
        labels = np.asarray(jax.vmap(lambda one, m=fitted.model: arhmm.smooth(m, one))(frames)).argmax(-1)
        accuracy[features] = score(list(labels), list(s)).as_dict()["frame_f1"]
    assert accuracy[10] > 97
    assert accuracy[0] < 90


@pytest.mark.parametrize("windows", [1, 16])
@pytest.mark.parametrize(("gain", "features"), [(0.9 * WORTH, 0), (1.2 * WORTH, 20)])
def test_bending_must_pay(gain, features, windows):
    """A share of what all gain over a random walk."""
    labels = np.tile(np.repeat([[0, 1]], 20, axis=1), (windows, 1))
    each, walk = np.full(windows, 40.0), np.zeros(windows)
    straight, bent = Candidate(None, each, 1, 0, labels), Candidate(None, (1 + gain) * each, 1, 20, labels)
    worse = Candidate(None, 0.5 * each, 2, features, labels)
    assert simplest_that_pays([worse, bent, straight], walk)[0].features == features
    assert any(one is worse for one in simplest_that_pays([worse, bent, straight], walk))
    assert simplest_that_pays([worse, bent, straight])[0] is bent, "a sure gain"
    assert simplest_that_pays([]) == []


def test_a_random_walk_is_told_by_the_steps_of_the_training_windows():
    rng = np.random.default_rng(0)
    walks = [np.cumsum(rng.normal(size=(50, 2)) * [0.5, 2.0], axis=0) for _ in range(40)]
    walks[3][20:30, 0] = np.nan
    training, validation = (
        jax.tree.map(jnp.asarray, to_frames([Recording(one) for one in some], length=60))
        for some in (walks[8:], walks[:8])
    )
    entropy = 0.5 * np.log(2 * np.pi * np.e * np.array([0.25, 4.0])).sum()
    found = random_walk(training, validation)
    assert found.shape == (8,)
    assert found.sum() / np.asarray(validation.valid).sum() == pytest.approx(-entropy, rel=0.05)


@pytest.mark.slow
def test_the_ball_needs_no_bending_and_without_lags_there_is_none():
    config = with_setting(with_setting(Config(kind="arhmm"), "arhmm.restarts=2"), "arhmm.lags=[0, 1]")
    prepared = prepare(boards.find("bouncing-ball").generate(60, seed=1).series(), config)
    assert {one.features for one in fit_by_search(prepared, config).models} == {0}


@pytest.mark.slow
def test_a_model_that_bends_is_saved_with_its_waves(tmp_path):
    series = boards.find("fields").generate(6, seed=3).series()
    settings = ["arhmm.features=[6]", "arhmm.lags=[1]", "arhmm.restarts=1", "arhmm.max_iterations=3"]
    fitted = api.fit(series, 2, model="arhmm", settings=settings, out=tmp_path / "run")
    assert isinstance(fitted.model, arhmm.ArHmm) and fitted.model.features == 6
    loaded = api.load(tmp_path / "run")
    for one, other in zip(fitted.segment(series), loaded.segment(series), strict=True):
        np.testing.assert_array_equal(one.probabilities, other.probabilities)
