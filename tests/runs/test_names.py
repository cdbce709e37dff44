"""Names of regimes: given, checked, and what a regime is called without one."""

import pytest

from swerve.errors import InputError
from swerve.runs.names import LONGEST_NAME, all_names, parse_names, with_names


def test_a_regime_without_a_name_is_called_by_its_number():
    assert all_names((), 2) == ("regime 0", "regime 1")
    assert all_names((None, "walk"), 3) == ("regime 0", "walk", "regime 2")


def test_names_are_given_and_replaced():
    given = with_names((), {1: " walk "}, 3)
    assert given == (None, "walk", None)
    assert with_names(given, {1: "run", 0: "<b>rest</b>"}, 3) == ("<b>rest</b>", "run", None)
    assert with_names(("walk", "rest"), {0: "rest", 1: "walk"}, 2) == ("rest", "walk")


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ({3: "walk"}, "no regime 3: they are numbered from 0 to 2"),
        ({-1: "walk"}, "no regime -1"),
        ({0: "  "}, "regime 0 is empty"),
        ({0: "x" * (LONGEST_NAME + 1)}, "61 characters: at most 60"),
        ({0: "two\nlines"}, "line break"),
        ({0: "walk", 1: "walk"}, 'Regime 1 is called "walk" too'),
        ({0: "rest"}, 'Regime 2 is called "rest" too'),
        ({0: "regime 1"}, 'Regime 1 is called "regime 1" too'),
    ],
)
def test_names_that_would_confuse_are_refused(names, sentence):
    with pytest.raises(InputError, match=sentence):
        with_names((None, None, "rest"), names, 3)


def test_names_on_the_command_line():
    assert parse_names(["0=walk", "2=a = b"]) == {0: "walk", 2: "a = b"}
    for word in ("walk", "=walk", "x=walk", "-1=walk", "²=walk"):
        with pytest.raises(InputError, match="0=walk"):
            parse_names([word])
    with pytest.raises(InputError, match="named twice"):
        parse_names(["0=walk", "0=run"])
