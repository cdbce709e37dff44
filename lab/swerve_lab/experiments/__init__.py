"""Rows of experiments as data, the runs they stand for, and tables of their results."""
