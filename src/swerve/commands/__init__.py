"""What the commands do, each a thin wrapper around the Python API; `cli` gives them their names and order."""
