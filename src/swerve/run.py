"""A fitted model and everything needed to use it on new recordings; saved as a folder."""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from swerve import arhmm, budget, claim
from swerve.alignment import Alignment, Order, align, rearranged, renumbered
from swerve.arhmm import ArHmm, Covariance
from swerve.arhmm.prediction import blank, expected
from swerve.build import build_system, with_images
from swerve.config import Config
from swerve.data import tables
from swerve.data.columns import names_of, select_columns
from swerve.data.reading import Reading
from swerve.data.windows import Standardizer, to_frames
from swerve.errors import InputError
from swerve.fitting import fit_arhmm, fit_system
from swerve.imagecode import ImageCode
from swerve.names import GivenNames, all_names, with_names
from swerve.preparation import Prepared, check_finite, prepare
from swerve.seeds import held_out_likelihood
from swerve.segment import batch_rows, bucket_length, bucket_rows, infer_batch, worthwhile_labels
from swerve.settings import from_dict
from swerve.system import AbstractSystem
from swerve.training.checkpoint import digest_of, load_about, load_tree, read_json, save_tree, write_json
from swerve.training.loop import History, Report
from swerve.training.step import evaluate
from swerve.types import Frames, Key, Segmentation, Series

MODEL_FILE, CHECKPOINT_FILE, HISTORY_FILE, REGIMES_FILE = (
    "model.safetensors",
    "training.safetensors",
    "history.json",
    "regimes.json",
)
DEFAULT_SAMPLES = 16
ALIGNED_FRAMES = 200_000  # that are enough to tell which regime is which


@dataclass(frozen=True)
class Inferred:
    """What a model makes of one recording: its regimes, and x as the model expects it, in the data's units."""

    segmentation: Segmentation
    expected: Float[np.ndarray, "T D"]


@dataclass(frozen=True)
class Run:
    """A fitted model with the columns and the scale it was fitted to."""

    config: Config
    model: AbstractSystem | ArHmm
    columns: tuple[str, ...]
    controls: int
    standardizer: Standardizer
    held_out: float
    """Bound or log-likelihood on the held-out part, in nats per frame of standardised data."""
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

    def segment(
        self, series: Sequence[Series], *, samples: int = DEFAULT_SAMPLES, viterbi: bool = False
    ) -> list[Segmentation]:
        """The regime of every frame of every recording."""
        return [one.segmentation for one in self.infer(series, samples=samples, viterbi=viterbi)]

    def infer(
        self, series: Sequence[Series], *, samples: int = DEFAULT_SAMPLES, viterbi: bool = False
    ) -> list[Inferred]:
        """Regimes and expected observations. Recordings of similar length are computed together."""
        if samples < 1:
            raise InputError(f"The number of samples must be at least 1, not {samples}.")
        ready = self._ready(series)
        lengths = [bucket_length(len(one)) for one in ready]
        results: dict[int, Inferred] = {}
        for length in sorted(set(lengths)):
            members = [i for i, bucket in enumerate(lengths) if bucket == length]
            rows = batch_rows(length, len(self.columns))
            for begin in range(0, len(members), rows):
                batch = members[begin : begin + rows]
                results |= self._infer_batch(ready, batch, length, samples, viterbi)
        return [self._as_numbered(results[i]) for i in range(len(ready))]

    def score(self, series: Sequence[Series]) -> float:
        """The bound (SNLDS) or exact log-likelihood (AR-HMM) in nats per frame of standardised data."""
        ready = self._ready(series)
        frames = jax.tree.map(jnp.asarray, to_frames(ready))
        if isinstance(self.model, ArHmm):
            return float(held_out_likelihood(self.model, frames))
        return float(evaluate(self.model, frames).bound)

    def save(self, folder: Path) -> None:
        """Writes the model file and the training history."""
        folder.mkdir(parents=True, exist_ok=True)
        save_tree(folder / MODEL_FILE, self.model, self._about())
        if self.history is not None:
            write_json(folder / HISTORY_FILE, {"chosen": self.chosen, **asdict(self.history)})
        if self.aligned is not None or any(self.given_names):
            self.save_names(folder)

    def save_names(self, folder: Path) -> None:
        """Writes the regimes' names, and the numbers they took from an older run. The model file stays as it is."""
        aligned = None if self.aligned is None else asdict(self.aligned)
        write_json(folder / REGIMES_FILE, {"names": list(self.given_names), "aligned": aligned})

    def _about(self) -> dict[str, Any]:
        return {
            "config": asdict(self.config),
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
            "chosen": self.chosen,
            "finished": self.finished,
            "lags": self.model.lags if isinstance(self.model, ArHmm) else None,
            "features": self.model.features if isinstance(self.model, ArHmm) else None,
        }

    def _as_numbered(self, one: Inferred) -> Inferred:
        """What the model found, under the numbers and names that its regimes go by."""
        found = one.segmentation
        labels, probabilities = found.labels, found.probabilities
        if self.aligned is not None:
            labels, probabilities = renumbered(labels, self.order), rearranged(probabilities, self.order)
        found = dataclasses.replace(found, labels=labels, probabilities=probabilities, names=self.names)
        return dataclasses.replace(one, segmentation=found)

    def _ready(self, series: Sequence[Series]) -> list[Series]:
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
        return self.standardizer.apply_to(select_columns(series, self.columns))

    def _check_image(self, one: Series) -> None:
        if one.image != self.image:
            ours, theirs = (
                "numbers" if image is None else f"images of {image[0]} x {image[1]} pixels"
                for image in (self.image, one.image)
            )
            raise InputError(f'Recording "{one.name}" holds {theirs}, but the model was fitted to {ours}.')

    def _infer_batch(self, ready, batch: list[int], length: int, samples: int, viterbi: bool) -> dict[int, Inferred]:
        frames = to_frames([ready[i] for i in batch], length=length)
        padding = bucket_rows(len(batch), length, len(self.columns)) - len(batch)
        frames = jax.tree.map(
            lambda a: jnp.asarray(np.concatenate([a, np.zeros((padding, *a.shape[1:]), a.dtype)])), frames
        )
        if isinstance(self.model, ArHmm):
            probabilities, paths, expected = _infer_arhmm(self.model, frames)
        else:
            probabilities, paths, expected = infer_batch(self.model, frames, samples=samples)
        labels = paths if viterbi else worthwhile_labels(probabilities, frames.valid)
        probabilities, labels, expected = (np.asarray(a) for a in (probabilities, labels, expected))
        results = {}
        for row, i in enumerate(batch):
            stop = len(ready[i])
            probable = probabilities[row, :stop].astype(float)
            found = Segmentation(labels[row, :stop].astype(np.int64), probable, ready[i].name)
            results[i] = Inferred(found, self.standardizer.invert(expected[row, :stop].astype(float)))
        return results


