"""Published recordings: what is in them, and how turns are read off a skeleton."""

import numpy as np
import pytest

from swerve.errors import InputError
from swerve_lab.boards import published
from swerve_lab.boards.published import CLOCKWISE, COUNTER_CLOCKWISE, NEITHER, PUBLISHED, SALSA_RATE, turns, yaw_rate

SHAPES = {
    "honeybee": ([757, 814, 609], 4, 3),
    "mocap6": ([382, 205, 251, 446, 387, 387], 12, 12),
    "salsa": (None, 93, 3),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_recordings_come_with_labels_of_every_frame(name, shared_data):
    if not (shared_data / PUBLISHED[name][0]).is_file():
        pytest.skip(f"{PUBLISHED[name][0]} is not beside this checkout")
    lengths, channels, regimes = SHAPES[name]
    found = published.read(name, shared_data)
    series = found.series()
    assert lengths is None or [len(one) for one in series] == lengths
    assert all(one.x.shape == (len(labels), channels) for one, labels in zip(series, found.s, strict=True))
    assert np.unique(np.concatenate(found.s)).tolist() == list(range(regimes))
    assert all(len(one.columns) == channels and np.isfinite(one.x).all() for one in series)


def test_partners_are_held_out_together(shared_data):
    if not (shared_data / PUBLISHED["salsa"][0]).is_file():
        pytest.skip("the salsa is not beside this checkout")
    folds = published.read("salsa", shared_data).folds()
    assert len(folds) == 15
    for training, take in folds:
        names = [one.name for one in take.series()]
        assert [name[:2] for name in names] == ["60", "61"] and names[0][2:] == names[1][2:]
        assert len(training.series()) == 28 and not set(names) & {one.name for one in training.series()}


def test_recordings_that_are_not_there_are_named(tmp_path):
    with pytest.raises(InputError, match=r"honeybee/honeybee\.npz is missing\): --data"):
        published.read("honeybee", tmp_path)


def hips_that_turn(degrees_per_second):
    """The left hip beside the right one, y up; the right-hand rule about y gives the turn."""
    angle = np.radians(np.cumsum(degrees_per_second) / SALSA_RATE)
    return np.stack([np.cos(angle), np.zeros_like(angle), -np.sin(angle)], axis=1) * 0.3


def test_the_yaw_rate_of_hips_that_turn():
    speeds = np.repeat([0.0, 180.0, 0.0, -180.0, 30.0], 80)
    rates = yaw_rate(hips_that_turn(speeds), SALSA_RATE)
    middle = slice(30, None, 80)  # far from every change, which smoothing blurs
    np.testing.assert_allclose(rates[middle], speeds[middle], atol=0.5)
    assert turns(rates)[middle].tolist() == [NEITHER, COUNTER_CLOCKWISE, NEITHER, CLOCKWISE, NEITHER]


def test_counter_clockwise_is_so_seen_from_above():
    """Seen from above, x to the right and z down the page: from x (the right) to -z (the top) is counter-clockwise."""
    right_then_top = np.array([[1.0, 0.0, 0.0]] * 40 + [[0.0, 0.0, -1.0]] * 40)
    assert yaw_rate(right_then_top, SALSA_RATE)[40] > 0
