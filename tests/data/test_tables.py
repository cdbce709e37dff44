import json
from dataclasses import asdict, fields

import numpy as np
import pytest

from swerve.data import tables
from swerve.data.reading import Choices, Reading
from swerve.errors import InputError


@pytest.fixture
def write(tmp_path):
    def write_file(name: str, text: str):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_file


def test_one_recording_per_file_named_after_it(write):
    first, second = tables.read([write("a.csv", "p,q\n1,2\n3,4\n"), write("b.csv", "p,q\n5,6\n")])
    assert (first.name, second.name) == ("a", "b")
    assert first.columns == second.columns == ("p", "q")
    assert first.x.tolist() == [[1, 2], [3, 4]] and second.x.tolist() == [[5, 6]]
    assert first.s is None and first.u is None


def test_a_folder_is_read_in_the_order_of_its_names(write, tmp_path):
    write("b.csv", "1\n"), write("a.tsv", "2\n"), write("notes.txt", "ignored")
    assert [one.name for one in tables.read(tmp_path)] == ["a", "b"]


def test_reordered_columns_are_put_in_order(write):
    _, second = tables.read([write("a.csv", "p,q\n1,2\n"), write("b.csv", "q,p\n6,5\n")])
    assert second.columns == ("p", "q") and second.x.tolist() == [[5, 6]]


def test_a_sequence_column_splits_a_file_even_if_rows_alternate(write):
    text = "who,p,state\nbee,1,0\nant,2,1\nbee,3,1\nant,4,1\n"
    bee, ant = tables.read(write("a.csv", text), Reading(sequence_column="who", label_column="state"))
    assert (bee.name, ant.name) == ("bee", "ant")
    assert bee.x.tolist() == [[1], [3]] and ant.x.tolist() == [[2], [4]]
    assert bee.s.tolist() == [0, 1] and ant.s.tolist() == [1, 1]
    assert bee.columns == ("p",)


def test_controls_leave_x_and_keep_the_order_asked_for(write):
    path = write("a.csv", "wind,p,rudder\n1,2,3\n4,5,6\n")
    (only,) = tables.read(
        path,
        Reading(
            control_columns=(
                "rudder",
                "wind",
            )
        ),
    )
    assert only.x.tolist() == [[2], [5]] and only.u.tolist() == [[3, 1], [6, 4]]


def test_named_labels_are_numbered_alike_in_all_files(write):
    paths = [write("a.csv", "p,s\n1,walk\n2,run\n"), write("b.csv", "p,s\n3,walk\n4,\n")]
    first, second = tables.read(paths, Reading(label_column="s"))
    assert first.s.tolist() == [1, 0] and second.s.tolist() == [1, -1]


def test_numbered_labels_stay_as_they_are(write):
    (only,) = tables.read(write("a.csv", "p,s\n1,10\n2,2.0\n3,-1\n4,NaN\n"), Reading(label_column="s"))
    assert only.s.tolist() == [10, 2, -1, -1]


def test_columns_without_a_header_have_made_up_names(write):
    (only,) = tables.read(write("a.csv", "1,2,0\n3,4,1\n"), Reading(label_column="x2"))
    assert only.columns == ("x0", "x1") and only.s.tolist() == [0, 1]


def test_names_are_made_unique(write, tmp_path):
    (tmp_path / "sub").mkdir()
    paths = [write("a.csv", "1\n"), write("sub/a.csv", "2\n"), write("a-2.csv", "3\n")]
    assert [one.name for one in tables.read(paths)] == ["a", "a-2", "a-2-2"]


def test_a_column_may_be_missing_in_one_file_but_not_in_all(write):
    paths = [write("a.csv", "p,q\n1,\n"), write("b.csv", "p,q\n1,2\n")]
    assert len(tables.read(paths)) == 2
    with pytest.raises(InputError, match='Column "q" holds no value'):
        tables.read(paths[0])


def refused(paths, **options) -> str:
    with pytest.raises(InputError) as caught:
        tables.read(paths, Reading(**options))
    message = str(caught.value)
    assert "\n" not in message and message.endswith((".", "?"))
    return message


def test_files_that_can_not_be_read_are_named(write, tmp_path):
    assert "nowhere.csv does not exist" in refused(tmp_path / "nowhere.csv")
    assert "holds no .csv" in refused(tmp_path)
    assert "a.xlsx is not a .csv" in refused(write("a.xlsx", "1"))
    assert "No data file" in refused([])


