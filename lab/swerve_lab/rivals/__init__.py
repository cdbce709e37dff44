"""The systems that the paper compares SNLDS with, each with the inference that its authors describe."""
