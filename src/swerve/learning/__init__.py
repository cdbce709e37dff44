"""From windows to fitted models: proposals, steps, restarts, and searches over the number of regimes."""
