"""Swerve finds the regimes in time series."""

from swerve.api import fit, load, name, segment
from swerve.errors import InputError
from swerve.types import Segmentation, Series

__version__ = "0.1.0"
__all__ = ["InputError", "Segmentation", "Series", "fit", "load", "name", "segment"]
