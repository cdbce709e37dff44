"""Where sequences come from: generated boards and the user's tables; windows cut from them for training."""