@jax.jit
def _infer_arhmm(model: ArHmm, frames: Frames):
    def one(sequence):
        probable = arhmm.smooth(model, sequence)
        return probable, arhmm.viterbi(model, sequence), expected(model, sequence, probable)

    return jax.vmap(one)(frames)


def fit(
    series: Sequence[Series],
    config: Config,
    *,
    out: Path | None = None,
    resume: bool = False,
    reading: Reading | None = None,
    on_report: Callable[[Report], None] = lambda report: None,
    on_look: Callable[["Run"], None] = lambda run: None,
    on_note: Callable[[str], None] = lambda note: None,
    on_plan: Callable[[str], None] = lambda words: None,
    should_stop: Callable[[], bool] = lambda: False,
    align_to: "Run | str | Path | None" = None,
    time_budget: float | None = None,
) -> Run:
    """Fits a model. With `out`, everything is kept there and an interrupted fit can go on with `resume`.

    After each report, `on_look` gets the best restart as it is then, ready to segment. Before the first
    and after the last, `on_note` hears what is going on. `reading` is how the recordings were read: it is kept.
    Regimes take the numbers and names of those of `align_to`. With a `time_budget` in seconds there may be fewer
    restarts and steps, or AR-HMMs alone; `on_plan` hears how many.
    """
    began = time.monotonic()
    prepared = prepare(series, config)
    with claim.alone_in(out, resume) as left:
        data = fingerprint(prepared)
        align_to = left.get("align_to") if align_to is None and left is not None else align_to
        older = None if align_to is None else _older_run(align_to, series)
        closing = 0.0
        if out is not None and left is not None:
            config = claim.settings_left(out, left, config, data)
        else:
            asked = config
            if time_budget is not None:
                planned = budget.plan(prepared, config, time_budget)
                on_plan(planned.words)
                config, closing = planned.config, planned.closing
            if out is not None:
                where = None if align_to is None or isinstance(align_to, Run) else str(Path(align_to).resolve())
                claim.write(out, config, asked, data, where)
        end = math.inf if time_budget is None else began + time_budget - closing
        run = _fit_prepared(
            prepared,
            config,
            out,
            on_report=on_report,
            on_look=on_look,
            on_note=on_note,
            should_stop=should_stop,
            time_is_up=lambda: time.monotonic() > end,
        )
        run = dataclasses.replace(run, reading=tables.remembered(reading or Reading(), series))
        if older is not None:
            on_note("comparing with the regimes of the older run")
            run = aligned_to(run, older, series, called=str(align_to) if not isinstance(align_to, Run) else "the run")
        if out is not None:
            names, _ = _load_names(out)
            run = dataclasses.replace(run, given_names=names or run.given_names)
            run.save(out)
    return run


