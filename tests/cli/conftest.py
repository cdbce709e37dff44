"""Recordings in files, and cheap runs that were fitted to them."""

import numpy as np
import pandas as pd
import pytest
from conftest import compiled_quickly
from shell import COLUMNS, OPTIONS, Refuse, swerve

from swerve.cli import demo
from swerve.cli import main as cli
from swerve.data import tables


@pytest.fixture
def refuse(monkeypatch, capsys):
    return Refuse(cli.main, monkeypatch, capsys)


@pytest.fixture(scope="session")
def balls(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "balls.csv"
    tables.write_csv(path, demo.recordings(5, seed=3))
    return path


@pytest.fixture
def write(tmp_path):
    def file(name: str, *lines: str):
        path = tmp_path / name
        path.write_text("\n".join([*lines, ""]))
        return path

    return file


@pytest.fixture(scope="session")
def linear(balls, tmp_path_factory):
    """A folder with an AR-HMM, the cheapest model to try things on."""
    folder = tmp_path_factory.mktemp("runs") / "linear"
    with compiled_quickly():
        swerve("fit", balls, "--out", folder, "--model", "arhmm", *OPTIONS, *COLUMNS)
    return folder


@pytest.fixture(scope="session")
def walks(tmp_path_factory):
    """A run on a table with times, labels and a column to leave out, and tomorrow's table without labels."""
    folder = tmp_path_factory.mktemp("walks")
    regimes = np.arange(240) // 40 % 2
    times, place = np.arange(240) / 10, np.cumsum(1.0 - 2 * regimes)
    frame = pd.DataFrame({"t": times, "p": place, "note": "fine", "state": regimes})
    frame["p"] += np.random.default_rng(0).normal(size=240) / 10
    frame.to_csv(folder / "today.csv", index=False)
    frame.drop(columns="state").iloc[:150].to_parquet(folder / "tomorrow.parquet")
    roles = ("--time-column", "t", "--label-column", "state", "--column", "p", "--every", 2)
    with compiled_quickly():
        swerve("fit", folder / "today.csv", "--out", folder / "run", "--model", "arhmm", *OPTIONS, *roles)
    return folder
