"""Runs that were saved, ready to use again."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from swerve.choosing.trust import Trust
from swerve.data.folder import Part
from swerve.data.reading import Reading
from swerve.data.trees import load_about, load_tree, read_json
from swerve.data.windows import Standardizer
from swerve.errors import InputError
from swerve.inference.frames import Key
from swerve.learning.loop import History
from swerve.models.model import Model, Shape, maker_of
from swerve.runs.alignment import Alignment
from swerve.runs.names import GivenNames
from swerve.runs.run import Others, Run
from swerve.settings.sections import Config
from swerve.settings.text import from_dict
from swerve.views.codes import ImageCode


def load(folder: str | Path) -> Run:
    """A saved run, ready to segment new recordings."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"There is no run folder {folder}.")
    path = folder / Part.MODEL
    if not path.is_file():
        raise InputError(f"{folder} holds no finished model ({Part.MODEL} is missing); finish it with --resume.")
    about = load_about(path)
    if "config" not in about:
        raise InputError(f"{path} is not a model file.")
    config = from_dict(about["config"])
    model, _ = load_tree(path, blank_model(config, about))
    history = None
    if (folder / Part.HISTORY).is_file():
        stored = read_json(folder / Part.HISTORY)
        if not isinstance(stored, dict):
            raise InputError(f"{folder / Part.HISTORY} is damaged: it should hold how training went.")
        history = History(**{f.name: stored[f.name] for f in dataclasses.fields(History) if f.name in stored})
    names, aligned = load_names(folder)
    trusted = folder / Part.TRUST
    return Run(
        config=config,
        model=jax.tree.map(jnp.asarray, model),
        columns=tuple(about["columns"]),
        dropped=tuple(about["dropped"]),
        controls=about["controls"],
        image=_image_of(about),
        reading=Reading.from_dict(about.get("reading") or {}),
        standardizer=Standardizer(
            *(np.array(about[name], float) for name in ("mean", "scale", "control_mean", "control_scale"))
        ),
        held_out=about["held_out"],
        windows=None if about.get("windows") is None else np.array(about["windows"], float),
        history=history,
        chosen=about["chosen"],
        finished=about["finished"],
        aligned=aligned,
        given_names=names,
        others=_load_others(folder, blank_model(config, about)),
        selection=about.get("selection"),
        trust=Trust.from_dict(read_json(trusted), trusted) if trusted.is_file() else None,
    )


def _load_others(folder: Path, blank: Any) -> Others | None:
    path = folder / Part.RESTARTS
    if not path.is_file():
        return None
    restarts = load_about(path)["restarts"]
    like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((len(restarts), *leaf.shape), leaf.dtype), blank)
    models, about = load_tree(path, like)
    return Others(jax.tree.map(jnp.asarray, models), restarts, about["names"])


def load_names(folder: Path) -> tuple[GivenNames, Alignment | None]:
    """What regimes are called and whose numbers they have, where a run says so."""
    path = folder / Part.REGIMES
    if not path.is_file():
        return (), None
    stored = read_json(path)
    try:
        names, aligned = tuple(stored["names"]), stored["aligned"]
        lists = {} if aligned is None else {name: tuple(aligned[name]) for name in ("order", "kept", "fresh")}
        return names, None if aligned is None else Alignment(**aligned | lists)
    except (KeyError, TypeError):
        raise InputError(f"{path} is damaged: it should hold names and numbers of regimes.") from None


def blank_model(config: Config, about: Mapping[str, Any]) -> Any:
    """The shapes of a model of so many columns and controls, without any values."""
    maker, image = maker_of(config), _image_of(about)
    if image is None:
        return maker.blank(config, Shape(len(about["columns"]), about["controls"]), about)

    def build(key: Key) -> Model:
        shape = Shape(config.code_size, about["controls"])
        system = maker.build(config, shape, stickiness=0.0, allowed=config.model.regimes, key=key)
        return system.on_pixels(ImageCode(config.code_size, image, key=key), config.model)

    return jax.eval_shape(build, jax.random.key(0))


def _image_of(about: Mapping[str, Any]) -> tuple[int, int] | None:
    """None for numbers, and for models from before there was video."""
    return tuple(about["image"]) if about.get("image") else None
