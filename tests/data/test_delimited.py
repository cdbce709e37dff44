import numpy as np
import pytest

from swerve.data import delimited
from swerve.data.delimited import read_delimited
from swerve.data.reading import Reading
from swerve.errors import InputError


@pytest.fixture
def table(tmp_path):
    def read(text: str | bytes, **options):
        path = tmp_path / "data.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_delimited(path, Reading(**options))

    return read


@pytest.fixture
def refused(table):
    def message(text: str | bytes, **options) -> str:
        with pytest.raises(InputError) as caught:
            table(text, **options)
        return str(caught.value).split("data.csv", 1)[1]

    return message


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_delimiters_and_line_ends_are_found(table, delimiter, newline):
    lines = [["p", "q"], ["1", "2.5"], ["-3e-2", "4"]]
    read = table(newline.join(delimiter.join(cells) for cells in lines) + newline)
    assert read.columns == ("p", "q")
    assert read.x.tolist() == [[1, 2.5], [-0.03, 4]]


def test_missing_values_in_all_spellings(table):
    read = table("p,q\n1,\n,2\nNA,nan\n NaN ,na\n")
    np.testing.assert_array_equal(read.x, [[1, np.nan], [np.nan, 2], [np.nan] * 2, [np.nan] * 2])


def test_a_header_is_optional(table):
    assert table("1,2\n3,4").columns == ("x0", "x1")
    assert table("1,2\n3,4").x.tolist() == [[1, 2], [3, 4]]
    assert table(",nan\n3,4").x.shape == (2, 2)  # missing values do not make a header
    assert table("time,\n3,4").columns == ("time", "x1")


def test_quotes_blank_lines_and_byte_order_marks(table):
    read = table('\ufeff"p, in m",q\n\n1,2\n\n"3",4\n\n')
    assert read.columns == ("p, in m", "q") and read.x.tolist() == [[1, 2], [3, 4]]


def test_text_columns_are_kept_as_text(table):
    read = table("who,p\nbee,1\nant,2\n", sequence_column="who")
    assert read.columns == ("p",) and read.sequence.names == ("bee", "ant") and read.sequence.codes.tolist() == [0, 1]


def test_long_files_are_read_in_blocks(table, monkeypatch):
    monkeypatch.setattr(delimited, "ROWS_AT_ONCE", 3)
    rows = np.arange(20.0).reshape(10, 2)
    lines = [f"{a},{b}" for a, b in rows]
    assert table("\n".join(lines)).x.tolist() == rows.tolist()
    assert table("p,q\n" + "\n".join(lines)).x.tolist() == rows.tolist()


def test_text_among_numbers_is_located(refused):
    assert refused("p,q\n1,2\n3,four\n") == ', line 3, column "q": "four" is not a number.'
    assert refused("p,q\n\n1,2\n\n3,four\n") == ', line 5, column "q": "four" is not a number.'


def test_text_far_down_is_located(refused):
    text = "p\n" + "1\n" * 500 + "oops\n"
    assert refused(text) == ', line 502, column "p": "oops" is not a number.'


def test_ragged_rows_are_located(refused):
    assert refused("p,q\n1,2\n3\n") == ", line 3: 1 columns where line 1 has 2."
    assert refused("1,2\n3,4,5\n") == ", line 2: 3 columns where line 1 has 2."


@pytest.mark.parametrize("infinite", ["inf", "-Infinity", "1e999"])
def test_infinite_values_are_located(refused, infinite):
    assert refused(f"p,q\n1,2\n{infinite},3\n") == ', line 3, column "p": the value is infinite.'


def test_files_without_a_table(refused, tmp_path):
    assert refused("") == refused("\n\n") == " is empty."
    assert refused("p,q\n") == " has a header but no rows."
    assert refused("p,p\n1,2\n") == ': two columns are called "p".'
    assert refused(b"p,q\n\xff\xfe,1\n") == " is not a text file in UTF-8."
    with pytest.raises(InputError, match="can not be opened"):
        read_delimited(tmp_path / "absent.csv", Reading())


def test_a_sign_that_is_part_of_a_name_is_no_delimiter(table):
    assert table("a;b,c\n1,2\n").columns == ("a;b", "c")
    assert table("a;b\n1;2\n").columns == ("a", "b")
    assert table("\n\na\tb,c\n1\t2\n").columns == ("a", "b,c")


def test_a_table_far_too_wide_is_refused_before_it_is_read(refused, monkeypatch):
    monkeypatch.setattr(delimited, "_read", lambda *_: pytest.fail("it was read"))
    shown = refused(",".join(f"c{i}" for i in range(1_000_000)) + "\n")
    assert "has 1,000,000 columns, and at most 10,000 can be used" in shown


def test_columns_of_nothing_but_text_are_named_with_what_to_do(refused, table):
    text = "who,p,where\nbee,1,here\n,2,there\n"
    assert refused(text).startswith(': columns "who", "where" hold no numbers: choose the measurements with --column')
    assert table(text, columns=("p",)).x.tolist() == [[1], [2]]


def test_columns_that_were_not_asked_for_are_not_read(table):
    read = table("t,p,q,note\n0,1,2,fine\n1,3,4,\n", columns=("q",), time_column="t")
    assert read.columns == ("q",) and read.x.tolist() == [[2], [4]] and read.times.tolist() == [0, 1]


def test_a_first_row_of_dates_is_no_header(table):
    read = table("2024-05-01T12:00:00,1\n2024-05-01T12:00:01,2\n", time_column="x0")
    assert read.dates and len(read.x) == 2
