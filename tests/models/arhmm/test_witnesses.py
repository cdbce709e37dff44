"""Channels that err together, and what is done about them."""

import dataclasses

import jax
import numpy as np
import pytest

from swerve.learning.fit import fit_by_search
from swerve.learning.preparation import prepare
from swerve.models import arhmm
from swerve.models.arhmm import search as seeds
from swerve.runs import fit as run
from swerve.runs.loading import load
from swerve.settings.recipes import with_recipe
from swerve.settings.sections import ArHmmConfig, Config
from swerve.types import Recording

CHANNELS = 6
SMALL = ArHmmConfig(lags=(1,), features=(0,), restarts=2, max_iterations=20)


def drifting(error, *, missing=0.0, recordings=12, frames=200):
    """Every channel drifts up or down in turn, with `error(rng)` of its own or shared."""
    rng, series = np.random.default_rng(0), []
    for n in range(recordings):
        s = (np.arange(frames) // 40 + n) % 2
        x = np.zeros((frames, CHANNELS))
        for t in range(1, frames):
            x[t] = 0.9 * x[t - 1] + (2 * s[t] - 1) * np.linspace(-0.1, 0.1, CHANNELS) + 0.1 * error(rng)
        x[rng.random(x.shape) < missing] = np.nan
        series.append(Recording(x, s=s, name=str(n)))
    return series


def two_drifts(error, **options):
    return prepare(drifting(error, **options), Config())


def alone(rng):
    return rng.normal(size=CHANNELS)


def all_louder(rng):
    return np.exp(rng.normal()) * rng.normal(size=CHANNELS)


def all_pushed(rng):
    return np.sqrt(0.8) * rng.normal() + np.sqrt(0.2) * rng.normal(size=CHANNELS)


def a_glitch_at_times(rng):
    error = rng.normal(size=CHANNELS)
    error[rng.integers(CHANNELS)] += 30 * (rng.random() < 0.01)
    return error


def found_in(prepared, config=SMALL):
    options = dataclasses.replace(config, as_one_from=0.0)
    fits = seeds.fit_candidates(
        prepared.training, prepared.validation, options, regimes=2, key=jax.random.key(0)
    ).candidates
    return arhmm.joint_errors(fits[0].model, prepared.training)


@pytest.mark.parametrize(
    ("prepared", "least", "most"),
    [
        (two_drifts(alone), 0.7, 1.3),
        (two_drifts(alone, missing=0.2), 0.7, 1.4),
        (two_drifts(a_glitch_at_times), 0.7, 1.6),
        (two_drifts(all_louder), 3.0, 9.0),
        (two_drifts(all_pushed), 2.0, 6.0),
    ],
    ids=["alone", "with gaps", "with outliers", "louder together", "pushed together"],
)
def test_one_where_every_channel_errs_on_its_own_and_more_where_they_err_together(prepared, least, most):
    assert least < found_in(prepared) < most


def test_full_noise_knows_what_channels_share():
    pushed = two_drifts(all_pushed)
    full = found_in(pushed, dataclasses.replace(SMALL, covariance="full"))
    assert 0.7 < full < 1.3 < 2 < found_in(pushed)


def test_a_single_channel_can_not_err_together_with_another():
    series = [Recording(np.random.default_rng(0).standard_t(2, size=(400, 1)), name="0")]
    assert found_in(prepare(series, Config())) == 1.0


def test_channels_that_err_together_count_as_one_and_those_that_do_not_are_left_alone():
    notes = []
    config = dataclasses.replace(
        Config(kind="arhmm"), arhmm=SMALL, model=dataclasses.replace(Config().model, regimes=2)
    )
    together = fit_by_search(two_drifts(all_louder), config, on_note=notes.append)
    assert together.config.arhmm.channels_as_one and together.config.arhmm.consensus
    assert together.models[0].temperature == CHANNELS
    assert len(notes) == 1 and "err together" in notes[0]
    apart = fit_by_search(two_drifts(alone), config, on_note=notes.append)
    assert apart.config == config and apart.models[0].temperature == 1 and len(notes) == 1
    off = dataclasses.replace(config, arhmm=dataclasses.replace(SMALL, as_one_from=0.0))
    assert fit_by_search(two_drifts(all_louder), off).config == off


def test_without_a_consensus_no_model_has_seen_the_held_out_part():
    prepared, config = two_drifts(all_louder), dataclasses.replace(Config(kind="arhmm"), arhmm=SMALL)
    found = fit_by_search(prepared, config, unseen=True)
    again = np.asarray(seeds.window_likelihoods(found.models[0], prepared.validation))
    np.testing.assert_allclose(found.windows[0], again, rtol=1e-6)


def test_a_run_tells_that_channels_count_as_one_and_keeps_it(tmp_path):
    series = drifting(all_louder)
    config = dataclasses.replace(
        Config(kind="arhmm"), arhmm=SMALL, model=dataclasses.replace(Config().model, regimes=2)
    )
    fitted = run.fit(series, config, out=tmp_path / "run")
    assert any("err together" in one.problem for one in fitted.trust.warnings)
    again = load(tmp_path / "run")
    assert again.config.arhmm.channels_as_one and again.model.temperature == CHANNELS
    for one, other in zip(fitted.segment(series), again.segment(series), strict=True):
        np.testing.assert_array_equal(one.labels, other.labels)


def test_a_consensus_is_judged_by_the_best_restart_that_has_not_seen_the_held_out_part():
    prepared = two_drifts(all_louder)
    config = dataclasses.replace(
        Config(kind="arhmm"), arhmm=SMALL, model=dataclasses.replace(Config().model, regimes=2)
    )
    fits = fit_by_search(prepared, config)
    fitted = run._fit_one(prepared, config, None, run._Hears(*[lambda *told: False] * 5))
    unseen = np.asarray(seeds.window_likelihoods(fits.models[1], prepared.validation))
    np.testing.assert_allclose(fitted.windows, unseen, rtol=1e-6)
    assert fitted.held_out == pytest.approx(unseen.sum() / np.asarray(prepared.validation.valid).sum(), rel=1e-5)


def test_single_frames_that_break_a_law_are_no_joint_errors(monkeypatch):
    monkeypatch.setattr(seeds, "straddles", lambda group: True)
    config = dataclasses.replace(Config(kind="arhmm"), arhmm=SMALL)
    assert fit_by_search(two_drifts(all_louder), config).config == config


def test_many_channels_are_not_asked(monkeypatch):
    monkeypatch.setattr(seeds, "MOST_JOINT", CHANNELS - 1)
    config = dataclasses.replace(Config(kind="arhmm"), arhmm=SMALL)
    assert fit_by_search(two_drifts(all_louder), config).config == config


def test_when_the_time_is_up_what_has_been_fitted_is_kept():
    config = dataclasses.replace(Config(kind="arhmm"), arhmm=SMALL)
    assert fit_by_search(two_drifts(all_louder), config, should_stop=lambda: True).config == config


def test_what_a_person_has_set_stays_as_it_is():
    usual = ArHmmConfig().for_joint_errors()
    assert usual == with_recipe(Config(), "many-channels").arhmm
    assert dataclasses.replace(ArHmmConfig(), lags=(4,)).for_joint_errors().lags == (4,)
