"""Runs side by side: on video each has its own code, and reads and draws images through it."""

import dataclasses

import jax
import numpy as np
import pytest
from test_fit import recording
from tiny import SETTINGS

from swerve import api
from swerve.learning import preparation
from swerve.learning.loop import History, Trained
from swerve.learning.pruning import Merge, Simplified
from swerve.learning.restarts import pick
from swerve.learning.step import HeldOut
from swerve.runs import fit as run
from swerve.settings.text import merge as merged
from swerve_lab.boards.board import Board
from swerve_lab.experiments import repeats
from swerve_lab.experiments.repeats import View
from swerve_lab.experiments.rows import Experiment

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]

CONFIG = api.make_config(
    2, settings=(*SETTINGS, "training.restarts=1", "training.steps=10", "code.steps=0", "code.images_from=1")
)


@pytest.fixture(scope="module")
def prepared():
    return preparation.prepare([recording(seed) for seed in range(5)], CONFIG)


def made(prepared, folder):
    return repeats.make_repeats([prepared], CONFIG, Experiment(runs=2), folder)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def ours(prepared, work):
    return made(prepared, work)


@pytest.fixture
def judged(ours):
    """Two runs of two restarts, of which the first run's second one diverged; the other's second one is better."""
    bounds = np.array([3.0, 1.0, 2.0])
    held_out = HeldOut(bounds, *np.full((4, 3), 2.0), np.tile(bounds[:, None], 9))
    systems = ours.states.system
    return Trained(pick(systems, 0), 0, [0, 2, 3], systems, held_out, History(), finished=True)


PAIRS = merged(CONFIG, {"training": {"restarts": 2}}), Experiment(runs=2)


def test_each_run_chooses_among_its_own_restarts_that_live(judged):
    choice = repeats.choose(judged, *PAIRS)
    assert choice.own == [[0], [2, 3]]
    assert choice.best == [0, 3]
    assert choice.standing == [0, 2, 3]


def test_a_choice_made_before_stands(judged):
    choice = repeats.made_before([0, 0], judged, *PAIRS)
    assert choice.best == [0, 2]
    assert repeats.made_before([None, 1], judged, *PAIRS).standing == [0, 2, 3]


def test_runs_on_video_read_their_own_codes(prepared, ours):
    assert np.asarray(ours.restarts.source).tolist() == [0, 1]
    assert np.asarray(ours.restarts.guide).tolist() == [1, 3]
    first, second = ours.data.frames.x
    assert np.abs(first - second).max() > 0.1
    for source, codes in enumerate(ours.codes):
        np.testing.assert_array_equal(pick(ours.data.frames, source).x, codes.read_frames(prepared.training).x)


def test_models_that_read_numbers_get_the_codes_of_their_run(prepared, ours, work):
    x = np.stack([recording(seed).x for seed in range(5, 8)])
    board = Board("moving", x, x, np.zeros(x.shape[:2], int), prepared.columns, image=prepared.image)
    for run_number, theirs in enumerate(ours.views([View(prepared, board)])):
        view = repeats.as_numbers(View(prepared, board), CONFIG, run_number, work)
        np.testing.assert_array_equal(view.board.x, theirs.board.x)
        np.testing.assert_array_equal(view.prepared.training.x, theirs.prepared.training.x)
    numbers = View(theirs.prepared, theirs.board)
    assert repeats.as_numbers(numbers, CONFIG, 0, work) == numbers


@pytest.mark.slow
def test_a_restart_finds_the_same_regimes_in_codes_as_in_images(prepared, ours):
    series = [recording(seed) for seed in range(5, 8)]
    x = np.stack([one.x for one in series])
    board = Board("moving", x, x, np.zeros(x.shape[:2], int), prepared.columns, image=prepared.image)
    for restart, view in enumerate(ours.views([View(prepared, board)])):
        system = pick(ours.states.system, restart)
        images = system.on_pixels(ours.codes[restart].code, CONFIG.model)
        seen = run.with_model(images, prepared, CONFIG, 0.0).segment(board.series())
        read = run.with_model(system, view.prepared, CONFIG, 0.0).segment(view.board.series())
        for one, other in zip(seen, read, strict=True):
            np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-4)


@pytest.mark.slow
def test_a_stopped_row_finds_what_it_had(prepared, ours, work, monkeypatch):
    trained = repeats.train(ours, CONFIG, work)
    system = repeats.finished(ours, 1, pick(trained.systems, 1), prepared, CONFIG, work)
    monkeypatch.setattr(repeats, "train_on_images", lambda *_, **__: pytest.fail("trained again"))
    again = repeats.finished(made(prepared, work), 1, pick(trained.systems, 1), prepared, CONFIG, work)
    jax.tree.map(np.testing.assert_array_equal, system, again)
    with pytest.raises(pytest.fail.Exception, match="trained again"):
        repeats.finished(ours, 1, pick(trained.systems, 0), prepared, CONFIG, work)


def test_runs_on_numbers_share_their_frames(tmp_path):
    rng = np.random.default_rng(0)
    numbers = preparation.prepare(api.to_series(rng.normal(size=(5, 40, 2)).cumsum(axis=1)), CONFIG)
    both = made(numbers, tmp_path)
    assert both.data.frames.x.shape == (1, *numbers.training.x.shape)
    assert np.asarray(both.restarts.source).tolist() == [0, 0]
    system = pick(both.states.system, 0)
    assert repeats.finished(both, 0, system, numbers, CONFIG, tmp_path) is system


def test_runs_that_count_events_are_never_merged(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    numbers = preparation.prepare(api.to_series(rng.normal(size=(5, 40, 2)).cumsum(axis=1)), CONFIG)
    both = made(numbers, tmp_path)._replace(judged=[False, True])
    systems = {restart: pick(both.states.system, restart) for restart in (0, 1)}
    merge = Merge(0, 1, 0.5, 0.1, accepted=True)
    monkeypatch.setattr(repeats, "simplify", lambda given, *_: [Simplified(one, [merge]) for one in given])
    found = repeats.simplified(both, systems, merged(CONFIG, {"training": {"merging": 0.5}}), tmp_path)
    assert {restart: one.merges for restart, one in found.items()} == {0: [], 1: [merge]}


def test_merges_are_kept_for_the_parameters_they_were_made_from(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    numbers = preparation.prepare(api.to_series(rng.normal(size=(5, 40, 2)).cumsum(axis=1)), CONFIG)
    both, config, asked = made(numbers, tmp_path), merged(CONFIG, {"training": {"merging": 0.5}}), []
    monkeypatch.setattr(
        repeats, "simplify", lambda given, *_: asked.append(len(given)) or [Simplified(one, []) for one in given]
    )
    for restart in (0, 0, 1, 1):
        system = pick(both.states.system, restart)
        found = repeats.simplified(both, {0: system}, config, tmp_path)[0]
        jax.tree.map(np.testing.assert_array_equal, found.system, system)
    assert asked == [1, 1]


def test_folds_with_fewer_windows_have_some_twice(prepared):
    fewer = dataclasses.replace(prepared, training=pick(prepared.training, np.arange(2)))
    one, other = repeats.as_many_windows([prepared, fewer])
    assert one.training.x.shape == other.training.x.shape
    np.testing.assert_array_equal(other.training.x[2], prepared.training.x[0])
    np.testing.assert_array_equal(one.validation.x, other.validation.x)
