"""Arrays by parameter path in a safetensors file, with JSON beside them in its header. Nothing else.

A file is written whole under another name, forced to disk, and then renamed: at any moment the name holds
either the old file or the new one.
"""

import hashlib
import json
import math
import zipfile
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from swerve.data.atomic import whole_file
from swerve.errors import InputError

FORMAT = 1
HEADER = "swerve"

Tree = TypeVar("Tree")


def write_atomically(path: Path, content: bytes) -> None:
    """Replaces the file in one step; a failure half-way leaves the old one as it was."""
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, content: Any) -> None:
    """Readable JSON, written atomically; JSON has no NaN and no infinity, so that these become null."""
    write_atomically(path, (json.dumps(_finite(content), indent=2, allow_nan=False) + "\n").encode())


def _finite(content: Any) -> Any:
    match content:
        case dict():
            return {name: _finite(part) for name, part in content.items()}
        case list() | tuple():
            return [_finite(part) for part in content]
        case float() if not math.isfinite(content):
            return None
    return content


def read_json(path: Path) -> Any:
    """What `write_json` wrote; a file that was cut off or is something else is refused."""
    try:
        return json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is damaged: {error}.") from None


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an NPZ file; one that was cut off or is something else is refused."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)
    except (zipfile.BadZipFile, ValueError, EOFError, AttributeError) as error:
        raise InputError(f"{path} is damaged: {error}.") from None


def save_tree(path: Path, tree: Any, about: dict[str, Any]) -> None:
    """All arrays of a tree under their paths, and what is to be known about them."""
    arrays = {name: np.asarray(leaf, order="C") for name, leaf in _named_leaves(jax.device_get(tree))}
    write_atomically(path, save(arrays, metadata={HEADER: json.dumps({"format": FORMAT, **about})}))


def load_about(path: Path) -> dict[str, Any]:
    """What `save_tree` was told about the arrays."""
    return _read(path)[0]


def load_tree(path: Path, like: Tree) -> tuple[Tree, dict[str, Any]]:
    """The arrays of a file in the structure of `like`, whose own values do not matter."""
    about, arrays = _read(path)
    leaves = []
    for name, leaf in _named_leaves(like):
        if name not in arrays:
            raise InputError(f"{path} lacks the array {name}: it was written for another model.")
        if arrays[name].shape != leaf.shape or arrays[name].dtype != leaf.dtype:
            raise InputError(
                f"{path} holds {name} as {arrays[name].dtype}{arrays[name].shape}, not as"
                f" {leaf.dtype}{tuple(leaf.shape)}: it was written for another model."
            )
        leaves.append(arrays.pop(name))
    if arrays:
        raise InputError(f"{path} has the unknown array {min(arrays)}: it was written for another model.")
    return jax.tree.unflatten(jax.tree.structure(like), leaves), about


def _named_leaves(tree: Any) -> list[tuple[str, Any]]:
    paths = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in paths]


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        with safe_open(path, framework="numpy") as file:
            header = (file.metadata() or {}).get(HEADER)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path} is damaged, cut short, or no safetensors file ({error}).") from None
    if header is None:
        raise InputError(f"{path} was not written by Swerve: its header has no entry '{HEADER}'.")
    try:
        about = json.loads(header)
        newer = about["format"] > FORMAT
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path} was not written by Swerve: its header can not be read.") from None
    if newer:
        raise InputError(
            f"{path} has format {about['format']}, newer than the {FORMAT} this version of Swerve reads:"
            " update Swerve to open it."
        )
    return about, arrays


def digest_of(tree: Any, words: str = "") -> str:
    """Tells one tree of arrays from another."""
    content = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        content.update(np.ascontiguousarray(leaf).tobytes())
    content.update(words.encode())
    return content.hexdigest()[:16]
