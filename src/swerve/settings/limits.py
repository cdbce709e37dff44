"""Fields of settings that know how small they may be."""

import dataclasses
from dataclasses import field
from typing import Any

from swerve.errors import InputError


def at_least(least: float | int, default: Any, *, filled: bool = False) -> Any:
    """A field whose value, or each number of it, is at least so large; `filled` lists must not be empty."""
    return field(default=default, metadata={"least": least, "filled": filled})


def check(section: Any, name: str) -> None:
    """Refuses what is too small or empty."""
    for one in dataclasses.fields(section):
        value = getattr(section, one.name)
        if "least" not in one.metadata or value is None:
            continue
        least, numbers = one.metadata["least"], value if isinstance(value, tuple) else (value,)
        if not all(number >= least for number in numbers):
            raise InputError(f"{name}.{one.name} must be at least {least}, not {value}.")
        if one.metadata["filled"] and not numbers:
            raise InputError(f"{name}.{one.name} must not be empty.")
