"""The command line: thin wrappers around the Python API."""
