"""Whatever a table holds, it comes back from every kind of file; whatever a file holds, it is read or refused."""

import csv
import tempfile
from pathlib import Path

import h5py
import hypothesis.extra.numpy as arrays
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swerve.data import tables
from swerve.data.reading import Reading
from swerve.errors import InputError

FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NUMBERS = st.floats(allow_infinity=False, width=64) | st.just(float("nan"))
LETTERS = st.characters(exclude_categories=["Cs", "Cc"])
NAMES = st.text(LETTERS, min_size=1, max_size=12).map(lambda name: f"c{name}".strip())
NAMES |= st.sampled_from(["<script>alert(1)</script>", "a,b", 'say "x"', "hip.x", "a;b"])


@st.composite
def recordings(draw):
    """Columns with odd names, and several recordings one after the other; values are missing, but no whole column."""
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    x = draw(arrays.arrays(np.float64, (sum(lengths), len(names)), elements=NUMBERS))
    x[0] = np.where(np.isnan(x[0]), 0.0, x[0])
    who = np.repeat([f"recording {i}" for i in range(len(lengths))], lengths)
    return pd.DataFrame(x, columns=names).assign(who=who)


def write_csv(path: Path, frame: pd.DataFrame) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerow(frame.columns)
        writer.writerows(["" if cell != cell else cell for cell in row] for row in frame.itertuples(index=False))


def write_hdf5(path: Path, frame: pd.DataFrame) -> None:
    numbers = frame.drop(columns="who")
    with h5py.File(path, "w") as file:
        file["values"] = numbers.to_numpy()
        file["values"].attrs["columns"] = list(numbers.columns)
        file["who"] = frame["who"].to_numpy(object)


def write_npz(path: Path, frame: pd.DataFrame) -> None:
    parts = {str(name): part.drop(columns="who") for name, part in frame.groupby("who", sort=False)}
    longest = max(map(len, parts.values()))
    x = np.stack([np.pad(one, ((0, longest - len(one)), (0, 0))) for one in parts.values()])
    np.savez(
        path,
        x=x,
        names=list(parts),
        columns=[str(name) for name in frame.columns.drop("who")],
        lengths=[len(one) for one in parts.values()],
    )


WRITERS = {
    ".csv": write_csv,
    ".tsv": write_csv,
    ".parquet": lambda path, frame: frame.to_parquet(path),
    ".h5": write_hdf5,
    ".npz": write_npz,
}


@pytest.mark.parametrize("kind", WRITERS)
@FEW
@given(frame=recordings())
def test_a_round_trip_changes_nothing(kind, frame):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"data{kind}"
        WRITERS[kind](path, frame)
        found = tables.read(path, Reading(sequence_column=None if kind == ".npz" else "who"))
    same_as(found, frame)


@FEW
@given(frame=recordings())
def test_data_frames_are_read_like_files(frame):
    same_as(tables.read_frames([frame], Reading(sequence_column="who")), frame)


def same_as(found, frame) -> None:
    expected = list(frame.groupby("who", sort=False))
    assert [one.name for one in found] == [name for name, _ in expected]
    for one, (_, part) in zip(found, expected, strict=True):
        assert one.columns == tuple(part.columns.drop("who"))
        np.testing.assert_array_equal(one.x, part.drop(columns="who").to_numpy())


STARTS = {
    ".csv": [b"", b"a,b\n1,2\n", b"t;x\n"],
    ".tsv": [b"", b"a\tb\n"],
    ".parquet": [b"", b"PAR1"],
    ".h5": [b"", b"\x89HDF\r\n\x1a\n"],
    ".npz": [b"", b"PK\x03\x04"],
    ".npy": [b"", b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }"],
}


@pytest.mark.parametrize("kind", STARTS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_bytes_are_read_or_refused(kind, data):
    content = data.draw(st.sampled_from(STARTS[kind])) + data.draw(st.binary(max_size=200))
    reading = Reading(time_column=data.draw(st.sampled_from([None, "a", "x0"])))
    read_or_refuse(kind, content, reading)


@pytest.mark.parametrize("kind", [".parquet", ".h5", ".npz"])
@FEW
@given(data=st.data())
def test_damaged_files_are_read_or_refused(kind, data):
    frame = pd.DataFrame({"a": np.arange(50.0), "who": ["one"] * 50})
    with tempfile.TemporaryDirectory() as folder:
        WRITERS[kind](Path(folder) / f"data{kind}", frame)
        content = bytearray((Path(folder) / f"data{kind}").read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=8)):
        content[place] = data.draw(st.integers(0, 255))
    read_or_refuse(kind, bytes(content)[: data.draw(st.integers(1, len(content)))], Reading(columns=("a",)))


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.sampled_from('a1.,;\t\n\r" -eNT:\ufeff\x00'), max_size=60))
def test_any_text_is_read_or_refused(text):
    read_or_refuse(".csv", text.encode(), Reading())


def read_or_refuse(kind: str, content: bytes, reading: Reading) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"data{kind}"
        path.write_bytes(content)
        try:
            found = tables.read(path, reading)
        except InputError as error:
            assert "\n" not in str(error)
        else:
            assert all(len(one) and not np.isinf(one.x).any() for one in found)
