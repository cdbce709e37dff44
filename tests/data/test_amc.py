"""The ASF/AMC reader: a case worked out by hand, the same motion written as BVH, and broken files."""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from swerve.data.amc import read_amc
from swerve.data.bvh import read_bvh
from swerve.errors import InputError

ASF = """# an arm
:version 1.10
:name arm
:units
  mass 1.0
  length 0.45
  angle deg
:documentation
  made by hand
:root
   order TX TY TZ RX RY RZ
   axis XYZ
   position 0 0 0
   orientation 0 0 0
:bonedata
  begin
     id 1
     name upper
     direction 1 0 0
     length 2
     axis 0 0 90  XYZ
     dof rx rz
     limits (-160.0 20.0)
            (-70.0 70.0)
  end
  begin
     id 2
     name lower
     direction 0 1 0
     length 3
     axis 0 0 0  XYZ
  end
:hierarchy
  begin
    root upper
    upper lower
  end
"""
AMC = """#!OML:ASF arm.ASF
:FULLY-SPECIFIED
:DEGREES
1
root 0 0 0 0 0 0
upper 0 0
2
root 10 20 30 0 90 0
upper 0 90
3
root 0 0 0 0 0 0
upper 90 0
"""


def files(tmp_path, asf: str = ASF, amc: str = AMC):
    (tmp_path / "arm.asf").write_text(asf)
    path = tmp_path / "arm.amc"
    path.write_text(amc)
    return path


def test_an_arm_worked_out_by_hand(tmp_path):
    arm = read_amc(files(tmp_path))
    assert arm.skeleton.joints == ("root", "upper", "lower") and arm.skeleton.parents == (-1, 0, 1)
    assert arm.times is None and arm.name == "arm"
    points = arm.x.reshape(3, 3, 3)
    np.testing.assert_allclose(points[0], [[0, 0, 0], [2, 0, 0], [2, 3, 0]], atol=1e-12)
    # rz turns the bone from x to y and the next from y to -x; the root's 90 degrees about y take x to -z
    np.testing.assert_allclose(points[1], [[10, 20, 30], [10, 22, 30], [10, 22, 33]], atol=1e-12)
    # the bone's own x axis is y: about it, x goes to -z
    np.testing.assert_allclose(points[2], [[0, 0, 0], [0, 0, -2], [0, 3, -2]], atol=1e-12)


def test_the_skeleton_is_found_by_name_by_subject_or_because_it_is_alone(tmp_path):
    amc = tmp_path / "07_01.amc"
    amc.write_text(AMC)
    with pytest.raises(InputError, match="there is none"):
        read_amc(amc)
    (tmp_path / "x.asf").write_text(ASF)
    assert len(read_amc(amc)) == 3
    (tmp_path / "y.asf").write_text("")
    with pytest.raises(InputError, match=r"07_01.asf, in the same folder: there are x.asf, y.asf"):
        read_amc(amc)
    (tmp_path / "07.ASF").write_text(ASF)
    assert len(read_amc(amc)) == 3
    (tmp_path / "07_01.asf").write_text(ASF.replace("length 2", "length 4"))
    assert read_amc(amc).x[0, 3] == 4


def test_radians(tmp_path):
    turned = files(tmp_path, ASF.replace("angle deg", "angle rad").replace("0 0 90", f"0 0 {np.pi / 2}"))
    turned.write_text(AMC.replace("90", str(np.pi / 2)))
    np.testing.assert_allclose(read_amc(turned).x[1], [10, 20, 30, 10, 22, 30, 10, 22, 33], atol=1e-9)


MISTAKES_OF_THE_SKELETON = {
    "no section :bonedata": (":bonedata", ":bones"),
    "line 16: this bone has no name": ("     name upper\n", ""),
    "line 16: this bone has no length": ("     length 2\n", ""),
    'line 19.*"one" is not a number': ("direction 1 0 0", "direction one 0 0"),
    'line 19: "direction" needs 3 numbers': ("direction 1 0 0", "direction 1 0"),
    "line 21: the order of axes": ("90  XYZ", "90  XXZ"),
    'line 22: "l" is not one of rx, ry, rz': ("dof rx rz", "dof rx l"),
    'two bones are called "upper"': ("name lower", "name upper"),
    'there is no bone "uper": did you mean': ("upper lower\n", "uper lower\n"),
    'bone "lower" does not hang on the root': ("    upper lower\n", ""),
    'bone "upper" already hangs': ("upper lower\n", "lower upper\n"),
    "has no end": ("  end\n:hierarchy", ":hierarchy"),
}
MISTAKES_OF_THE_MOTION = {
    "holds no frames": (AMC, ":DEGREES\n"),
    'line 4: a frame begins with its number, not "root"': ("1\nroot", "root"),
    'line 6: bone "upper" needs 2 values': ("upper 0 0\n2", "upper 0\n2"),
    'line 9.*"x" is not a number': ("upper 0 90", "upper 0 x"),
    "line 7: frame 5 follows frame 1; frames are missing": ("\n2\n", "\n5\n"),
    'frame 3 lacks bone "upper"; the file may be cut off': ("upper 90 0\n", ""),
    'no moving bone "uper": did you mean': ("upper 90 0\n", "uper 90 0\n"),
}


