"""The smallest settings that still train: shared, so that tests share what they compile."""

import numpy as np

from swerve.types import Recording
from swerve_lab.boards import bouncing_ball

SETTINGS = (
    "training.steps=20",
    "training.report_every=10",
    "training.restarts=2",
    "training.batch_size=4",
    "training.window=40",
    "training.validation_share=0.2",
    "training.merging=0",
    "posterior.encoder_size=4",
    "posterior.causal_size=4",
    "model.state_size=2",
    "model.dynamics_hidden=[4]",
    "model.switching_hidden=[4]",
    "arhmm.lags=[1]",
    "arhmm.features=[0]",
    "arhmm.restarts=1",
    "arhmm.max_iterations=5",
)
TINY_ROW = """
[experiment]
board = "bouncing-ball"
model = "{model}"
row = "a tiny {model}"
runs = {runs}
training_sequences = 5
test_sequences = 5
"""
TINY_SIZES = """
[model]
regimes = 2
state_size = 2
dynamics_hidden = [4]
switching_hidden = [4]

[posterior]
encoder_size = 4
causal_size = 4

[training]
steps = 20
report_every = 10
restarts = 2
batch_size = 4
window = 40
validation_share = 0.2

[arhmm]
lags = [1]
features = [0]
restarts = 1
max_iterations = 5
"""
LENGTHS = (100, 98, 97, 100, 99)  # three windows of 40 each
LINEAR = ("arhmm.lags=[1]", "arhmm.features=[0]", "arhmm.restarts=4", "training.validation_share=0.7")
"""An AR-HMM with restarts to compare."""


def drifts(count: int = 12) -> list[Recording]:
    """Straight lines up and down with a little noise: two regimes, and an AR-HMM sees them."""
    made = []
    for i in range(count):
        rng = np.random.default_rng(i)
        slopes = np.repeat(rng.permutation([1.0, -1.0, 1.0, -1.0]), 20)
        made.append(Recording(np.cumsum(slopes + 0.1 * rng.standard_normal(80))[:, None], name=str(i)))
    return made


def balls_beside_noise(columns: tuple[str, str]) -> list[Recording]:
    """Five recordings of a ball's height, and noise beside it."""
    noise, made = np.random.default_rng(0), []
    for one in bouncing_ball.generate(5, seed=3).series():
        x = np.concatenate([one.x, noise.standard_normal(one.x.shape)], axis=1)
        made.append(Recording(x, s=one.s, name=one.name, columns=columns))
    return made


def ragged(columns: tuple[str, str]) -> list[Recording]:
    """The same of different lengths, one of them with a gap."""
    whole = zip(balls_beside_noise(columns), LENGTHS, strict=True)
    cut = [Recording(one.x[:n].copy(), s=one.s[:n], name=one.name, columns=columns) for one, n in whole]
    cut[1].x[20:26] = np.nan
    return cut
