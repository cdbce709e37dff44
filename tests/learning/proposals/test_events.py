"""Stages: regimes that count the single frames in which a law is broken."""

import dataclasses

import jax
import numpy as np
import pytest
from tiny import SETTINGS

from swerve import api
from swerve.choosing.scores import score
from swerve.data.windows import split_validation
from swerve.inference.frames import Frames
from swerve.learning import fit as fitting
from swerve.learning.fit import make_restarts
from swerve.learning.loop import History, Trained
from swerve.learning.preparation import prepare
from swerve.learning.proposals import events
from swerve.learning.proposals.events import (
    commonest_first,
    divide_alike,
    events_before,
    single_frames,
    striking_changes,
)
from swerve.learning.proposals.proposal import Asked
from swerve.learning.proposals.proposers import propose
from swerve.learning.pruning import Simplified
from swerve.learning.restarts import pick
from swerve.learning.step import HeldOut
from swerve.models.arhmm.search import Candidate
from swerve.settings.sections import ArHmmConfig, Config, ModelConfig, TrainingConfig
from swerve_lab.boards import bouncing_ball, reacher

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_the_frame_of_an_event_belongs_to_the_stage_that_it_ends():
    labels = np.array([[0, 0, 1, 0, 0, 1, 1, 0], [1, 0, 0, 0, 0, 0, 1, -1]])
    assert events_before(labels).tolist() == [[0, 0, 0, 1, 1, 1, 2, 3], [0, 0, 0, 0, 0, 0, 0, 1]]


def test_the_law_holds_most_frames():
    assert commonest_first(np.array([[1, 1, 0, -1]])).tolist() == [[0, 0, 1, -1]]
    assert commonest_first(np.array([[0, 0, 1, -1]])).tolist() == [[0, 0, 1, -1]]


@pytest.mark.parametrize(("regimes", "enough"), [(3, True), (2, False)])
def test_regimes_must_be_able_to_count_the_events(regimes, enough):
    assert divide_alike(np.array([[0, 1, 0, 0, 1, 0, 0]] * 20), regimes) is enough


def test_recordings_without_events_have_no_stages():
    with_events, without = [[0, 1, 0, 0]], [[0, 0, 0, 0]]
    assert divide_alike(np.array(with_events * 19 + without), 3)
    assert not divide_alike(np.array(with_events * 18 + without * 2), 3)


def guided(board, *, regimes, whole):
    config = dataclasses.replace(Config(), training=TrainingConfig(window=board.s.shape[1]))
    prepared = prepare(board.series(), config)
    known, _ = split_validation(board.series(), config.training.validation_share, seed=config.seed)
    arhmm = ArHmmConfig(lags=(1,), features=(0,), restarts=3, max_iterations=50)
    asked = Asked(prepared.training, prepared.validation, regimes, [regimes, 0], whole, jax.random.key(0))
    found = propose(None, asked, dataclasses.replace(config, arhmm=arhmm), strength=20.0)
    labels = np.asarray(found.of(0).preferences).argmax(axis=-1)
    return found, score(list(labels), [one.s for one in known]).as_dict()


@pytest.fixture(scope="module")
def arm():
    return reacher.generate(160, seed=7)


@pytest.mark.slow
def test_the_reachers_arrivals_are_events_and_its_phases_stages(arm):
    guides, found = guided(arm, regimes=5, whole=True)
    assert not guides.judged
    assert guides.followed == [0, 0]
    assert found["frame_f1"] > 99
    assert found["switch_f1_tol0"] > 99


@pytest.mark.slow
def test_parts_of_recordings_have_no_stages(arm):
    guides, found = guided(arm, regimes=5, whole=False)
    assert guides.judged
    assert guides.followed == [0, None]
    assert found["frame_f1"] < 70


def test_a_ball_has_regimes_and_no_stages():
    guides, found = guided(bouncing_ball.generate(200, seed=7), regimes=2, whole=True)
    assert guides.judged
    assert found["frame_f1"] > 80


def test_a_first_guess_strikes_where_a_channel_that_hardly_moves_jumps():
    rng = np.random.default_rng(0)
    x = np.stack([np.cumsum(rng.normal(size=(40, 50)), axis=1), np.zeros((40, 50))], axis=-1)
    x[:, 30:, 1] = 1.0
    observed, valid = np.ones(x.shape, bool), np.ones(x.shape[:2], bool)
    valid[0, 20:] = False
    observed[1, 30] = False
    x[1, 30] = 0.0
    labels = striking_changes(Frames(x, observed, valid, np.zeros((40, 50, 0))))
    assert np.argwhere(labels == 1).tolist() == [[n, 30] for n in range(2, 40)]
    assert (labels[0, 20:] == -1).all()


