"""Names that people give to regimes. A regime without one is called by its number."""

from collections.abc import Mapping, Sequence

from swerve.errors import InputError

LONGEST_NAME = 60  # characters: a legend has to hold it

GivenNames = tuple[str | None, ...]
"""One for every regime, None where nobody gave one; empty for no names at all."""


def all_names(given: GivenNames, regimes: int) -> tuple[str, ...]:
    """What to call each of K regimes."""
    padded = (*given, *[None] * (regimes - len(given)))
    return tuple(name or f"regime {k}" for k, name in enumerate(padded))


def with_names(given: GivenNames, changes: Mapping[int, str], regimes: int) -> GivenNames:
    """Some names given or replaced. Two regimes never share a name, and an empty name is none."""
    wanted: list[str | None] = [*given, *[None] * (regimes - len(given))]
    for regime, name in changes.items():
        if not 0 <= regime < regimes:
            raise InputError(f"There is no regime {regime}: they are numbered from 0 to {regimes - 1}.")
        wanted[regime] = _checked(regime, name)
    called = all_names(tuple(wanted), regimes)
    for regime in changes:
        if called.count(called[regime]) > 1:
            others = [str(k) for k, name in enumerate(called) if name == called[regime] and k != regime]
            raise InputError(f'Regime {others[0]} is called "{called[regime]}" too: a name stands for one regime.')
    return tuple(wanted)


def parse_names(words: Sequence[str]) -> dict[int, str]:
    """`0=walk` as on the command line."""
    names: dict[int, str] = {}
    for word in words:
        number, separator, name = word.partition("=")
        if not separator or not (number.isascii() and number.isdecimal()):
            raise InputError(f"A name is given as 0=walk, the regime's number first, not as '{word}'.")
        if int(number) in names:
            raise InputError(f"Regime {int(number)} is named twice: give it one name.")
        names[int(number)] = name
    return names


def _checked(regime: int, name: str) -> str:
    name = name.strip()
    if not name:
        raise InputError(f"The name of regime {regime} is empty.")
    if len(name) > LONGEST_NAME:
        raise InputError(f"The name of regime {regime} has {len(name)} characters: at most {LONGEST_NAME} are shown.")
    if not name.isprintable():
        raise InputError(f"The name of regime {regime} holds a line break or another character that can not be shown.")
    return name
