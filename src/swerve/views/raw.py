"""Recordings as they are."""

from typing import ClassVar

from swerve.data.reading import RAW
from swerve.views.view import View


class Raw(View):
    """The columns of the file."""

    name: ClassVar[str] = RAW

    def read(self, recording):
        return recording

    def write(self, x):
        return x
