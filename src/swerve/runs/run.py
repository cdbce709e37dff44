"""A fitted model and everything needed to use it on new recordings."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from swerve.choosing import trust
from swerve.choosing.trust import Trust
from swerve.data.atomic import whole_file, whole_folder
from swerve.data.columns import names_of, select_columns
from swerve.data.folder import Part
from swerve.data.reading import Reading
from swerve.data.trees import save_tree, write_json
from swerve.data.windows import Standardizer, cut, to_frames
from swerve.errors import InputError
from swerve.inference.frames import Frames
from swerve.learning.loop import History
from swerve.learning.preparation import Prepared, check_finite
from swerve.learning.restarts import pick
from swerve.models import generation
from swerve.models.model import Model
from swerve.runs.alignment import Alignment, Order, rearranged, renumbered
from swerve.runs.infer import Applied, Inferred, Looks
from swerve.runs.names import GivenNames, all_names, with_names
from swerve.runs.segment import NOISE_SEED, bucket_length
from swerve.settings import kinds
from swerve.settings.defaults import DEFAULT_FUTURES, DEFAULT_QUANTILES, DEFAULT_SAMPLES
from swerve.settings.sections import Config
from swerve.settings.text import as_dict
from swerve.types import Forecast, Recording, Segmentation

LONGEST_PAST = 2000  # frames that a forecast looks back on


class Others(NamedTuple):
    """The other restarts that were trained to the end."""

    models: Any
    """Their parameters, along a leading axis."""
    restarts: list[int]
    names: list[list[int]]
    """For each of their regimes the chosen restart's that it stands for; K and above stand for none."""


