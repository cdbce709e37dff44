"""How many regimes: the rule, and the search it judges."""

import json

import numpy as np
import pytest
from tiny import LINEAR, SETTINGS, drifts

from swerve import api
from swerve.choosing.regimes import Choice, Evidence, Restarts, decide, decide_in_turn, weighed
from swerve.errors import InputError
from swerve.learning import regimes as choosing
from swerve.learning.preparation import prepare_folds
from swerve.runs import report as reporting
from swerve.types import Recording
from swerve_lab.boards import bouncing_ball

pytestmark = pytest.mark.usefixtures("quick_compilation")

LENGTHS = np.full(20, 10)
SPREAD = np.random.default_rng(0).permutation(np.linspace(-1.0, 1.0, 20))


def restarts(bound: float, regimes: int, *, agree: bool = True, spread: float = 0.1) -> Evidence:
    """What two restarts tell that have a bound per frame and labels that agree or not."""
    labels = np.arange(200) // 20 % regimes
    other = labels if agree else np.random.default_rng(regimes).integers(0, regimes, 200)
    two = Restarts([10 * bound + spread * SPREAD * regimes, np.full(20, 10 * bound - 5)], [labels, other])
    return weighed({regimes: two})[regimes]


def test_the_smallest_number_within_one_standard_error():
    found = {1: restarts(1.0, 1), 2: restarts(1.5, 2), 3: restarts(1.5001, 3), 4: restarts(1.49, 4)}
    choice = decide(found, LENGTHS)
    assert choice.regimes == 2
    assert "2 regimes explain held-out windows as well as 3" in choice.reason
    assert [one.regimes for one in choice.tried] == [1, 2, 3, 4]
    assert choice.tried[2].behind == 0.0
    assert choice.tried[0].behind == pytest.approx(-0.5, abs=0.01)


def test_a_clearly_better_bound_wins():
    found = {1: restarts(1.0, 1), 2: restarts(1.2, 2), 3: restarts(1.5, 3), 4: restarts(1.4, 4)}
    choice = decide(found, LENGTHS)
    assert choice.regimes == 3
    assert "best held-out bound and their restarts agree (1.00)" in choice.reason


def test_numbers_whose_restarts_disagree_are_passed_over():
    found = {1: restarts(1.0, 1), 2: restarts(1.5, 2), 3: restarts(1.6, 3, agree=False)}
    assert decide(found, LENGTHS).regimes == 2


def test_fewer_regimes_that_explain_more_are_not_passed_over_for_being_hard_to_find():
    found = {1: restarts(1.0, 1), 2: restarts(1.6, 2, agree=False), 3: restarts(1.5, 3)}
    choice = decide(found, LENGTHS)
    assert choice.regimes == 2
    assert "restarts do not agree" in choice.reason


def test_where_no_restarts_agree_the_bound_alone_decides_and_says_so():
    found = {1: restarts(1.0, 1), 2: restarts(1.5, 2, agree=False), 3: restarts(1.4, 3, agree=False)}
    choice = decide(found, LENGTHS)
    assert choice.regimes == 2
    assert "counted for nothing" in choice.reason


SETTLED = {1: restarts(1.0, 1), 2: restarts(1.5, 2)}
DOUBTFUL = {1: restarts(1.0, 1), 3: restarts(1.6, 3, agree=False)}


def in_turn(*found):
    """The choice, and which searches it took."""
    asked = []

    def searches():
        for model, one in zip(("snlds", "slds"), found, strict=False):
            asked.append(model)
            yield model, one

    return decide_in_turn(searches(), LENGTHS), asked


def test_linear_regimes_are_asked_only_where_nonlinear_ones_agree_on_no_number():
    assert in_turn(SETTLED, DOUBTFUL) == (decide(SETTLED, LENGTHS, model="snlds"), ["snlds"])
    choice, asked = in_turn(DOUBTFUL, SETTLED)
    assert choice.regimes == 2 and choice.model == "slds" and asked == ["snlds", "slds"]
    assert choice.reason.startswith("Restarts of snlds agree on no number, so slds was asked (--model slds fits it).")


