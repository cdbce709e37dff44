"""Packages that only some files need: they come with the extra `files`."""

import importlib
from typing import Any

from swerve.errors import InputError


def package(name: str, what: str) -> Any:
    """The package, or a sentence that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        root = name.partition(".")[0]
        raise InputError(
            f'{what} need the package {root}, which is not installed: pip install "swerve[files]", or {root} itself.'
        ) from None
