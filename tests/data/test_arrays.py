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
    x = np.arange(48).reshape(2, 3, 2, 4).astype(np.uint8)
    first, second = tables.read(save(x=x, s=np.zeros((2, 3), int), lengths=[3, 2]))
    assert first.image == second.image == (2, 4)
    assert first.x.dtype == np.float32 and first.x.shape == (3, 8)
    np.testing.assert_array_equal(second.x, x[1, :2].reshape(2, 8))
    assert first.columns[:5] == ("pixel-0-0", "pixel-0-1", "pixel-0-2", "pixel-0-3", "pixel-1-0")


def test_one_video_per_array(save):
    day, night = tables.read(save(day=np.ones((5, 2, 3)), night=np.zeros((4, 2, 3))))
    assert (day.name, day.image, day.x.shape, night.x.shape) == ("day", (2, 3), (5, 6), (4, 6))


def test_images_of_two_shapes_do_not_go_together(tmp_path):
    np.savez(tmp_path / "tall.npz", x=np.ones((1, 2, 3, 2)))
    np.savez(tmp_path / "data.npz", x=np.ones((1, 2, 2, 3)))
    assert 'no column "pixel-0-2"' in refused([tmp_path / "tall.npz", tmp_path / "data.npz"])


def test_wrong_shapes_are_named(save):
    assert "not 1" in refused(save(x=np.ones(3)))
    assert "not 5" in refused(save(x=np.ones((1, 1, 1, 1, 1))))
    assert "not 4" in refused(save(day=np.ones((1, 1, 1, 1))))
    assert '"day": a sequence has 2 axes' in refused(save(day=np.ones(3)))
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
