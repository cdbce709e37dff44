"""What an AR-HMM reads where values are missing."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swerve.choosing.scores import score
from swerve.data.windows import split_validation, to_frames
from swerve.inference.bridges import BRIDGED, KNOWN
from swerve.learning.preparation import prepare
from swerve.models import arhmm
from swerve.models.arhmm import search as seeds
from swerve.models.arhmm.gaps import bridged, carried, lags_known
from swerve.settings.sections import ArHmmConfig, Config, TrainingConfig
from swerve.types import Recording
from swerve_lab.boards import catalog as boards
from swerve_lab.boards.damage import Damage


def frames_of(x):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), to_frames([Recording(np.asarray(x, float))]))


def curve(missing, length=20):
    """A straight line and a parabola, of which the parabola loses some values."""
    t = np.arange(length, dtype=float)
    x = np.stack([t, 0.1 * t**2], axis=1)
    x[list(missing), 1] = np.nan
    return x


@pytest.mark.parametrize("missing", [[7], [7, 8], [7, 8, 9], [4, 9, 10]])
def test_short_gaps_are_bridged_as_if_nothing_was_missing(missing):
    filled = bridged(frames_of(curve(missing)), jnp.zeros(2), 1)
    np.testing.assert_allclose(filled.x, curve([]), atol=1e-4)
    assert filled.known.all() and not filled.observed.all()


def test_neighbours_that_are_missing_too_leave_the_chord():
    filled = bridged(frames_of(curve([6, 8, 10])), jnp.zeros(2), 1)
    assert float(filled.x[8, 1]) == pytest.approx((7**2 + 9**2) / 20, abs=1e-4)


def test_a_longer_gap_is_crossed_on_a_line_and_not_known():
    x = curve(range(7, 8 + KNOWN))
    filled = bridged(frames_of(x), jnp.zeros(2), 1)
    np.testing.assert_allclose(filled.x[6:12, 1], np.linspace(3.6, 12.1, 6), rtol=1e-5)
    np.testing.assert_array_equal(filled.known, ~np.isnan(x))


@pytest.mark.parametrize("missing", [range(7, 8 + BRIDGED), range(3), range(57, 60)])
def test_the_longest_gaps_and_the_ends_are_carried_forward(missing):
    x = curve(missing, length=60)
    filled, plain = (fill(frames_of(x), jnp.full(2, -1.0), 1) for fill in (bridged, carried))
    np.testing.assert_array_equal(filled.x, plain.x)
    np.testing.assert_array_equal(filled.known, ~np.isnan(x))


def test_without_gaps_nothing_is_filled_and_all_but_the_first_frame_tells():
    frames = frames_of(curve([]))
    for fill in (bridged, carried):
        filled = fill(frames, jnp.zeros(2), 3)
        np.testing.assert_array_equal(filled.x, frames.x)
        assert filled.tells[1:].all() and not filled.tells[0].any()
        assert fill(frames, jnp.zeros(2), 0).tells.all()


def test_a_value_tells_if_the_lags_of_its_own_channel_are_known():
    known = np.ones((8, 2), bool)
    known[3, 0] = False
    told = np.asarray(lags_known(jnp.asarray(known), 2))  # of the frames 2 to 7
    assert told[:, 0].tolist() == [True, True, False, False, True, True] and told[:, 1].all()


def test_a_channel_that_is_never_seen_silences_no_other():
    x = curve(range(20))
    filled = bridged(frames_of(x), jnp.zeros(2), 2)
    assert filled.tells[1:, 0].all() and not filled.tells[:, 1].any()


def test_a_likelihood_never_looks_ahead():
    """p(x_1..x_t) is the same whatever comes later; the bridged one is another number where there are gaps."""
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.normal(size=(60, 2)), axis=0)
    x[rng.random(x.shape) < 0.2] = np.nan
    frames = jax.tree.map(jnp.asarray, to_frames([Recording(x)]))
    options = arhmm.ArHmmOptions(regimes=2, lags=2, restarts=1, max_iterations=5)
    model = arhmm.fit(frames, options, key=jax.random.key(0)).model
    evidence = arhmm.log_evidence(model, carried(frames_of(x), model.start_mean, 2))
    early = arhmm.log_evidence(model, carried(frames_of(x[:30]), model.start_mean, 2))
    np.testing.assert_allclose(evidence[:30], early, rtol=1e-5, atol=1e-5)
    one = frames_of(x)
    assert abs(arhmm.log_likelihood(model, one) - arhmm.bridged_likelihood(model, one)) > 1


def test_where_much_is_missing_only_few_lags_are_tried():
    rng = np.random.default_rng(0)
    whole = np.cumsum(rng.normal(size=(100, 2)), axis=0)
    gappy = np.where(rng.random(whole.shape) < 0.1, np.nan, whole)
    some, none = (jax.tree.map(jnp.asarray, to_frames([Recording(x)])) for x in (gappy, whole))
    assert seeds.lags_to_try(ArHmmConfig(), none) == [1, 2, 4, 8]
    assert seeds.lags_to_try(ArHmmConfig(), some) == [1, 2]
    assert seeds.lags_to_try(ArHmmConfig(lags=(4, 8)), some) == [4]


def test_regimes_are_found_although_a_fifth_of_the_frames_and_a_tenth_of_the_cells_are_missing():
    board = boards.find("dubins-positions-0.01").generate(80, seed=101)
    damaged = board.damaged(Damage(0.2, 0.1), seed=101)
    config = dataclasses.replace(Config(), training=TrainingConfig(window=100))
    prepared = prepare(damaged.series(), config)
    settings = ArHmmConfig(lags=(4,), features=(0,), restarts=3)
    fits = seeds.fit_candidates(prepared.training, prepared.validation, settings, regimes=3, key=jax.random.key(0))
    known, _ = split_validation(board.series(), config.training.validation_share, seed=config.seed)
    found = seeds.labels_of(fits.candidates[0].model, prepared.training)
    assert score(list(found), [one.s for one in known]).as_dict()["frame_f1"] > 85
