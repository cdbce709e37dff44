"""What every view owes those who use it, the registry of views, and the one place where recordings meet theirs."""

import abc
import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Int

from swerve.data import tables
from swerve.data.columns import select_columns
from swerve.data.reading import RAW, Reading
from swerve.data.trees import load_about, load_tree, save_tree
from swerve.errors import InputError, nearest
from swerve.inference.frames import Key
from swerve.types import Recording


class View(eqx.Module):
    """What a model reads of a recording. Arrays are what it has learned; all else are settings."""

    name: ClassVar[str]

    def learn(
        self,
        recordings: Sequence[Recording],
        *,
        key: Key,
        on_note: Callable[[str], None] = lambda note: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> "View":
        """The same view with what these recordings teach it; most have nothing to learn."""
        return self

    @abc.abstractmethod
    def read(self, recording: Recording) -> Recording:
        """Columns, mask (NaN where nothing is known) and clock of its own; the recording alone decides what it says."""

    def write(self, x: Float[np.ndarray, "T C"]) -> Float[np.ndarray, "T D"] | None:
        """Back to the columns of the recording; None where there is no way back."""
        return None

    def settings(self) -> dict[str, Any]:
        """All but the arrays, as JSON."""
        return {}

    @classmethod
    def blank(cls, settings: dict[str, Any]) -> "View":
        """A view with these settings, its arrays of the right shapes but without values."""
        return cls(**settings)


_known: dict[str, str] = {}


def register(name: str, home: str) -> None:
    """Makes a view known by its name; `home` is the `module:attribute` of its class."""
    _known[name] = home


register(RAW, "swerve.views.raw:Raw")
register("egocentric", "swerve.views.egocentric:Egocentric")
register("codes", "swerve.views.codes:Codes")


def find(name: str) -> type[View]:
    """A view by its name; only now its module is loaded."""
    if name not in _known:
        raise InputError(f"There is no view '{name}'{nearest(name, _known)}")
    module, _, attribute = _known[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def every() -> list[str]:
    """The names of all views."""
    return list(_known)


def save(path: Path, view: View) -> None:
    """Settings and arrays in one safetensors file."""
    save_tree(path, view, {"view": view.name, "settings": view.settings()})


def load(path: Path) -> View:
    """What `save` wrote."""
    about = load_about(path)
    if "view" not in about:
        raise InputError(f"{path} holds no view: it was written by another version of Swerve, or is something else.")
    view, _ = load_tree(path, find(about["view"]).blank(about["settings"]))
    return view


def seen(recordings: Sequence[Recording], reading: Reading) -> list[Recording]:
    """Recordings as the view of their reading has them: only then columns can be chosen, and rates compared."""
    if reading.view == RAW:
        return list(recordings)
    view = find(reading.view)().learn(recordings, key=jax.random.key(0))
    made = [view.read(one) for one in recordings]
    made = select_columns(made, reading.columns) if reading.columns else made
    tables.check(made, reading)
    return made


def paced(
    recording: Recording, frames: Int[np.ndarray, " F"], x: Float[np.ndarray, "F C"], columns: tuple[str, ...]
) -> Recording:
    """A recording of fewer frames: each row of `x` stands at one of the `frames`, which ascend.

    It stands for the frames since the row before it as well, and through them for rows of the file: labels go back
    through both clocks at once (decision 19).
    """

    def there(values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else values[frames]

    all_frames = np.arange(len(recording))
    rows = all_frames if recording.rows is None else recording.rows
    back = recording.way_back
    covered_by = np.minimum(np.searchsorted(frames, all_frames), len(frames) - 1)
    return Recording(
        x,
        u=there(recording.u),
        s=there(recording.s),
        name=recording.name,
        columns=columns,
        times=there(recording.times),
        rows=rows[frames],
        clock=replace(back, covered_by=covered_by[back.covered_by]),
    )
