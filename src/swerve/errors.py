"""The one exception a user is meant to read, and a hint for its messages."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Something the user gave can not be used. The message is one sentence that says what and where."""


def nearest(name: str, known: Iterable[object]) -> str:
    """The end of a sentence about an unknown name: what was meant, or what there is."""
    names = [str(one) for one in known]
    found = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    return f": did you mean '{found[0]}'?" if found else f"; there are {', '.join(names)}."
