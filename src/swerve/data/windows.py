"""From recordings to what is trained on: one scale, a validation split, windows, padded frames."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float

from swerve.data.sampling import slice_of
from swerve.errors import InputError
from swerve.inference.frames import Frames
from swerve.types import Recording

WHOLE_SEQUENCES = 5  # with fewer, validation takes the end of each


@dataclass(frozen=True)
class Standardizer:
    """(x - mean) / scale for each channel, and the same for controls; NaN stays NaN.

    All pixels of an image share one mean and one scale: the edges of a scene must not be as loud as its middle.
    """

    mean: Float[np.ndarray, " D"]
    scale: Float[np.ndarray, " D"]
    control_mean: Float[np.ndarray, " U"] = field(default_factory=lambda: np.zeros(0))
    control_scale: Float[np.ndarray, " U"] = field(default_factory=lambda: np.ones(0))

    @staticmethod
    def fit(series: Sequence[Recording]) -> "Standardizer":
        """Mean and standard deviation of the observed values; a channel that never changes keeps scale 1."""
        controls = [one.u for one in series if one.u is not None]
        moments = _moments if series[0].image is None else _shared_moments
        return Standardizer(*moments([one.x for one in series]), *(_moments(controls) if controls else ()))

    def apply(self, x: Float[np.ndarray, "*batch D"]) -> Float[np.ndarray, "*batch D"]:
        """To mean 0 and scale 1."""
        return (x - self.mean) / self.scale

    def invert(self, x: Float[np.ndarray, "*batch D"]) -> Float[np.ndarray, "*batch D"]:
        """Back to the recording's own units."""
        return x * self.scale + self.mean

    def apply_to(self, series: Sequence[Recording]) -> list[Recording]:
        """The recordings with standardised x and u."""
        return [
            replace(one, x=self.apply(one.x).astype(one.x.dtype), u=self.apply_to_controls(one.u)) for one in series
        ]

    def apply_to_controls(self, u: Float[np.ndarray, "T U"] | None) -> Float[np.ndarray, "T U"] | None:
        """To mean 0 and scale 1, where there are any."""
        return None if u is None else (u - self.control_mean) / self.control_scale


def _moments(arrays: Sequence[Float[np.ndarray, "_ D"]]) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]]:
    values = np.concatenate(arrays).astype(float)
    count = np.maximum(1, (~np.isnan(values)).sum(axis=0))
    mean = np.nansum(values, axis=0) / count
    scale = np.sqrt(np.nansum((values - mean[None]) ** 2, axis=0) / count)
    rounding = 8 * np.finfo(float).eps * np.abs(mean)
    return mean, np.where(scale > rounding, scale, 1.0)


def _shared_moments(
    arrays: Sequence[Float[np.ndarray, "_ D"]],
) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]]:
    """The mean and deviation of all values together, one array at a time: video is large."""
    count = max(1, sum(int((~np.isnan(one)).sum()) for one in arrays))
    mean = sum(float(np.nansum(one, dtype=float)) for one in arrays) / count
    square = sum(float(np.nansum((one - mean) ** 2, dtype=float)) for one in arrays) / count
    channels = arrays[0].shape[1]
    return np.full(channels, mean), np.full(channels, np.sqrt(square) if square > 0 else 1.0)


def to_frames(series: Sequence[Recording], *, length: int | None = None) -> Frames:
    """A batch (N, T, ...) of float32 arrays, padded at the end to `length` or to the longest recording.

    A missing value is 0 with `observed` False; a padded frame is 0 with `valid` False. No controls: width 0.
    """
    longest = max(len(one) for one in series)
    T = longest if length is None else length
    if longest > T:
        raise InputError(f"A recording of {longest} frames does not fit into {T}: cut it into windows first.")
    N, D, U = len(series), series[0].x.shape[1], _control_width(series[0])
    x = np.zeros((N, T, D), dtype=np.float32)
    observed = np.zeros((N, T, D), dtype=bool)
    valid = np.zeros((N, T), dtype=bool)
    u = np.zeros((N, T, U), dtype=np.float32)
    for i, one in enumerate(series):
        _check_widths(one, D, U)
        stop = len(one)
        seen = ~np.isnan(one.x)
        x[i, :stop] = np.where(seen, one.x, 0.0)
        observed[i, :stop] = seen
        valid[i, :stop] = True
        if one.u is not None:
            u[i, :stop] = one.u
    return Frames(x, observed, valid, u)  # pyright: ignore[reportArgumentType]


