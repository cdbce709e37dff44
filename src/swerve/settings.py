"""How settings are read, changed and written."""

import dataclasses
import json
import math
import tomllib
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from swerve.config import Config, Recipe
from swerve.errors import InputError, nearest
from swerve.recipes import with_recipe

_TWO_RATES = ({}, {"learning_rate": 3e-3})
_OTHERS = {
    "recipe": {"balance": 0.0, "guidance": 0.0, "variants": _TWO_RATES},
    "training": {"merging": 0.0},
    "code": {"images_from": 1.0},
}
"""Systems of others are trained without what we found helpful for ours, and on codes of images alone. Where our
restarts try variants of our recipe, theirs try two learning rates in turn; the same held-out bound chooses."""
_LED = _OTHERS | {"recipe": {"balance": 0.0, "variants": _TWO_RATES}, "arhmm": {"features": (0,), "stages": False}}
"""A plain AR-HMM leads the first steps, as their authors have it."""
KINDS: dict[str, dict[str, Any]] = {
    "slds": {
        "model": {
            "dynamics": "linear",
            "emission_hidden": (),
            "switching_reads_x": False,
            "switching_reads_z": False,
        }
    },
    "gumbel": _OTHERS | {"recipe": {**_OTHERS["recipe"], "stickiness": 0.0}},  # a half-way draw pays twice for it
    "slds-em": _LED,
    "rslds": _LED,
    "svae": _OTHERS,
    "kvae": _OTHERS,
    "compile": _OTHERS,
}
"""What belongs to a model besides its name. A switching linear system is an SNLDS with linear parts whose switches
nothing drives."""


_COUNTS_PER_FRAME = 30.0  # pseudo-counts of the AR-HMM: its default of 300 goes with ten frames, as the SNLDS's 3 does


def with_kind(config: Config, kind: str) -> Config:
    """The named model, with the settings that belong to it."""
    kinds = get_args(get_type_hints(Config)["kind"])
    if kind not in kinds:
        raise InputError(f"There is no model '{kind}'{nearest(kind, kinds)}")
    return merge(dataclasses.replace(config, kind=kind), KINDS.get(kind, {}))


def with_stickiness(config: Config, frames: float) -> Config:
    """Regimes that are expected, before any data are seen, to last this many frames."""
    if not frames > 1:
        raise InputError(f"Stickiness is how many frames a regime is expected to last: more than 1, not {frames}.")
    stay = math.log((frames - 1) * max(1, config.model.regimes - 1))  # logit of staying, with 1 / frames to leave
    return merge(config, {"recipe": {"stickiness": stay}, "arhmm": {"stickiness": _COUNTS_PER_FRAME * float(frames)}})


def expected_duration(config: Config) -> float:
    """The inverse, as the AR-HMM has it."""
    return max(1.0, config.arhmm.stickiness / _COUNTS_PER_FRAME)


def with_setting(config: Config, setting: str) -> Config:
    """`section.field=value` as on the command line; values are TOML, bare words are strings."""
    key, separator, text = setting.partition("=")
    if not separator:
        raise InputError(f"A setting looks like training.steps=20000, not '{setting}'.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    if key == "kind":
        return with_kind(config, str(value))
    if key == "recipe.name":
        return with_recipe(config, str(value))
    nested: Any = value
    for part in reversed(key.strip().split(".")):
        nested = {part: nested}
    return merge(config, nested)


def read_toml(path: Path, config: Config) -> Config:
    """The settings of a TOML file on top of a config. `recipe.name` starts from that recipe."""
    try:
        settings = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML: {error}.") from None
    except OSError as error:
        raise InputError(f"{path} can not be read: {error.strerror}.") from None
    recipe = settings.get("recipe", {})
    if isinstance(recipe, dict) and "name" in recipe:
        config = with_recipe(config, str(recipe["name"]))
    if "kind" in settings:
        config = with_kind(config, str(settings["kind"]))
    return merge(config, settings)


def merge(base: Any, settings: dict[str, Any], where: str = "") -> Any:
    """A copy of a config dataclass with some fields changed; a wrong name or type is refused."""
    hints = get_type_hints(type(base))
    changed = {}
    for name, value in settings.items():
        if name not in hints:
            known = [f"{where}{known}" for known in hints]
            raise InputError(f"Unknown setting '{where}{name}'{nearest(where + name, known)}")
        changed[name] = _convert(value, hints[name], getattr(base, name), f"{where}{name}")
    return dataclasses.replace(base, **changed)


def to_toml(config: Config) -> str:
    """The inverse of `read_toml`: the model, the recipe, the seed, and whatever differs from what they bring along."""
    sections: dict[str, list[str]] = {"recipe": [f'name = "{config.recipe.name}"']}
    for name, value in _own(config).items():
        section, _, field_name = name.partition(".")
        sections.setdefault(section, []).append(f"{field_name} = {value}")
    top = f'kind = "{config.kind}"\nseed = {config.seed}\n'
    return top + "".join(f"\n[{name}]\n" + "".join(f"{line}\n" for line in lines) for name, lines in sections.items())


def to_options(config: Config) -> list[str]:
    """The same as options of `swerve fit`."""
    recipe = [] if config.recipe.name == Recipe().name else ["--recipe", config.recipe.name]
    options = ["--model", config.kind, "--regimes", str(config.model.regimes), "--seed", str(config.seed), *recipe]
    own = {name: value for name, value in _own(config).items() if name != "model.regimes"}
    return options + [part for name, value in own.items() for part in ("--set", f"{name}={value}")]


def from_dict(settings: dict[str, Any]) -> Config:
    """The inverse of dataclasses.asdict."""
    return merge(Config(), settings)


def _convert(value: Any, hint: Any, current: Any, where: str) -> Any:
    origin, options = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise InputError(f"'{where}' is a section: set one of its fields, such as {where}.{fields(hint)[0].name}.")
        return merge(current if isinstance(current, hint) else hint(), value, f"{where}.")
    if origin is Literal:
        if value not in options:
            raise InputError(f"'{where}' can not be '{value}'{nearest(str(value), options)}")
        return value
    if origin in (Union, UnionType):
        if value is None and NoneType in options:
            return None
        return _convert(value, next(o for o in options if o is not NoneType), current, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise InputError(f"'{where}' must be a list, not '{value}'.")
        return tuple(_convert(item, options[0], None, where) for item in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise InputError(f"'{where}' must be of type {hint.__name__}, not '{value}'.")
    return value


def _own(config: Config) -> dict[str, str]:
    """Settings that differ from those of the named model and recipe, as TOML by their full names; K always."""
    base = with_kind(with_recipe(Config(), config.recipe.name), config.kind)
    own = {"model.regimes": str(config.model.regimes)}
    for section in fields(Config):
        ours, theirs = getattr(config, section.name), getattr(base, section.name)
        if not dataclasses.is_dataclass(ours):
            continue
        for one in fields(ours):
            value = getattr(ours, one.name)
            if value != getattr(theirs, one.name) and value is not None:
                own[f"{section.name}.{one.name}"] = _toml(value)
    return own


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = {one.name: getattr(value, one.name) for one in fields(value)}
        inside = ", ".join(f"{name} = {_toml(item)}" for name, item in items.items() if item is not None)
        return f"{{{inside}}}"
    return repr(value)
