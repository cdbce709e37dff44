"""Agreement of restarts, consensus, how regimes occur, and warnings with remedies."""

import json

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from swerve import trust
from swerve.trust import Trust, Warned

TWO = [np.repeat([0, 1, 0], [10, 20, 10]), np.repeat([1, 0], 15)]


def swapped(labels):
    return [1 - one for one in labels]


def test_other_names_are_no_disagreement():
    found = trust.agreement([TWO, swapped(TWO), TWO], 3)
    assert found.mean == pytest.approx(1.0)
    assert found.sure == 1.0
    assert len(found.pairwise) == 3


def test_agreement_is_the_mean_adjusted_rand_index_of_pairs():
    rng = np.random.default_rng(0)
    restarts = [[rng.integers(0, 3, 200)] for _ in range(3)]
    restarts[1][0][:150] = restarts[0][0][:150]
    found = trust.agreement(restarts, 3)
    pairs = [(0, 1), (0, 2), (1, 2)]
    expected = [adjusted_rand_score(restarts[a][0], restarts[b][0]) for a, b in pairs]
    np.testing.assert_allclose(found.pairwise, expected, atol=1e-9)
    assert found.mean == pytest.approx(np.mean(expected))


def test_a_single_restart_agrees_with_nobody():
    found = trust.agreement([TWO], 2)
    assert found.mean is None
    assert found.sure is None


def test_halves_of_one_regime_are_no_disagreement():
    """A restart whose surplus regime was not merged is read through the chosen one's regimes."""
    split = [np.where((one == 1) & (np.arange(len(one)) % 2 == 0), 2, one) for one in TWO]
    assert trust.naming(split, TWO, 3).tolist() == [0, 1, 1]
    assert trust.agreement([TWO, split], 3).mean == pytest.approx(1.0)


def test_a_restart_with_fewer_regimes_disagrees():
    three = [np.repeat([0, 1, 2], 20)]
    two = [np.repeat([0, 1, 1], 20)]
    names = trust.naming(two, three, 3)
    assert names[0] == 0
    assert names[1] in (1, 2)
    assert names[2] >= 3  # never used: stands for nothing
    found = trust.agreement([three, two], 3)
    assert found.mean < 0.7
    assert found.sure == pytest.approx(2 / 3)


def test_most_votes_win_and_the_chosen_one_breaks_a_draw():
    votes = [np.array([0, 1, 2, 0]), np.array([0, 2, 1, 3]), np.array([0, 2, 0, 4])]
    labels, share = trust.consensus(votes, 3)
    assert labels.tolist() == [0, 2, 2, 0]
    np.testing.assert_allclose(share, [1, 2 / 3, 1 / 3, 1 / 3])


def test_unrelated_surplus_regimes_do_not_win_a_vote():
    labels, share = trust.consensus([np.array([0]), np.array([3]), np.array([3])], 3)
    assert labels.tolist() == [0]
    np.testing.assert_allclose(share, [1 / 3])


def test_shares_segments_and_durations():
    zero, one, two = trust.uses(TWO, 3)
    assert (zero.regime, zero.segments, zero.share) == (0, 3, 0.5)
    assert zero.mean_duration == pytest.approx(35 / 3)
    assert zero.median_duration == 10.0
    assert (one.segments, one.mean_duration) == (2, 17.5)
    assert (two.segments, two.share, two.mean_duration) == (0, 0.0, 0.0)


def problems(labels, regimes, agreed=None, **options):
    return trust.warnings(trust.uses(labels, regimes), agreed, stickiness=10.0, **options)


def test_a_good_fit_has_nothing_to_warn_of():
    assert problems(TWO, 2, agreed=0.95) == ()


@pytest.mark.parametrize(
    ("labels", "regimes", "agreed", "problem", "remedy"),
    [
        ([np.repeat([0, 1], [99, 1])], 2, None, "99 % of the frames", "--restarts"),
        ([np.arange(60) % 2], 2, None, "flicker: a segment lasts 1.0 frames", "--stickiness 100"),
        (TWO, 2, 0.5, "disagree (adjusted Rand index 0.50)", "--consensus"),
        (TWO, 4, None, "Only 2 of 4 regimes", "--regimes 2"),
    ],
)
def test_every_warning_has_its_remedy(labels, regimes, agreed, problem, remedy):
    (warned,) = problems(labels, regimes, agreed)
    assert problem in warned.problem
    assert remedy in warned.remedy


def test_a_single_regime_neither_collapses_nor_is_too_many():
    assert problems([np.zeros(50, int)], 1) == ()


def test_too_few_regimes_unfinished_and_dropped_columns():
    found = problems(TWO, 2, finished=False, dropped=("age",), too_few="2 regimes may be too few.")
    assert [one.remedy.split()[0] for one in found] == ["Go", "Nothing", "Try"]
    assert "age" in found[1].problem
    assert "--regimes 3" in found[2].remedy


def test_a_record_survives_json():
    record = Trust(
        agreement=0.9,
        restarts=2,
        pairs=1,
        pairwise=(0.9,),
        sure=0.8,
        frames=70,
        regimes=trust.uses(TWO, 2),
        held_out=1.5,
        held_out_in_data_units=-2.0,
        warnings=(Warned("This.", "Do that."),),
        selection={"chosen": "arhmm"},
    )
    stored = json.loads(json.dumps(record.as_dict()))
    assert stored["warnings"] == [{"problem": "This.", "remedy": "Do that."}]
    assert {"agreement", "pairs", "restarts", "regimes", "held_out", "warnings", "selection"} <= set(stored)
    assert set(stored["regimes"][0]) == {"regime", "share", "segments", "mean_duration", "median_duration"}
    assert Trust.from_dict(stored) == record
