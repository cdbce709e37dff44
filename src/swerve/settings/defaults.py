"""What holds where nobody chooses, outside of a config. Help texts name these, so they must load nothing."""

DEFAULT_SAMPLES = 16  # draws of the hidden states that labels average over
DEFAULT_FUTURES = 1000  # draws of what comes next that a forecast is made of
DEFAULT_QUANTILES = (0.1, 0.5, 0.9)
FEWEST_REGIMES, MOST_REGIMES = 1, 6  # tried where the number of regimes is open
