"""The Python API: whatever a person has becomes recordings, and what makes no sense is refused."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import swerve
from swerve import api
from swerve.data import tables
from swerve.errors import InputError
from swerve.types import Recording
from swerve_lab.boards import bouncing_ball

TINY = (
    "training.window=40",
    "training.validation_share=0.2",
    "arhmm.lags=[1]",
    "arhmm.features=[0]",
    "arhmm.restarts=1",
    "arhmm.max_iterations=5",
)


@pytest.fixture(scope="module")
def balls() -> np.ndarray:
    return bouncing_ball.generate(5, seed=3).x


def test_an_array_of_two_axes_is_one_recording(balls):
    (one,) = api.to_series(balls[0])
    np.testing.assert_array_equal(one.x, balls[0])
    assert one.name == "0"


def test_an_array_of_one_axis_is_one_channel(balls):
    (one,) = api.to_series(balls[0, :, 0])
    assert one.x.shape == (100, 1)


def test_an_array_of_three_axes_is_several_recordings(balls):
    series = api.to_series(balls)
    assert [one.name for one in series] == ["0", "1", "2", "3", "4"]
    np.testing.assert_array_equal(np.stack([one.x for one in series]), balls)


def test_an_array_of_four_axes_is_video():
    images = np.arange(2 * 5 * 3 * 4, dtype=np.float32).reshape(2, 5, 2, 6)
    first, second = api.to_series(images)
    assert first.image == (2, 6)
    assert len(first.columns) == 12
    np.testing.assert_array_equal(second.x[1], images[1, 1].ravel())
    assert second.name == "1"
    with pytest.raises(InputError, match="colours on the last axis"):
        api.to_series(np.zeros((50, 8, 8, 3)))


def test_a_list_may_hold_arrays_of_different_lengths(balls):
    series = api.to_series([balls[0], balls[1, :60], jnp.asarray(balls[2])])
    assert [len(one) for one in series] == [100, 60, 100]


def test_whole_numbers_become_numbers_with_a_fraction():
    (one,) = api.to_series(np.arange(10))
    assert one.x.dtype == float


def test_a_data_frame_keeps_the_names_of_its_columns(balls):
    (one,) = api.to_series(pd.DataFrame(np.tile(balls[0], 2), columns=["a", 7]))
    assert one.columns == ("a", "7")
    first, second = api.to_series([pd.DataFrame(balls[0], columns=["a"]), pd.DataFrame(balls[1], columns=["a"])])
    assert (first.name, second.name) == ("0", "1")
    assert first.columns == second.columns == ("a",)


def test_series_are_taken_as_they_are():
    series = bouncing_ball.generate(2, seed=0).series()
    assert api.to_series(series) == series
    assert api.to_series(series[0]) == [series[0]]


def test_files_are_read(tmp_path):
    series = [replace(one, s=None) for one in bouncing_ball.generate(2, seed=0).series()]
    tables.write_npz(tmp_path / "balls.npz", series)
    for data in (tmp_path / "balls.npz", str(tmp_path / "balls.npz"), [tmp_path / "balls.npz"], tmp_path):
        found = api.to_series(data)
        assert [one.name for one in found] == [one.name for one in series]
        np.testing.assert_array_equal(found[1].x, series[1].x)


def test_masked_values_are_missing():
    (one,) = api.to_series(np.ma.masked_greater(np.array([[1, 2], [3, 4]]), 3))
    np.testing.assert_array_equal(one.x, [[1, 2], [3, np.nan]])


def test_nan_stays_as_a_missing_value():
    (one,) = api.to_series([np.array([[1.0], [np.nan], [2.0]])])
    assert np.isnan(one.x[1, 0])


@pytest.mark.parametrize(
    "data",
    [
        [],
        np.zeros((0, 2)),
        np.zeros((5, 0)),
        np.zeros((0, 5, 2)),
        np.array(1.0),
        np.zeros((2, 3, 4, 5, 6)),
        np.array([["a"], ["b"]]),
        np.array([[1.0], [np.inf]]),
        [np.zeros((5, 1)), np.array([[np.inf]])],
        [[1.0, 2.0], [3.0, 4.0]],
        [np.zeros((2, 3, 4)), np.zeros((3, 4))],
        pd.DataFrame([["text"]], columns=["a"]),
        3,
        [1.0, 2.0, 3.0],
        None,
        "no such file.csv",
        {"a": [1.0, 2.0]},
        ["walk.csv", np.zeros((5, 1))],
    ],
    ids=lambda data: " ".join(repr(data).split())[:40],
)
def test_what_is_no_recording_is_refused(data):
    with pytest.raises(InputError) as refused:
        api.to_series(data)
    assert str(refused.value).endswith((".", "?"))


def test_recordings_of_different_columns_are_refused(balls):
    with pytest.raises(InputError, match='"1" has other columns than "0"'):
        api.fit([balls[0], np.tile(balls[1], 2)], model="arhmm", settings=TINY)
    with pytest.raises(InputError, match='Data frame 0, unlike Data frame 1, has no column "b"'):
        api.fit(
            [pd.DataFrame(balls[0], columns=["a"]), pd.DataFrame(balls[1], columns=["b"])], model="arhmm", settings=TINY
        )


def test_infinite_values_in_a_series_are_refused(balls):
    with pytest.raises(InputError, match="infinite"):
        api.fit([Recording(np.where(balls[0] > 5, np.inf, balls[0]), name="wild")], model="arhmm", settings=TINY)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"regimes": 0}, "at least 1"),
        ({"regimes": 2, "model": "snldz"}, "did you mean 'snlds'"),
        ({"regimes": 2, "recipe": "papr"}, "did you mean 'paper'"),
        ({"regimes": 2, "restarts": 0}, "restarts must be at least 1"),
        ({"regimes": 2, "steps": 0}, "must be at least 1"),
        ({"regimes": 2, "settings": ["training.step=5"]}, "did you mean 'training.steps'"),
        ({"regimes": 2, "settings": ["training.steps"]}, "A setting looks like"),
        ({"regimes": 2, "settings": ["training.steps=many"]}, "must be of type int"),
    ],
)
def test_wrong_choices_are_refused(choices, message):
    with pytest.raises(InputError, match=message):
        api.make_config(**choices)


def test_choices_reach_the_config():
    config = api.make_config(4, "arhmm", "default", 7, 30, 9, ["arhmm.lags=[3]", "recipe.clip=2"])
    assert (config.kind, config.seed, config.model.regimes) == ("arhmm", 9, 4)
    assert (config.training.restarts, config.arhmm.restarts, config.training.steps) == (7, 7, 30)
    assert config.arhmm.lags == (3,)
    assert config.recipe.clip == 2.0


def test_fit_and_segment_arrays(balls, tmp_path):
    fitted = swerve.fit(balls, 2, model="arhmm", settings=TINY, out=tmp_path / "run")
    found = swerve.segment(fitted, balls)
    assert [one.name for one in found] == ["0", "1", "2", "3", "4"]
    for source in (tmp_path / "run", str(tmp_path / "run"), swerve.load(tmp_path / "run")):
        (alone,) = swerve.segment(source, balls[2], viterbi=False)
        np.testing.assert_array_equal(alone.labels, found[2].labels)