def test_unknown_columns_come_with_the_nearest(write):
    path = write("a.csv", "position,label\n1,0\n")
    assert 'a.csv has no column "lable": did you mean "label"?' in refused(path, label_column="lable")
    assert 'did you mean "position"?' in refused(path, control_columns=("positon",))
    assert 'it has "position", "label"' in refused(path, sequence_column="zzz")


def test_files_with_different_columns_are_refused(write):
    a, b = write("a.csv", "p,q\n1,2\n"), write("b.csv", "p,r\n1,2\n")
    message = refused([a, b])
    assert "a.csv, unlike" in message and 'has no column "r"' in message
    assert 'no column "q"' in refused([a, write("c.csv", "p\n1\n")])


def test_roles_are_checked(write):
    path = write("a.csv", "p,q\n1,2\n3,\n")
    assert '"p" can not have two roles' in refused(path, label_column="p", sequence_column="p")
    assert 'control column "q" has missing values' in refused(path, control_columns=("q",))
    assert "no column of measurements" in refused(write("b.csv", "p\n1\n"), control_columns=("p",))
    assert 'Label column "p" holds 1.5' in refused(write("c.csv", "p,q\n1.5,1\n"), label_column="p")


def test_numpy_files_have_no_columns_to_name(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    assert "no columns to name" in refused(tmp_path / "a.npy", control_columns=("x0",))


def test_rows_of_the_file_are_known_where_a_file_holds_several_recordings(write):
    bee, ant = tables.read(write("a.csv", "who,p\nbee,1\nant,2\nbee,3\nant,4\n"), Reading(sequence_column="who"))
    assert bee.rows.tolist() == [0, 2] and ant.rows.tolist() == [1, 3]


def test_columns_are_chosen_from_every_kind_of_file(write, tmp_path):
    np.savez(tmp_path / "b.npz", x=np.ones((3, 2)), columns=["p", "q"], times=[0.0, 1.0, 2.0])
    paths = [write("a.csv", "t,p,q\n0,1,2\n1,3,4\n"), tmp_path / "b.npz"]
    (first,) = tables.read(paths[0], Reading(columns=("q",)))
    (second,) = tables.read(paths[1], Reading(columns=("q",)))
    assert first.columns == second.columns == ("q",) and second.times.tolist() == [0, 1, 2]
    assert 'has no column "z"' in refused(paths[1], columns=("z",))
    assert '"p" can not have two roles' in refused(paths[0], columns=("p",), time_column="p")


def test_what_only_the_fit_spoke_of_may_be_absent(write, tmp_path):
    kept = Reading(sequence_column="who", label_column="state", time_column="t", rate=2.0)
    (one,) = tables.read(write("new.csv", "t,p\n0,1\n1,2\n"), kept.but())
    assert one.s is None and one.times.tolist() == [0, 0.5, 1]
    np.savez(tmp_path / "new.npz", x=np.ones((3, 1)), t=np.arange(3))
    assert tables.read(tmp_path / "new.npz", kept.but())[0].s is None
    with pytest.raises(InputError, match='no column "stat"'):
        tables.read(tmp_path / "new.csv", kept.but(label_column="stat"))
    with pytest.raises(InputError, match='no column "t"'):
        tables.read(write("b.csv", "p\n1\n"), kept.but())


def test_choices_made_anew_win_and_an_empty_one_unmakes():
    kept = Reading(sequence_column="who", columns=("p",), every=6, step=0.1)
    again = kept.but(every=2, columns=["q"], sequence_column="")
    assert again == Reading(columns=("q",), every=2, step=0.1)
    with pytest.raises(InputError, match="'evry': did you mean 'every'"):
        kept.but(evry=2)


def test_a_reading_survives_json():
    kept = Reading(control_columns=("u", "v"), rate=2.5, step=0.4)
    stored = json.loads(json.dumps(asdict(kept)))
    assert Reading.from_dict(stored) == kept
    assert Reading.from_dict({**stored, "unknown": 1}) == kept and Reading.from_dict({}) == Reading()


def test_keywords_are_the_fields_of_a_reading():
    told = {one.name for one in fields(Reading) if "help" in one.metadata}
    assert set(Choices.__annotations__) == told


def test_names_are_kept_as_they_are(write):
    (one,) = tables.read(write("a.csv", "<script>alert(1)</script>,p\n1,2\n"))
    assert one.columns == ("<script>alert(1)</script>", "p")


def test_arrays_far_too_wide_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 20_000), np.float32))
    assert "has 20,000 columns" in refused(tmp_path / "a.npy")
