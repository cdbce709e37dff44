"""`swerve demo`."""

import json

import pytest
from shell import swerve
from tiny import SETTINGS

from swerve import api
from swerve.cli import demo
from swerve.runs import report as reporting

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_a_demo_does_not_write_over_a_file(refuse, write):
    assert "is no demo: choose another --out" in refuse("demo", "--out", write("notes.txt", "mine"))


@pytest.mark.slow
def test_the_demo_scores_reports_and_can_be_run_again(monkeypatch, tmp_path, refuse):
    monkeypatch.setattr(demo, "TRAINING_SEQUENCES", 5)
    monkeypatch.setattr(demo, "TEST_SEQUENCES", 5)
    monkeypatch.setattr(demo, "demo_config", lambda seed: api.make_config(2, seed=seed, settings=SETTINGS))
    out = tmp_path / "demo"
    assert "oracle" in swerve("demo", "--out", out)
    first = (out / "scores.json").read_text()
    assert "oracle" in (out / "report.html").read_text()
    assert {"scores", "training"} <= {one.stem for one in (out / "figures").glob("*.png")}
    monkeypatch.setattr(reporting, "write_report", lambda *arguments, **options: out / "report.html")
    swerve("demo", "--out", out)
    assert (out / "scores.json").read_text() == first
    scores = json.loads(first)
    assert scores["oracle"]["frame_f1"] > 90
    assert {"frame_f1", "switch_f1_tol0", "switch_f1_tol5", "arhmm", "seed", "held_out_bound"} <= set(scores)
    (tmp_path / "notes.txt").write_text("mine")
    assert "is no demo" in refuse("demo", "--out", tmp_path)
