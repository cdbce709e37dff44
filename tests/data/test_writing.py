from dataclasses import replace

import numpy as np
import pytest

from swerve.data import tables
from swerve.data.reading import Reading
from swerve.errors import InputError
from swerve.types import Recording
from swerve_lab.boards import bouncing_ball, dubins, dubins_video


def same(one: Recording, other: Recording) -> bool:
    arrays = all(
        (a is None and b is None) or (a is not None and np.array_equal(a, b, equal_nan=True))
        for a, b in ((one.x, other.x), (one.u, other.u), (one.s, other.s))
    )
    return arrays and (one.name, one.columns, one.image) == (other.name, other.columns, other.image)


@pytest.fixture
def ragged() -> list[Recording]:
    rng = np.random.default_rng(0)
    series = [
        Recording(
            x=rng.standard_normal((length, 2)) * 10.0 ** rng.integers(-9, 9, (length, 2)),
            u=rng.standard_normal((length, 1)),
            s=rng.integers(0, 3, length),
            name=f"run {length}, day",
            columns=("a", "b, in m"),
        )
        for length in (4, 7)
    ]
    series[0].x[1, 0] = np.nan
    return series


@pytest.mark.parametrize("board", [bouncing_ball.generate(3, seed=0), dubins.positions(3, seed=0)])
def test_boards_come_back_bit_for_bit(board, tmp_path):
    tables.write_csv(tmp_path / "board.csv", board.series())
    tables.write_npz(tmp_path / "board.npz", board.series())
    from_csv = tables.read(tmp_path / "board.csv", Reading(sequence_column="sequence", label_column="s"))
    from_npz = tables.read(tmp_path / "board.npz")
    for read in (from_csv, from_npz):
        assert all(same(one, other) for one, other in zip(read, board.series(), strict=True))


def test_videos_come_back_bit_for_bit_and_are_images_in_the_file(tmp_path):
    series = dubins_video.generate(2, seed=0).series()
    short = replace(series[1], x=series[1].x[:60], s=series[1].s[:60])
    tables.write_npz(tmp_path / "video.npz", [series[0], short])
    assert np.load(tmp_path / "video.npz")["x"].shape == (2, 100, 28, 28)
    assert all(
        same(one, other) for one, other in zip(tables.read(tmp_path / "video.npz"), [series[0], short], strict=True)
    )


def test_a_table_of_images_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"write video to a \.npz file"):
        tables.write_csv(tmp_path / "video.csv", dubins_video.generate(1, seed=0).series())
    assert not list(tmp_path.iterdir())


def test_ragged_recordings_with_gaps_and_controls_come_back(ragged, tmp_path):
    tables.write_csv(tmp_path / "a.csv", ragged)
    tables.write_npz(tmp_path / "a.npz", ragged)
    roles = {"sequence_column": "sequence", "label_column": "s", "control_columns": ("u0",)}
    for read in (tables.read(tmp_path / "a.csv", Reading(**roles)), tables.read(tmp_path / "a.npz")):
        assert all(same(one, other) for one, other in zip(read, ragged, strict=True))


def test_labels_are_left_out_where_there_are_none(ragged, tmp_path):
    bare = [replace(one, s=None) for one in ragged]
    tables.write_csv(tmp_path / "a.csv", bare)
    assert (tmp_path / "a.csv").read_text().splitlines()[0] == 'sequence,a,"b, in m",u0'
    tables.write_npz(tmp_path / "a.npz", [bare[0], ragged[1]])
    first, second = tables.read(tmp_path / "a.npz")
    assert first.s.tolist() == [-1] * 4 and np.array_equal(second.s, ragged[1].s)


def test_what_could_not_be_read_back_is_refused(ragged, tmp_path):
    first, second = ragged
    with pytest.raises(InputError, match='Two recordings are called "run 4, day"'):
        tables.write_npz(tmp_path / "a.npz", [first, first])
    with pytest.raises(InputError, match='Two columns are called "a"'):
        tables.write_csv(tmp_path / "a.csv", ragged, sequence_column="a")
    with pytest.raises(InputError, match="has other columns"):
        tables.write_csv(tmp_path / "a.csv", [first, replace(second, columns=("a", "c"))])
    assert not list(tmp_path.iterdir())
