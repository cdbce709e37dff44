"""Alignment to the body: what is taken out does not matter, and nothing else is lost."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swerve.data.bvh import read_bvh
from swerve.errors import InputError
from swerve.types import Recording, Skeleton
from swerve.views.egocentric import Egocentric

BODY = Skeleton(
    ("Hips", "LeftUpLeg", "RightUpLeg", "LeftFoot", "RightFoot", "Head"), (-1, 0, 0, 1, 2, 0), ("x", "y", "z")
)
MOUSE = Skeleton(("nose", "ear", "tail_base"), (-1, -1, -1), ("x", "y"))
WORM = Skeleton(tuple(f"segment{i}" for i in range(5)), (-1,) * 5, ("x", "y"))
QUICK = settings(max_examples=25, deadline=None, derandomize=True, database=None)
angles, shifts, seeds = st.floats(-7, 7), st.floats(-50, 50), st.integers(0, 1000)


def align(recordings: list[Recording]) -> list[Recording]:
    view = Egocentric().learn(recordings)
    return [view.read(one) for one in recordings]


def smooth(rng, frames: int, *shape: int) -> np.ndarray:
    return np.cumsum(rng.normal(size=(frames, *shape)), axis=0) * 0.1


def person(seed: int, frames: int = 40) -> Recording:
    """A body that faces z, left hip along x, wandering and turning in the plane of x and z."""
    rng = np.random.default_rng(seed)
    still = np.array([[0, 1, 0], [0.2, 0.9, 0.1], [-0.2, 0.9, 0.1], [0.2, 0, 0.2], [-0.2, 0, 0.2], [0, 1.7, 0]])
    local = still[None] + 0.05 * smooth(rng, frames, 6, 3)
    heading, ground = smooth(rng, frames), smooth(rng, frames, 2)
    turn = np.stack([about_y(angle) for angle in heading])
    points = np.einsum("tij,tkj->tki", turn, local)
    points[..., [0, 2]] += ground[:, None]
    return Recording(points.reshape(frames, -1), columns=BODY.columns, skeleton=BODY, times=0.05 * np.arange(frames))


def about_y(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])


def animal(seed: int, skeleton: Skeleton, frames: int = 40) -> Recording:
    """Points along a line that swims forwards on the whole."""
    rng = np.random.default_rng(seed)
    count = len(skeleton.joints)
    heading = smooth(rng, frames)
    ahead = np.stack([np.cos(heading), np.sin(heading)], axis=1)
    place = np.cumsum(ahead + 0.1 * rng.normal(size=(frames, 2)), axis=0)
    along = np.linspace(3, -3, count)[None, :, None] * ahead[:, None]
    points = place[:, None] + along + 0.1 * rng.normal(size=(frames, count, 2))
    return Recording(points.reshape(frames, -1), columns=skeleton.columns, skeleton=skeleton)


def column(series: Recording, name: str) -> np.ndarray:
    return series.x[:, series.columns.index(name)]


def test_a_walk_on_a_circle_is_steady_to_the_body():
    """Forwards at 2 per second, 0.5 radians per second to the left: from z towards x, seen from above."""
    times = np.arange(100) * 0.1
    heading = 0.5 * times
    ground = 4 * np.stack([1 - np.cos(heading), np.sin(heading)], axis=1)  # x, z: starts along z, bends towards x
    still = np.array([[0, 1, 0], [0.2, 0.9, 0.1], [-0.2, 0.9, 0.1], [0.2, 0, 0.2], [-0.2, 0, 0.2], [0, 1.7, 0]])
    points = np.stack([still @ about_y(angle).T for angle in heading])
    points[..., [0, 2]] += ground[:, None]
    walk = Recording(points.reshape(100, -1), columns=BODY.columns, skeleton=BODY, times=times)
    (seen,) = align([walk])
    np.testing.assert_allclose(column(seen, "body.turning")[1:], 0.5)
    np.testing.assert_allclose(column(seen, "body.forward")[1:], 2.0, rtol=1e-3)
    np.testing.assert_allclose(column(seen, "body.sideways")[1:], 0.0, atol=1e-9)
    np.testing.assert_allclose(column(seen, "body.vertical")[1:], 0.0, atol=1e-9)
    assert np.isnan(seen.x[0, -4:]).all()
    assert "Hips.x" not in seen.columns and (column(seen, "Hips.y") == 1).all()  # the height stays
    np.testing.assert_allclose(column(seen, "LeftFoot.x"), 0.2)
    np.testing.assert_allclose(column(seen, "LeftFoot.z"), 0.2)
    assert seen.skeleton == BODY and len(seen.times) == 100


def test_an_animal_in_a_picture_faces_x():
    mouse = animal(0, MOUSE)
    (seen,) = align([mouse])
    assert seen.columns == (*MOUSE.columns, "body.forward", "body.sideways", "body.turning")
    assert (column(seen, "nose.x") > 2).all() and (column(seen, "tail_base.x") < -2).all()
    assert 0.8 < np.nanmean(column(seen, "body.forward")) < 1.2


def test_hips_in_a_picture_know_that_y_points_down():
    rat = Skeleton(("left_hip", "right_hip", "other"), (-1, -1, -1), ("x", "y"))
    x = np.array([[0.0, -1, 0, 1, 2, 0]]).repeat(3, axis=0)  # faces x: the left is up, where y is small
    (seen,) = align([Recording(x, columns=rat.columns, skeleton=rat)])
    assert column(seen, "other.x")[0] > 0 and column(seen, "left_hip.y")[0] < 0


@QUICK
@given(seeds, angles, shifts, shifts)
def test_where_a_person_stands_and_faces_does_not_matter(seed, angle, east, north):
    one = person(seed)
    points = one.x.reshape(len(one), -1, 3) @ about_y(angle).T + np.array([east, 0, north])
    moved = replace(one, x=points.reshape(len(one), -1))
    np.testing.assert_allclose(align([moved])[0].x, align([one])[0].x, atol=1e-8)


@QUICK
@given(seeds, angles, shifts, shifts, st.sampled_from([MOUSE, WORM]))
def test_where_an_animal_is_and_heads_does_not_matter(seed, angle, east, north, skeleton):
    one = animal(seed, skeleton)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    points = one.x.reshape(len(one), -1, 2) @ turn.T + np.array([east, north])
    moved = replace(one, x=points.reshape(len(one), -1))
    np.testing.assert_allclose(align([moved])[0].x, align([one])[0].x, atol=1e-7)


@QUICK
@given(seeds)
def test_the_speeds_lead_back_to_the_positions(seed):
    one = person(seed)
    (seen,) = align([one])
    steps = np.diff(one.times)
    turning = column(seen, "body.turning")[1:] * steps
    heading = np.concatenate([[0], np.cumsum(turning)])
    half = heading[:-1] + turning / 2
    forward, sideways = (column(seen, f"body.{name}")[1:] * steps for name in ("forward", "sideways"))
    z = np.concatenate([[0], np.cumsum(np.cos(half) * forward - np.sin(half) * sideways)])
    x = np.concatenate([[0], np.cumsum(np.sin(half) * forward + np.cos(half) * sideways)])
    height = column(seen, "Hips.y")[0] + np.concatenate([[0], np.cumsum(column(seen, "body.vertical")[1:] * steps)])
    np.testing.assert_allclose(height, column(one, "Hips.y"), atol=1e-9)
    local = np.stack(
        [
            np.stack([column(seen, f"{j}.{a}") if f"{j}.{a}" in seen.columns else 0 * x for a in "xyz"])
            for j in BODY.joints
        ]
    )
    again = np.einsum("tij,kjt->tki", np.stack([about_y(angle) for angle in heading]), local)
    again[..., 0] += x[:, None]
    again[..., 2] += z[:, None]
    # up to the start: where the first frame stood and faced
    points = one.x.reshape(len(one), -1, 3)
    hips = points[0, 1] - points[0, 2]
    start = np.arctan2(-hips[2], hips[0])
    expected = (points - points[0, 0] * np.array([1, 0, 1])) @ about_y(-start).T
    np.testing.assert_allclose(again, expected, atol=1e-8)


def test_turning_is_followed_beyond_a_full_turn():
    mouse = animal(1, MOUSE, 200)
    spinning = np.linspace(0, 20, 200)
    ahead = np.stack([np.cos(spinning), np.sin(spinning)], axis=1)
    points = np.array([1.0, 0.5, -1.0])[None, :, None] * ahead[:, None]
    (seen,) = align([replace(mouse, x=points.reshape(200, -1))])
    np.testing.assert_allclose(column(seen, "body.turning")[1:], 20 / 199, rtol=1e-6)


def test_a_worm_is_followed_without_flips():
    (seen,) = align([animal(3, WORM, 300)])
    assert (column(seen, "segment0.x") > 2).all()
    assert np.nanmax(np.abs(column(seen, "body.turning"))) < 1


@QUICK
@given(seeds)
def test_missing_points_stay_missing_and_harm_nothing_else(seed):
    one = person(seed)
    rng = np.random.default_rng(seed)
    hidden = rng.random((len(one), len(BODY.joints))) < 0.15
    hidden[10] = True
    x = np.where(np.repeat(hidden, 3, axis=1), np.nan, one.x)
    seen, whole = align([replace(one, x=x)])[0], align([one])[0]
    for joint, gone in zip(BODY.joints[1:], hidden.T[1:], strict=True):
        assert (np.isnan(column(seen, f"{joint}.x")) == gone).all()
    faced = ~hidden[:, 1] & ~hidden[:, 2]
    turning = column(seen, "body.turning")[1:]
    assert (np.isnan(turning) == ~(faced[1:] & faced[:-1])).all()
    known = ~np.isnan(turning)
    near = np.mod(turning[known] - column(whole, "body.turning")[1:][known] + np.pi / 0.05, 2 * np.pi / 0.05)
    np.testing.assert_allclose(near, np.pi / 0.05, atol=1e-6)
    forward = column(seen, "body.forward")
    assert (np.isnan(forward[1:]) == (hidden.all(axis=1)[1:] | hidden.all(axis=1)[:-1])).all()
    rooted = faced & ~hidden[:, 0]
    steps = rooted[1:] & rooted[:-1]
    np.testing.assert_allclose(forward[1:][steps], column(whole, "body.forward")[1:][steps], atol=1e-6)


def test_a_root_that_is_lost_moves_with_the_rest():
    one = person(5)
    x = one.x.copy()
    x[10:20, :3] = np.nan
    (seen,) = align([replace(one, x=x)])
    (whole,) = align([one])
    off = column(seen, "Head.z")[10:20] - column(whole, "Head.z")[10:20]
    assert np.abs(off).max() < 0.1 and np.isfinite(column(seen, "body.forward")[1:]).all()


def test_z_may_be_up():
    one = person(2)
    points = one.x.reshape(len(one), -1, 3)[..., [2, 0, 1]]  # x forward, y left, z up
    (turned,) = align([replace(one, x=points.reshape(len(one), -1))])
    (seen,) = align([one])
    for theirs, ours in (("Head.x", "Head.z"), ("Head.y", "Head.x"), ("Head.z", "Head.y"), *[("body.turning",) * 2]):
        np.testing.assert_allclose(column(turned, theirs), column(seen, ours), atol=1e-9)


def test_a_frame_without_points_and_a_recording_without_any():
    blank = replace(person(0), x=np.full((5, 18), np.nan), times=np.arange(5.0))
    assert np.isnan(align([blank])[0].x).all()
    assert align([replace(person(0), x=person(0).x[:1], times=np.zeros(1))])[0].x.shape == (1, 20)


def test_only_poses_have_a_heading():
    with pytest.raises(InputError, match="is not a pose"):
        align([Recording(np.zeros((3, 2)), name="walk", columns=("p", "q"))])


def test_dancers_face_forwards(shared_data):
    dancer = read_bvh(shared_data / "cmu_salsa" / "60_01.bvh.gz")
    (seen,) = align([replace(dancer, x=dancer.x[1::6], times=dancer.times[1::6])])
    assert (column(seen, "LeftUpLeg.x") > 1).all() and (column(seen, "RightUpLeg.x") < -1).all()
    toes = column(seen, "LeftToeBaseEnd.z") - column(seen, "LeftFoot.z")
    assert np.median(toes) > 1  # along the feet is forwards
    assert np.abs(column(seen, "body.turning")[1:]).max() < 20
