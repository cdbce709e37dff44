"""Dubins paths as video: a blurred point on a 28 x 28 image, integrated over every pixel (docs/boards.md)."""

import numpy as np
from jaxtyping import Float, Float32
from scipy.special import ndtr

from swerve.data.columns import pixel_names
from swerve_lab.boards.board import Board
from swerve_lab.boards.dubins import HALF_IMAGE, TURNS_PER_STEP, draw_paths

WIDE_TURNS_PER_STEP = (0.01, 0.015)  # turn rate / 2 pi: turns that a person can see
BLUR = 0.3  # standard deviation of the point's Gaussian, in pixels

PIXELS = int(2 * HALF_IMAGE)
IMAGE = (PIXELS, PIXELS)
EDGES = np.arange(PIXELS + 1) - HALF_IMAGE
CENTRES = (EDGES[:-1] + EDGES[1:]) / 2
COORDINATES = np.linspace(-HALF_IMAGE, HALF_IMAGE, 1000 * PIXELS + 1)


def generate(n: int, *, seed: int, length: int = 100) -> Board:
    """n videos with the paper's turn rates, each image one row of pixels."""
    return _video("dubins", n, seed, length, TURNS_PER_STEP)


def generate_wide(n: int, *, seed: int, length: int = 100) -> Board:
    """n videos whose turns are ten times wider."""
    return _video("dubins-wide", n, seed, length, WIDE_TURNS_PER_STEP)


def _video(name: str, n: int, seed: int, length: int, turns_per_step: tuple[float, float]) -> Board:
    paths = draw_paths(n, np.random.default_rng(seed), length=length, turns_per_step=turns_per_step)
    x = render(paths.positions).reshape(n, length, PIXELS * PIXELS)
    return Board(name=name, x=x, clean=x, s=paths.s, columns=pixel_names(IMAGE), image=IMAGE)


def render(positions: Float[np.ndarray, "*batch 2"]) -> Float32[np.ndarray, "*batch H W"]:
    """Each pixel holds the share of the Gaussian around (x, y) that falls on it. The first row is the top."""
    columns, rows = _masses(positions[..., 0]), _masses(positions[..., 1])[..., ::-1]
    return rows[..., :, None] * columns[..., None, :]


def locate(images: Float[np.ndarray, "*batch H W"]) -> Float[np.ndarray, "*batch 2"]:
    """The inverse of `render`, from each image's centroid alone."""
    columns, rows = images.sum(axis=-2), images.sum(axis=-1)[..., ::-1]
    return np.stack([_coordinate(columns), _coordinate(rows)], axis=-1)


def _masses(coordinate: Float[np.ndarray, "*batch"]) -> Float32[np.ndarray, "*batch W"]:
    """P(edge_i < coordinate + BLUR * N(0, 1) < edge_{i+1}) for every pixel i of a line."""
    below = ndtr((EDGES - coordinate[..., None]) / BLUR)
    return np.diff(below, axis=-1).astype(np.float32)


def _coordinate(masses: Float[np.ndarray, "*batch W"]) -> Float[np.ndarray, "*batch"]:
    """Pixels pull a centroid towards their centres by up to 0.05, always the same way: a table undoes it."""
    return np.interp(_centroid(masses), _centroid(_masses(COORDINATES)), COORDINATES)


def _centroid(masses: Float[np.ndarray, "*batch W"]) -> Float[np.ndarray, "*batch"]:
    return masses @ CENTRES / masses.sum(axis=-1)
