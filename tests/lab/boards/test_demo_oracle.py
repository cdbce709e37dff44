"""The demo shows scores of the oracle without knowing it: these are they."""

import pytest

from swerve.choosing.scores import score
from swerve.cli import ball, demo
from swerve_lab.boards.ball_oracle import fit_bouncing_ball


def test_the_demo_shows_the_scores_of_the_oracle():
    test = ball.draw(demo.TEST_SEQUENCES, seed=demo.TEST_SEED)
    scores = score(list(fit_bouncing_ball(test.x).s), list(test.s)).as_dict()
    assert {name: scores[name] for name in demo.ORACLE} == pytest.approx(demo.ORACLE, abs=0.005)