def frames_between(series: Recording, standardizer: Standardizer, start: int, stop: int) -> Frames:
    """Frames start to stop - 1 of one recording, standardised; padding before its first frame and after its last."""
    inside = cut(series, max(start, 0), min(stop, len(series)))
    in_front = max(0, -start)
    frames = to_frames(standardizer.apply_to([inside]), length=stop - start - in_front)
    padded = (np.pad(leaf[0], [(in_front, 0)] + [(0, 0)] * (leaf.ndim - 2)) for leaf in frames)
    return Frames(*padded)  # pyright: ignore[reportArgumentType]


def cut_windows(series: Sequence[Recording], length: int) -> list[Recording]:
    """Consecutive windows of at most `length` frames that together hold every frame.

    A remainder of half a window or more is a window of its own; a shorter one starts earlier, to be full.
    """
    if length < 1:
        raise InputError(f"A window needs at least 1 frame, not {length}.")
    return [cut(one, start, stop) for one in series for start, stop in _window_bounds(len(one), length)]


def windows_that_go_on(series: Sequence[Recording], length: int) -> Bool[np.ndarray, " N"] | None:
    """Which windows of `cut_windows` end where the next one begins, in the same recording; None if none does."""
    bounds = [_window_bounds(len(one), length) for one in series]
    found = [stop == after for own in bounds for (_, stop), (after, _) in zip(own, [*own[1:], (-1, -1)], strict=True)]
    return np.array(found) if any(found) else None


def splits_by_recording(series: Sequence[Recording]) -> bool:
    """Whether there are enough recordings to hold out whole ones."""
    return len(series) >= WHOLE_SEQUENCES


def split_validation(
    series: Sequence[Recording], fraction: float, seed: int, *, ends: bool = False
) -> tuple[list[Recording], list[Recording]]:
    """(training, validation) without a frame in common; windows, which may overlap, are cut afterwards.

    Whole recordings, drawn at random, where there are at least five; otherwise, or with `ends`, the last `fraction`
    of each.
    """
    if not 0 < fraction < 1:
        raise InputError(f"The validation fraction must lie between 0 and 1, not {fraction}.")
    if ends or not splits_by_recording(series):
        return _split_ends(series, fraction)
    count = min(len(series) - 1, max(1, round(fraction * len(series))))
    drawn = set(np.random.default_rng(seed).permutation(len(series))[:count].tolist())
    training = [one for i, one in enumerate(series) if i not in drawn]
    return training, [series[i] for i in sorted(drawn)]


def cut(series: Recording, start: int, stop: int) -> Recording:
    """Frames start to stop - 1, named after them unless they are all there are."""
    if (start, stop) == (0, len(series)):
        return series
    return replace(slice_of(series, slice(start, stop)), name=f"{series.name}[{start}:{stop}]")


def _window_bounds(frames: int, length: int) -> list[tuple[int, int]]:
    if frames <= length:
        return [(0, frames)]
    whole, rest = divmod(frames, length)
    bounds = [(i * length, (i + 1) * length) for i in range(whole)]
    if rest:
        bounds.append((frames - (rest if 2 * rest >= length else length), frames))
    return bounds


def _split_ends(series: Sequence[Recording], fraction: float) -> tuple[list[Recording], list[Recording]]:
    training, validation = [], []
    for one in series:
        held = max(1, round(fraction * len(one)))
        if held < len(one):
            training.append(cut(one, 0, len(one) - held))
            validation.append(cut(one, len(one) - held, len(one)))
        else:
            training.append(one)
    if not validation:
        raise InputError("The recordings are too short to hold out a part for validation.")
    return training, validation


def _control_width(series: Recording) -> int:
    return 0 if series.u is None else series.u.shape[1]


def _check_widths(series: Recording, D: int, U: int) -> None:
    if series.x.shape[1] != D:
        raise InputError(f'"{series.name}" has {series.x.shape[1]} columns where others have {D}.')
    if _control_width(series) != U:
        raise InputError(f'"{series.name}" has {_control_width(series)} controls where others have {U}.')
    if series.u is not None and np.isnan(series.u).any():
        raise InputError(f'"{series.name}" has missing control values.')
