"""`swerve evaluate`: labels beside the truth."""

import pytest
from shell import COLUMNS, swerve

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_labels_that_do_not_belong_to_the_truth(refuse, write, balls):
    labels = write("labels.csv", "frame,regime,p0", "0,0,1.0", "1,0,1.0")
    assert "has no true regimes for the recording 'labels'" in refuse(
        "evaluate", labels, balls, "--sequence-column", "sequence"
    )
    short = write("truth.csv", "x,s", "0.0,1")
    assert "'labels' has 2 labels but 1 true ones." in refuse("evaluate", labels, short)
    assert 'has no column "regime"' in refuse("evaluate", short, short)
    assert 'has no column "truth"' in refuse("evaluate", labels, short, "--label-column", "truth")


def test_recordings_without_labels_are_not_passed_over(refuse, linear, balls, tmp_path):
    swerve("segment", linear, balls, "--out", tmp_path / "labels", *COLUMNS)
    (tmp_path / "labels" / "ball-3.csv").unlink()
    words = ("evaluate", tmp_path / "labels", balls, "--sequence-column", "sequence")
    assert "1 recordings of" in refuse(*words)
    assert "4 recordings" in swerve(*words, "--partial")


def test_a_truth_that_knows_nothing(refuse, write):
    labels = write("labels.csv", "frame,regime,p0", "0,0,1.0", "1,0,1.0")
    unknown = write("truth.csv", "x,s", "0.0,-1", "0.0,-1")
    assert "no frame whose true regime is known" in refuse("evaluate", labels, unknown)