def test_the_first_search_decides_where_none_agrees():
    others = {1: restarts(1.0, 1), 4: restarts(1.7, 4, agree=False)}
    assert in_turn(DOUBTFUL, others)[0] == decide(DOUBTFUL, LENGTHS, model="snlds")


def test_a_search_in_which_all_restarts_diverged_is_passed_over():
    choice, _ = in_turn({}, SETTLED)
    assert choice.regimes == 2 and choice.model == "slds"
    assert choice.reason.startswith("All restarts of snlds diverged, so slds was asked (--model slds fits it). 2")
    assert in_turn(DOUBTFUL, {})[0] == decide(DOUBTFUL, LENGTHS, model="snlds")
    with pytest.raises(InputError, match="No number of regimes could be trained"):
        in_turn({}, {})


def test_restarts_that_all_use_a_single_regime_do_not_agree_on_more():
    collapsed = restarts(0.5, 2)._replace(agreement=1.0, in_use=1)
    assert in_turn(DOUBTFUL, {1: restarts(0.5, 1), 2: collapsed})[0] == decide(DOUBTFUL, LENGTHS, model="snlds")
    assert in_turn({1: restarts(0.5, 1), 2: collapsed}, SETTLED)[0].model == "slds"


def test_linear_regimes_are_not_asked_where_nothing_can_agree():
    config = api.make_config(None, "auto", restarts=2)
    assert choosing.kinds_to_search(config, (1, 2, 3)) == ("snlds", "slds")
    assert choosing.kinds_to_search(config, (3,)) == ("snlds",)
    assert choosing.kinds_to_search(api.make_config(None, "auto", restarts=1), (1, 2, 3)) == ("snlds",)
    assert choosing.kinds_to_search(api.make_config(None, "slds"), (1, 2, 3)) == ("slds",)


def test_one_regime_is_enough_where_more_gain_nothing():
    found = {1: restarts(1.5, 1), 2: restarts(1.5001, 2)}
    assert decide(found, LENGTHS).regimes == 1


def test_the_best_at_the_end_of_the_range_asks_for_more():
    choice = decide({1: restarts(1.0, 1), 2: restarts(1.5, 2)}, LENGTHS)
    assert "try more" in choice.reason


def test_an_odd_range_is_refused():
    with pytest.raises(InputError, match="3 to 2"):
        choosing.choose_regimes([Recording(np.zeros((10, 1)))], api.make_config(), first=3, last=2)


def test_an_arhmm_finds_two_drifts(tmp_path):
    config = api.make_config(None, "arhmm", settings=LINEAR)
    choice = choosing.choose_regimes(drifts(), config, first=1, last=3, out=tmp_path / "search")
    assert choice.regimes == 2
    stored = json.loads((tmp_path / "search" / "choice.json").read_text())
    assert Choice.from_dict(stored) == choice
    picture = reporting.draw_choice(tmp_path / "search", choice)
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="other recordings or settings"):
        choosing.choose_regimes(drifts(11), config, first=1, last=3, out=tmp_path / "search")


def test_one_regime_for_two_drifts_is_too_few():
    fitted = api.fit(drifts(), 1, model="arhmm", settings=LINEAR)
    (warned,) = fitted.trust.warnings
    assert "1 regimes may be too few" in warned.problem
    assert api.fit(drifts(), 2, model="arhmm", settings=LINEAR).trust.warnings == ()


@pytest.mark.slow
def test_a_search_that_was_stopped_goes_on_to_the_same_choice(tmp_path):
    """An SNLDS, too small to be right."""
    balls = bouncing_ball.generate(5, seed=3).series()
    config = api.make_config(None, "auto", settings=SETTINGS)
    search = {"first": 1, "last": 2}
    whole = choosing.choose_regimes(balls, config, **search)
    with pytest.raises(InputError, match="the same command goes on"):
        choosing.choose_regimes(balls, config, out=tmp_path / "search", should_stop=lambda: True, **search)
    assert choosing.choose_regimes(balls, config, out=tmp_path / "search", **search) == whole
    assert [one.regimes for one in whole.tried] == [1, 2]
    assert whole.tried[0].in_use == 1
    assert whole.tried[1].agreement is not None


