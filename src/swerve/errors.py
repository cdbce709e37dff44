"""The one exception a user is meant to read."""


class InputError(ValueError):
    """Something the user gave can not be used. The message is one sentence that says what and where."""
