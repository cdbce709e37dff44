"""Forecasts as files: all of them or none."""

import errno
from dataclasses import replace

import numpy as np
import pytest

from swerve import api
from swerve.data import atomic
from swerve.data.windows import Standardizer
from swerve.models.arhmm import Covariance
from swerve.models.arhmm.model import blank
from swerve.runs import forecasts as forecasting
from swerve.runs.run import Run
from swerve.types import Forecast, Recording

WALK = Recording(np.zeros((30, 1)), name="walk", columns=("x",))
AHEAD = Forecast(np.full((3, 2), 0.5), np.zeros((3, 1, 1)), (0.5,), "walk", ("x",))


@pytest.fixture
def numbers() -> Run:
    """A run of which only the columns matter here."""
    standardizer = Standardizer(np.zeros(1), np.ones(1))
    return Run(api.make_config(2, "arhmm"), blank(2, 1, 1, Covariance.DIAGONAL), ("x",), 0, standardizer, 0.0)


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(("owner", "name"), [(forecasting, "_picture"), (atomic, "_force_to_disk")])
def test_a_full_disk_leaves_no_table_without_its_picture(numbers, tmp_path, monkeypatch, owner, name, there):
    out = tmp_path / "some" / "ahead"
    if there:
        out.mkdir(parents=True)
        (out / "walk.csv").write_text("old")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr(forecasting, "_picture", lambda *_: b"drawn")
    monkeypatch.setattr(owner, name, full)
    with pytest.raises(OSError, match="No space left") as error:
        forecasting.write_forecasts(out, numbers, [WALK], [AHEAD], ["walk"])
    assert error.value.filename == str(out)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert there or list(tmp_path.iterdir()) == []


def test_forecasts_of_video_have_no_picture(numbers, tmp_path):
    film = replace(numbers, image=(1, 1))
    forecasting.write_forecasts(tmp_path, film, [WALK], [AHEAD], ["walk"])
    assert [path.name for path in tmp_path.iterdir()] == ["walk.csv"]
