"""Fitted models with all that belongs to them, and the folders that keep them."""