@pytest.mark.parametrize("what", [*MISTAKES_OF_THE_SKELETON, *MISTAKES_OF_THE_MOTION])
def test_a_broken_file_is_refused_with_its_place(tmp_path, what):
    asf, amc = ASF, AMC
    if what in MISTAKES_OF_THE_SKELETON:
        asf = ASF.replace(*MISTAKES_OF_THE_SKELETON[what], 1)
    else:
        amc = AMC.replace(*MISTAKES_OF_THE_MOTION[what], 1)
    assert (asf, amc) != (ASF, AMC)
    with pytest.raises(InputError) as caught:
        read_amc(files(tmp_path, asf, amc))
    assert re.search(what, str(caught.value)) and str(tmp_path) in str(caught.value)


@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.booleans(),
    st.lists(
        st.tuples(st.integers(0, len(ASF)), st.integers(0, 20), st.text("\n #:0189.-erotupxyzdnbginalfh", max_size=8)),
        min_size=1,
        max_size=3,
    ),
)
def test_a_mutated_file_is_read_or_refused(tmp_path, of_the_skeleton, changes):
    text = ASF if of_the_skeleton else AMC
    for at, gone, new in changes:
        at %= len(text)
        text = text[:at] + new + text[at + gone :]
    try:
        pose = read_amc(files(tmp_path, text, AMC) if of_the_skeleton else files(tmp_path, ASF, text))
    except InputError:
        return
    assert np.isfinite(pose.x).all() and pose.x.shape[1] == len(pose.columns)


angles = st.floats(-180, 180).map(lambda value: round(value, 2))
lengths = st.floats(0.5, 5).map(lambda value: round(value, 2))


@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_the_same_motion_as_bvh_gives_the_same_positions(tmp_path, data):
    """Bone b of ASF is joint b of BVH, at the bone's beginning, whose End Site or children lie at the bone's end."""
    count, frames = data.draw(st.integers(1, 4)), 2
    parents = [data.draw(st.integers(-1, b - 1)) for b in range(count)]
    units = [Rotation.from_euler("xyz", data.draw(st.tuples(angles, angles, angles)), degrees=True) for _ in parents]
    directions = [unit.apply([1.0, 0, 0]) for unit in units]
    bone_lengths = [data.draw(lengths) for _ in parents]
    axes = [data.draw(st.tuples(angles, angles, angles)) for _ in parents]
    dofs = [data.draw(st.permutations(["rx", "ry", "rz"]))[: data.draw(st.integers(1, 3))] for _ in parents]
    root = data.draw(st.lists(st.tuples(*[angles] * 6), min_size=frames, max_size=frames))
    motion = [[[data.draw(angles) for _ in dof] for dof in dofs] for _ in range(frames)]

    asf = ":units\nangle deg\n:root\norder TX TY TZ RX RY RZ\naxis XYZ\nposition 0 0 0\norientation 0 0 0\n:bonedata\n"
    for b, dof in enumerate(dofs):
        asf += f"begin\nname b{b}\ndirection {' '.join(map(repr, directions[b].tolist()))}\nlength {bone_lengths[b]}\n"
        asf += f"axis {' '.join(map(str, axes[b]))} XYZ\ndof {' '.join(dof)}\nend\n"
    asf += ":hierarchy\nbegin\n"
    for b, parent in enumerate(parents):
        asf += f"{'root' if parent < 0 else f'b{parent}'} b{b}\n"
    amc = ":FULLY-SPECIFIED\n:DEGREES\n"
    for t in range(frames):
        amc += f"{t + 1}\nroot {' '.join(map(str, root[t]))}\n"
        amc += "".join(f"b{b} {' '.join(map(str, values))}\n" for b, values in enumerate(motion[t]))

    met = []

    def block(b: int) -> str:
        met.append(b)
        offset = np.zeros(3) if parents[b] < 0 else directions[parents[b]] * bone_lengths[parents[b]]
        end = directions[b] * bone_lengths[b]
        inside = "".join(block(child) for child, parent in enumerate(parents) if parent == b)
        return (
            f"JOINT b{b}\n{{\nOFFSET {' '.join(map(repr, offset.tolist()))}\nCHANNELS 3 Zrotation Yrotation Xrotation\n"
            f"{inside}End Site\n{{\nOFFSET {' '.join(map(repr, end.tolist()))}\n}}\n}}\n"
        )

    bvh = "HIERARCHY\nROOT root\n{\nOFFSET 0 0 0\n"
    bvh += "CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation\n"
    bvh += "".join(block(b) for b, parent in enumerate(parents) if parent < 0) + "}\n"
    bvh += f"MOTION\nFrames: {frames}\nFrame Time: 0.1\n"
    for t in range(frames):
        row = [*root[t][:3], *root[t][:2:-1]]
        for b in met:
            own = Rotation.from_euler("xyz", axes[b], degrees=True)  # lower case: about fixed axes, the first one first
            turn = Rotation.identity()
            for name, value in zip(dofs[b], motion[t][b], strict=True):
                turn = Rotation.from_euler(name[1], value, degrees=True) * turn
            row += (own * turn * own.inv()).as_euler("ZYX", degrees=True).tolist()
        bvh += " ".join(repr(float(value)) for value in row) + "\n"

    ours = read_amc(files(tmp_path, asf, amc))
    (tmp_path / "same.bvh").write_text(bvh)
    theirs = read_bvh(tmp_path / "same.bvh")
    for name in ours.skeleton.joints:
        there = name if name == "root" else f"{name}End"
        for axis in "xyz":
            np.testing.assert_allclose(
                ours.x[:, ours.columns.index(f"{name}.{axis}")],
                theirs.x[:, theirs.columns.index(f"{there}.{axis}")],
                atol=1e-6,
            )
