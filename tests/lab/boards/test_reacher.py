import numpy as np
import pytest
from hashing import content_hash

from swerve_lab.boards import reacher


@pytest.fixture(scope="module")
def board():
    return reacher.generate(500, seed=1)


def parts(board):
    objects = board.x[..., :30].reshape(*board.x.shape[:2], 10, 3)
    return objects[..., 0], objects[..., 1:], board.x[..., 30:32], board.x[..., 32:34], board.x[..., 34:36]


def test_the_board_is_frozen():
    assert content_hash(reacher.generate(20, seed=0)) == "bdce453eef87e6be"


def test_phases_share_the_frames():
    share = np.bincount(reacher.generate(10_000, seed=2).s.ravel(), minlength=4) / 500_000
    assert share.min() > 0.15 and share.max() < 0.35


def test_three_targets_and_five_objects_at_the_origin(board):
    indicators, places, *_ = parts(board)
    assert (indicators[:, 0].sum(axis=1) == 3).all()
    absent = (places[:, 0] == 0).all(axis=-1)
    assert (absent.sum(axis=1) == 5).all()
    assert not (absent & (indicators[:, 0] == 1)).any()
    radius = np.linalg.norm(places[:, 0][~absent], axis=-1)
    assert radius.min() >= 0.2 and radius.max() <= 0.95
    assert (places == places[:, :1]).all()  # objects do not move


def test_the_arm_hangs_together_and_keeps_its_speed_limit(board):
    _, _, angles, elbow, tip = parts(board)
    assert np.abs(np.diff(angles, axis=1)).max() <= reacher.JOINT_SPEED + 1e-9
    np.testing.assert_allclose(np.linalg.norm(elbow, axis=-1), 0.5)
    np.testing.assert_allclose(np.linalg.norm(tip - elbow, axis=-1), 0.5)
    heading = np.arctan2(elbow[..., 1], elbow[..., 0])
    np.testing.assert_allclose(np.angle(np.exp(1j * (heading - angles[..., 0]))), 0, atol=1e-9)


def test_targets_are_visited_in_index_order_and_drop_on_arrival(board):
    indicators, places, *_, tip = parts(board)
    order = np.argsort(-indicators[:, 0], axis=1, kind="stable")[:, :3]
    for n in range(100):
        for phase, target in enumerate(order[n]):
            down = np.flatnonzero(indicators[n, :, target] == 0)
            near = np.linalg.norm(tip[n] - places[n, 0, target], axis=-1) < reacher.ARRIVED
            if len(down):
                arrival = down[0]
                assert near[arrival] and board.s[n, arrival] == phase  # the arrival frame keeps the old label
                assert arrival + 1 == board.s.shape[1] or board.s[n, arrival + 1] == phase + 1
                assert not near[1:arrival][board.s[n, 1:arrival] == phase].any()


def test_the_arm_rests_when_all_is_done(board):
    *_, angles, _, _ = parts(board)
    still = (board.s[:, 1:] == reacher.FINISHED)[..., None] & (np.diff(angles, axis=1) != 0)
    assert not still.any()
    assert (np.diff(board.s, axis=1) >= 0).all() and board.s.max() == 3


def test_reaching_touches_the_target_by_the_shorter_way():
    rng = np.random.default_rng(0)
    target, angles = rng.uniform(-0.6, 0.6, (200, 2)), rng.uniform(-np.pi, np.pi, (200, 2))
    goal = reacher.reach(target, angles)
    np.testing.assert_allclose(reacher.tips(goal)[1], target, atol=1e-9)
    assert np.abs(goal - angles).max() <= np.pi + 1e-9


def test_the_indicators_alone_tell_the_phase(board):
    np.testing.assert_array_equal(reacher.follow_indicators(board.x), board.s)


def test_no_sequences_are_allowed():
    assert reacher.generate(0, seed=0).x.shape == (0, 50, 36)
    assert len(reacher.COLUMNS) == 36


def test_the_parts_of_a_sequence_are_its_arm_and_the_objects_that_are_there(board):
    joints, objects, waiting = reacher.parts(board.x[0])
    np.testing.assert_allclose(np.linalg.norm(np.diff(joints, axis=1), axis=2), 0.5)
    assert objects.shape == (50, reacher.OBJECTS - reacher.ABSENT, 2)
    assert (np.linalg.norm(objects, axis=2) >= reacher.NEAREST - 1e-9).all()
    np.testing.assert_array_equal(reacher.TARGETS - waiting[:-1].sum(axis=1), board.s[0, 1:])
