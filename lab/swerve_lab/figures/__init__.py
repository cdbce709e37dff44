"""Figures that only the paper's boards need."""
