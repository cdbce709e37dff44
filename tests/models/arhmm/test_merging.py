"""First guesses by merging stretches: evidence against an independent integral, and long regimes found again."""

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.stats import invgamma, norm

from swerve.models.arhmm import merging
from swerve.models.arhmm.merging import _evidence, _join, _moments, merge_stretches


def windows(x):
    """Without lags a regime reads a 1."""
    return np.ones((*x.shape[:2], 1))


def test_the_evidence_of_a_stretch_is_what_integration_gives():
    x = np.array([0.3, -0.5, 1.1, 0.4])[None, :, None]
    moments = _moments(x, windows(x), np.ones((1, 4), bool), [(0, 0, 4)])
    scale = float(moments.scale[0])

    def integrand(mean, variance):
        prior = norm.pdf(mean, 0, np.sqrt(variance)) * invgamma.pdf(variance, merging.SHAPE, scale=scale)
        return prior * np.prod(norm.pdf(x.ravel(), mean, np.sqrt(variance)))

    expected, _ = dblquad(integrand, 0, np.inf, -10, 10)
    assert np.log(expected) == pytest.approx(_evidence(moments)[0] - 2 * np.log(2 * np.pi), abs=1e-4)


def test_stretches_that_are_alike_become_one():
    """Two regimes differ in their mean, two in their spread alone; stretches on a border may go either way."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2, 0, 1, 2], 150)
    means, spreads = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 0.0]]), np.array([0.3, 0.3, 2.0])
    x = (means[truth] + spreads[truth, None] * rng.normal(size=(len(truth), 2)))[None]
    labels = merge_stretches(x, windows(x), np.ones(x.shape[:2], bool), 3, 20, np.random.default_rng(1))[0]
    commonest = [np.bincount(labels[truth == regime]).argmax() for regime in range(3)]
    assert len(set(commonest)) == 3
    assert np.mean(labels == np.array(commonest)[truth]) > 0.9


def test_padding_is_no_stretch_and_there_are_never_too_many():
    x = np.random.default_rng(0).normal(size=(30, 400, 1))
    usable = np.ones((30, 400), bool)
    usable[3:] = False
    labels = merge_stretches(x, windows(x), usable, 2, 10, np.random.default_rng(0))
    assert (labels[3:] == merging.NO_REGIME).all() and set(np.unique(labels[:3])) == {0, 1}
    usable[:] = True
    labels = merge_stretches(x, windows(x), usable, 2, 10, np.random.default_rng(0))
    assert 0 < np.mean(labels >= 0) < 0.5


def test_joining_ends_with_as_many_groups_as_wanted():
    x = np.random.default_rng(0).normal(size=(1, 100, 2))
    moments = _moments(x, windows(x), np.ones((1, 100), bool), [(0, i, i + 10) for i in range(0, 100, 10)])
    assert sorted(set(_join(moments, 4))) == [0, 1, 2, 3]
