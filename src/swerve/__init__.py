"""Swerve finds the regimes in time series."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swerve.api import fit, load, name, segment
    from swerve.errors import InputError
    from swerve.estimator import Segmenter
    from swerve.types import Forecast, Recording, Segmentation, Series

__version__ = "0.1.0"
__all__ = [
    "Forecast",
    "InputError",
    "Recording",
    "Segmentation",
    "Segmenter",
    "Series",
    "fit",
    "load",
    "name",
    "segment",
]
_HOMES = ("errors", "types", "api", "estimator")  # from the quickest to load to the slowest


def __getattr__(name: str) -> object:
    """What is asked for, loaded only now: JAX, SciPy and scikit-learn take seconds."""
    homes = (import_module(f"swerve.{home}") for home in _HOMES if name in __all__)
    for home in homes:
        if hasattr(home, name):
            return getattr(home, name)
    raise AttributeError(f"module 'swerve' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