@pytest.mark.slow
def test_where_there_are_stages_every_restart_follows_them_to_the_end(arm):
    config = Config(
        model=ModelConfig(regimes=5),
        training=TrainingConfig(window=50, restarts=4, steps=100),
        arhmm=ArHmmConfig(lags=(1,), features=(0,), restarts=2, max_iterations=50),
    )
    made = make_restarts(prepare(arm.series(), config), config, key=jax.random.key(0))
    restarts = made.restarts
    assert not made.judged
    assert restarts.guide.tolist() == [1, 1, 1, 1]
    assert (made.states.system.model.log_allowed == 0).all()
    assert restarts.schedule.guidance.tolist() == [config.recipe.guidance] * 4
    assert restarts.schedule.guidance_hold.tolist() == pytest.approx([100 * config.recipe.staged_hold] * 4)


def test_the_ends_of_recordings_that_are_held_out_are_not_whole(arm):
    config = dataclasses.replace(Config(), training=TrainingConfig(window=50))
    assert prepare(arm.series()[:5], config).whole
    assert not prepare(arm.series()[:4], config).whole


@pytest.mark.parametrize(("event", "single"), [([1], True), ([1, 1, 1], False)])
def test_events_last_about_a_frame(event, single):
    assert single_frames(np.array([[0, 0, *event, 0, 0, *event, 0]] * 3)) is single


def test_windows_are_whole_unless_a_recording_is_longer(arm):
    def is_whole(window):
        config = dataclasses.replace(Config(), training=TrainingConfig(window=window))
        return prepare(arm.series()[:20], config).whole

    assert is_whole(50)
    assert not is_whole(40)


NOT_LOOKED_AT = HeldOut(*np.zeros((5, 1)), np.zeros((1, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("judged", [True, False])
def test_stages_are_not_merged(judged, monkeypatch):
    walks = np.random.default_rng(0).normal(size=(12, 40, 2)).cumsum(axis=1)
    config = api.make_config(2, settings=(*SETTINGS, "training.restarts=1", "training.merging=0.5"))
    make, asked, notes = fitting.make_restarts, [], []

    def untrained(_, states, *__, **___):
        return Trained(pick(states.system, 0), 0, [0], states.system, NOT_LOOKED_AT, History(), finished=True)

    monkeypatch.setattr(fitting, "make_restarts", lambda *a, **k: make(*a, **k)._replace(judged=judged))
    monkeypatch.setattr(fitting.loop, "train", untrained)
    monkeypatch.setattr(fitting, "simplify", lambda given, *_, **__: asked.append(1) or [Simplified(given[0], [])])
    fitting.fit_system(prepare(api.to_series(walks), config), config, on_note=notes.append)
    assert bool(asked) is judged
    assert any("count these events" in note for note in notes) is not judged


@pytest.mark.parametrize(("lead_of_the_restless", "counted"), [(1.0, True), (-1.0, False)])
def test_the_arhmm_that_explains_most_tells_whether_there_may_be_events(lead_of_the_restless, counted, monkeypatch):
    labels = np.zeros((10, 40), np.int32)
    calm, restless = labels.copy(), labels.copy()
    calm[:, 20:] = restless[:, 1::2] = 1
    found = [
        Candidate(None, np.zeros(len(calm)), 1, 0, calm),
        Candidate(None, lead_of_the_restless * np.sum(restless >= 0, axis=1), 2, 0, restless),
    ]
    asked = []
    nothing = Candidate(None, np.full(len(labels), np.nan), 1, 0, labels)
    monkeypatch.setattr(events, "fit_from_guess", lambda *_, **__: asked.append(True) or nothing)
    seen = np.ones((10, 40, 1), bool)
    frames = Frames(np.ones(seen.shape), seen, seen[..., 0], np.ones((10, 40, 0)))
    question = Asked(frames, frames, 2, [2], True, jax.random.key(0))
    assert events.propose(question, {2: found}, ArHmmConfig(), Config().recipe, strength=1.0) is None
    assert bool(asked) is counted


def test_counted_events_lead_all_restarts_and_no_bound_judges_them(monkeypatch):
    labels, restless = np.zeros((10, 40), np.int32), np.zeros((10, 40), np.int32)
    labels[:, 20] = restless[:, 1::2] = 1
    monkeypatch.setattr(events, "fit_from_guess", lambda *_: Candidate(None, np.zeros(10), 1, 0, labels))
    monkeypatch.setattr(events, "labels_of", lambda *_: labels)
    seen = np.ones((10, 40, 1), bool)
    frames = Frames(np.ones(seen.shape), seen, seen[..., 0], np.ones((10, 40, 0)))
    question, recipe = Asked(frames, frames, 2, [2, 0], True, jax.random.key(0)), Config().recipe
    fits = {2: [Candidate(None, np.ones(10), 2, 0, restless)]}
    made = events.propose(question, fits, ArHmmConfig(), recipe, strength=7.0)
    assert made.followed == [0, 0] and not made.judged
    assert (made.of(0).strength, made.of(0).hold) == (7.0, recipe.staged_hold)
    stages = np.asarray(made.of(1).preferences).argmax(axis=-1)
    np.testing.assert_array_equal(stages, np.tile(np.arange(40) > 20, (10, 1)))
