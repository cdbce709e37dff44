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
CANDIDATES = ("arhmm", "snlds")
"""What `auto` chooses between, the simplest first."""
SEARCHED = ("snlds", "slds")
"""What `auto` asks how many regimes there are: linear ones only where restarts of the nonlinear ones never agree."""
NUMBERS, CODES = "numbers", "codes"
"""What kinds read: channels, and codes of images in their place."""
LONG, STATES, SERIES, FEWER = "recordings of any length", "hidden states", "series of its own", "fewer regimes"
"""What kinds offer beyond regimes: `walk`; `states`; `draw` and `futures`; `weigh` and `forbid`."""
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
    reads: frozenset[str] = frozenset({NUMBERS, CODES})
    offers: frozenset[str] = frozenset()
    by_steps: bool = True
    """Trained step by step, so that it can report and stop; otherwise a search of its own finds it."""
    tries: str = "training.restarts"
    """The setting that says how often it is begun."""
    options: type | None = None
    """The dataclass of the settings that it alone has."""
    section: str = ""
    """What they are called in a file of settings."""

    @property
    def subject(self) -> str:
        """At the beginning of a sentence."""
        return (self.called or self.name)[0].upper() + (self.called or self.name)[1:]

    def maker(self) -> Any:
        """Loads the module that builds it."""
        module, _, attribute = self.home.partition(":")
        return getattr(importlib.import_module(module), attribute)


_known: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    """Makes a kind known by its name."""
    _known[kind.name] = kind


_OURS = frozenset({LONG, STATES, SERIES, FEWER})
register(Kind("snlds", "swerve.models.snlds.maker:MAKER", "the SNLDS", offers=_OURS))
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
        offers=_OURS,
    )
)
register(
    Kind(
        "arhmm",
        "swerve.models.arhmm.maker:MAKER",
        "the AR-HMM",
        reads=frozenset({NUMBERS}),
        offers=frozenset({LONG, SERIES}),
        by_steps=False,
        tries="arhmm.restarts",
    )
)


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


def offering(what: str) -> str:
    """The kinds that offer something, in words."""
    names = [kind.name for kind in every() if what in kind.offers]
    return f"{', '.join(names[:-1])} or {names[-1]}"


def sections() -> set[str]:
    """What the settings are called that single kinds have."""
    return {kind.section for kind in every() if kind.section} | set(THEIR_SECTIONS)


def _load_others() -> None:
    for point in entry_points(group=GROUP):
        for kind in point.load():
            _known.setdefault(kind.name, kind)
