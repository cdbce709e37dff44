"""The systems of others, by name, as Swerve's registry wants to know them."""

from typing import Any

from swerve.settings.kinds import Kind
from swerve_lab.rivals.options import CompileOptions, GumbelOptions, KvaeOptions, RsldsOptions, SvaeOptions

_TWO_RATES = ({}, {"learning_rate": 3e-3})
_PLAIN: dict[str, Any] = {
    "recipe": {"balance": 0.0, "guidance": 0.0, "variants": _TWO_RATES},
    "training": {"merging": 0.0},
    "code": {"images_from": 1.0},
}
"""They are trained without what we found helpful for ours, and on codes of images alone. Where our restarts try
variants of our recipe, theirs try two learning rates in turn; the same held-out bound chooses."""
_LED = _PLAIN | {"recipe": {"balance": 0.0, "variants": _TWO_RATES}, "arhmm": {"features": (0,), "stages": False}}
"""A plain AR-HMM leads the first steps, as their authors have it."""
_UNSTICKY = _PLAIN | {"recipe": {**_PLAIN["recipe"], "stickiness": 0.0}}
"""A half-way draw pays twice for it."""
_HOME = "swerve_lab.rivals.makers"

KINDS = (
    Kind("gumbel", f"{_HOME}:GUMBEL", "the Gumbel SNLDS", _UNSTICKY, options=GumbelOptions, section="gumbel"),
    Kind("slds-em", f"{_HOME}:SLDS_EM", "the SLDS by EM", _LED, options=RsldsOptions, section="rslds"),
    Kind("rslds", f"{_HOME}:RSLDS", "the rSLDS", _LED, options=RsldsOptions, section="rslds"),
    Kind("svae", f"{_HOME}:SVAE", "the SVAE", _PLAIN, options=SvaeOptions, section="svae"),
    Kind("kvae", f"{_HOME}:KVAE", "the KVAE", _PLAIN, options=KvaeOptions, section="kvae"),
    Kind("compile", f"{_HOME}:COMPILE", "CompILE", _PLAIN, options=CompileOptions, section="compile"),
)
