from dataclasses import replace

import numpy as np
import pytest

from swerve.data.columns import check_every_column_has_values, drop_constant_columns, pixel_names, select_columns
from swerve.errors import InputError
from swerve.types import Recording


def series(*columns, names=("a", "b", "c")) -> Recording:
    return Recording(x=np.array(columns, dtype=float).T, name="one", columns=names[: len(columns)])


def test_a_column_that_never_changes_is_dropped():
    kept, dropped = drop_constant_columns([series([1, 2], [3, 3], [np.nan, 5]), series([1, 2], [3, 3], [5, 6])])
    assert dropped == ("b",)
    assert kept[0].columns == ("a", "c")
    np.testing.assert_array_equal(kept[0].x, [[1, np.nan], [2, 5]])


def test_a_column_that_differs_only_between_recordings_is_kept():
    recordings = [series([1, 2], [3, 3]), series([1, 2], [4, 4])]
    assert drop_constant_columns(recordings) == (recordings, ())


def test_a_column_missing_in_one_recording_is_judged_by_the_others():
    gone = [np.nan, np.nan]
    assert drop_constant_columns([series([1, 2], gone), series([1, 2], [3, 3])])[1] == ("b",)
    assert drop_constant_columns([series([1, 2], gone), series([1, 2], [3, 4])])[1] == ()


def test_nothing_left_is_an_error():
    with pytest.raises(InputError, match="Every column is constant"):
        drop_constant_columns([series([1, 1], [2, 2])])


def test_an_empty_column_is_an_error():
    with pytest.raises(InputError, match='"b" holds no value'):
        check_every_column_has_values([series([1, 2], [np.nan, np.nan])])


def test_columns_are_chosen_by_name_in_the_order_asked_for():
    (chosen,) = select_columns([series([1], [2], [3])], ["c", "a"])
    assert chosen.columns == ("c", "a") and chosen.x.tolist() == [[3, 1]]
    with pytest.raises(InputError, match='one has no column "d"'):
        select_columns([series([1])], ["d"])


def test_columns_without_names_get_some():
    unnamed = Recording(x=np.array([[1.0, 2.0], [1.0, 3.0]]))
    assert drop_constant_columns([unnamed])[1] == ("x0",)


def test_an_image_keeps_its_constant_and_its_dead_pixels():
    image = Recording(x=np.array([[1.0, 2.0, np.nan, 0.0], [1.0, 3.0, np.nan, 0.0]]), image=(2, 2))
    assert drop_constant_columns([image]) == ([image], ())
    with pytest.raises(InputError, match="Every column is constant"):
        drop_constant_columns([replace(image, x=np.ones((2, 4)))])
    with pytest.raises(InputError, match="holds no value at all"):
        drop_constant_columns([replace(image, x=np.full((2, 4), np.nan))])


def test_a_part_of_an_image_is_no_image():
    image = Recording(x=np.arange(8.0).reshape(2, 4), image=(2, 2), columns=pixel_names((2, 2)))
    assert select_columns([image], pixel_names((2, 2))) == [image]
    (part,) = select_columns([image], ["pixel-1-0", "pixel-0-0"])
    assert part.image is None and part.x.tolist() == [[2, 0], [6, 4]]
