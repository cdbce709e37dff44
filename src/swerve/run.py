"""A fitted model and everything needed to use it on new recordings; saved as a folder."""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from swerve import arhmm, budget, chunks, claim, generation, selection, trust
from swerve.alignment import Alignment, Order, align, rearranged, renumbered
from swerve.arhmm import ArHmm, Covariance
from swerve.arhmm.prediction import blank, expected
from swerve.arhmm.walk import ArHmmWalk
from swerve.build import build_system, with_images
from swerve.choosing import too_few
from swerve.chunks import AbstractWalk
from swerve.collapsed import CollapsedWalk, System
from swerve.config import Config
from swerve.data import tables
from swerve.data.columns import names_of, select_columns
from swerve.data.reading import Reading
from swerve.data.windows import Standardizer, cut, frames_between, to_frames
from swerve.errors import InputError
from swerve.fitting import fit_arhmm, fit_system
from swerve.imagecode import ImageCode
from swerve.names import GivenNames, all_names, with_names
from swerve.preparation import Prepared, check_finite, prepare
from swerve.seeds import Candidate, held_out_likelihood, window_likelihoods
from swerve.segment import (
    MOST_FRAMES,
    MOST_VALUES,
    NOISE_SEED,
    batch_rows,
    bucket_length,
    bucket_rows,
    chunk_length,
    draw_keys,
    fits_at_once,
    infer_batch,
    worthwhile_labels,
    worthwhile_labels_of_one,
)
from swerve.settings import expected_duration, from_dict, with_kind
from swerve.system import AbstractSystem
from swerve.training.checkpoint import digest_of, load_about, load_tree, read_json, save_tree, write_json
from swerve.training.loop import History, Report, Trained
from swerve.training.restarts import count, pick, stack
from swerve.training.step import evaluate, held_out_key
from swerve.trust import Trust
from swerve.types import Forecast, Frames, Key, Segmentation, Series

MODEL_FILE, CHECKPOINT_FILE, HISTORY_FILE, REGIMES_FILE = (
    "model.safetensors",
    "training.safetensors",
    "history.json",
    "regimes.json",
)
RESTARTS_FILE, TRUST_FILE = "restarts.safetensors", "trust.json"
CANDIDATES_FOLDER = "candidates"  # the models that `auto` chooses from
DEFAULT_SAMPLES = 16
LOOK_FRAMES = 10_000  # that restarts are compared on
LOOK_VALUES = 2_000_000  # of all channels
ALIGNED_FRAMES = 200_000  # that are enough to tell which regime is which
DEFAULT_FUTURES = 1000
DEFAULT_QUANTILES = (0.1, 0.5, 0.9)
LONGEST_PAST = 2000  # frames that a forecast looks back on


