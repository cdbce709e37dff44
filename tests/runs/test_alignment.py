"""Which regime of a refit is which of the old ones."""

import numpy as np
import pytest

from swerve.runs.alignment import align, rearranged, renumbered

OLD = [np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2]), np.array([2, 2, 0, 0])]


def own(numbers: list[int], labels=OLD) -> list[np.ndarray]:
    """The same regimes as another model would number them."""
    return [np.array(numbers)[one] for one in labels]


@pytest.mark.parametrize("numbers", [[0, 1, 2], [2, 0, 1], [1, 0, 2]])
def test_the_same_regimes_get_the_same_numbers(numbers):
    found = own(numbers)
    alignment = align(found, OLD, regimes=3, old_regimes=3, to="old")
    for ours, theirs in zip(found, OLD, strict=True):
        np.testing.assert_array_equal(renumbered(ours, alignment.order), theirs)
    assert alignment.ari == alignment.same == 1.0
    assert alignment.kept == (1.0, 1.0, 1.0)
    assert not alignment.doubts


def test_probabilities_move_with_the_labels():
    found = own([2, 0, 1])
    order = align(found, OLD, regimes=3, old_regimes=3, to="old").order
    probable = np.random.default_rng(0).dirichlet(np.ones(3), size=10)
    moved = rearranged(probable, order)
    np.testing.assert_array_equal(moved[np.arange(10), renumbered(found[0], order)], probable[np.arange(10), found[0]])


def test_regimes_beyond_the_old_ones_come_last():
    found = own([3, 1, 0])
    found[0][-1] = 2
    alignment = align(found, OLD, regimes=4, old_regimes=3, to="old")
    assert alignment.order == (3, 1, 0, 2)
    assert renumbered(found[0], alignment.order)[-1] == 3
    assert alignment.same == 13 / 14
    assert alignment.fresh == (3,)
    assert alignment.kept == (1.0, 1.0, 5 / 6, None)


def test_numbers_that_a_smaller_model_lacks_stay_unused():
    found = [np.where(one == 1, 0, one // 2) for one in OLD]  # regimes 0 and 1 became one
    alignment = align(found, OLD, regimes=2, old_regimes=3, to="old")
    assert alignment.order == (0, None, 1)
    probable = np.array([[0.25, 0.75]])
    np.testing.assert_array_equal(rearranged(probable, alignment.order), [[0.25, 0.0, 0.75]])
    assert alignment.kept == (1.0, 0.0, 1.0)
    assert alignment.doubts == ["regime 1 kept 0 % of its frames"]
    assert 0 < alignment.ari < 1


def test_unused_regimes_take_what_is_left_and_numbers_never_grow():
    old = [np.where(one == 1, 0, one) for one in OLD]
    alignment = align(own([2, 2, 0], old), old, regimes=3, old_regimes=3, to="old")
    assert alignment.order == (2, 1, 0)
    assert alignment.kept == (1.0, None, 1.0)
    assert alignment.fresh == ()


def test_a_regime_that_matches_no_old_one_is_said_to_be_new():
    found = [np.array([1, 1, 2, 1, 1, 1])]
    alignment = align(found, [np.zeros(6, int)], regimes=3, old_regimes=2, to="old")
    assert alignment.order[0] == 1
    assert alignment.order[2] == 2
    assert alignment.fresh == (2,)
    assert alignment.doubts == ["regime 2 is new and matches no old one"]
