"""p(x, z, s) and its parts."""
