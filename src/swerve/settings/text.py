"""How settings are read, changed and written."""

import dataclasses
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from swerve.errors import InputError, nearest
from swerve.settings import kinds
from swerve.settings.recipes import with_recipe
from swerve.settings.sections import Config, Recipe

_COUNTS_PER_FRAME = 30.0  # pseudo-counts of the AR-HMM: its default of 300 goes with ten frames, as the SNLDS's 3 does


def with_kind(config: Config, kind: str) -> Config:
    """The named model, with the settings that belong to it."""
    if kind == kinds.AUTO:
        return dataclasses.replace(config, kind=kind, own=None)
    found = kinds.find(kind)
    own = None if found.options is None else found.options()
    return merge(dataclasses.replace(config, kind=kind, own=own), found.settings)


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


def merge(base: Any, settings: Mapping[str, Any], where: str = "") -> Any:
    """A copy of a config dataclass with some fields changed; a wrong name or type is refused."""
    hints = get_type_hints(type(base))
    changed = {}
    for name, value in settings.items():
        if name not in hints or hints[name] is Any:
            if isinstance(base, Config) and name in kinds.sections():
                changed["own"] = _own_settings(base, name, value)
                continue
            known = [f"{where}{known}" for known, hint in hints.items() if hint is not Any]
            raise InputError(f"Unknown setting '{where}{name}'{nearest(where + name, known)}")
        changed[name] = _convert(value, hints[name], getattr(base, name), f"{where}{name}")
    return dataclasses.replace(base, **changed)


def _own_settings(config: Config, section: str, value: Any) -> Any:
    """The settings that the kind of model alone has, changed."""
    kind = None if config.kind == kinds.AUTO else kinds.find(config.kind)
    if kind is None or kind.section != section:
        raise InputError(f"'{section}' belongs to other models than '{config.kind}': name the model first.")
    if not isinstance(value, dict):
        example = f"{section}.{fields(config.own)[0].name}"
        raise InputError(f"'{section}' is a section: set one of its fields, such as {example}.")
    return merge(config.own, value, f"{section}.")


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
    """The inverse of `as_dict`. What older versions kept of other kinds of model is left out."""
    kind = str(settings.get("kind", Config().kind))
    found = None if kind == kinds.AUTO else kinds.find(kind)
    base = Config(kind, own=None if found is None or found.options is None else found.options())
    gone = kinds.sections() - {found.section if found else ""}
    return merge(base, {name: value for name, value in settings.items() if name not in gone})


def as_dict(config: Config) -> dict[str, Any]:
    """For JSON: by section, that of the kind's own settings under its name."""
    found = {name: value for name, value in dataclasses.asdict(config).items() if name != "own"}
    return found if config.own is None else found | {kinds.find(config.kind).section: dataclasses.asdict(config.own)}


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
        name = kinds.find(config.kind).section if section.name == "own" else section.name
        for one in fields(ours):
            value = getattr(ours, one.name)
            if value != getattr(theirs, one.name) and value is not None:
                own[f"{name}.{one.name}"] = _toml(value)
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
