"""The folder of a run: what its parts are called, and whose it is. Nobody else knows a file name.

One fit works in it at a time, and an interrupted one goes on only with its own settings and data.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from swerve.data.trees import read_json, write_json
from swerve.errors import InputError
from swerve.settings.sections import Config
from swerve.settings.text import as_dict, from_dict


class Part(StrEnum):
    """The parts of a run, by the names they have in its folder."""

    RUN = "run.json"
    """What was asked for, and of which data."""
    MODEL = "model.safetensors"
    """It comes last: it makes a run complete."""
    RESTARTS = "restarts.safetensors"
    HISTORY = "history.json"
    REGIMES = "regimes.json"
    """Their names, and the numbers they took from an older run."""
    TRUST = "trust.json"
    EXAMPLES = "examples.npz"
    SCORES = "scores.json"
    REPORT = "report.html"
    FIGURES = "figures"
    SEGMENTER = "segmenter.json"
    CANDIDATES = "candidates"
    """The models that `auto` chooses from, each in a folder of its own."""
    CHOOSING = "choosing"
    """Where a fit looks for the number of regimes before it begins."""
    SEARCH = "search.json"
    CHOICE = "choice.json"
    CHOICE_PICTURE = "choice.png"
    TRAINING = "training.safetensors"
    SEEDS = "seeds.npz"
    CODE = "code.safetensors"
    """What an interrupted fit goes on from."""

    def of(self, name: object) -> str:
        """The same part of one of several that share a folder."""
        stem, dot, end = self.partition(".")
        return f"{stem}-{name}{dot}{end}"


Left = Mapping[str, Any]
"""What `write` said about a fit."""


@contextmanager
def alone_in(out: Path | None, resume: bool) -> Iterator[Left | None]:
    """Nobody else fits into the folder meanwhile. Gives what an interrupted fit left there, None for a new one.

    After a refusal the folder is as it was, if nothing was kept that a fit could go on with.
    """
    if out is None:
        yield None
        return
    check(out, resume)
    new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    folder = os.open(out, os.O_RDONLY)
    try:
        _lock(folder, out)
        check(out, resume)  # somebody may have been quicker
        begun = (out / Part.RUN).is_file()
        try:
            yield _read_left(out) if begun else None
        except (InputError, MemoryError, RuntimeError):
            if not begun and {one.name for one in out.iterdir()} <= {Part.RUN, Part.CHOOSING}:
                (out / Part.RUN).unlink(missing_ok=True)
            raise
    finally:
        os.close(folder)
        if new and not any(out.iterdir()):
            out.rmdir()


def write(out: Path, config: Config, asked: Config, data: str, align_to: str | None) -> None:
    """Marks the folder: the settings to go on with, those that were asked for, and a fingerprint of the data."""
    about = {"config": _plain(config), "asked": _plain(asked), "data": data, "align_to": align_to}
    write_json(out / Part.RUN, about)


def _read_left(out: Path) -> Left:
    left = read_json(out / Part.RUN)
    if not isinstance(left, dict) or "config" not in left:
        raise InputError(f"{out / Part.RUN} is damaged: choose another --out.")
    return left


def settings_left(out: Path, left: Left, asked: Config, data: str) -> Config:
    """The settings to go on with, if the same was asked for of the same data."""
    if left.get("asked", left["config"]) != _plain(asked):
        raise InputError(f"{out} holds another run (its config differs): choose another --out.")
    if left.get("data") != data:
        raise InputError(f"{out} holds another run (its data differs): choose another --out.")
    return from_dict(left["config"])


def check(out: Path, resume: bool) -> None:
    """Refuses a folder that holds another run, or anything else."""
    if (out / Part.RUN).is_file():
        if not resume:
            raise InputError(f"{out} already holds a run: choose another --out, or --resume to go on with it.")
        return
    if resume and not (out / Part.CHOOSING).is_dir():
        raise InputError(f"{out} holds no run to resume.")
    if out.exists() and (not out.is_dir() or any(one.name != Part.CHOOSING for one in out.iterdir())):
        raise InputError(f"{out} already exists and is not a run folder: choose another --out.")


def _lock(folder: int, out: Path) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"Another fit is at work in {out}: wait until it ends, or choose another --out.") from None
    except OSError:
        return  # a file system without locks: it is the user's own care then


def _plain(config: Config) -> dict[str, Any]:
    """As it comes back from JSON."""
    return json.loads(json.dumps(as_dict(config)))


def clear(out: Path) -> None:
    """Takes away all that a run has left, and nothing else."""
    for part in Part:
        if part not in (Part.FIGURES, Part.CANDIDATES, Part.CHOOSING):
            (out / part).unlink(missing_ok=True)
    for picture in (out / Part.FIGURES).glob("*.png"):
        picture.unlink()
    if (out / Part.FIGURES).is_dir():
        (out / Part.FIGURES).rmdir()
