"""The models, each fulfilling the one contract in `model`."""
