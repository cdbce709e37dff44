"""A fitted model and everything needed to use it on new recordings; saved as a folder."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from swerve import arhmm
from swerve.arhmm import ArHmm, Covariance
from swerve.arhmm.prediction import blank, expected
from swerve.build import build_system, with_images
from swerve.config import Config
from swerve.data.columns import names_of, select_columns
from swerve.data.windows import Standardizer, to_frames
from swerve.errors import InputError
from swerve.fitting import fit_arhmm, fit_system
from swerve.imagecode import ImageCode
from swerve.preparation import Prepared, check_finite, prepare
from swerve.seeds import held_out_likelihood
from swerve.segment import batch_rows, bucket_length, bucket_rows, infer_batch, worthwhile_labels
from swerve.settings import from_dict
from swerve.system import AbstractSystem
from swerve.training.checkpoint import digest_of, load_about, load_tree, read_json, save_tree, write_json
from swerve.training.loop import History, Report
from swerve.training.step import evaluate
from swerve.types import Frames, Key, Segmentation, Series

MODEL_FILE, CHECKPOINT_FILE, RUN_FILE, HISTORY_FILE = (
    "model.safetensors",
    "training.safetensors",
    "run.json",
    "history.json",
)
DEFAULT_SAMPLES = 16


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

    @property
    def regimes(self) -> int:
        """K."""
        return self.config.model.regimes

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
        return [results[i] for i in range(len(ready))]

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

    def _about(self) -> dict[str, Any]:
        return {
            "config": asdict(self.config),
            "columns": list(self.columns),
            "dropped": list(self.dropped),
            "controls": self.controls,
            "image": self.image,
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
    on_report: Callable[[Report], None] = lambda report: None,
    on_look: Callable[["Run"], None] = lambda run: None,
    on_note: Callable[[str], None] = lambda note: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Fits a model. With `out`, everything is kept there and an interrupted fit can go on with `resume`.

    After each report, `on_look` gets the best restart as it is then, ready to segment. Before the first
    and after the last, `on_note` hears what is going on.
    """
    prepared = prepare(series, config)
    if out is not None:
        _claim(out, config, prepared, resume)
    if config.kind == "arhmm":
        best = fit_arhmm(prepared, config)[0]
        run = with_model(best.model, prepared, config, best.held_out)
    else:
        checkpoint = None if out is None else out / CHECKPOINT_FILE

        def report(now: Report) -> None:
            on_report(now)
            on_look(with_model(now.system, prepared, config, now.bounds[now.best], finished=False))

        trained = fit_system(
            prepared, config, checkpoint=checkpoint, on_report=report, on_note=on_note, should_stop=should_stop
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
    if out is not None:
        run.save(out)
    return run


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
    return Run(
        config=config,
        model=jax.tree.map(jnp.asarray, model),
        columns=tuple(about["columns"]),
        dropped=tuple(about["dropped"]),
        controls=about["controls"],
        image=_image_of(about),
        standardizer=Standardizer(
            *(np.array(about[name], float) for name in ("mean", "scale", "control_mean", "control_scale"))
        ),
        held_out=about["held_out"],
        history=history,
        chosen=about["chosen"],
        finished=about["finished"],
    )


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


def _claim(out: Path, config: Config, prepared: Prepared, resume: bool) -> None:
    """Marks the folder as this run's, or checks that it already is."""
    ours = {"config": json.loads(json.dumps(asdict(config))), "data": fingerprint(prepared)}
    path = out / RUN_FILE
    if path.is_file():
        if not resume:
            raise InputError(f"{out} already holds a run: choose another --out, or --resume to go on with it.")
        theirs = read_json(path)
        for part in ours:
            if theirs.get(part) != ours[part]:
                raise InputError(f"{out} holds another run (its {part} differs): choose another --out.")
        return
    if resume:
        raise InputError(f"{out} holds no run to resume.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} already exists and is not a run folder: choose another --out.")
    out.mkdir(parents=True, exist_ok=True)
    write_json(path, ours)


def fingerprint(prepared: Prepared) -> str:
    """Tells one data set from another."""
    return digest_of((prepared.training, prepared.validation), repr(prepared.columns))
