"""Exact sums over regimes, small networks, bridges over gaps, and walks through long recordings. Knows no model."""
