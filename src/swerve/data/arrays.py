"""Reads NumPy files: one array `x` with what goes beside it, or one array per sequence. Images stay float32."""

from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from jaxtyping import Float, Shaped

from swerve.data.columns import default_names, pixel_names, unknown_column
from swerve.data.reading import Reading
from swerve.errors import InputError
from swerve.types import Recording, Skeleton

MOST_COLOURS = 4  # an image so narrow has its colours on the last axis
JOINTS = "joint_names"
ABOUT_X = {"x", "s", "u", "lengths", "columns", "names", "times"}


def read_arrays(path: Path, reading: Reading) -> list[Recording]:
    """x is (T,), (T, D), (N, T, D) or, for images, (N, T, H, W).

    Labels are taken from the array of the label column's name, or from `s` where it exists; so are times, or `times`.
    Without x, arrays are recordings: (T, D), (T, H, W) or, for J points of a pose, (T, J, 2) or (T, J, 3), which
    `joint_names` may name.
    """
    if reading.control_columns or reading.sequence_column not in (None, *reading.may_lack):
        raise InputError(f'{path}: a NumPy file has no columns to name; store controls as an array "u".')
    arrays = _load(path)
    keys = {}
    for default, key in (("s", reading.label_column), ("times", reading.time_column)):
        may_lack = key in reading.may_lack or (key == reading.time_column and reading.step and "times" in arrays)
        if key is not None and key not in arrays and not may_lack:
            raise unknown_column(key, arrays, str(path), remedy=reading.without(key))
        keys[default] = key if key in arrays else default
    chosen = [key for key in arrays if reading.key is not None and fnmatchcase(key, reading.key)]
    if "x" in (chosen or arrays):
        return _stacked(path, arrays, keys["s"], keys["times"])
    if chosen:
        return [_single(path, key, arrays) for key in chosen]
    if reading.key is not None:
        raise InputError(f'{path} has no array "{reading.key}": it has {_listed(arrays)}.')
    unexpected = sorted(set(arrays) & ABOUT_X)
    if unexpected:
        raise InputError(f'{path} has an array "{unexpected[0]}" but no array "x".')
    return [_single(path, key, arrays) for key in arrays if key != JOINTS]


def _listed(arrays: dict[str, np.ndarray]) -> str:
    shown = [f'"{key}" {array.shape}' for key, array in list(arrays.items())[:12]]
    return ", ".join([*shown, "..."] if len(arrays) > len(shown) else shown)


