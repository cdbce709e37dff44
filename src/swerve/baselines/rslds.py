"""Recurrent SLDS by variational Laplace-EM."""

from dataclasses import dataclass

from swerve.baselines.shape import Shape
from swerve.system import AbstractSystem
from swerve.types import Key


@dataclass(frozen=True)
class RsldsOptions:
    """Settings of its own."""


def build(options: RsldsOptions, shape: Shape, *, recurrent: bool, key: Key) -> AbstractSystem:
    """With fresh parameters."""
    raise NotImplementedError
