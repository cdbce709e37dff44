"""`swerve-lab`: boards into files, and experiments."""

import errno
import os

import numpy as np
import pytest
from shell import Refuse, swerve

from swerve.data import tables
from swerve_lab import cli
from swerve_lab.boards.catalog import BOARDS


def lab(*words) -> str:
    return swerve(*words, app=cli.app)


@pytest.fixture
def refuse(monkeypatch, capsys):
    return Refuse(cli.main, monkeypatch, capsys)


def test_help_names_its_commands_and_what_comes_next():
    shown = lab("--help")
    assert "generate" in shown and "reproduce" in shown
    assert "swerve fit balls.csv" in lab("generate", "--help")
    assert "reproduce table1 --show" in lab("reproduce", "--help")


def test_the_same_seed_writes_the_same_file(tmp_path):
    written = []
    for name in ("balls.csv", "again.csv"):
        shown = lab("generate", "bouncing-ball", "--out", tmp_path / name, "--sequences", 5, "--seed", 3)
        assert "5 recordings of 100 frames" in shown
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize("board", list(BOARDS))
def test_boards_as_numpy_files(board, tmp_path):
    noise = ("--noise", 0.0) if BOARDS[board].noisy else ()
    lab("generate", board, "--out", tmp_path / "new" / "board.npz", "--sequences", 2, *noise)
    first, second = tables.read(tmp_path / "new" / "board.npz")
    made = BOARDS[board].generate(2, seed=0)
    assert (len(first), first.x.shape) == (len(second), made.clean[0].shape)
    np.testing.assert_allclose(first.x, made.clean[0])
    np.testing.assert_array_equal(second.s, made.s[1])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bouncing-bal", "--out", "x.csv"], "There is no board 'bouncing-bal'; there are bouncing-ball"),
        (["bouncing-ball", "--out", "x.csv", "--sequences", "0"], "--sequences must be at least 1, not 0."),
        (["bouncing-ball", "--out", "x.txt"], "x.txt must end in .csv or .npz."),
        (["bouncing-ball", "--out", "x.csv", "--seed", "-1"], "--seed must be at least 0, not -1."),
        (["reacher", "--out", "x.csv", "--noise", "0.1"], "The board 'reacher' has no noise to set."),
        (
            ["dubins", "--out", "x.csv", "--sequences", "1"],
            "x.csv: a table has no place for images; write video to a .npz file.",
        ),
    ],
)
def test_boards_that_make_no_sense(refuse, words, message):
    assert message in refuse("generate", *words)


def test_a_full_disk_leaves_no_board(refuse, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left" in refuse("generate", "bouncing-ball", "--out", tmp_path / "a.csv", "--sequences", 2)
    assert list(tmp_path.iterdir()) == []


def test_an_experiment_that_is_not_there(refuse, tmp_path):
    shown = refuse("reproduce", "bouncing-bal", "--experiments", tmp_path)
    assert "There is no experiment 'bouncing-bal'" in shown