def _load(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as file:  # np.load would leave a damaged one open
            loaded = np.load(file, allow_pickle=False)
            arrays = {"x": loaded} if isinstance(loaded, np.ndarray) else {key: loaded[key] for key in loaded.files}
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except Exception as error:  # damaged files fail in many ways
        if "Object arrays" in str(error):
            raise InputError(f"{path} holds Python objects; store plain numbers instead.") from None
        raise InputError(f"{path} is not a NumPy file that can be read.") from None
    if not arrays:
        raise InputError(f"{path} is empty.")
    return arrays


def _single(path: Path, key: str, arrays: dict[str, np.ndarray]) -> Recording:
    array = arrays[key]
    if array.ndim not in (2, 3) or array.dtype.kind not in "fiub":
        raise InputError(
            f'{path}, array "{key}" {array.shape}: a recording is numbers with 2 axes (time, columns) or 3 (time,'
            f" height, width); say with --key which arrays are recordings, as in 'trial*'. There are {_listed(arrays)}."
        )
    if array.ndim == 3 and array.shape[2] in (2, 3):
        numbers = tuple(map(str, range(array.shape[1])))
        joints = _texts(path, arrays, JOINTS, array.shape[1]) or numbers
        skeleton = Skeleton(joints, (-1,) * len(joints), ("x", "y", "z")[: array.shape[2]])
        x = _numbers(path, key, array).reshape(len(array), -1)
        return Recording(x=x, name=key, columns=skeleton.columns, skeleton=skeleton)
    x, image = _flattened(path, key, array, axes=2)
    return Recording(x=x, name=key, columns=_column_names(x, image), image=image)


def _stacked(path: Path, arrays: dict[str, np.ndarray], label_key: str, time_key: str) -> list[Recording]:
    values = arrays["x"][:, None] if arrays["x"].ndim == 1 else arrays["x"]
    if values.ndim not in (2, 3, 4):
        raise InputError(
            f'{path}, array "x": it has 2 axes (time, columns), 3 (sequence, time, columns)'
            f" or 4 (sequence, time, height, width), not {values.ndim}."
        )
    if values.ndim == 4 and values.shape[3] <= MOST_COLOURS:
        raise InputError(
            f'{path}, array "x": four axes are video (recordings, frames, height, width), and {values.shape} looks like'
            " colours or coordinates on the last one: give one channel, such as the brightness, or one array"
            " (frames, points, 2 or 3) per recording, under other names than x."
        )
    x, image = _flattened(path, "x", values, axes=3)
    one = x.ndim == 2
    x = x[None] if one else x
    frames = x.shape[1 if one else 0 : 2]
    u = _beside(path, arrays, "u", frames, extra_axes=1)
    s = _beside(path, arrays, label_key, frames, extra_axes=0)
    u = None if u is None else _numbers(path, "u", u).reshape(*x.shape[:2], -1)
    s = None if s is None else _whole_numbers(path, label_key, s).reshape(x.shape[:2])
    times = _beside(path, arrays, time_key, frames, extra_axes=0)
    times = None if times is None else _numbers(path, time_key, times).reshape(x.shape[:2])
    lengths = _lengths(path, arrays, x.shape)
    columns = _texts(path, arrays, "columns", x.shape[2]) or _column_names(x, image)
    stems = [path.stem] if one else [f"{path.stem}-{i}" for i in range(len(x))]
    names = _texts(path, arrays, "names", len(x)) or tuple(stems)
    return [
        Recording(
            x=x[i, :stop],
            u=None if u is None else u[i, :stop],
            s=None if s is None else s[i, :stop],
            times=None if times is None else times[i, :stop].astype(float),
            name=names[i],
            columns=columns,
            image=image,
        )
        for i, stop in enumerate(lengths)
    ]


def _flattened(
    path: Path, key: str, array: np.ndarray, *, axes: int
) -> tuple[Float[np.ndarray, "*batch T D"], tuple[int, int] | None]:
    """The array with the pixels of an image on one axis, and the image's shape where it has an axis too many."""
    if array.ndim <= axes:
        return _numbers(path, key, array), None
    height, width = array.shape[-2:]
    return _numbers(path, key, array, np.float32).reshape(*array.shape[:-2], height * width), (height, width)


def _column_names(x: Float[np.ndarray, "*batch T D"], image: tuple[int, int] | None) -> tuple[str, ...]:
    return default_names(x.shape[-1]) if image is None else pixel_names(image)


def _beside(
    path: Path, arrays: dict[str, np.ndarray], key: str, frames: tuple[int, ...], *, extra_axes: int
) -> np.ndarray | None:
    """An array that goes with x frame by frame."""
    array = arrays.get(key)
    if array is None:
        return None
    if array.ndim != len(frames) + extra_axes or array.shape[: len(frames)] != frames:
        raise InputError(f'{path}: array "{key}" of shape {array.shape} does not fit the {frames} frames of "x".')
    return array


def _lengths(path: Path, arrays: dict[str, np.ndarray], shape: tuple[int, ...]) -> list[int]:
    if "lengths" not in arrays:
        return [shape[1]] * shape[0]
    lengths = _whole_numbers(path, "lengths", arrays["lengths"])
    if lengths.shape != shape[:1] or lengths.min() < 1 or lengths.max() > shape[1]:
        raise InputError(f'{path}: "lengths" must hold {shape[0]} numbers from 1 to {shape[1]}.')
    return [int(length) for length in lengths]


def _texts(path: Path, arrays: dict[str, np.ndarray], key: str, count: int) -> tuple[str, ...]:
    if key not in arrays:
        return ()
    if arrays[key].dtype.kind != "U" or arrays[key].shape != (count,):
        raise InputError(f'{path}: "{key}" must hold {count} names.')
    return tuple(str(text) for text in arrays[key])


def _numbers(
    path: Path, key: str, array: np.ndarray, kind: type[np.floating] | None = None
) -> Float[np.ndarray, "..."]:
    """Real numbers; float32 stays float32, all else becomes float64 unless another kind is asked for."""
    if array.dtype.kind not in "fiub":
        raise InputError(f'{path}, array "{key}": it holds {array.dtype}, not real numbers.')
    if array.size == 0:
        raise InputError(f'{path}, array "{key}": it is empty (shape {array.shape}).')
    kind = kind or (np.float32 if array.dtype == np.float32 else np.float64)
    numbers = array.astype(kind, copy=False)
    if np.isinf(numbers).any():
        place = tuple(int(i) for i in np.argwhere(np.isinf(numbers))[0])
        raise InputError(f'{path}, array "{key}": the value at {place} is infinite.')
    return numbers


def _whole_numbers(path: Path, key: str, array: np.ndarray) -> Shaped[np.ndarray, "..."]:
    """Labels and lengths; a missing one becomes -1."""
    numbers = _numbers(path, key, array, np.float64)
    whole = np.where(np.isnan(numbers), -1.0, numbers)
    if (whole != np.round(whole)).any():
        raise InputError(f'{path}, array "{key}": it must hold whole numbers.')
    return whole.astype(np.int64)