def _fit_prepared(
    prepared: Prepared,
    config: Config,
    out: Path | None,
    *,
    on_report: Callable[[Report], None],
    on_look: Callable[["Run"], None],
    on_note: Callable[[str], None],
    should_stop: Callable[[], bool],
    time_is_up: Callable[[], bool],
) -> Run:
    if config.kind == "arhmm":
        on_note("fitting AR-HMMs")
        best = fit_arhmm(prepared, config, should_stop=time_is_up)[0]
        run = with_model(best.model, prepared, config, best.held_out)
    else:
        checkpoint = None if out is None else out / CHECKPOINT_FILE

        def report(now: Report) -> None:
            on_report(now)
            on_look(with_model(now.system, prepared, config, now.bounds[now.best], finished=False))

        trained = fit_system(
            prepared,
            config,
            checkpoint=checkpoint,
            on_report=report,
            on_note=on_note,
            should_stop=lambda: should_stop() or time_is_up(),
        )
        run = with_model(
            trained.system,
            prepared,
            config,
            float(evaluate(trained.system, prepared.validation).bound),
            history=trained.history,
            chosen=trained.chosen,
            finished=trained.finished,
        )
    return run


def _older_run(align_to: "Run | str | Path", series: Sequence[Series]) -> Run:
    """The run to align to, if it can read these recordings."""
    try:
        older = align_to if isinstance(align_to, Run) else load(align_to)
        older._ready(series)
    except InputError as error:
        called = "that run" if isinstance(align_to, Run) else align_to
        raise InputError(f"The regimes can not be aligned to those of {called}: {error}") from None
    return older


def aligned_to(run: Run, older: Run, series: Sequence[Series], *, called: str = "the older run") -> Run:
    """The same model, its regimes under the numbers and names of the older run's that they resemble most.

    Both segment the recordings, or the first of them where there are many frames.
    """
    some = _enough(series)
    found, old = (
        [one.labels for one in each.segment(some)] for each in (dataclasses.replace(run, aligned=None), older)
    )
    regimes = run.config.model.regimes
    alignment = align(found, old, regimes=regimes, old_regimes=older.regimes, to=called)
    names = tuple(None if k in alignment.fresh else name for k, name in enumerate(older.given_names))
    return dataclasses.replace(run, aligned=alignment, given_names=names)


def _enough(series: Sequence[Series]) -> list[Series]:
    """The first recordings, as many as tell regimes apart."""
    before = np.cumsum([0, *map(len, series)])[:-1]
    return [one for one, frames in zip(series, before, strict=True) if frames < ALIGNED_FRAMES]


def with_model(model: AbstractSystem | ArHmm, prepared: Prepared, config: Config, held_out: float, **rest: Any) -> Run:
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


def load(folder: str | Path) -> Run:
    """A saved run, ready to segment new recordings."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"There is no run folder {folder}.")
    path = folder / MODEL_FILE
    if not path.is_file():
        raise InputError(f"{folder} holds no finished model ({MODEL_FILE} is missing); finish it with --resume.")
    about = load_about(path)
    if "config" not in about:
        raise InputError(f"{path} is not a model file.")
    config = from_dict(about["config"])
    model, _ = load_tree(path, blank_model(config, about))
    history = None
    if (folder / HISTORY_FILE).is_file():
        stored = read_json(folder / HISTORY_FILE)
        history = History(**{f.name: stored[f.name] for f in dataclasses.fields(History) if f.name in stored})
    names, aligned = _load_names(folder)
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
        history=history,
        chosen=about["chosen"],
        finished=about["finished"],
        aligned=aligned,
        given_names=names,
    )


def _load_names(folder: Path) -> tuple[GivenNames, Alignment | None]:
    path = folder / REGIMES_FILE
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
    channels = len(about["columns"])
    if config.kind == "arhmm":
        covariance = Covariance(config.arhmm.covariance)
        return blank(
            config.model.regimes,
            channels,
            about["lags"],
            covariance,
            features=about.get("features") or 0,
            temperature=config.arhmm.temperature(channels),
        )
    image, size = _image_of(about), config.code_size

    def build(key: Key) -> AbstractSystem:
        system = build_system(
            config,
            channels=channels if image is None else size,
            controls=about["controls"],
            stickiness=0.0,
            allowed=config.model.regimes,
            key=key,
        )
        return system if image is None else with_images(system, ImageCode(size, image, key=key), config)

    return jax.eval_shape(build, jax.random.key(0))


def _image_of(about: Mapping[str, Any]) -> tuple[int, int] | None:
    """None for numbers, and for models from before there was video."""
    return tuple(about["image"]) if about.get("image") else None


def fingerprint(prepared: Prepared) -> str:
    """Tells one data set from another."""
    return digest_of((prepared.training, prepared.validation), repr(prepared.columns))
