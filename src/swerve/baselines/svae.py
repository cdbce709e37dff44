"""Structured VAE."""

from dataclasses import dataclass

from swerve.baselines.shape import Shape
from swerve.system import AbstractSystem
from swerve.types import Key


@dataclass(frozen=True)
class SvaeOptions:
    """Settings of its own."""


def build(options: SvaeOptions, shape: Shape, *, key: Key) -> AbstractSystem:
    """With fresh parameters."""
    raise NotImplementedError
