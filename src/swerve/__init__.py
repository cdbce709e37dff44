"""Swerve finds the regimes in time series."""

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
