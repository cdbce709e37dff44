"""Recordings ready for training: checked, split, standardised, cut into windows."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from swerve.data.columns import drop_constant_columns, names_of
from swerve.data.windows import (
    Standardizer,
    cut_windows,
    split_validation,
    splits_by_recording,
    to_frames,
    windows_that_go_on,
)
from swerve.errors import InputError
from swerve.inference.frames import Frames
from swerve.settings.sections import Config
from swerve.types import Recording
from swerve.views.codes import Codes

SHORTEST = 4  # frames; less than this shows no dynamics
LARGEST = 1e30  # whose square, as a float32, is hardly a number any more


@dataclass(frozen=True)
class Prepared:
    """Recordings ready for training: one scale, windows, and a part that is held out."""

    training: Frames
    validation: Frames
    standardizer: Standardizer
    columns: tuple[str, ...]
    dropped: tuple[str, ...]
    controls: int
    whole: bool = True
    """Every window is a recording from its first frame to its last."""
    image: tuple[int, int] | None = None
    """Height and width of video."""
    goes_on: Bool[Array, " N"] | None = None
    """Which training windows end where the next one begins, in the same recording."""

    @property
    def change_scale(self) -> Float[Array, " D"]:
        """Root mean square of x_t - x_{t-1} in the training windows; 1 where nothing is known."""
        x, observed = self.training.x, self.training.observed
        both = observed[:, 1:] & observed[:, :-1]
        square = jnp.sum(jnp.where(both, x[:, 1:] - x[:, :-1], 0.0) ** 2, axis=(0, 1))
        scale = jnp.sqrt(square / jnp.maximum(both.sum(axis=(0, 1)), 1))
        return jnp.where(scale > 0, scale, 1.0)

    def seen_as(self, codes: Codes) -> "Prepared":
        """The same windows as the view has them: numbers in place of the pixels."""
        size = len(codes.columns)
        return dataclasses.replace(
            self,
            training=codes.read_frames(self.training),
            validation=codes.read_frames(self.validation),
            standardizer=dataclasses.replace(self.standardizer, mean=np.zeros(size), scale=np.ones(size)),
            columns=codes.columns,
            dropped=(),
            image=None,
        )


def prepare(series: Sequence[Recording], config: Config) -> Prepared:
    """Leaves out constant columns, splits, standardises by the training part, cuts windows."""
    kept, dropped = _usable(series, config)
    settings = config.training
    parts = split_validation(kept, settings.validation_share, seed=config.seed, ends=settings.hold_out_ends)
    whole = not settings.hold_out_ends and splits_by_recording(kept)
    return _standardised(parts, dropped, config, whole=whole)


def prepare_folds(series: Sequence[Recording], config: Config, count: int) -> Iterator[Prepared]:
    """The same recordings, every one of them held out once: each `count`th, drawn at random."""
    kept, dropped = _usable(series, config)
    order = np.random.default_rng(config.seed).permutation(len(kept))
    for fold in range(count):
        held = set(order[fold::count].tolist())
        seen, unseen = ([one for i, one in enumerate(kept) if (i in held) == out] for out in (False, True))
        yield _standardised((seen, unseen), dropped, config, whole=True)


def _usable(series: Sequence[Recording], config: Config) -> tuple[list[Recording], tuple[str, ...]]:
    if not series:
        raise InputError("There are no recordings.")
    for one in series:
        if (one.image is None) != (series[0].image is None):
            raise InputError(f'Recordings "{one.name}" and "{series[0].name}": one is video, the other is not.')
        if one.image != series[0].image:
            raise InputError(f'Recording "{one.name}" has images of another size than "{series[0].name}".')
        if names_of(one) != names_of(series[0]):
            raise InputError(f'Recording "{one.name}" has other columns than "{series[0].name}".')
        check_finite(one)
        if len(one) < SHORTEST:
            raise InputError(f'Recording "{one.name}" has {len(one)} frames; at least {SHORTEST} are needed.')
    frames = sum(map(len, series))
    if config.model.regimes > frames:
        raise InputError(f"{config.model.regimes} regimes are more than there are frames, {frames}: fewer --regimes.")
    return drop_constant_columns(series)


def _standardised(
    parts: tuple[list[Recording], list[Recording]], dropped: tuple[str, ...], config: Config, *, whole: bool
) -> Prepared:
    """`whole` where no recording is cut by the split."""
    training, validation = parts
    first, longest = training[0], max(len(one) for part in parts for one in part)
    standardizer = Standardizer.fit(training)
    length = min(config.training.window, longest)
    windows = [
        to_frames(cut_windows(standardizer.apply_to(part), length), length=length) for part in (training, validation)
    ]
    goes_on = windows_that_go_on(training, length)
    held_out = jax.tree.map(lambda leaf: leaf[: config.training.validation_limit], windows[1])
    return Prepared(
        training=jax.tree.map(jnp.asarray, windows[0]),
        validation=jax.tree.map(jnp.asarray, held_out),
        standardizer=standardizer,
        columns=names_of(first),
        dropped=dropped,
        controls=0 if first.u is None else first.u.shape[1],
        whole=whole and longest <= length,
        image=first.image,
        goes_on=None if goes_on is None else jnp.asarray(goes_on),
    )


def check_finite(series: Recording) -> None:
    """Infinite values are refused; NaN marks what is missing."""
    if np.isinf(series.x).any():
        raise InputError(f'Recording "{series.name}" holds infinite values: mark missing values with NaN instead.')
    if max(np.nanmax(series.x, initial=0.0), -np.nanmin(series.x, initial=0.0)) > LARGEST:
        frame, column = np.unravel_index(np.nanargmax(np.abs(series.x)), series.x.shape)
        raise InputError(
            f'Recording "{series.name}", column "{names_of(series)[column]}": {series.x[frame, column]:.3g} in frame'
            f" {frame} is no measurement: mark missing values with NaN instead."
        )
    if series.u is not None and not np.isfinite(series.u).all():
        raise InputError(f'Recording "{series.name}" has controls that are missing or infinite.')
