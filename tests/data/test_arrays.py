import numpy as np
import pytest

from swerve.data import tables
from swerve.data.reading import Reading
from swerve.errors import InputError


@pytest.fixture
def save(tmp_path):
    def save_file(**arrays):
        path = tmp_path / "data.npz"
        np.savez(path, **arrays)
        return path

    return save_file


def refused(path, **options) -> str:
    with pytest.raises(InputError) as caught:
        tables.read(path, Reading(**options))
    assert "data.np" in str(caught.value)
    return str(caught.value)


def test_one_recording(save):
    (only,) = tables.read(save(x=np.ones((5, 2)), s=np.arange(5), u=np.zeros((5, 3))))
    assert only.name == "data" and only.columns == ("x0", "x1")
    assert only.x.shape == (5, 2) and only.u.shape == (5, 3) and only.s.tolist() == [0, 1, 2, 3, 4]


def test_a_stack_of_recordings_with_lengths(save):
    x = np.arange(24.0).reshape(2, 4, 3)
    first, second = tables.read(save(x=x, s=np.zeros((2, 4), int), lengths=[4, 2]))
    assert (first.name, second.name) == ("data-0", "data-1")
    assert len(first) == 4 and second.x.tolist() == x[1, :2].tolist() and len(second.s) == 2


def test_one_array_per_recording(save):
    first, second = tables.read(save(day=np.ones((5, 2)), night=np.zeros((3, 2))))
    assert (first.name, second.name) == ("day", "night") and second.x.shape == (3, 2)


def test_npy_and_integers(tmp_path):
    np.save(tmp_path / "data.npy", np.arange(6).reshape(3, 2))
    (only,) = tables.read(tmp_path / "data.npy")
    assert only.x.dtype == float and only.x.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_labels_from_an_array_of_another_name(save):
    path = save(x=np.ones((2, 1)), truth=np.array([1.0, np.nan]))
    (only,) = tables.read(path, Reading(label_column="truth"))
    assert only.s.tolist() == [1, -1]
    assert 'no column "thruth": did you mean "truth"?' in refused(path, label_column="thruth")


def test_a_stack_of_videos(save):
    x = np.arange(60).reshape(2, 3, 2, 5).astype(np.uint8)
    first, second = tables.read(save(x=x, s=np.zeros((2, 3), int), lengths=[3, 2]))
    assert first.image == second.image == (2, 5)
    assert first.x.dtype == np.float32 and first.x.shape == (3, 10)
    np.testing.assert_array_equal(second.x, x[1, :2].reshape(2, 10))
    assert first.columns[:6] == ("pixel-0-0", "pixel-0-1", "pixel-0-2", "pixel-0-3", "pixel-0-4", "pixel-1-0")


def test_one_video_per_array(save):
    day, night = tables.read(save(day=np.ones((5, 2, 4)), night=np.zeros((4, 2, 4))))
    assert (day.name, day.image, day.x.shape, night.x.shape) == ("day", (2, 4), (5, 8), (4, 8))


def test_points_of_a_pose_are_no_video(save):
    points = np.arange(30.0).reshape(5, 2, 3)
    walk, run = tables.read(save(walk=points, run=points[:4], joint_names=["hip", "toe"]))
    assert walk.image is None and walk.skeleton.joints == ("hip", "toe")
    assert walk.columns == ("hip.x", "hip.y", "hip.z", "toe.x", "toe.y", "toe.z")
    np.testing.assert_array_equal(walk.x, points.reshape(5, 6))
    assert len(run) == 4
    (flat,) = tables.read(save(walk=points[:, :, :2]))
    assert flat.columns == ("0.x", "0.y", "1.x", "1.y")
    assert "coordinates on the last one" in refused(save(x=points[None]))


def test_arrays_are_chosen_by_name(save):
    path = save(walk1=np.ones((5, 2)), walk2=np.ones((4, 2)), label1=np.ones(5, int), who=np.array(["a", "b"]))
    assert [one.name for one in tables.read(path, Reading(key="walk*"))] == ["walk1", "walk2"]
    assert [one.name for one in tables.read(path, Reading(key="walk2"))] == ["walk2"]
    assert "say with --key which" in refused(path)
    assert 'no array "wolk*": it has "walk1" (5, 2)' in refused(path, key="wolk*")


def test_a_key_that_fits_no_array_is_meant_for_other_files_where_there_is_x(save):
    path = save(x=np.ones((3, 1)), y=np.ones((2, 1)))
    found = [tables.read(path, Reading(key=key)) for key in ("y", "x", "mouse/trace")]
    assert [[one.name for one in some] for some in found] == [["y"], ["data"], ["data"]]


def test_a_model_that_remembers_times_finds_those_of_an_array(save):
    remembered = Reading(time_column="t", step=0.5)
    (only,) = tables.read(save(x=np.ones((3, 1)), times=[0.0, 0.5, 1.0]), remembered)
    assert only.times.tolist() == [0.0, 0.5, 1.0]
    assert '--time-column "" reads these without' in refused(save(x=np.ones((3, 1))), time_column="t", step=0.5)


def test_images_of_two_shapes_do_not_go_together(tmp_path):
    np.savez(tmp_path / "tall.npz", x=np.ones((1, 2, 6, 5)))
    np.savez(tmp_path / "data.npz", x=np.ones((1, 2, 5, 6)))
    assert 'no column "pixel-0-5"' in refused([tmp_path / "tall.npz", tmp_path / "data.npz"])


def test_a_single_channel_needs_no_second_axis(save):
    (only,) = tables.read(save(x=np.arange(3.0), s=[0, 1, 1]))
    assert only.x.tolist() == [[0], [1], [2]] and only.s.tolist() == [0, 1, 1]


def test_wrong_shapes_are_named(save):
    assert "not 5" in refused(save(x=np.ones((1, 1, 1, 1, 1))))
    assert '"day" (1, 1, 1, 1): a recording' in refused(save(day=np.ones((1, 1, 1, 1))))
    assert '"day" (3,): a recording is numbers with 2 axes' in refused(save(day=np.ones(3)))
    assert 'array "s" of shape (2,)' in refused(save(x=np.ones((3, 1)), s=np.zeros(2)))
    assert 'array "u" of shape (3,)' in refused(save(x=np.ones((3, 1)), u=np.zeros(3)))
    assert '"lengths" must hold 2 numbers' in refused(save(x=np.ones((2, 3, 1)), lengths=[3, 4]))
    assert '"columns" must hold 1 names' in refused(save(x=np.ones((3, 1)), columns=["a", "b"]))
    assert 'no array "x"' in refused(save(s=np.zeros(3)))


def test_wrong_contents_are_named(save, tmp_path):
    assert "not real numbers" in refused(save(x=np.array([["a"]])))
    assert "not real numbers" in refused(save(x=np.ones((2, 1)) * 1j))
    assert "the value at (1, 0) is infinite" in refused(save(x=np.array([[1.0], [np.inf]])))
    assert "whole numbers" in refused(save(x=np.ones((2, 1)), s=np.array([0.5, 1])))
    assert "it is empty" in refused(save(x=np.ones((0, 2))))
    assert "is empty" in refused(save())
    assert "Python objects" in refused(save(x=np.array([{"a": 1}], dtype=object)))
    (tmp_path / "data.npy").write_bytes(b"not numpy at all")
    assert "not a NumPy file" in refused(tmp_path / "data.npy")
    (tmp_path / "data.npz").write_bytes(b"")
    assert "not a NumPy file" in refused(tmp_path / "data.npz")
