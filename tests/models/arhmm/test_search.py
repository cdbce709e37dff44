"""Seeds: which AR-HMMs guide the restarts."""

import dataclasses

import jax
import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from tiny import drifts

from swerve.learning.preparation import prepare
from swerve.models.arhmm import search as seeds
from swerve.models.arhmm.search import (
    Candidate,
    agreement,
    fit_candidates,
    most_trustworthy_first,
    shortest_regime,
    simplest_that_pays,
)
from swerve.settings.sections import ArHmmConfig, Config, TrainingConfig
from swerve_lab.boards import bouncing_ball, dubins


def candidate(lags, held_out, labels):
    """One with this likelihood per frame."""
    return Candidate(None, held_out * np.sum(np.asarray(labels) >= 0, axis=1), lags, 0, np.asarray(labels))


LONG = np.repeat([[0, 1, 0, 1]], 25, axis=1)
SHORT = np.where(np.arange(100) % 25 < 8, 1, 0)[None]
BRIEF = np.where(np.arange(100) % 25 < 3, 1, 0)[None]


def test_shortest_regime_is_the_mean_duration_of_the_briefest():
    assert shortest_regime(SHORT) == 8
    assert shortest_regime(np.array([[0, 0, 0, 1, 1, 0, -1, -1], [1, 1, 1, 1, 0, 0, 0, 0]])) == pytest.approx(8 / 3)


def test_the_likelihood_decides_but_lags_that_straddle_switches_come_last():
    one, two = [candidate(1, 1.0, LONG)], [candidate(2, 2.0, LONG), candidate(2, 1.5, SHORT)]
    four, eight = [candidate(4, 3.5, BRIEF)], [candidate(8, 3.0, SHORT), candidate(8, 2.9, LONG)]
    ranked = most_trustworthy_first(eight + four + one + two)
    assert [(one.lags, one.held_out) for one in ranked] == [(2, 2), (2, 1.5), (1, 1), (4, 3.5), (8, 3), (8, 2.9)]


def test_the_fewest_lags_come_first_that_windows_can_not_tell_from_the_best():
    long = np.tile(LONG, (16, 1))
    waver = np.where(np.arange(16) % 2, 1.0, -1.0) * long.shape[1]
    one, two, four = candidate(1, 2.9, long), candidate(2, 2.95, long), candidate(4, 3.0, long)
    uncertain = two._replace(windows=two.windows + waver)
    assert [one.lags for one in most_trustworthy_first([one, two, four])] == [4, 2, 1]
    assert [one.lags for one in most_trustworthy_first([one, uncertain, four])] == [2, 4, 1]
    short = candidate(8, 3.5, np.tile(SHORT, (16, 1)))
    assert [one.lags for one in most_trustworthy_first([short, one, uncertain, four])] == [2, 4, 1, 8]


def test_restarts_agree_whatever_they_call_their_regimes():
    two, four = (
        [candidate(2, 1.0, LONG), candidate(2, 1.5, 1 - LONG)],
        [candidate(4, 3.0, SHORT), candidate(4, 2.0, LONG)],
    )
    assert agreement(two) == 1 and agreement(four) < 0.5 and agreement(two[:1]) == 0


def test_a_consensus_comes_first_and_reads_the_lags_whose_restarts_agree_most():
    """Two drifts; of the candidates with two lags one has lost its second regime."""
    config = Config(arhmm=ArHmmConfig(lags=(1, 2), features=(0,), restarts=2, max_iterations=20))
    prepared = prepare(drifts(), config)
    fitted, _ = fit_candidates(prepared.training, prepared.validation, config.arhmm, regimes=2, key=jax.random.key(0))
    lost = [one._replace(labels=np.where(one.labels > 0, 0, one.labels)) for one in fitted if one.lags == 2][:1]
    candidates = [one for one in fitted if one.lags == 1] + lost
    first, *others = seeds.with_consensus(candidates, prepared.training, prepared.validation, config.arhmm)
    assert first.lags == 1 and {one.lags for one in others} == {1}
    assert first.held_out == others[0].held_out and first.model is not others[0].model
    found, best = (seeds.labels_of(one.model, prepared.validation) for one in (first, others[0]))
    assert adjusted_rand_score(found[found >= 0], best[best >= 0]) > 0.9


def test_a_regime_that_hardly_occurs_says_nothing_about_lags():
    stray = np.repeat(LONG, 10, axis=1)
    stray[0, 500] = 2
    assert shortest_regime(stray) > 200


def test_lags_that_straddle_do_not_decide_whether_bending_pays():
    straight, bent = candidate(1, 3.0, LONG), candidate(1, 4.5, LONG)._replace(features=20)
    assert simplest_that_pays([candidate(8, 5.0, SHORT), straight, bent])[0] is bent
    bent = candidate(1, 3.0, LONG)._replace(features=20)
    assert simplest_that_pays([candidate(8, 5.0, SHORT)._replace(features=20), straight, bent])[0] is straight


@pytest.mark.slow
@pytest.mark.parametrize(
    ("board", "regimes", "lags"),
    [(bouncing_ball.generate(150, seed=7), 2, (1, 2)), (dubins.positions(150, seed=7, noise=0.03), 3, (4, 8))],
)
def test_lags_are_chosen_to_fit_the_noise_without_straddling_the_switches(board, regimes, lags):
    config = dataclasses.replace(Config(), training=TrainingConfig(window=100))
    prepared = prepare(board.series(), config)
    arhmm = ArHmmConfig(features=(0,))
    fits = seeds.fit_candidates(prepared.training, prepared.validation, arhmm, regimes=regimes, key=jax.random.key(0))
    assert fits.candidates[0].lags in lags and not fits.config.channels_as_one
