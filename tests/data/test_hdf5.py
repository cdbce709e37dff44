import h5py
import numpy as np
import pytest

from swerve.data import tables
from swerve.data.reading import Reading
from swerve.errors import InputError


@pytest.fixture
def read(tmp_path):
    def written_and_read(contents: dict, **choices):
        with h5py.File(tmp_path / "walk.h5", "w") as file:
            for key, values in contents.items():
                file[key] = values
        return tables.read(tmp_path / "walk.h5", Reading(**choices))

    return written_and_read


@pytest.fixture
def refused(read):
    def message(contents: dict, **choices) -> str:
        with pytest.raises(InputError) as caught:
            read(contents, **choices)
        return str(caught.value).split("walk.h5", 1)[-1]

    return message


def test_a_dataset_is_a_table(read):
    (one,) = read({"trace": np.arange(6).reshape(3, 2)})
    assert one.name == "walk" and one.columns == ("x0", "x1") and one.x.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_a_group_of_datasets_of_one_length_is_a_table(read):
    contents = {
        "mouse/t": np.arange(4) / 10,
        "mouse/paw": np.arange(8.0, dtype=np.float32).reshape(4, 2),
        "mouse/speed": np.ones((4, 1)),
        "mouse/what": np.array(["rest", "run", "run", "rest"], dtype=h5py.string_dtype()),
        "mouse/who": np.array([b"a", b"a", b"b", b"b"]),
        "version": 3,
    }
    first, second = read(contents, time_column="t", label_column="what", sequence_column="who")
    assert first.columns == ("paw0", "paw1", "speed") and (first.name, second.name) == ("a", "b")
    assert second.x.tolist() == [[4, 5, 1], [6, 7, 1]] and second.s.tolist() == [1, 0]
    np.testing.assert_allclose(second.times, [0.2, 0.3])


def test_a_group_or_a_dataset_per_recording(read):
    groups = {f"day{i}/{name}": np.full(3 + i, float(i)) for i in (1, 2) for name in ("x", "y")}
    assert [(one.name, one.x.shape, one.columns) for one in read(groups)] == [
        ("day1", (4, 2), ("x", "y")),
        ("day2", (5, 2), ("x", "y")),
    ]
    found = read({"dawn": np.ones((4, 2)), "dusk": np.ones((6, 2))})
    assert [(one.name, len(one)) for one in found] == [("dawn", 4), ("dusk", 6)]


def test_a_key_picks_a_table(read, refused):
    contents = {"raw/trace": np.zeros((4, 2)), "raw/video": np.zeros((4, 2, 2)), "clean/trace": np.ones((5, 3))}
    assert read(contents, key="clean/trace")[0].x.shape == (5, 3)
    assert read(contents, key="clean")[0].x.shape == (5, 3)
    assert 'has no key "clear": it has "clean", "clean/trace", "raw"' in refused(contents, key="clear")
    assert "a table has 2 axes (time, columns), not 3" in refused(contents, key="raw/video")


def test_columns_by_fields_and_by_attribute(read, tmp_path):
    (one,) = read({"table": np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "i4"), ("b", "f8")])})
    assert one.columns == ("a", "b") and one.x.tolist() == [[1, 2.5], [3, 4.5]]
    with h5py.File(tmp_path / "named.h5", "w") as file:
        file["x"] = np.ones((3, 2))
        file["x"].attrs["columns"] = ["left", "right"]
    assert tables.read(tmp_path / "named.h5")[0].columns == ("left", "right")


def test_doubts_are_answered_with_the_keys_there_are(refused):
    shown = refused({"a": np.ones((3, 2)), "b": np.ones((4, 3)), "c/d": np.ones(2)})
    assert 'say with --key which table is meant; it has "a", "b", "c", "c/d".' in shown
    assert ", ...." in refused({f"k{i}/{j}": np.ones((i + j + 1, 1)) for i in range(4) for j in range(9)})


def test_what_can_not_be_a_table_is_refused(refused, tmp_path):
    assert "holds no dataset" in refused({})
    assert "has columns but no rows" in refused({"x": np.zeros((0, 2))})
    assert ', row 1, column "x1": the value is infinite' in refused({"x": [[0.0, 1.0], [2.0, np.inf]]})
    assert 'column "who" holds no numbers' in refused({"x": np.ones(1), "who": np.array([b"a"])})
    assert 'two columns are called "x0"' in refused({"x": np.ones((2, 2)), "x0": np.ones(2)})
    (tmp_path / "walk.h5").write_bytes(b"\x89HDF\r\n\x1a\n and no more")
    with pytest.raises(InputError, match=r"walk.h5 is not an HDF5 file that can be read"):
        tables.read(tmp_path / "walk.h5")
