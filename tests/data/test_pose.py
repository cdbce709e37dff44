"""Bodies and pictures through the one way in."""

import numpy as np
import pytest
from PIL import Image

from swerve.data import tables
from swerve.data.reading import Reading
from swerve.errors import InputError
from swerve.views.view import seen

WALK = """HIERARCHY
ROOT Hips
{
OFFSET 0 0 0
CHANNELS 4 Xposition Yposition Zposition Yrotation
JOINT LeftUpLeg
{
OFFSET 1 0 0
}
JOINT RightUpLeg
{
OFFSET -1 0 0
}
}
MOTION
Frames: 9
Frame Time: 0.5
"""
WALK += "".join(f"0 1 {2 * t} {10 * t}\n" for t in range(9))
MOUSE = "scorer,n,n,n,n,n,n\nbodyparts,nose,nose,nose,tail,tail,tail\ncoords,x,y,likelihood,x,y,likelihood\n"
MOUSE += "".join(f"{t},{t + 1},0,{0.9 if t != 2 else 0.1},{t},0,0.9\n" for t in range(6))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "b.bvh").write_text(WALK)
    (tmp_path / "a.bvh").write_text(WALK)
    return tmp_path


def read(paths, **choices):
    reading = Reading(**choices)
    return seen(tables.read(paths, reading), reading)


def refusal(paths, **choices) -> str:
    with pytest.raises(InputError) as caught:
        read(paths, **choices)
    return str(caught.value)


def test_skeleton_files_of_a_folder_with_frames_left_out(folder):
    first, second = read(folder, skip=1, every=2)
    assert (first.name, second.name) == ("a", "b") and first.skeleton == second.skeleton
    np.testing.assert_allclose(first.times, [0.5, 1.5, 2.5, 3.5])
    np.testing.assert_allclose(first.x[:, 2], [2, 6, 10, 14])
    assert first.rows.tolist() == [1, 3, 5, 7]


def test_alignment_comes_after_frames_are_left_out_and_before_columns_are_chosen(folder):
    (turned,) = read(folder / "a.bvh", every=2, egocentric=True)
    np.testing.assert_allclose(turned.x[1:, turned.columns.index("body.turning")], np.radians(20))  # in one second
    assert turned.columns[-4:] == ("body.forward", "body.sideways", "body.vertical", "body.turning")
    (few,) = read(folder / "a.bvh", egocentric=True, columns=("body.turning", "LeftUpLeg.x"))
    assert few.columns == ("body.turning", "LeftUpLeg.x") and np.allclose(few.x[1:], [np.radians(20), 1])
    (hips,) = read(folder / "a.bvh", columns=("Hips.z",))
    assert hips.columns == ("Hips.z",)


def test_a_trackers_table_just_works(tmp_path):
    (tmp_path / "mouse.csv").write_text(MOUSE)
    (mouse,) = read(tmp_path / "mouse.csv")
    assert mouse.columns == ("nose.x", "nose.y", "tail.x", "tail.y") and np.isnan(mouse.x[2, 0])
    (trusting,) = read(tmp_path / "mouse.csv", least_likelihood=0)
    assert trusting.x[2, 0] == 3
    (turned,) = read(tmp_path / "mouse.csv", egocentric=True)
    np.testing.assert_allclose(turned.x[[1, 4, 5], -3], 1)


def test_folders_of_pictures(tmp_path):
    for take in ("take-1", "take-2"):
        (tmp_path / take).mkdir()
        for t in range(3):
            Image.new("L", (4, 2), 10 * t).save(tmp_path / take / f"{t}.png")
    assert [(one.name, one.image, len(one)) for one in read(tmp_path)] == [
        ("take-1", (2, 4), 3),
        ("take-2", (2, 4), 3),
    ]
    (one,) = read(tmp_path / "take-2", every=2)
    assert one.name == "take-2" and len(one) == 2


def test_refusals(folder):
    (folder / "b.bvh").write_text(WALK.replace("RightUpLeg", "Tail"))
    assert 'b.bvh has a joint "Tail", which' in refusal(folder)
    (folder / "b.bvh").write_text(WALK.replace("JOINT RightUpLeg\n{\nOFFSET -1 0 0\n}\n", ""))
    assert 'b.bvh has no joint "RightUpLeg", unlike' in refusal(folder)
    (folder / "b.bvh").write_text(WALK.replace("0.5", "0.1"))
    assert "resample to one rate" in refusal(folder)
    assert 'no column "who"' in refusal(folder / "a.bvh", sequence_column="who")
    assert 'no column "Hip.x"' in refusal(folder / "a.bvh", columns=("Hip.x",))
    (folder / "plain.csv").write_text("p,q\n1,2\n3,4\n")
    assert '"plain" is not a pose' in refusal(folder / "plain.csv", egocentric=True)
    (folder / "empty").mkdir()
    assert "no pictures" in refusal(folder / "empty")
    assert "does not exist" in refusal(folder / "none.bvh")
