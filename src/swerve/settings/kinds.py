"""The registry of models: what is known of each kind before any is built, and where it is built.

A line here, or `register`, or an entry point of the group `swerve.kinds` in another package makes a kind known.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from swerve.errors import InputError, nearest

AUTO = "auto"
"""No kind, but the choice between kinds."""
GROUP = "swerve.kinds"
IN_THE_LABORATORY = ("gumbel", "slds-em", "rslds", "svae", "kvae", "compile")
"""Systems of others, in a package of their own."""
THEIR_SECTIONS = ("gumbel", "rslds", "svae", "kvae", "compile")
"""What runs and results keep beside their own settings that were made when all systems were one package."""


@dataclass(frozen=True)
class Kind:
    """One kind of model."""

    name: str
    home: str
    """`module:attribute` of its `Maker`."""
    called: str = ""
    """In a sentence, as in "the SNLDS"."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What belongs to it besides its name, by section of the config."""
    options: type | None = None
    """The dataclass of the settings that it alone has."""
    section: str = ""
    """What they are called in a file of settings."""

    def maker(self) -> Any:
        """Loads the module that builds it."""
        module, _, attribute = self.home.partition(":")
        return getattr(importlib.import_module(module), attribute)


_known: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    """Makes a kind known by its name."""
    _known[kind.name] = kind


register(Kind("snlds", "swerve.models.snlds.maker:MAKER", "the SNLDS"))
register(
    Kind(
        "slds",
        "swerve.models.snlds.maker:MAKER",
        "the SLDS",
        {
            "model": {
                "dynamics": "linear",
                "emission_hidden": (),
                "switching_reads_x": False,
                "switching_reads_z": False,
            }
        },  # an SNLDS with linear parts whose switches nothing drives
    )
)
register(Kind("arhmm", "swerve.models.arhmm.maker:MAKER", "the AR-HMM"))


def find(name: str) -> Kind:
    """A kind by its name."""
    if name not in _known:
        _load_others()
    if name in _known:
        return _known[name]
    if name in IN_THE_LABORATORY:
        raise InputError(f"The model '{name}' is in Swerve's laboratory, the package swerve-lab: install it beside.")
    raise InputError(f"There is no model '{name}'{nearest(name, [AUTO, *_known])}")


def every() -> list[Kind]:
    """All kinds that are known, those of other packages too."""
    _load_others()
    return list(_known.values())


def sections() -> set[str]:
    """What the settings are called that single kinds have."""
    return {kind.section for kind in every() if kind.section} | set(THEIR_SECTIONS)


def _load_others() -> None:
    for point in entry_points(group=GROUP):
        for kind in point.load():
            _known.setdefault(kind.name, kind)
