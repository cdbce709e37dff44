"""The one exception a user is meant to read, and hints for its messages."""

import difflib
import importlib
from collections.abc import Iterable
from typing import Any


class InputError(ValueError):
    """Something the user gave can not be used. The message is one sentence that says what and where."""


def nearest(name: str, known: Iterable[object]) -> str:
    """The end of a sentence about an unknown name: what was meant, or what there is."""
    names = [str(one) for one in known]
    found = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    return f": did you mean '{found[0]}'?" if found else f"; there are {', '.join(names)}."


def package(name: str, what: str) -> Any:
    """A package of the extra `files`, or a sentence that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        root = name.partition(".")[0]
        raise InputError(
            f'{what} need the package {root}, which is not installed: pip install "swerve[files]", or {root} itself.'
        ) from None
