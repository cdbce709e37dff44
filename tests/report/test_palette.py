import numpy as np

from swerve.report.palette import regime_colors
from swerve.report.spans import change_points, regime_spans, true_spans

# Machado, Oliveira and Fernandes (2009), full severity, on linear RGB.
DEUTERANOPIA = np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]])
PROTANOPIA = np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]])
TRITANOPIA = np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]])


def smallest_distance(colors):
    distances = np.linalg.norm(colors[:, None] - colors[None], axis=-1)
    return distances[np.triu_indices(len(colors), 1)].min()


def test_a_regime_keeps_its_colour_whatever_the_number_of_regimes():
    assert np.array_equal(regime_colors(np.arange(25))[:3], regime_colors(np.arange(3)))


def test_forty_regimes_have_forty_colours():
    assert smallest_distance(regime_colors(np.arange(40))) > 0.03


def test_the_first_regimes_differ_for_colour_blind_readers():
    linear = regime_colors(np.arange(8)) ** 2.2
    for simulated in (DEUTERANOPIA, PROTANOPIA, TRITANOPIA):
        seen = np.clip(linear @ simulated.T, 0, 1) ** (1 / 2.2)
        assert smallest_distance(seen) > 0.15


def test_unknown_is_no_regimes_colour():
    unknown, known = regime_colors(np.array([-1])), regime_colors(np.arange(30))
    assert np.linalg.norm(unknown - known, axis=1).min() > 0.03


def test_spans_cover_exactly_the_runs():
    assert true_spans(np.array([True, False, True, True])).tolist() == [[0, 1], [2, 4]]
    assert true_spans(np.zeros(3, bool)).tolist() == []
    assert regime_spans(np.array([2, 2, 0, 1])).tolist() == [[0, 2], [2, 3], [3, 4]]
    assert change_points(np.array([1])).tolist() == []
