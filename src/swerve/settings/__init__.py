"""What decides a fit, as frozen dataclasses: their defaults, named recipes, and how they are read and written."""
