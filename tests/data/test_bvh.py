"""The BVH reader against known answers, a slow recursion of its own, published positions, and broken files."""

import gzip
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from swerve.data.bvh import read_bvh
from swerve.errors import InputError

ARM = """HIERARCHY
ROOT Hips
{
  OFFSET 0 0 0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation
  JOINT Arm
  {
    OFFSET 1 0 0
    CHANNELS 3 Zrotation Yrotation Xrotation
    End Site
    {
      OFFSET 0 2 0
    }
  }
}
MOTION
Frames: 2
Frame Time: 0.5
0 0 0 0 0 0 0 0 0
10 20 30 90 0 0 0 0 90
"""

QUICK = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def written(tmp_path, text: str, name: str = "arm.bvh"):
    path = tmp_path / name
    path.write_text(text)
    return path


def refusal(path) -> str:
    with pytest.raises(InputError) as caught:
        read_bvh(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    return str(caught.value)


def test_an_arm_is_where_it_must_be(tmp_path):
    arm = read_bvh(written(tmp_path, ARM))
    assert arm.name == "arm" and arm.skeleton.joints == ("Hips", "Arm", "ArmEnd") and arm.skeleton.parents == (-1, 0, 1)
    assert arm.columns[:4] == ("Hips.x", "Hips.y", "Hips.z", "Arm.x")
    np.testing.assert_allclose(arm.times, [0, 0.5])
    # the hips turn x to y; the arm, turned about its x by 90 degrees, points along z
    np.testing.assert_allclose(arm.x[0].reshape(3, 3), [[0, 0, 0], [1, 0, 0], [1, 2, 0]], atol=1e-12)
    np.testing.assert_allclose(arm.x[1].reshape(3, 3), [[10, 20, 30], [10, 21, 30], [10, 21, 32]], atol=1e-12)


def test_packed_files_and_windows_line_ends_read_alike(tmp_path):
    plain = read_bvh(written(tmp_path, ARM))
    packed = tmp_path / "arm.bvh.gz"
    packed.write_bytes(gzip.compress(ARM.replace("\n", "\r\n").encode()))
    again = read_bvh(packed)
    assert again.name == "arm" and np.array_equal(again.x, plain.x)


def test_a_joint_that_can_not_leave_its_parent_is_left_out(tmp_path):
    text = ARM.replace("OFFSET 1 0 0", "OFFSET 0 0 0")
    pose = read_bvh(written(tmp_path, text))
    assert pose.skeleton.joints == ("Hips", "ArmEnd") and pose.skeleton.parents == (-1, 0)
    np.testing.assert_allclose(pose.x[1, 3:], [10, 20, 32], atol=1e-12)


def test_a_position_channel_takes_the_place_of_its_offset(tmp_path):
    text = ARM.replace("CHANNELS 3 Zrotation Yrotation Xrotation", "CHANNELS 1 Yposition")
    text = text.replace("0 0 0 0 0 0 0 0 0\n", "0 0 0 0 0 0 7\n").replace("90 0 0 0 0 90", "0 0 0 5")
    pose = read_bvh(written(tmp_path, text))
    np.testing.assert_allclose(pose.x[:, 3:6], [[1, 7, 0], [11, 25, 30]])


def test_end_sites_may_lack_and_names_may_have_spaces(tmp_path):
    text = ARM.replace("    End Site\n    {\n      OFFSET 0 2 0\n    }\n", "").replace("JOINT Arm", "JOINT Left Arm")
    assert read_bvh(written(tmp_path, text)).skeleton.joints == ("Hips", "Left Arm")


def test_published_positions_of_salsa_dancers(shared_data):
    """Their 31 rows are ends of bones: the root, and for every other joint its first child or End Site."""
    folder = shared_data / "cmu_salsa"
    published = np.load(folder / "salsa_xyz31_20hz.npz")
    ends = {"root": "Hips", "LHipJoint": "LeftUpLeg", "RHipJoint": "RightUpLeg", "LowerBack": "Spine"}
    ends |= {"Spine": "Spine1", "Spine1": "Spine1", "Neck": "Neck1", "Neck1": "Head"}
    for side in ("Left", "Right"):
        chains = (
            ("UpLeg", "Leg", "Foot", "ToeBase", "ToeBaseEnd"),
            ("Shoulder", "Arm", "ForeArm", "Hand"),
            ("FingerBase", "HandIndex1", "HandIndex1End"),
        )
        ends |= {side + one: side + after for chain in chains for one, after in pairwise(chain)}
        ends |= {f"{side}Hand": f"{side}Hand", f"{side[0]}Thumb": f"{side[0]}ThumbEnd"}
    ends |= {"Head": "HeadEnd"}
    for name in ("60_01", "61_10"):
        pose = read_bvh(folder / f"{name}.bvh.gz")
        points = pose.x.reshape(len(pose), -1, 3)[1::6]
        chosen = [pose.skeleton.joints.index(ends[str(joint)]) for joint in published["joint_names"]]
        assert set(chosen) == set(range(28))  # every point we read is among theirs
        np.testing.assert_allclose(points[:, chosen], published[name], atol=1e-4)
        np.testing.assert_allclose(np.diff(pose.times), 1 / 120, atol=1e-6)


MISTAKES = {
    "begins with the word HIERARCHY": ("HIERARCHY", "HIERARCHIE"),
    "has no line MOTION": ("MOTION", "MOTIONS"),
    'line 6.*"JOINTS" is no part': ("JOINT", "JOINTS"),
    "never closed": ("}\nMOTION", "\nMOTION"),
    "braces do not match": ("}\nMOTION", "}\n}\nMOTION"),
    "line 8.*OFFSET needs 3": ("OFFSET 1 0 0", "OFFSET 1 0"),
    'line 8.*"a" is not a number': ("OFFSET 1 0 0", "OFFSET 1 a 0"),
    "line 7.*has no OFFSET|line 6.*has no OFFSET": ("    OFFSET 1 0 0\n", ""),
    'line 9.*"Wrotation" is no channel': ("3 Zrotation", "3 Wrotation"),
    "line 9.*0 to 6 channels": ("CHANNELS 3", "CHANNELS 30"),
    "line 5.*listed twice": ("Xposition Yposition", "Xposition Xposition"),
    'line 17.*number of frames.*"0"': ("Frames: 2", "Frames: 0"),
    'line 17.*"two" is not a number': ("Frames: 2", "Frames: two"),
    "line 20: the file ends after 2 of 3 frames: it was cut off": ("Frames: 2", "Frames: 3"),
    "line 20: this is more than the 1 frames": ("Frames: 2", "Frames: 1"),
    "line 18.*above 0": ("0.5", "-0.5"),
    "line 18.*must follow MOTION": ("Frames: 2\n", ""),
    "line 20.*8 values where the channels are 9": ("90 0 0 0 0 90", "90 0 0 0 0"),
    'line 20.*"x" is not a number': ("90 0 0 0 0 90", "90 0 0 0 0 x"),
    'line 20.*"nan" is not a number': ("90 0 0 0 0 90", "90 0 0 0 0 nan"),
    'two joints are called "Hips"': ("JOINT Arm", "JOINT Hips"),
    "infinitely far away in frame 2": ("10 20 30", "1.7e308 20 30"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_broken_file_is_refused_with_its_place(tmp_path, what):
    before, after = MISTAKES[what]
    assert before in ARM
    text = ARM.replace(before, after, 1)
    if "infinitely" in what:
        text = text.replace("OFFSET 1 0 0", "OFFSET 1 -1.7e308 0")
    assert re.search(what, refusal(written(tmp_path, text)))


def test_files_that_are_no_bvh_at_all(tmp_path):
    assert "does not exist" in refusal(tmp_path / "none.bvh") or "No such file" in refusal(tmp_path / "none.bvh")
    (tmp_path / "bytes.bvh").write_bytes(b"\xff\xfe\x00MOTION")
    assert "UTF-8" in refusal(tmp_path / "bytes.bvh")
    (tmp_path / "cut.bvh.gz").write_bytes(gzip.compress(ARM.encode())[:-20])
    assert "unpacked" in refusal(tmp_path / "cut.bvh.gz")
    (tmp_path / "plain.bvh.gz").write_text(ARM)
    assert "unpacked" in refusal(tmp_path / "plain.bvh.gz")
    (tmp_path / "empty.bvh").write_text("")
    assert "MOTION" in refusal(tmp_path / "empty.bvh")


numbers = st.floats(-100, 100).map(lambda value: round(value, 3))
orders = st.permutations(["X", "Y", "Z"])


@st.composite
def captures(draw):
    """(parents, offsets, channels, which leaves have End Sites, motion), children after their parents."""
    count = draw(st.integers(1, 6))
    parents = [-1] + [draw(st.integers(0, joint - 1)) for joint in range(1, count)]
    offsets = [draw(st.tuples(numbers, numbers, numbers)) for _ in parents]
    channels = []
    for _ in parents:
        turns = [f"{axis}rotation" for axis in draw(orders)[: draw(st.integers(0, 3))]]
        shifts = [f"{axis}position" for axis in draw(orders)[: draw(st.sampled_from([0, 0, 2, 3]))]]
        channels.append(shifts + turns if draw(st.booleans()) else turns + shifts)
    ends = [joint not in parents and draw(st.booleans()) for joint in range(count)]
    width = sum(map(len, channels))
    motion = draw(st.lists(st.lists(numbers, min_size=width, max_size=width), min_size=1, max_size=3))
    return parents, offsets, channels, ends, motion


def text_of(parents, offsets, channels, ends, motion) -> tuple[str, list[int]]:
    """The file, and the joints in the order in which a walk through the braces meets them."""
    met = []

    def block(joint: int) -> str:
        met.append(joint)
        word = "ROOT" if parents[joint] < 0 else "JOINT"
        inside = f"OFFSET {' '.join(map(repr, offsets[joint]))}\n"
        inside += f"CHANNELS {len(channels[joint])} {' '.join(channels[joint])}\n"
        inside += "".join(block(child) for child, parent in enumerate(parents) if parent == joint)
        inside += "End Site\n{\nOFFSET 1 2 3\n}\n" if ends[joint] else ""
        return f"{word} j{joint}\n{{\n{inside}}}\n"

    hierarchy = block(0)
    starts = np.cumsum([0, *map(len, channels)])
    rows = ["\t".join(repr(row[c]) for j in met for c in range(starts[j], starts[j + 1])) for row in motion]
    rows = rows if starts[-1] else []
    return f"HIERARCHY\n{hierarchy}MOTION\nFrames: {len(rows)}\nFrame Time: 0.01\n" + "\n".join(rows) + "\n", met


def place(joint: int, row, parents, offsets, channels) -> tuple[np.ndarray, Rotation]:
    """Where a joint is and how it is turned, by recursion to the root."""
    start = sum(map(len, channels[:joint]))
    values = dict(zip(channels[joint], row[start : start + len(channels[joint])], strict=True))
    shift = np.array(
        [values.get(f"{axis}position", offset) for axis, offset in zip("XYZ", offsets[joint], strict=True)]
    )
    turns = [name for name in channels[joint] if name.endswith("rotation")]
    turn = Rotation.identity()
    for name in turns:
        turn = turn * Rotation.from_euler(name[0].lower(), values[name], degrees=True)
    if parents[joint] < 0:
        return shift, turn
    above, turned = place(parents[joint], row, parents, offsets, channels)
    return above + turned.apply(shift), turned * turn


@QUICK
@given(captures())
def test_random_hierarchies_agree_with_a_recursion(tmp_path, capture):
    parents, offsets, channels, ends, motion = capture
    if not any(channels):
        return
    path = written(tmp_path, text_of(*capture)[0])
    pose = read_bvh(path)
    points = dict(zip(pose.skeleton.joints, pose.x.reshape(len(motion), -1, 3).swapaxes(0, 1), strict=True))
    for joint in range(len(parents)):
        found = points.get(f"j{joint}")
        assert found is not None or not any(offsets[joint])
        for t, row in enumerate(motion):
            where, turn = place(joint, row, parents, offsets, channels)
            if found is not None:
                np.testing.assert_allclose(found[t], where, atol=1e-6)
            if ends[joint]:
                np.testing.assert_allclose(points[f"j{joint}End"][t], where + turn.apply([1, 2, 3]), atol=1e-6)


@settings(QUICK, max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(ARM)),
            st.integers(0, 30),
            st.text("{}\n XYZ0189.-:eEandJOINTROECHLSFMrtimposi\t\0é", max_size=12),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_a_mutated_file_is_read_or_refused(tmp_path, changes):
    text = ARM
    for at, gone, new in changes:
        text = text[:at] + new + text[at + gone :]
    try:
        pose = read_bvh(written(tmp_path, text))
    except InputError as error:
        assert "\n" not in str(error).replace(repr(text), "")
    else:
        assert np.isfinite(pose.x).all() and pose.x.shape == (len(pose.times), len(pose.columns))
