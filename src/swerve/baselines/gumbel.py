"""Gumbel-Softmax SNLDS."""

from dataclasses import dataclass

from swerve.collapsed import System
from swerve.system import AbstractSystem
from swerve.types import Key


@dataclass(frozen=True)
class GumbelOptions:
    """Settings of its own."""


def build(options: GumbelOptions, own: System, *, key: Key) -> AbstractSystem:
    """With fresh parameters."""
    raise NotImplementedError
