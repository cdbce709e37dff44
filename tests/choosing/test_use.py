"""One per cent of the frames makes a regime."""

import numpy as np
import pytest

from swerve.choosing.use import IN_USE, in_use, used


@pytest.mark.parametrize("unit", [1.0, 1e-3])
def test_a_regime_with_one_per_cent_of_the_frames_is_in_use(unit):
    frames = np.array([IN_USE, 0.9 * IN_USE, 0.0, 1 - 1.9 * IN_USE])
    assert in_use(unit * frames).tolist() == [True, False, False, True]


def test_frames_without_a_label_do_not_count():
    labels = np.repeat([0, 4, 1, -1], [99, 100, 1, 1000])
    assert used(labels) == 2
    assert used(np.concatenate([labels, [1]])) == 2, "2 of 201"
    assert used(np.concatenate([labels, [1, 1]])) == 3, "3 of 202"
    assert used(labels.reshape(2, -1)) == 2
    assert used(np.array([-1])) == 0
