"""From a system and a batch to regimes; a label belongs to its recording alone."""

import itertools
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swerve.inference.frames import Frames
from swerve.models.snlds.maker import build_collapsed
from swerve.runs.segment import SWITCH_PRICE, bucket_length, infer_batch, worthwhile_labels
from swerve.settings.sections import ModelConfig, PosteriorConfig

K, T, D, SAMPLES = 3, 6, 2, 3
LENGTHS = (T, 4, 4, 1)


@pytest.fixture(scope="module")
def result():
    """Three recordings: the third is the second with garbage in its padding."""
    rng = np.random.default_rng(0)
    model = ModelConfig(regimes=K, state_size=2, dynamics="linear", switching_hidden=(4,))
    posterior = PosteriorConfig(encoder_size=3, causal_size=3)
    like = jax.eval_shape(
        lambda: build_collapsed(
            model, posterior, channels=D, controls=0, stickiness=0.0, allowed=K, key=jax.random.key(0)
        )
    )
    system = jax.tree.map(lambda leaf: np.float32(0.7 * rng.normal(size=leaf.shape)), like)
    allowed = np.zeros(K, np.float32)
    system = replace(system, model=eqx.tree_at(lambda m: m.log_allowed, system.model, allowed))
    x = np.float32(rng.normal(size=(len(LENGTHS), T, D)))
    x[2] = x[1]
    valid = np.arange(T) < np.array(LENGTHS)[:, None]
    x[2, LENGTHS[2] :] = np.nan
    frames = Frames(x, np.ones(x.shape, bool), valid, np.zeros((*valid.shape, 0), np.float32))
    return [np.asarray(a) for a in infer_batch(system, frames, samples=SAMPLES)]


def test_the_first_frame_takes_the_regime_of_the_second_where_there_is_one(result):
    probabilities, paths, _ = result
    np.testing.assert_array_equal(probabilities[:3, 0], probabilities[:3, 1])
    np.testing.assert_array_equal(paths[:3, 0], paths[:3, 1])


def test_probabilities_sum_to_one_in_every_valid_frame(result):
    probabilities, _, _ = result
    assert (probabilities >= 0).all()
    for row, length in zip(probabilities, LENGTHS, strict=True):
        np.testing.assert_allclose(row[:length].sum(axis=1), 1, rtol=1e-5)


def test_paths_are_regimes_and_expectations_are_finite(result):
    _, paths, expected = result
    assert paths.shape == (len(LENGTHS), T)
    assert set(np.unique(paths)) <= set(range(K))
    assert expected.shape == (len(LENGTHS), T, D)
    assert np.isfinite(expected[0]).all()


def test_neighbours_and_padding_change_nothing(result):
    for array in result:
        np.testing.assert_array_equal(array[1, : LENGTHS[1]], array[2, : LENGTHS[1]])
    assert not np.allclose(result[0][0, : LENGTHS[1]], result[0][1, : LENGTHS[1]])


@given(st.integers(1, 10**6))
def test_a_bucket_holds_the_recording_and_at_most_a_quarter_more(length):
    bucket = bucket_length(length)
    assert length <= bucket <= max(16, 1.25 * length)
    assert bucket_length(bucket) == bucket
    assert bucket <= bucket_length(length + 1)


def test_few_buckets_serve_many_lengths():
    assert len({bucket_length(length) for length in range(1, 10_001)}) < 50


def test_labels_are_the_best_of_all_paths():
    probabilities = np.random.default_rng(1).dirichlet(np.ones(K), size=(20, T)).astype(np.float32)
    valid = np.arange(T) < np.resize([T, 4, 1], 20)[:, None]
    found = np.asarray(worthwhile_labels(probabilities, valid))
    for row, frames, labels in zip(probabilities, valid.sum(axis=1), found, strict=True):
        paths = np.array(list(itertools.product(range(K), repeat=int(frames))))
        right = row[np.arange(frames), paths].sum(axis=1)
        best = np.argmax(right - SWITCH_PRICE * np.count_nonzero(np.diff(paths, axis=1), axis=1))
        assert labels[:frames].tolist() == paths[best].tolist()


def test_a_certain_frame_stands_alone_and_a_flicker_does_not():
    doubtful = np.array([0.9, 0.9, 0.4, 0.9, 0.3, 0.9, 0.0, 0.9])
    probabilities = np.stack([doubtful, 1 - doubtful], axis=-1)[None]
    labels = worthwhile_labels(probabilities, np.ones((1, len(doubtful)), bool))
    assert labels[0].tolist() == [0, 0, 0, 0, 0, 0, 1, 0]
