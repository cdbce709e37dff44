"""The scikit-learn face: the conventions of estimators, and sequences that stay whole."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from tiny import SETTINGS

import swerve
from swerve import Segmenter
from swerve.errors import InputError
from swerve_lab.boards import bouncing_ball

pytestmark = pytest.mark.usefixtures("quick_compilation")
LENGTHS = [100, 100, 60, 100, 100, 100]
IDS = np.repeat([f"walk {i}" for i in range(6)], LENGTHS)
NEIGHBOURS = "the regime of a row depends on the rows around it"
NOT_FOR_SEQUENCES = {
    "check_methods_sample_order_invariance": f"{NEIGHBOURS}: other neighbours, other regimes",
    "check_methods_subset_invariance": f"{NEIGHBOURS}: a subset cuts them off",
}


def segmenter(regimes=2, model="arhmm", **choices) -> Segmenter:
    return Segmenter(regimes, model=model, settings=SETTINGS, **choices)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """Six balls one below the other, and a second column that shows them from elsewhere; a few values are missing."""
    balls = [one.x[:length] for one, length in zip(bouncing_ball.generate(6, seed=3).series(), LENGTHS, strict=True)]
    position = np.concatenate(balls)
    noise = np.random.default_rng(0).normal(size=position.shape)
    both = np.concatenate([position, 50 - 3 * position + noise], axis=1)
    both[150:155] = np.nan
    return both


@pytest.fixture(scope="module")
def fitted(rows) -> Segmenter:
    return segmenter().fit(rows, sequence_ids=IDS)


@pytest.fixture(scope="module")
def hidden(rows) -> Segmenter:
    return segmenter(model="slds").fit(rows, sequence_ids=IDS)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


# The conventions


@parametrize_with_checks([segmenter()], expected_failed_checks=lambda _: NOT_FOR_SEQUENCES, xfail_strict=True)
@pytest.mark.filterwarnings("ignore")
def test_an_estimator_keeps_the_conventions(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [segmenter(model="slds")], expected_failed_checks=lambda _: NOT_FOR_SEQUENCES, xfail_strict=True
)
@pytest.mark.filterwarnings("ignore")
def test_one_with_hidden_states_keeps_them_too(estimator, check):
    check(estimator)


def test_a_clone_is_not_fitted_and_fits_to_the_same(fitted, rows):
    again = clone(fitted)
    with pytest.raises(NotFittedError):
        again.predict(rows)
    again.fit(rows, sequence_ids=IDS)
    np.testing.assert_array_equal(again.predict(rows, sequence_ids=IDS), fitted.predict(rows, sequence_ids=IDS))


def test_what_was_fitted_has_names(fitted):
    assert (fitted.n_regimes_, fitted.n_features_in_) == (2, 2)
    assert fitted.run_.columns == ("x0", "x1")


# Sequences


def test_lengths_ids_and_lists_say_the_same(fitted, rows):
    by_ids = fitted.predict_proba(rows, sequence_ids=IDS)
    assert by_ids.shape == (len(rows), 2)
    np.testing.assert_array_equal(fitted.predict_proba(rows, lengths=LENGTHS), by_ids)
    parts = np.split(rows, np.cumsum(LENGTHS)[:-1])
    np.testing.assert_array_equal(fitted.predict_proba(parts), by_ids)
    np.testing.assert_allclose(fitted.predict_proba(parts[2]), by_ids[200:260], atol=1e-5)
    assert fitted.score(parts) == pytest.approx(fitted.score(rows, sequence_ids=pd.Series(IDS)))


def test_the_face_agrees_with_the_functions(fitted, rows):
    parts = np.split(rows, np.cumsum(LENGTHS)[:-1])
    run = swerve.fit(parts, 2, model="arhmm", seed=0, settings=SETTINGS)
    labels = [one.labels for one in swerve.segment(run, parts)]
    np.testing.assert_array_equal(fitted.predict(rows, sequence_ids=IDS), np.concatenate(labels))


def test_change_points_are_rows_and_never_the_first_of_a_sequence(fitted, rows):
    labels, changes = fitted.predict(rows, lengths=LENGTHS), fitted.change_points(rows, lengths=LENGTHS)
    begins = np.cumsum(LENGTHS)[:-1]
    np.testing.assert_array_equal(changes, np.setdiff1d(np.flatnonzero(np.diff(labels)) + 1, begins))
    assert len(changes) > 5


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"lengths": [100, 100]}, "add up to the 560 rows"),
        ({"lengths": [560.0]}, "whole numbers"),
        ({"lengths": [600, -40]}, "at least 1"),
        ({"sequence_ids": IDS[:-1]}, "one name for each of the 560 rows"),
        ({"sequence_ids": np.where(np.arange(560) % 2, "a", "b")}, "'b' are no neighbours"),
        ({"sequence_ids": IDS, "lengths": LENGTHS}, "not both"),
    ],
)
def test_sequences_that_make_no_sense_are_refused(fitted, rows, told, message):
    with pytest.raises(InputError, match=message):
        fitted.predict(rows, **told)


def test_a_list_of_sequences_needs_no_lengths(fitted, rows):
    with pytest.raises(InputError, match="neither lengths nor sequence_ids"):
        fitted.predict([rows], lengths=[len(rows)])


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"regimes": 2.5}, "regimes must be a whole number, not 2.5"),
        ({"regimes": 0}, "at least 1"),
        ({"restarts": "many"}, "restarts must be a whole number, not 'many'"),
        ({"model": "arhm"}, "did you mean 'arhmm'"),
    ],
)
def test_wrong_parameters_are_refused_by_fit_and_not_before(rows, choices, message):
    wrong = segmenter(**choices)
    with pytest.raises(InputError, match=message):
        wrong.fit(rows)


def test_columns_of_a_data_frame_keep_their_names(rows):
    frame = pd.DataFrame(rows, columns=["height", "depth"])
    named = segmenter().fit(frame, lengths=LENGTHS)
    assert named.run_.columns == ("height", "depth")
    assert named.feature_names_in_.tolist() == ["height", "depth"]
    with pytest.raises(ValueError, match="feature names"):
        named.predict(frame[["depth", "height"]])


# Scores


def test_the_score_is_in_the_units_of_the_data(fitted, rows):
    """Twice as large values have half the density, per observed number."""
    larger = segmenter().fit(2 * rows, sequence_ids=IDS)
    lost = np.log(2) * np.isfinite(rows).sum() / len(rows)
    assert larger.score(2 * rows, sequence_ids=IDS) == pytest.approx(
        fitted.score(rows, sequence_ids=IDS) - lost, abs=1e-4
    )


def test_a_score_without_the_ids_that_fit_had_warns(fitted, rows):
    with pytest.warns(UserWarning, match="enable_metadata_routing"):
        fitted.score(rows)


@pytest.mark.slow
@pytest.mark.usefixtures("routing")
def test_a_grid_chooses_regimes_by_sequences_held_out_whole(rows):
    grid = GridSearchCV(segmenter(), {"regimes": np.arange(1, 3)}, cv=GroupKFold(3), error_score="raise")
    grid.fit(rows, groups=IDS, sequence_ids=IDS)
    assert grid.best_params_ == {"regimes": 2}
    assert grid.best_estimator_.n_regimes_ == 2
    by_hand = segmenter()
    (train, test), *_ = GroupKFold(3).split(rows, groups=IDS)
    by_hand.fit(rows[train], sequence_ids=IDS[train])
    assert grid.cv_results_["split0_test_score"][1] == pytest.approx(by_hand.score(rows[test], sequence_ids=IDS[test]))


@pytest.mark.usefixtures("routing")
def test_pipelines_pass_the_ids_on(fitted, rows):
    line = make_pipeline(StandardScaler(), segmenter())
    scores = cross_val_score(line, rows, cv=GroupKFold(2), params={"groups": IDS, "sequence_ids": IDS})
    assert np.isfinite(scores).all()
    line.fit(rows, sequence_ids=IDS)
    same = line.predict(rows, sequence_ids=IDS) == fitted.predict(rows, sequence_ids=IDS)
    assert same.mean() > 0.99


def test_pipelines_without_routing_take_the_ids_by_step(rows):
    line = make_pipeline(StandardScaler(), segmenter())
    line.fit(rows, segmenter__sequence_ids=IDS)
    assert line.predict(rows, sequence_ids=IDS).shape == (len(rows),)


# Hidden states, samples, forecasts


@pytest.mark.slow
def test_transform_gives_the_hidden_states(hidden, rows):
    states = hidden.transform(rows, sequence_ids=IDS)
    assert states.shape == (len(rows), 2)
    assert np.isfinite(states).all()
    np.testing.assert_allclose(hidden.transform(rows[:100]), states[:100], atol=1e-4)
    assert hidden.get_feature_names_out().tolist() == ["segmenter0", "segmenter1"]


@pytest.mark.slow
def test_hidden_states_may_be_a_data_frame(hidden, rows):
    states = clone(hidden).set_output(transform="pandas").fit_transform(rows, sequence_ids=IDS)
    assert states.columns.tolist() == ["segmenter0", "segmenter1"]
    np.testing.assert_allclose(states, hidden.transform(rows, sequence_ids=IDS), atol=1e-4)


def test_an_arhmm_has_no_transform(fitted):
    assert not hasattr(fitted, "transform")
    assert not hasattr(segmenter(), "fit_transform")
    assert hasattr(Segmenter(), "transform")


def test_samples_are_rows_with_their_regimes(fitted):
    made, regimes = fitted.sample(20, 3, random_state=4)
    assert made.shape == (60, 2)
    assert regimes.shape == (60,)
    np.testing.assert_array_equal(fitted.sample(20, 3, random_state=4)[0], made)
    assert fitted.predict(made, lengths=[20] * 3).shape == (60,)


def test_forecasts_go_on_from_rows_or_from_the_fitted_ones(fitted, rows):
    given = fitted.forecast(5, rows, sequence_ids=IDS, samples=50)
    assert [one.name for one in given] == [f"walk {i}" for i in range(6)]
    assert given[0].probabilities.shape == (5, 2)
    assert given[0].quantiles.shape == (5, 3, 2)
    for one, other in zip(given, fitted.forecast(5, samples=50), strict=True):
        np.testing.assert_array_equal(one.quantiles, other.quantiles)


# Folders


def test_a_saved_segmenter_comes_back(fitted, rows, tmp_path):
    fitted.save(tmp_path / "run")
    loaded = Segmenter.load(tmp_path / "run")
    assert loaded.get_params() == fitted.get_params() | {"settings": list(SETTINGS)}
    np.testing.assert_array_equal(loaded.predict(rows, lengths=LENGTHS), fitted.predict(rows, lengths=LENGTHS))
    assert loaded.score(rows, lengths=LENGTHS) == fitted.score(rows, lengths=LENGTHS)
    with pytest.raises(InputError, match="give X to go on from"):
        loaded.forecast(3)
    (one,) = swerve.segment(tmp_path / "run", rows[:100])
    np.testing.assert_array_equal(one.labels, fitted.predict(rows[:100]))


def test_a_saved_segmenter_knows_its_columns(rows, tmp_path):
    frame = pd.DataFrame(rows, columns=["height", "depth"])
    named = segmenter(regimes=np.int64(2)).fit(frame, lengths=LENGTHS)
    named.save(tmp_path / "run")
    loaded = Segmenter.load(tmp_path / "run")
    assert loaded.feature_names_in_.tolist() == ["height", "depth"]
    np.testing.assert_array_equal(loaded.predict(frame), named.predict(frame))


def test_a_run_that_no_segmenter_saved_is_refused(fitted, tmp_path):
    fitted.run_.save(tmp_path / "run")
    with pytest.raises(InputError, match=r"use swerve\.load"):
        Segmenter.load(tmp_path / "run")
    with pytest.raises(InputError, match="no run folder"):
        Segmenter.load(tmp_path / "nowhere")
