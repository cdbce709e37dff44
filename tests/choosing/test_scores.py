"""The worked examples of docs/scores.md, and properties every score must have."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from swerve.choosing.scores import count_matches, regimes_that_occur, score, switch_f1, switch_times


def labels(text: str) -> np.ndarray:
    return np.array([int(cell) for cell in text.split()])


def scores(predicted: str, truth: str) -> dict[str, float]:
    return score([labels(predicted)], [labels(truth)]).as_dict()


def test_frame_f1_example():
    result = scores("5 5 5 3 3 3 3 3 4 5", "0 0 0 0 1 1 1 1 2 2")
    assert result["frame_f1"] == pytest.approx(80)
    assert result["frame_f1_macro"] == pytest.approx((75 + 800 / 9 + 200 / 3) / 3)
    assert result["frame_precision_macro"] == pytest.approx((75 + 80 + 100) / 3)
    assert result["frame_recall_macro"] == pytest.approx((75 + 100 + 50) / 3)


def test_merging_example():
    result = scores("0 0 0 1 2 2 2 2", "0 0 0 0 1 1 1 1")
    assert result["frame_f1"] == pytest.approx(87.5)
    assert result["accuracy_merged"] == pytest.approx(100)
    assert result["switch_f1_tol0"] == pytest.approx(200 / 3)
    assert result["switch_precision_tol0"] == pytest.approx(50)
    assert result["switch_recall_tol0"] == pytest.approx(100)
    assert result["switch_f1_tol0_merged"] == pytest.approx(100)


def test_one_matching_for_the_whole_test_set_example():
    truth = [labels("0 0 1 1"), labels("0 0 1 1")]
    swapped = [labels("1 1 0 0"), labels("0 0 1 1")]
    assert score(swapped, truth).matched.frame_f1 == pytest.approx(50)


def test_nmi_and_ari_example():
    result = scores("0 0 1 2", "0 0 1 1")
    assert result["nmi"] == pytest.approx(80)
    assert result["ari"] == pytest.approx(400 / 7)


def test_tolerance_example():
    truth, predicted = np.zeros(30, int), np.zeros(30, int)
    truth[10:14] = 1
    predicted[13:18] = 1
    assert switch_f1([predicted], [truth], tolerance=0).f1 == 0
    assert switch_f1([predicted], [truth], tolerance=3).f1 == pytest.approx(50)
    assert switch_f1([predicted], [truth], tolerance=5).f1 == pytest.approx(100)


def test_a_true_switch_is_found_only_once():
    truth = labels("0 0 0 0 0 1 1 1 1 1")
    flicker = labels("0 0 0 0 1 0 1 1 1 1")
    result = switch_f1([flicker], [truth], tolerance=5)
    assert (result.precision, result.recall) == (pytest.approx(100 / 3), pytest.approx(100))


def test_counts_are_pooled_over_sequences():
    truth = [labels("0 1 0 1"), labels("0 0 0 1")]
    predicted = [labels("0 1 0 1"), labels("0 1 1 1")]
    assert switch_f1(predicted, truth, tolerance=0).f1 == pytest.approx(75)  # 3 of 4 and 4, not (100 + 0) / 2


def test_unlabelled_frames_example():
    result = scores("0 0 0 1 1 1 2", "0 0 -1 -1 1 1 -1")
    assert result["frame_f1"] == result["nmi"] == result["switch_f1_tol0"] == pytest.approx(100)


def test_no_switch_to_find():
    still, moving = labels("0 0 0 0"), labels("0 0 1 1")
    assert switch_f1([still], [still], tolerance=0).f1 == 100
    assert switch_f1([moving], [still], tolerance=0).f1 == 0
    assert switch_f1([still], [moving], tolerance=0).f1 == 0


def test_too_few_regimes():
    result = scores("0 0 0 0", "0 0 0 1")
    assert result["frame_f1"] == pytest.approx(75)
    assert result["frame_f1_macro"] == pytest.approx((600 / 7) / 2)


def test_switches_of_unmatched_regimes_count():
    result = scores("0 0 1 2 3 3 3 3", "0 0 0 0 1 1 1 1")
    assert result["switch_precision_tol0"] == pytest.approx(100 / 3)


@pytest.mark.parametrize("seed", range(50))
def test_matches_are_as_many_as_a_bipartite_matching_finds(seed):
    rng = np.random.default_rng(seed)
    predicted = np.sort(rng.choice(40, rng.integers(0, 12), replace=False))
    truth = np.sort(rng.choice(40, rng.integers(0, 12), replace=False))
    tolerance = int(rng.integers(0, 6))
    near = np.abs(predicted[:, None] - truth[None, :]) <= tolerance
    best = np.sum(maximum_bipartite_matching(csr_array(near.astype(int))) >= 0) if near.size else 0
    assert count_matches(predicted, truth, tolerance) == best


@pytest.mark.parametrize("seed", range(10))
def test_the_names_of_regimes_do_not_matter_and_scores_stay_in_range(seed):
    rng = np.random.default_rng(seed)
    truth = [np.repeat(rng.integers(0, 3, 8), 5) for _ in range(4)]
    predicted = [np.where(rng.random(40) < 0.8, one, rng.integers(0, 5, 40)) for one in truth]
    names = rng.permutation(5) * 7 + 2
    result = score(predicted, truth).as_dict()
    assert score([names[one] for one in predicted], truth).as_dict() == pytest.approx(result)
    assert all(-1e-9 <= value <= 100 + 1e-9 for name, value in result.items() if name != "ari")
    assert result["accuracy_merged"] >= result["frame_f1"]
    assert result["switch_f1_tol5"] >= result["switch_f1_tol0"]
    assert list(score(truth, truth).as_dict().values()) == pytest.approx([100] * len(result))


def test_the_documented_keys_exist():
    keys = "frame_f1 frame_f1_macro accuracy_merged nmi ari switch_f1_tol0 switch_f1_tol5"
    assert set(keys.split()) <= set(scores("0 1", "0 1"))


def test_switch_times_are_the_first_frames_of_new_regimes():
    assert switch_times(labels("0 0 1 1 0")).tolist() == [2, 4]
    assert switch_times(labels("0")).tolist() == []


def test_a_regime_of_a_few_stray_frames_does_not_count():
    mostly, strays = np.repeat([0, 1], 100), np.array([2])
    assert regimes_that_occur([mostly, strays]) == 2
    assert regimes_that_occur([mostly, np.repeat(strays, 3)]) == 3
    assert regimes_that_occur([mostly, np.full(10, -1)]) == 2
