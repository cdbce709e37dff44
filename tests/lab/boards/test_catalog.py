"""A small training on each hard board, from its sequences to scores: far better than always saying the same."""

import numpy as np
import pytest

from swerve import api
from swerve.choosing.scores import score
from swerve.runs import fit as run
from swerve_lab.boards import catalog as boards

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]

SMALL = (
    "training.restarts=1",
    "training.merging=0",
    "training.report_every=100",
    "training.batch_size=16",
    "posterior.encoder_size=8",
    "posterior.causal_size=8",
)


@pytest.mark.parametrize(
    ("name", "regimes", "margin", "settings"),
    [
        (
            *("dubins-positions-0.01", 3, 40),
            ("training.steps=500", "arhmm.lags=[2]", "arhmm.features=[0]", "arhmm.restarts=2"),
        ),
        (
            *("fields-0.02", 3, 40),
            ("training.steps=200", "arhmm.lags=[1]", "arhmm.features=[20]", "model.state_size=2"),
        ),
        (
            *("reacher", 5, 10),
            (
                *("training.steps=200", "arhmm.lags=[1]", "arhmm.features=[0]", "arhmm.restarts=2"),
                *("model.state_size=8", "model.emission_hidden=[32]", "model.dynamics_reads_x=true"),
            ),
        ),
    ],
)
def test_a_small_training_beats_the_majority_label(name, regimes, margin, settings):
    training, test = (boards.find(name).generate(count, seed=seed) for count, seed in ((200, 7), (50, 8)))
    fitted = run.fit(training.series(), api.make_config(regimes, settings=(*SMALL, *settings)))
    found = score([one.labels for one in fitted.segment(test.series(), samples=2)], list(test.s)).as_dict()
    majority = 100 * np.bincount(test.s.ravel()).max() / test.s.size
    assert found["frame_f1"] > majority + margin
