"""Agreement of restarts, consensus, how regimes occur, and warnings with remedies."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from tiny import LINEAR, SETTINGS, drifts
from typer.testing import CliRunner

from swerve import api
from swerve.choosing import trust
from swerve.choosing.trust import Trust, Warned
from swerve.cli.main import app
from swerve.data import tables
from swerve.data.folder import Part
from swerve.errors import InputError
from swerve.models.arhmm.maker import MAKER
from swerve.runs import fit as run
from swerve.runs import report as reporting
from swerve.settings.sections import ArHmmConfig, Config
from swerve_lab.boards import bouncing_ball

pytestmark = pytest.mark.usefixtures("quick_compilation")

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


def test_channels_that_err_together_are_told_of():
    asked, used = ArHmmConfig(), ArHmmConfig().for_joint_errors()
    remarks = MAKER.remarks(Config(arhmm=asked), Config(arhmm=used))
    (warned,) = problems(TWO, 2, remarks=remarks)
    assert "err together" in warned.problem and "arhmm.as_one_from=0" in warned.remedy
    assert MAKER.remarks(Config(arhmm=used), Config(arhmm=used)) == ()


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


@pytest.mark.parametrize("stored", [[], {}, None, 3, "text", {"regimes": [[]]}, {"regimes": [], "warnings": {"a": 1}}])
def test_a_record_of_another_shape_is_damaged(stored):
    with pytest.raises(InputError, match="is damaged: it should hold what a fit says"):
        Trust.from_dict(stored)


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    """An AR-HMM whose restarts all find the two drifts."""
    folder = tmp_path_factory.mktemp("runs") / "steady"
    return api.fit(drifts(), 2, model="arhmm", settings=LINEAR, out=folder), folder


def test_a_fit_tells_how_far_it_may_be_trusted(steady):
    fitted, folder = steady
    found = fitted.trust
    assert found.agreement > 0.9
    assert (found.restarts, found.pairs) == (2, 1)
    assert found.sure > 0.9
    assert found.frames == sum(map(len, drifts()))
    assert sum(one.share for one in found.regimes) == pytest.approx(1.0)
    assert all(15 < one.mean_duration < 45 for one in found.regimes)
    assert json.loads((folder / Part.TRUST).read_text())["agreement"] == found.agreement
    assert run.load(folder).trust == found


def test_a_bound_that_is_no_number_is_null_and_can_be_read(steady, tmp_path):
    fitted, _ = steady
    lost = replace(fitted, trust=replace(fitted.trust, held_out_in_data_units=float("nan")))
    lost.save(tmp_path / "run")
    assert json.loads((tmp_path / "run" / Part.TRUST).read_text())["held_out_in_data_units"] is None
    again = run.load(tmp_path / "run")
    assert again.trust == replace(fitted.trust, held_out_in_data_units=None)
    assert dict(reporting.summary(again, again.infer(drifts()[:1])))["restarts agree"].startswith("1.00")


def test_the_likelihood_in_data_units_follows_the_unit(steady):
    """The same drifts in millimetres: log p is lower by log 1000 per number, and all else is the same."""
    fitted, _ = steady
    longer = [type(one)(1000 * one.x, name=one.name) for one in drifts()]
    other = api.fit(longer, 2, model="arhmm", settings=LINEAR)
    assert other.held_out == pytest.approx(fitted.held_out, abs=1e-3)
    drop = fitted.trust.held_out_in_data_units - other.trust.held_out_in_data_units
    assert drop == pytest.approx(np.log(1000), abs=1e-3)


def test_restarts_vote_in_the_names_of_the_chosen_one(steady):
    fitted, folder = steady
    loaded = run.load(folder)
    new = drifts(14)[12:]
    for own, voted, again in zip(fitted.segment(new), fitted.consensus(new), loaded.consensus(new), strict=True):
        np.testing.assert_array_equal(voted.labels, again.labels)
        np.testing.assert_array_equal(voted.agreement, again.agreement)
        assert np.mean(voted.labels == own.labels) > 0.95
        assert set(voted.agreement.tolist()) <= {0.5, 1.0}
        assert voted.agreement.mean() > 0.9


def test_consensus_on_the_command_line(steady, tmp_path):
    _, folder = steady
    tables.write_npz(tmp_path / "data.npz", drifts(2))
    words = ["segment", str(folder), str(tmp_path / "data.npz"), "--out", str(tmp_path / "labels"), "--consensus"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    with next(iter((tmp_path / "labels").glob("[01].csv"))).open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["frame", "regime", "agreement", "p0", "p1"]
    assert {float(row[2]) for row in rows} <= {0.5, 1.0}
    with pytest.raises(InputError, match="choose one"):
        CliRunner().invoke(app, [*words, "--viterbi"], catch_exceptions=False)


@pytest.mark.slow
def test_a_model_is_chosen_and_says_why(tmp_path):
    """Straight drifts are all that an AR-HMM needs, and an SNLDS of 20 steps is none yet."""
    folder = tmp_path / "run"
    settings = (*SETTINGS, "training.validation_share=0.7", "arhmm.restarts=2", "arhmm.max_iterations=50")
    fitted = api.fit(drifts(), 2, settings=settings, out=folder)
    assert fitted.config.kind == "arhmm"
    assert fitted.finished
    chosen = fitted.selection
    assert [one["model"] for one in chosen["candidates"]] == ["arhmm", "snlds"]
    assert [one["verdict"] for one in chosen["candidates"]] == ["chosen", "worse"]
    assert "better than the SNLDS by" in chosen["reason"]
    assert chosen["candidates"][0]["held_out"] == pytest.approx(fitted.trust.held_out_in_data_units, abs=1e-4)
    assert fitted.trust.selection == chosen
    assert run.load(folder).selection == chosen
    assert run.load(folder / "candidates" / "snlds").config.kind == "snlds"
    assert json.loads((folder / Part.RUN).read_text())["config"]["kind"] == "auto"


def test_a_run_with_one_restart_has_no_consensus():
    fitted = api.fit(bouncing_ball.generate(5, seed=3).series(), 2, model="arhmm", settings=SETTINGS)
    assert fitted.trust.agreement is None
    with pytest.raises(InputError, match="no second restart"):
        fitted.consensus(bouncing_ball.generate(1, seed=4).series())
