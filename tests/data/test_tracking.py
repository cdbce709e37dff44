"""What DeepLabCut and SLEAP write, recognised and read."""

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swerve.data import pose
from swerve.data.reading import Reading
from swerve.errors import InputError

ONE = """scorer,net,net,net,net,net,net
bodyparts,nose,nose,nose,tail,tail,tail
coords,x,y,likelihood,x,y,likelihood
0,1.0,2.0,0.9,3.0,4.0,0.99
1,1.5,2.5,0.2,3.5,4.5,1.0
3,2.0,3.0,0.7,,,
"""
TWO = """scorer,net,net,net,net,net,net,net,net,net
individuals,mouse,mouse,mouse,rat,rat,rat,single,single,single
bodyparts,nose,nose,nose,nose,nose,nose,cup,cup,cup
coords,x,y,likelihood,x,y,likelihood,x,y,likelihood
0,1,2,0.9,,,,5,5,1
1,3,4,0.9,6,7,0.9,5,5,1
2,5,6,0.9,8,9,0.9,5,5,1
"""
SLEAP = """track,frame_idx,instance.score,nose.x,nose.y,nose.score,tail.x,tail.y,tail.score
a,2,0.9,1,2,0.9,3,4,0.9
b,2,0.9,5,6,0.9,7,8,0.9
a,4,0.9,1.5,2.5,0.1,3.5,4.5,0.9
a,5,0.9,2,3,0.9,,,
"""
nan = np.nan


def read(path, **choices):
    return pose.read(path, Reading(**choices))


