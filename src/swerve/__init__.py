"""Swerve finds the regimes in time series."""

__version__ = "0.1.0"
