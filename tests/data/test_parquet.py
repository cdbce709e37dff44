import sys

import numpy as np
import pandas as pd
import pytest

from swerve.data import tables
from swerve.data.reading import Reading
from swerve.errors import InputError


@pytest.fixture
def read(tmp_path):
    def written_and_read(frame: pd.DataFrame, **choices):
        frame.to_parquet(tmp_path / "walk.parquet")
        return tables.read(tmp_path / "walk.parquet", Reading(**choices))

    return written_and_read


@pytest.fixture
def refused(read):
    def message(frame: pd.DataFrame, **choices) -> str:
        with pytest.raises(InputError) as caught:
            read(frame, **choices)
        return str(caught.value).split("walk.parquet", 1)[-1]

    return message


def test_every_role_and_kind_of_number(read):
    frame = pd.DataFrame(
        {
            "when": pd.date_range("2024-05-01", periods=4, freq="100ms", tz="Europe/Oslo"),
            "who": ["a", "a", "b", "b"],
            "regime": pd.Categorical(["walk", "run", None, "run"]),
            "hip.x": np.arange(4.0),
            "hip": np.arange(4, dtype=np.int8),
            "count": pd.array([1, None, 3, 4], dtype="Int64"),
            "push": [0.5, 0.25, 0.0, 1.0],
        }
    )
    roles = {"time_column": "when", "sequence_column": "who", "label_column": "regime", "control_columns": ("push",)}
    first, second = read(frame, **roles)
    assert first.columns == ("hip.x", "hip", "count") and (first.name, second.name) == ("a", "b")
    np.testing.assert_array_equal(first.x, [[0, 0, 1], [1, 1, np.nan]])
    assert second.x.tolist() == [[2, 2, 3], [3, 3, 4]] and second.u.tolist() == [[0.0], [1.0]]
    assert first.s.tolist() == [1, 0] and second.s.tolist() == [-1, 0]
    assert first.times.tolist() == second.times.tolist() == [0.0, 0.1]
    assert second.rows.tolist() == [2, 3]


def test_small_numbers_stay_small(read):
    (one,) = read(pd.DataFrame({"a": np.ones(3, np.float32), "b": np.ones(3, np.float32)}))
    assert one.x.dtype == np.float32
    assert read(pd.DataFrame({"a": np.ones(3, np.float32), "b": [1, 2, 3]}))[0].x.dtype == np.float64


def test_times_as_text_and_as_numbers(read):
    frame = pd.DataFrame({"t": ["2024-05-01T12:00:00", "2024-05-01T12:00:02"], "n": [3, 5], "x": [1.0, 2.0]})
    assert read(frame, time_column="t", columns=("x",))[0].times.tolist() == [0.0, 2.0]
    assert read(frame, time_column="n", columns=("x",))[0].times.tolist() == [3.0, 5.0]


def test_columns_of_text_are_named_with_what_to_do(refused):
    frame = pd.DataFrame({"who": ["a"], "day": pd.to_datetime(["2024-05-01"]), "x": [1.0]})
    shown = refused(frame)
    assert 'columns "who", "day" hold no numbers: choose the measurements with --column' in shown
    assert 'column "who" holds no numbers' in refused(frame[["who", "x"]])
    assert "these are no times" in refused(frame, time_column="who", columns=("x",))


def test_what_can_not_be_a_table_is_refused(refused, tmp_path):
    nested = pd.DataFrame({"pose": [[1.0, 2.0], [3.0, 4.0]], "x": [1.0, 2.0]})
    assert 'column "pose" is nested (list<element: double>): flatten it' in refused(nested)
    assert "has columns but no rows" in refused(pd.DataFrame({"x": np.zeros(0)}))
    assert ', row 1, column "x": the value is infinite' in refused(pd.DataFrame({"x": [0.0, np.inf]}))
    assert 'control column "u" has missing values' in refused(
        pd.DataFrame({"x": [1.0], "u": [np.nan]}), control_columns=("u",)
    )
    (tmp_path / "walk.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"walk.parquet is not a Parquet file that can be read"):
        tables.read(tmp_path / "walk.parquet")


@pytest.mark.parametrize(("name", "package"), [("walk.parquet", "pyarrow"), ("walk.h5", "h5py")])
def test_without_the_package_a_sentence_says_how_to_get_it(tmp_path, monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(InputError, match=rf'need the package {package}, .*: pip install "swerve\[files\]"'):
        tables.read(tmp_path / name)