@pytest.mark.slow
def test_linear_regimes_are_searched_too_and_that_search_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr("swerve.choosing.regimes.AGREE", 2.0)  # more than any restarts agree
    balls = bouncing_ball.generate(5, seed=3).series()
    config = api.make_config(None, "auto", settings=SETTINGS)
    search, heard = {"first": 1, "last": 2, "out": tmp_path / "search"}, []

    def in_the_second():
        return any(note.endswith("with slds") for note in heard)

    with pytest.raises(InputError, match="the same command goes on"):
        choosing.choose_regimes(balls, config, on_note=heard.append, should_stop=in_the_second, **search)
    assert {path.stem for path in (tmp_path / "search").glob("*.safetensors")} == {"snlds", "slds"}
    choice = choosing.choose_regimes(balls, config, **search)
    assert choice == choosing.choose_regimes(balls, config, **{**search, "out": tmp_path / "again"})
    assert choice.model == "snlds" and "counted for nothing" in choice.reason


def test_where_recordings_are_few_every_piece_of_them_is_held_out_once():
    config = api.make_config(None, "arhmm", settings=LINEAR)
    series = [Recording(np.arange(i, i + frames, dtype=float)[:, None]) for i, frames in ((0, 610), (1000, 190))]
    pieces = choosing._pieces(series)
    assert np.concatenate([one.x for one in pieces]).tolist() == np.concatenate([one.x for one in series]).tolist()
    assert {len(one) for one in pieces} <= {19, 20, 21} and len({one.name for one in pieces}) == len(pieces)
    held = []
    for fold in prepare_folds(pieces, config, 4):
        seen, unseen = (
            set(np.round(fold.standardizer.invert(np.asarray(part.x))[np.asarray(part.valid)][:, 0]))
            for part in (fold.training, fold.validation)
        )
        assert not seen & unseen and len(seen | unseen) == 800
        held += unseen
    assert len(held) == len(set(held)) == 800


def test_a_short_recording_is_not_cut_into_pieces():
    config = api.make_config(None, "arhmm", settings=LINEAR)
    assert choosing.choose_regimes([Recording(drifts()[0].x[:30])], config, first=1, last=2).regimes in (1, 2)


def test_what_adds_little_to_what_all_regimes_gain_is_not_missed():
    found = {1: restarts(1.0, 1), 2: restarts(1.95, 2), 3: restarts(2.0, 3), 4: restarts(1.9, 4)}
    assert decide({**found, 2: restarts(1.94, 2)}, LENGTHS).regimes == 3
    choice = decide({**found, 2: restarts(1.96, 2)}, LENGTHS)
    assert choice.regimes == 2 and "nearly as well as 3" in choice.reason
    del found[1]
    assert decide({**found, 2: restarts(1.96, 2)}, LENGTHS).regimes == 3


def test_restarts_of_a_consensus_need_not_agree():
    found = {1: restarts(1.0, 1), 2: restarts(1.5, 2), 3: restarts(1.8, 3, agree=False)}
    choice = decide(found, LENGTHS, consensus=True)
    assert choice.regimes == 3 and "a consensus of its restarts" in choice.reason
    assert decide(found, LENGTHS).regimes == 2


def test_an_arhmm_of_a_consensus_finds_a_drift_that_only_the_end_has():
    late = Recording(np.concatenate([drifts()[0].x[:150], 5 * np.arange(50.0)[:, None]]), name="late")
    choice = choosing.choose_regimes(
        [late], api.make_config(None, "arhmm", settings=[*LINEAR, "arhmm.consensus=true"]), first=1, last=4
    )
    assert choice.tried[choice.regimes - 1].in_use == 3