@dataclass(frozen=True)
class Run:
    """A fitted model with the columns and the scale it was fitted to."""

    config: Config
    model: Model
    columns: tuple[str, ...]
    controls: int
    standardizer: Standardizer
    held_out: float
    """Bound or log-likelihood on the held-out part, in nats per frame of standardised data."""
    windows: Float[np.ndarray, " N"] | None = None
    """The same of every held-out window, in nats; None for runs from before it was kept."""
    history: History | None = None
    chosen: int = 0
    finished: bool = True
    dropped: tuple[str, ...] = ()
    image: tuple[int, int] | None = None
    """Height and width of the video it was fitted to."""
    reading: Reading = field(default_factory=Reading)
    """How the recordings were read, so that new ones are read alike."""
    aligned: Alignment | None = None
    """Where the regimes have the numbers of an older run's."""
    given_names: GivenNames = ()
    others: Others | None = None
    selection: dict[str, Any] | None = None
    """How the model was chosen, where that was left to Swerve (selection.py)."""
    trust: Trust | None = None
    looks: Looks | None = field(default=None, compare=False, repr=False)
    """What it made of recordings so far, while nobody else may change them."""

    @property
    def order(self) -> Order:
        """For every number that labels use, the regime of `model` that it stands for; None for none."""
        return tuple(range(self.config.model.regimes)) if self.aligned is None else self.aligned.order

    @property
    def regimes(self) -> int:
        """K: as many numbers as labels may use."""
        return len(self.order)

    @property
    def names(self) -> tuple[str, ...]:
        """What each regime is called: the name it was given, or "regime 0" and so on."""
        return all_names(self.given_names, self.regimes)

    def with_names(self, names: Mapping[int, str]) -> "Run":
        """The same run with some regimes (named or not so far) called so."""
        return dataclasses.replace(self, given_names=with_names(self.given_names, names, self.regimes))

    @property
    def _applied(self) -> Applied:
        return Applied(self.model, self.standardizer, self.config.model.regimes)

    def segment(
        self,
        series: Sequence[Recording],
        *,
        samples: int = DEFAULT_SAMPLES,
        viterbi: bool = False,
        on_progress: Callable[[float], None] = lambda frames: None,
    ) -> list[Segmentation]:
        """The regimes of every recording in the rows of its file; `on_progress` hears how many frames are done."""
        found = self.infer(series, samples=samples, viterbi=viterbi, expects=False, on_progress=on_progress)
        names = self.names if any(self.given_names) else ()
        return [one.in_rows(recording, names) for one, recording in zip(found, series, strict=True)]

    def infer(
        self,
        series: Sequence[Recording],
        *,
        samples: int = DEFAULT_SAMPLES,
        viterbi: bool = False,
        expects: bool = True,
        on_progress: Callable[[float], None] = lambda frames: None,
    ) -> list[Inferred]:
        """Regimes and expected observations of the frames that a model sees, which need not be the rows of a file.

        Recordings of similar length are computed together, long ones in parts. Without `expects`, long recordings
        take less memory.
        """
        _at_least_one(samples=samples)

        def infer(some: Sequence[Recording]) -> list[Inferred]:
            return self._applied.infer(
                self.checked(some), samples, viterbi=viterbi, expects=expects, on_progress=on_progress
            )

        looks = None if viterbi or samples != DEFAULT_SAMPLES else self.looks
        found = infer(series) if looks is None or not series else looks.of(self.model, series, infer, expects=expects)
        return [self._as_numbered(one) for one in found]

    def consensus(self, series: Sequence[Recording], *, samples: int = DEFAULT_SAMPLES) -> list[Segmentation]:
        """The regimes that most restarts vote for, with the share of them that agrees on every row."""
        if self.others is None:
            raise InputError(
                "This run kept no second restart to agree with: fit with more --restarts, or leave out --consensus."
            )
        chosen = self.segment(series, samples=samples)
        votes = [[one.labels] for one in chosen]
        for i, names in enumerate(self.others.names):
            other = dataclasses.replace(self, model=pick(self.others.models, i)).segment(series, samples=samples)
            for own, one in zip(votes, other, strict=True):
                own.append(np.array(names)[one.labels])
        agreed = [trust.consensus(own, self.regimes) for own in votes]
        return [
            dataclasses.replace(one, labels=labels, agreement=share)
            for one, (labels, share) in zip(chosen, agreed, strict=True)
        ]

    def score(self, series: Sequence[Recording]) -> float:
        """The bound (SNLDS) or exact log-likelihood (AR-HMM) in nats per frame of standardised data."""
        return self._applied.bound(self.checked(series))

    def transform(
        self, series: Sequence[Recording], *, samples: int = DEFAULT_SAMPLES
    ) -> list[Float[np.ndarray, "T L"]]:
        """The posterior mean of the hidden state z in every frame of every recording."""
        if not self.offers(kinds.STATES):
            raise InputError(
                f"A model of kind '{self.config.kind}' has no hidden states to give:"
                f" fit {kinds.offering(kinds.STATES)}."
            )
        _at_least_one(samples=samples)
        key, ready = jax.random.key(NOISE_SEED), self.standardizer.apply_to(self.checked(series))
        found = [generation.mean_states(self.model, _padded(one), samples=samples, key=key) for one in ready]
        return [np.asarray(z, float)[: len(one)] for z, one in zip(found, series, strict=True)]

    def sample(self, length: int, count: int = 1, *, seed: int = 0, controls: Any = None) -> list[Recording]:
        """Recordings that the model makes up, with their regimes. `controls` (length, U) drive all of them."""
        _at_least_one(length=length, count=count)
        model = self._generative()
        (u,) = self._controls_of(controls, length, 1)
        keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(seed), i))(jnp.arange(count))
        drawn = jax.vmap(lambda key: generation.sequence(model, u, key=key))(keys)
        x, s = self._in_units(drawn.x), renumbered(np.asarray(drawn.s, np.int64), self.order)
        u = None if controls is None else np.asarray(controls, float)
        made = partial(Recording, u=u, columns=self.columns, image=self.image)
        return [made(x[i], s=s[i], name=str(i)) for i in range(count)]

    def forecast(
        self,
        series: Sequence[Recording],
        horizon: int,
        *,
        quantiles: Sequence[float] = DEFAULT_QUANTILES,
        samples: int = DEFAULT_FUTURES,
        controls: Any = None,
        seed: int = 0,
    ) -> list[Forecast]:
        """The next `horizon` frames of every recording: regime probabilities and quantiles of x over drawn futures.

        `controls` hold the control values of these frames, (horizon, U) for all recordings or a list with one each.
        """
        _at_least_one(horizon=horizon, samples=samples)
        levels = tuple(sorted({float(level) for level in quantiles}))
        if not levels or not 0 < levels[0] <= levels[-1] < 1:
            raise InputError(f"Quantiles lie between 0 and 1, as 0.1 and 0.9 do, not {list(quantiles)}.")
        model, forecasts = self._generative(), []
        recent = [cut(one, max(0, len(one) - LONGEST_PAST), len(one)) for one in self.checked(series)]
        futures = self._controls_of(controls, horizon, len(recent))
        for one, past, u in zip(series, self.standardizer.apply_to(recent), futures, strict=True):
            found = generation.futures(model, _padded(past), u, samples=samples, key=jax.random.key(seed))
            x = np.quantile(self._in_units(found.x), levels, axis=0).swapaxes(0, 1)
            probabilities = rearranged(np.asarray(found.probabilities, float), self.order)
            forecasts.append(Forecast(probabilities, x, levels, one.name, self.columns))
        return forecasts

    def save(self, folder: Path) -> None:
        """Writes the model and what belongs to it, all or nothing. The model comes last: it makes a run complete."""
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(folder / Part.MODEL) as model, whole_folder(folder) as rest:
            save_tree(model, self.model, self._about())
            if self.history is not None:
                write_json(rest / Part.HISTORY, {"chosen": self.chosen, **asdict(self.history)})
            if self.aligned is not None or any(self.given_names):
                self.save_names(rest)
            if self.others is not None:
                about = {"restarts": self.others.restarts, "names": self.others.names}
                save_tree(rest / Part.RESTARTS, self.others.models, about)
            if self.trust is not None:
                write_json(rest / Part.TRUST, self.trust.as_dict())

    def save_names(self, folder: Path) -> None:
        """Writes the regimes' names, and the numbers they took from an older run. The model file stays as it is."""
        aligned = None if self.aligned is None else asdict(self.aligned)
        write_json(folder / Part.REGIMES, {"names": list(self.given_names), "aligned": aligned})

    def _about(self) -> dict[str, Any]:
        return {
            "config": as_dict(self.config),
            "columns": list(self.columns),
            "dropped": list(self.dropped),
            "controls": self.controls,
            "image": self.image,
            "reading": asdict(self.reading),
            "mean": self.standardizer.mean.tolist(),
            "scale": self.standardizer.scale.tolist(),
            "control_mean": self.standardizer.control_mean.tolist(),
            "control_scale": self.standardizer.control_scale.tolist(),
            "held_out": self.held_out,
            "windows": None if self.windows is None else self.windows.tolist(),
            "chosen": self.chosen,
            "finished": self.finished,
            "selection": self.selection,
            **self.model.facts(),
        }

    def _as_numbered(self, one: Inferred) -> Inferred:
        """What the model found, under the numbers that its regimes go by."""
        if self.aligned is None:
            return one
        labels, probabilities = renumbered(one.labels, self.order), rearranged(one.probabilities, self.order)
        return dataclasses.replace(one, labels=labels, probabilities=probabilities)

    def checked(self, series: Sequence[Recording]) -> list[Recording]:
        """The recordings with the model's columns, if it can read them."""
        if not series:
            raise InputError("There are no recordings.")
        for one in series:
            self._check_image(one)
            names = set(names_of(one))
            if not set(self.columns) <= names <= {*self.columns, *self.dropped}:
                raise InputError(
                    f'Recording "{one.name}" has the columns {", ".join(names_of(one))}, but the model was fitted'
                    f" to {', '.join(self.columns)}."
                )
            check_finite(one)
            if (0 if one.u is None else one.u.shape[1]) != self.controls:
                raise InputError(f'Recording "{one.name}" must have {self.controls} control columns.')
            self._check_length(one)
        return select_columns(series, self.columns)

    def _check_length(self, one: Recording) -> None:
        most = self._applied.most_frames(one.x.shape[1])
        if most is not None and len(one) > most:
            raise InputError(
                f'Recording "{one.name}" has {len(one)} frames, but the model "{self.config.kind}" needs a recording'
                f" as a whole, here of at most {most} frames: cut it, or use {kinds.offering(kinds.LONG)},"
                " which take any."
            )

    def _check_image(self, one: Recording) -> None:
        if one.image != self.image:
            ours, theirs = (
                "numbers" if image is None else f"images of {image[0]} x {image[1]} pixels"
                for image in (self.image, one.image)
            )
            raise InputError(f'Recording "{one.name}" holds {theirs}, but the model was fitted to {ours}.')

    def offers(self, what: str) -> bool:
        """Whether its kind offers something beyond regimes (settings/kinds.py)."""
        return what in kinds.find(self.config.kind).offers

    def _generative(self) -> Model:
        if not self.offers(kinds.SERIES):
            raise InputError(
                f"A model of kind '{self.config.kind}' makes up no series: for samples and forecasts fit"
                f" {kinds.offering(kinds.SERIES)}."
            )
        return self.model

    def _controls_of(self, controls: Any, length: int, count: int) -> list[Float[Array, "T U"]]:
        """Standardised controls of so many frames for every recording."""
        if controls is None:
            if self.controls:
                raise InputError(
                    f"The model reads {self.controls} control columns: give their values for these {length} frames."
                )
            return [jnp.zeros((length, 0))] * count
        each = list(controls) if isinstance(controls, list | tuple) else [controls] * count
        if len(each) != count:
            raise InputError(f"There are controls for {len(each)} recordings, but {count} recordings.")
        arrays = [np.asarray(one, float) for one in each]
        for one in arrays:
            if one.shape != (length, self.controls) or not np.isfinite(one).all():
                raise InputError(
                    f"Controls must be numbers of the shape (frames, columns) = {(length, self.controls)},"
                    f" not {one.shape}, and none may be missing."
                )
        return [jnp.asarray(self.standardizer.apply_to_controls(one), jnp.float32) for one in arrays]

    def _in_units(self, x: Float[Array, "*batch D"]) -> Float[np.ndarray, "*batch D"]:
        """Made-up values in the data's units."""
        if not bool(jnp.isfinite(x).all()):
            raise InputError(
                "What the model makes up grows beyond all numbers, so its regimes are not stable: ask for fewer frames,"
                " or fit longer."
            )
        return self.standardizer.invert(np.asarray(x, float))


def _padded(one: Recording) -> Frames:
    """One recording, padded to a length that others share."""
    frames = to_frames([one], length=bucket_length(len(one)))
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), frames)


def _at_least_one(**counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            raise InputError(f"{name} must be at least 1, not {value}.")


def with_model(model: Model, prepared: Prepared, config: Config, held_out: float, **rest: Any) -> Run:
    """A model of recordings that were prepared like this."""
    return Run(
        config=config,
        model=model,
        columns=prepared.columns,
        controls=prepared.controls,
        standardizer=prepared.standardizer,
        held_out=held_out,
        dropped=prepared.dropped,
        image=prepared.image,
        **rest,
    )
