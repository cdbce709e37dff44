"""Where sequences come from: the files, arrays and data frames of users; windows cut from them for training."""
