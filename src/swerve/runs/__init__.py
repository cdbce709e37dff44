"""Fitted models with all that belongs to them: fitted, saved, loaded, named and aligned."""