@dataclass(frozen=True)
class Inferred:
    """What a model makes of one recording: its regimes, and x as the model expects it, in the data's units."""

    segmentation: Segmentation
    expected: Float[np.ndarray, "T D"]


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
    others: Others | None = None
    selection: dict[str, Any] | None = None
    """How the model was chosen, where that was left to Swerve (selection.py)."""
    trust: Trust | None = None

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
        self,
        series: Sequence[Series],
        *,
        samples: int = DEFAULT_SAMPLES,
        viterbi: bool = False,
        on_progress: Callable[[float], None] = lambda frames: None,
    ) -> list[Segmentation]:
        """The regime of every frame of every recording; `on_progress` hears how many frames are done."""
        found = self._infer(series, samples, viterbi, on_progress, expects=False)
        return [one.segmentation for one in found]

    def infer(
        self,
        series: Sequence[Series],
        *,
        samples: int = DEFAULT_SAMPLES,
        viterbi: bool = False,
        on_progress: Callable[[float], None] = lambda frames: None,
    ) -> list[Inferred]:
        """Regimes and expected observations. Recordings of similar length are computed together, long ones in parts."""
        return self._infer(series, samples, viterbi, on_progress, expects=True)

    def _infer(self, series, samples: int, viterbi: bool, on_progress, *, expects: bool) -> list[Inferred]:
        """What is expected of a long recording takes as much memory as the recording: only where it is asked for."""
        if samples < 1:
            raise InputError(f"The number of samples must be at least 1, not {samples}.")
        ready, done = self._checked(series), 0
        results: dict[int, Inferred] = {}
        long = self._long(ready)
        lengths = {i: bucket_length(len(one)) for i, one in enumerate(ready) if i not in long}
        for length in sorted(set(lengths.values())):
            members = [i for i, bucket in lengths.items() if bucket == length]
            rows = batch_rows(length, len(self.columns))
            for begin in range(0, len(members), rows):
                batch = members[begin : begin + rows]
                results |= self._infer_batch(ready, batch, length, samples, viterbi)
                done += sum(len(ready[i]) for i in batch)
                on_progress(float(done))
        for i in long:
            size = len(ready[i])
            tell = partial(_tell, on_progress, done, size)
            results[i] = self._infer_long(ready[i], samples, viterbi, tell, expects=expects)
            done += size
        return [self._as_numbered(results[i]) for i in range(len(ready))]

    def consensus(self, series: Sequence[Series], *, samples: int = DEFAULT_SAMPLES) -> list[Segmentation]:
        """The regimes that most restarts vote for, with the share of them that agrees at every frame."""
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

    def score(self, series: Sequence[Series]) -> float:
        """The bound (SNLDS) or exact log-likelihood (AR-HMM) in nats per frame of standardised data."""
        ready = self._checked(series)
        long = self._long(ready)
        short = [one for i, one in enumerate(ready) if i not in long]
        total = sum(self._long_bound(ready[i], held_out_key(i)) for i in long)
        if short:
            frames = jax.tree.map(jnp.asarray, to_frames(self.standardizer.apply_to(short)))
            judge = held_out_likelihood if isinstance(self.model, ArHmm) else lambda *two: evaluate(*two).bound
            average = float(judge(self.model, frames))
            if not long:
                return average
            total += average * sum(map(len, short))
        return total / sum(map(len, ready))

    def transform(self, series: Sequence[Series], *, samples: int = DEFAULT_SAMPLES) -> list[Float[np.ndarray, "T L"]]:
        """The posterior mean of the hidden state z in every frame of every recording."""
        if not isinstance(self.model, System):
            raise InputError(f"A model of kind '{self.config.kind}' has no hidden states to give: fit snlds or slds.")
        _at_least_one(samples=samples)
        key, ready = jax.random.key(NOISE_SEED), self.standardizer.apply_to(self._checked(series))
        found = [generation.mean_states(self.model, _padded(one), samples=samples, key=key) for one in ready]
        return [np.asarray(z, float)[: len(one)] for z, one in zip(found, series, strict=True)]

    def sample(self, length: int, count: int = 1, *, seed: int = 0, controls: Any = None) -> list[Series]:
        """Recordings that the model makes up, with their regimes. `controls` (length, U) drive all of them."""
        _at_least_one(length=length, count=count)
        model = self._generative()
        (u,) = self._controls_of(controls, length, 1)
        keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(seed), i))(jnp.arange(count))
        drawn = jax.vmap(lambda key: generation.sequence(model, u, key=key))(keys)
        x, s = self._in_units(drawn.x), renumbered(np.asarray(drawn.s, np.int64), self.order)
        u = None if controls is None else np.asarray(controls, float)
        made = partial(Series, u=u, columns=self.columns, image=self.image)
        return [made(x[i], s=s[i], name=str(i)) for i in range(count)]

    def forecast(
        self,
        series: Sequence[Series],
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
        recent = [cut(one, max(0, len(one) - LONGEST_PAST), len(one)) for one in self._checked(series)]
        futures = self._controls_of(controls, horizon, len(recent))
        for one, past, u in zip(series, self.standardizer.apply_to(recent), futures, strict=True):
            found = generation.futures(model, _padded(past), u, samples=samples, key=jax.random.key(seed))
            x = np.quantile(self._in_units(found.x), levels, axis=0).swapaxes(0, 1)
            probabilities = rearranged(np.asarray(found.probabilities, float), self.order)
            forecasts.append(Forecast(probabilities, x, levels, one.name, self.columns))
        return forecasts

    def save(self, folder: Path) -> None:
        """Writes the model file and the training history."""
        folder.mkdir(parents=True, exist_ok=True)
        save_tree(folder / MODEL_FILE, self.model, self._about())
        if self.history is not None:
            write_json(folder / HISTORY_FILE, {"chosen": self.chosen, **asdict(self.history)})
        if self.aligned is not None or any(self.given_names):
            self.save_names(folder)
        if self.others is not None:
            about = {"restarts": self.others.restarts, "names": self.others.names}
            save_tree(folder / RESTARTS_FILE, self.others.models, about)
        if self.trust is not None:
            write_json(folder / TRUST_FILE, self.trust.as_dict())

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
            "selection": self.selection,
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

    def _checked(self, series: Sequence[Series]) -> list[Series]:
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

    def _check_length(self, one: Series) -> None:
        if walk_of(self.model) is None and (len(one) > MOST_FRAMES or one.x.size > MOST_VALUES):
            most = min(MOST_FRAMES, MOST_VALUES // one.x.shape[1])
            raise InputError(
                f'Recording "{one.name}" has {len(one)} frames, but the model "{self.config.kind}" needs a recording'
                f" as a whole, here of at most {most} frames: cut it, or use snlds, slds or arhmm, which take any."
            )

    def _long(self, ready: list[Series]) -> list[int]:
        """Which recordings are walked through chunk by chunk."""
        if walk_of(self.model) is None:
            return []
        return [i for i, one in enumerate(ready) if not fits_at_once(len(one), len(self.columns))]

    def _infer_long(self, one: Series, samples: int, viterbi: bool, on_progress, *, expects: bool) -> Inferred:
        walk = walk_of(self.model)
        assert walk is not None
        expected = np.empty(one.x.shape if expects else (0, len(self.columns)))

        def keep(first: int, rows: np.ndarray) -> None:
            expected[first : first + len(rows)] = self.standardizer.invert(rows.astype(float))

        found = chunks.infer(
            walk,
            partial(frames_between, one, self.standardizer),
            len(one),
            draw_keys(samples),
            chunk=chunk_length(len(self.columns), self.regimes),
            on_expected=keep if expects else None,
            on_progress=on_progress,
        )
        labels = found.path if viterbi else worthwhile_labels_of_one(found.probabilities)
        return Inferred(Segmentation(labels, found.probabilities.astype(float), one.name), expected)

    def _long_bound(self, one: Series, key: Key) -> float:
        walk = walk_of(self.model)
        assert walk is not None
        chunk = chunk_length(len(self.columns), self.regimes)
        return chunks.bound(walk, partial(frames_between, one, self.standardizer), len(one), key[None], chunk=chunk)

    def _generative(self) -> System | ArHmm:
        if not isinstance(self.model, System | ArHmm):
            raise InputError(
                f"A model of kind '{self.config.kind}' makes up no series: for samples and forecasts fit snlds, slds or"
                " arhmm."
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

    def _check_image(self, one: Series) -> None:
        if one.image != self.image:
            ours, theirs = (
                "numbers" if image is None else f"images of {image[0]} x {image[1]} pixels"
                for image in (self.image, one.image)
            )
            raise InputError(f'Recording "{one.name}" holds {theirs}, but the model was fitted to {ours}.')

    def _infer_batch(self, ready, batch: list[int], length: int, samples: int, viterbi: bool) -> dict[int, Inferred]:
        frames = to_frames(self.standardizer.apply_to([ready[i] for i in batch]), length=length)
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


def walk_of(model: AbstractSystem | ArHmm) -> AbstractWalk | None:
    """The model on its way through a recording of any length; None if it needs a recording as a whole."""
    if isinstance(model, ArHmm):
        return ArHmmWalk(model)
    return CollapsedWalk(model) if isinstance(model, System) else None


def _tell(on_progress: Callable[[float], None], done: int, size: int, share: float) -> None:
    on_progress(done + share * size)


def _padded(one: Series) -> Frames:
    """One recording, padded to a length that others share."""
    frames = to_frames([one], length=bucket_length(len(one)))
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), frames)


def _at_least_one(**counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            raise InputError(f"{name} must be at least 1, not {value}.")


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
        hears = _Hears(on_report, on_look, on_note, should_stop, time_is_up=lambda: time.monotonic() > end)
        run = (_fit_best if config.kind == "auto" else _fit_one)(prepared, config, out, hears)
        run = dataclasses.replace(run, reading=tables.remembered(reading or Reading(), series))
        if older is not None:
            on_note("comparing with the regimes of the older run")
            run = aligned_to(run, older, series, called=str(align_to) if not isinstance(align_to, Run) else "the run")
        on_note("comparing restarts")
        run = _with_trust(run, prepared, series)
        if out is not None:
            names, _ = _load_names(out)
            run = dataclasses.replace(run, given_names=names or run.given_names)
            run.save(out)
    return run


class _Hears(NamedTuple):
    """Who is told what, and who may stop it."""

    on_report: Callable[[Report], None]
    on_look: Callable[[Run], None]
    on_note: Callable[[str], None]
    should_stop: Callable[[], bool]
    time_is_up: Callable[[], bool]


def _fit_one(prepared: Prepared, config: Config, out: Path | None, hears: _Hears) -> Run:
    if config.kind == "arhmm":
        hears.on_note("fitting AR-HMMs")
        candidates = fit_arhmm(prepared, config, should_stop=hears.time_is_up)
        best = candidates[0]
        return with_model(best.model, prepared, config, best.held_out, others=_alike(candidates))

    def report(now: Report) -> None:
        hears.on_report(now)
        hears.on_look(with_model(now.system, prepared, config, now.bounds[now.best], finished=False))

    trained = fit_system(
        prepared,
        config,
        checkpoint=None if out is None else out / CHECKPOINT_FILE,
        on_report=report,
        on_note=hears.on_note,
        should_stop=lambda: hears.should_stop() or hears.time_is_up(),
    )
    return with_model(
        trained.system,
        prepared,
        config,
        float(evaluate(trained.system, prepared.validation).bound),
        history=trained.history,
        chosen=trained.chosen,
        finished=trained.finished,
        others=_not_chosen(trained) if trained.finished else None,
    )


def _alike(candidates: Sequence[Candidate]) -> Others | None:
    """Of the AR-HMMs that read what the best one reads, the better half without it."""
    best = candidates[0]
    alike = [one for one in candidates if (one.lags, one.features) == (best.lags, best.features)]
    models = [one.model for one in alike[1 : max(2, math.ceil(len(alike) / 2))]]
    return Others(stack(models), list(range(1, 1 + len(models))), []) if models else None


def _not_chosen(trained: Trained) -> Others | None:
    others = [i for i, restart in enumerate(trained.alive) if restart != trained.chosen]
    if not others:
        return None
    return Others(pick(trained.systems, np.array(others)), [trained.alive[i] for i in others], [])


def _fit_best(prepared: Prepared, config: Config, out: Path | None, hears: _Hears) -> Run:
    """Every candidate, each in a folder of its own, and the one that explains held-out windows best."""
    if prepared.image is not None:
        own = with_kind(config, "snlds")
        return dataclasses.replace(
            _fit_one(prepared, own, out, hears),
            selection=selection.alone("snlds", "The SNLDS was chosen: of these models it alone reads video."),
        )
    runs, windows, seconds, failed = {}, {}, {}, None
    for kind in selection.CANDIDATES:
        folder = None if out is None else out / CANDIDATES_FOLDER / kind
        began = time.perf_counter()
        try:
            runs[kind] = _candidate(prepared, with_kind(config, kind), folder, hears)
        except InputError as error:
            hears.on_note(f"{kind}: {error}")
            failed = error
            continue
        history = runs[kind].history
        seconds[kind] = history.seconds if history else time.perf_counter() - began
        windows[kind] = _held_out_windows(runs[kind].model, prepared)
    if failed is not None and not runs:
        raise failed
    chosen = selection.select(
        windows,
        np.asarray(prepared.validation.valid).sum(axis=1),
        seconds,
        jacobian=selection.data_units(prepared.standardizer, prepared.validation),
    )
    hears.on_note(chosen["reason"])
    return dataclasses.replace(
        runs[chosen["chosen"]], selection=chosen, finished=all(run.finished for run in runs.values())
    )


def _candidate(prepared: Prepared, config: Config, folder: Path | None, hears: _Hears) -> Run:
    """Fitted now, or by the run that is resumed."""
    if folder is None:
        return _fit_one(prepared, config, None, hears)
    if (folder / MODEL_FILE).is_file():
        kept = load(folder)
        if kept.finished:
            return kept
    folder.mkdir(parents=True, exist_ok=True)
    run = _fit_one(prepared, config, folder, hears)
    run.save(folder)
    return run


def _held_out_windows(model: AbstractSystem | ArHmm, prepared: Prepared) -> Float[np.ndarray, " N"]:
    """Bound or likelihood of every held-out window, in nats of standardised data."""
    if isinstance(model, ArHmm):
        return np.asarray(window_likelihoods(model, prepared.validation), float)
    return np.asarray(evaluate(model, prepared.validation).windows, float)


def _with_trust(run: Run, prepared: Prepared, series: Sequence[Series]) -> Run:
    """The run with what it says about itself, looked up on some of the recordings."""
    some = _some_of(series)
    segmented = [[one.labels for one in run.segment(some)]]
    if run.others is not None:
        for i in range(count(run.others.models)):
            other = dataclasses.replace(run, model=pick(run.others.models, i))
            segmented.append([one.labels for one in other.segment(some)])
        names = [trust.naming(one, segmented[0], run.regimes).tolist() for one in segmented[1:]]
        run = dataclasses.replace(run, others=run.others._replace(names=names))
    agreed = trust.agreement(segmented, run.regimes)
    regimes = trust.uses(segmented[0], run.regimes)
    frames = int(prepared.validation.valid.sum())
    found = Trust(
        agreement=agreed.mean,
        restarts=len(segmented),
        pairs=len(agreed.pairwise),
        pairwise=agreed.pairwise,
        sure=agreed.sure,
        frames=sum(map(len, segmented[0])),
        regimes=regimes,
        held_out=run.held_out,
        held_out_in_data_units=run.held_out
        + float(selection.data_units(prepared.standardizer, prepared.validation).sum()) / frames,
        warnings=trust.warnings(
            regimes,
            agreed.mean,
            stickiness=expected_duration(run.config),
            finished=run.finished,
            dropped=run.dropped,
            too_few=too_few(run.model, prepared, run.config) if isinstance(run.model, ArHmm) else "",
        ),
        selection=run.selection,
    )
    return dataclasses.replace(run, trust=found)


def _some_of(series: Sequence[Series]) -> list[Series]:
    """Recordings from all over the list, held out or not, of a bounded number of frames."""
    left = max(2, min(LOOK_FRAMES, LOOK_VALUES // series[0].x.shape[1]))
    stride = max(1, round(sum(map(len, series)) / left))
    some = []
    for one in series[::stride]:
        if left <= 1:
            break
        some.append(cut(one, 0, min(len(one), left)))
        left -= len(one)
    return some


def _older_run(align_to: "Run | str | Path", series: Sequence[Series]) -> Run:
    """The run to align to, if it can read these recordings."""
    try:
        older = align_to if isinstance(align_to, Run) else load(align_to)
        older._checked(series)
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
        others=_load_others(folder, blank_model(config, about)),
        selection=about.get("selection"),
        trust=Trust.from_dict(read_json(folder / TRUST_FILE)) if (folder / TRUST_FILE).is_file() else None,
    )


def _load_others(folder: Path, blank: Any) -> Others | None:
    path = folder / RESTARTS_FILE
    if not path.is_file():
        return None
    restarts = load_about(path)["restarts"]
    like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((len(restarts), *leaf.shape), leaf.dtype), blank)
    models, about = load_tree(path, like)
    return Others(jax.tree.map(jnp.asarray, models), restarts, about["names"])


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
