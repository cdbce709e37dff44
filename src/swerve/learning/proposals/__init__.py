"""Guesses about regimes that lead restarts, a file for each kind."""