def table(tmp_path, text: str, name: str = "video.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def refusal(path, **choices) -> str:
    with pytest.raises(InputError) as caught:
        read(path, **choices)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_deeplabcut_one_animal(tmp_path):
    (one,) = read(table(tmp_path, ONE))
    assert one.name == "video" and one.columns == ("nose.x", "nose.y", "tail.x", "tail.y")
    assert one.skeleton.joints == ("nose", "tail") and one.skeleton.axes == ("x", "y") and one.rows is None
    np.testing.assert_array_equal(one.x, [[1, 2, 3, 4], [nan, nan, 3.5, 4.5], [nan] * 4, [2, 3, nan, nan]])
    (trusting,) = read(table(tmp_path, ONE), least_likelihood=0.2)
    assert trusting.x[1, 0] == 1.5


def test_deeplabcut_several_animals_are_several_recordings(tmp_path):
    mouse, rat = read(table(tmp_path, TWO))
    assert (mouse.name, rat.name) == ("video-mouse", "video-rat")
    np.testing.assert_array_equal(mouse.x, [[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(rat.x, [[6, 7], [8, 9]])  # from the first frame in which it is seen
    assert mouse.rows is None and rat.rows.tolist() == [1, 2]


def test_deeplabcut_points_in_space_and_points_set_by_hand(tmp_path):
    (one,) = read(table(tmp_path, "scorer,me,me,me\nbodyparts,a,a,a\ncoords,x,y,z\n0,1,2,3\n"))
    assert one.columns == ("a.x", "a.y", "a.z") and one.x.tolist() == [[1, 2, 3]]


def test_sleap_table(tmp_path):
    a, b = read(table(tmp_path, SLEAP))
    assert (a.name, b.name) == ("video-a", "video-b")
    assert a.rows.tolist() == [2, 3, 4, 5] and b.rows.tolist() == [2]
    np.testing.assert_array_equal(a.x, [[1, 2, 3, 4], [nan] * 4, [nan, nan, 3.5, 4.5], [2, 3, nan, nan]])


def analysis(tmp_path, **changes):
    tracks = np.arange(2 * 2 * 3 * 5, dtype=float).reshape(2, 2, 3, 5)
    tracks[1, :, :, :2] = nan
    scores = np.ones((2, 3, 5))
    scores[0, 1, 2] = 0.1
    scores[0, 2, 2] = nan  # set by hand
    arrays = {
        "tracks": tracks,
        "point_scores": scores,
        "node_names": np.array([b"nose", b"thorax", b"tail"]),
        "track_names": np.array([b"a", b"b"]),
        "edge_inds": np.array([[1, 0], [1, 2], [0, 1]]),
    }
    path = tmp_path / "flies.h5"
    with h5py.File(path, "w") as file:
        for name, array in (arrays | changes).items():
            if array is not None:
                file[name] = array
    return path


def test_sleap_analysis(tmp_path):
    a, b = read(analysis(tmp_path))
    assert (a.name, b.name) == ("flies-a", "flies-b")
    assert a.skeleton.joints == ("nose", "thorax", "tail") and a.skeleton.parents == (1, -1, 1)
    assert a.x.shape == (5, 6) and b.rows.tolist() == [2, 3, 4]
    np.testing.assert_array_equal(a.x[2], [2, 17, nan, nan, 12, 27])  # track 0: x = 5 node + frame, y 15 more
    np.testing.assert_array_equal(a.x[0], [0, 15, 5, 20, 10, 25])


def test_other_tables_are_left_to_others(tmp_path):
    assert read(table(tmp_path, "track,frame_idx,instance.score,speed\na,1,1,2\n")) is None
    assert read(table(tmp_path, "p,q\n1,2\n")) is None
    assert read(table(tmp_path, "")) is None
    assert read(table(tmp_path, "x", "notes.txt")) is None
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["x"] = np.zeros((3, 2))
    assert read(tmp_path / "plain.h5") is None


def test_refusals(tmp_path):
    assert "line 5: 6 columns where the header has 7" in refusal(table(tmp_path, ONE.replace("1,1.5,", "1,")))
    assert 'line 4: "one" is not a number' in refusal(table(tmp_path, ONE.replace("1.0,2.0", "one,2.0")))
    assert "line 4: a value is infinite" in refusal(table(tmp_path, ONE.replace("1.0,2.0", "inf,2.0")))
    assert 'line 6: "img3.png" is not the number' in refusal(table(tmp_path, ONE.replace("3,2.0", "img3.png,2.0")))
    assert "line 6: frame 1 stands after frame 1" in refusal(table(tmp_path, ONE.replace("3,2.0", "1,2.0")))
    assert "line 2: the header has the rows scorer" in refusal(table(tmp_path, ONE.replace("bodyparts", "scorer", 1)))
    assert 'has a row "bodyparts"' in refusal(table(tmp_path, ONE.replace("bodyparts", "individuals", 1)))
    assert 'has a row "coords"' in refusal(table(tmp_path, ONE[: ONE.index("coords")]))
    assert "line 3: 5 cells where line 1 has 6" in refusal(table(tmp_path, ONE.replace("coords,x", "coords")))
    assert 'bodypart "tail" has no column "y"' in refusal(table(tmp_path, ONE.replace("hood,x,y", "hood,x,v")))
    assert 'bodypart "nose" has two columns "x"' in refusal(table(tmp_path, ONE.replace("tail,tail,tail", "nose,n,n")))
    assert "a header but no rows" in refusal(table(tmp_path, ONE[: ONE.index("0,1.0")]))
    assert "no point is ever seen" in refusal(table(tmp_path, ONE.replace("4.5,1.0", "4.5,0")), least_likelihood=1.0)
    assert 'no column "who"' in refusal(table(tmp_path, ONE), sequence_column="who")
    assert "no track" in refusal(table(tmp_path, SLEAP.replace("a,2", ",2").replace("b,2", ",2")))
    assert "line 5: frame 4 stands after frame 4" in refusal(table(tmp_path, SLEAP.replace("a,5", "a,4")))
    assert "a header but no rows" in refusal(table(tmp_path, SLEAP[: SLEAP.index("a,2")]))


def test_refusals_of_hdf5(tmp_path):
    assert "(tracks, 2, 3 nodes, frames)" in refusal(analysis(tmp_path, tracks=np.zeros((5, 2, 3, 2, 1))))
    assert '"point_scores"' in refusal(analysis(tmp_path, point_scores=np.zeros((2, 3))))
    assert "node 7" in refusal(analysis(tmp_path, edge_inds=np.array([[0, 7]])))
    assert "infinite" in refusal(analysis(tmp_path, tracks=np.full((2, 2, 3, 5), np.inf)))
    assert ".csv file" in refusal(analysis(tmp_path, df_with_missing=np.zeros(3)))
    path = tmp_path / "text.h5"
    path.write_text("no")
    assert "not an HDF5 file" in refusal(path)


@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from([ONE, TWO, SLEAP]),
    st.lists(
        st.tuples(st.integers(0, 250), st.integers(0, 20), st.text(',\n"0.19xy-enaifscorl', max_size=8)),
        min_size=1,
        max_size=3,
    ),
)
def test_a_mutated_table_is_read_or_refused(tmp_path, text, changes):
    for at, gone, new in changes:
        text = text[:at] + new + text[at + gone :]
    try:
        found = read(table(tmp_path, text))
    except InputError:
        return
    for one in found or []:
        assert one.x.shape[1] == len(one.columns) and not np.isinf(one.x).any()


def test_a_damaged_hdf5_file_is_read_or_refused(tmp_path):
    whole = analysis(tmp_path).read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(100):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 8):
            damaged[place] = rng.integers(256)
        path = tmp_path / "damaged.h5"
        path.write_bytes(damaged[: rng.integers(len(whole) // 2, len(whole))] if rng.random() < 0.3 else damaged)
        try:
            read(path)
        except InputError as error:
            assert str(path) in str(error)
