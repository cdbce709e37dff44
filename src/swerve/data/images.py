"""Reads video that lies in a folder as one picture per frame."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from swerve.data.columns import pixel_names
from swerve.errors import InputError, package
from swerve.types import Recording

PICTURES = (".png", ".jpg", ".jpeg")


def folders_of_frames(folder: Path) -> list[Path]:
    """The folder itself if it holds pictures, else those folders in it that do; each is one recording."""
    if pictures_in(folder):
        return [folder]
    return sorted((one for one in folder.iterdir() if one.is_dir() and pictures_in(one)), key=_natural)


def pictures_in(folder: Path) -> list[Path]:
    """The pictures of a folder in the order of their names, frame-9 before frame-10."""
    found = (one for one in folder.iterdir() if one.suffix.lower() in PICTURES and not one.name.startswith("."))
    return sorted(found, key=_natural)


def read_frames(folder: Path) -> Recording:
    """A recording whose frames are the pictures of the folder in grey, from 0 (black) to 1."""
    files = pictures_in(folder)
    first = _grey(files[0])
    x = np.empty((len(files), first.size), np.float32)
    for row, file in zip(x, files, strict=True):
        picture = _grey(file)
        if picture.shape != first.shape:
            raise InputError(
                f"{file} is {_size(picture.shape)} pixels but {files[0].name} is {_size(first.shape)}:"
                " all frames of a recording have one size."
            )
        row[:] = picture.ravel()
    height, width = first.shape
    return Recording(x=x, name=folder.name, columns=pixel_names((height, width)), image=(height, width))


def _natural(path: Path) -> list[tuple[int, str]]:
    """Numbers within a name count by their value."""
    parts = re.split(r"(\d+)", path.name.lower())
    return [(int(part), "") if i % 2 else (0, part) for i, part in enumerate(parts)]


def _size(shape: Sequence[int]) -> str:
    return f"{shape[1]} x {shape[0]}"


def _grey(file: Path) -> Float[np.ndarray, "height width"]:
    image = package("PIL.Image", "Pictures")
    try:
        with image.open(file) as picture:
            if picture.mode.startswith("I"):  # 16 bits, which a conversion would cut off
                return np.asarray(picture, np.float32) / 65535
            return np.asarray(picture.convert("L"), np.float32) / 255
    except (OSError, SyntaxError, ValueError, EOFError, image.DecompressionBombError):
        raise InputError(f"{file} is not a picture that can be read.") from None
