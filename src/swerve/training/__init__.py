"""Training: one pure update, the axis of restarts, the loop around them, and checkpoints."""
