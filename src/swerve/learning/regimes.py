"""How many regimes: models with 1, 2, 3, ... are trained and judged on the same held-out windows.

What follows from that is for `choice` to say (docs/choosing-regimes.md).
"""

import dataclasses
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from swerve.choosing.regimes import Choice, Evidence, Restarts, agreed_by, decide, decide_in_turn, weighed
from swerve.choosing.rule import FEWEST_WINDOWS, paired_change
from swerve.choosing.trust import AGREE
from swerve.choosing.use import used
from swerve.data.folder import Part
from swerve.data.trees import digest_of, read_json, write_json
from swerve.data.windows import cut, splits_by_recording
from swerve.errors import InputError
from swerve.inference.frames import Frames
from swerve.learning import loop
from swerve.learning.fit import fit_by_search, make_restarts, plan_of
from swerve.learning.loop import Report, TrainingDivergedError
from swerve.learning.preparation import Prepared, prepare, prepare_folds
from swerve.learning.restarts import pick
from swerve.learning.step import TrainingData, for_every_sequence
from swerve.models.model import Model, maker_of
from swerve.settings import kinds
from swerve.settings.defaults import FEWEST_REGIMES, MOST_REGIMES
from swerve.settings.sections import Config, Variant
from swerve.settings.text import as_dict, with_kind
from swerve.types import Recording

CLEAR_GAIN = 0.05  # nats per frame on held-out windows from which one regime more is worth a word
PIECES, FOLDS = 40, 4  # parts of recordings, and how many times some of them are held out
SHORTEST_PIECE = 20  # frames


def choose_regimes(
    series: Sequence[Recording],
    config: Config,
    *,
    first: int = FEWEST_REGIMES,
    last: int = MOST_REGIMES,
    out: Path | None = None,
    on_report: Callable[[Report], None] = lambda report: None,
    on_note: Callable[[str], None] = lambda note: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Choice:
    """Tries every number of regimes from `first` to `last`. With `out`, a stopped search goes on where it was."""
    if not 1 <= first <= last:
        raise InputError(f"The numbers of regimes to try must begin at 1 or more and not end below: {first} to {last}.")
    prepared = prepare(series, config)
    if prepared.image is not None:
        raise InputError(
            "Choosing the number of regimes reads numbers, and these recordings are video: give --regimes."
        )
    tried = range(first, last + 1)
    kept = None if out is None else out / Part.CHOICE
    if out is not None:
        _claim(out, prepared, config, tried)
    if kept is not None and kept.is_file():
        return Choice.from_dict(read_json(kept))
    if config.kind != kinds.AUTO and not kinds.find(config.kind).by_steps:
        choice = choose_by_search(series, config, tried, on_note=on_note)
    else:
        asked = kinds_to_search(config, tried)
        hears = {"on_report": on_report, "on_note": on_note, "should_stop": should_stop}

        def search(kind: str) -> dict[int, Evidence]:
            own = config if kind == config.kind else with_kind(config, kind)
            on_note(f"trying {first} to {last} regimes with {kind}")
            try:
                return weighed(train_all([prepared], own, tried, out=out, **hears)[0])
            except TrainingDivergedError:
                if len(asked) == 1:
                    raise
                on_note(f"all restarts of {kind} diverged")
                return {}

        choice = decide_in_turn(((kind, search(kind)) for kind in asked), _lengths(prepared))
    if kept is not None:
        write_json(kept, choice.as_dict())
    return choice


def kinds_to_search(config: Config, tried: Sequence[int]) -> tuple[str, ...]:
    """`auto` can ask linear regimes too, but not where nothing could agree or disagree, or there is no choice."""
    if config.kind != kinds.AUTO:
        return (config.kind,)
    return kinds.SEARCHED if config.training.restarts > 1 and len(tried) > 1 else kinds.SEARCHED[:1]


def choose_by_search(
    series: Sequence[Recording],
    config: Config,
    tried: Sequence[int],
    *,
    on_note: Callable[[str], None] = lambda note: None,
) -> Choice:
    """The rule on models that a search of their own finds, with every number of regimes in turn.

    Where the ends of recordings would be held out, all pieces of them are, in turn: a regime that occurs at the end
    alone would never be worth its while. Whether channels err together and, for a consensus, which lags speak is
    asked of the largest number: too few regimes look as if channels did.
    """
    ends = config.training.hold_out_ends or not splits_by_recording(series)
    pieces = _pieces(series) if ends else []
    folds = list(prepare_folds(pieces, config, FOLDS)) if len(pieces) >= FOLDS else [prepare(series, config)]
    found = {}
    for regimes in sorted(tried, reverse=True):
        on_note(f"looking for {regimes} regimes with {config.kind}")
        judged = []
        for fold in folds:
            one, config = _searched(fold, config, regimes)
            judged.append(one)
        windows = np.concatenate([one.windows[0] for one in judged])
        found[regimes] = weighed({regimes: judged[0]})[regimes]._replace(windows=windows)
    lengths = np.concatenate([_lengths(fold) for fold in folds])
    return decide(found, lengths, model=config.kind, consensus=config.arhmm.consensus)


def _pieces(series: Sequence[Recording]) -> list[Recording]:
    """About as many of one length, which share no frame."""
    length = max(SHORTEST_PIECE, sum(map(len, series)) / PIECES)
    pieces = []
    for one in series:
        bounds = np.linspace(0, len(one), max(1, round(len(one) / length)) + 1).astype(int).tolist()
        pieces += [cut(one, start, stop) for start, stop in pairwise(bounds)]
    return pieces


def _lengths(prepared: Prepared) -> Int[np.ndarray, " N"]:
    """Frames of every held-out window."""
    return np.asarray(prepared.validation.valid).sum(axis=1)


def _claim(out: Path, prepared: Prepared, config: Config, tried: Sequence[int]) -> None:
    """Marks the folder as this search's, or checks that it already is."""
    settings = {"config": json.loads(json.dumps(as_dict(config))), "tried": list(tried)}
    settings["data"] = digest_of((prepared.training, prepared.validation), repr(prepared.columns))
    path = out / Part.SEARCH
    if path.is_file():
        if read_json(path) != settings:
            raise InputError(f"{out} holds a search with other recordings or settings: choose another --out.")
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} already exists and is no search for the number of regimes: choose another --out.")
    out.mkdir(parents=True, exist_ok=True)
    write_json(path, settings)


def train_all(
    sources: Sequence[Prepared],
    config: Config,
    tried: Sequence[int],
    *,
    out: Path | None = None,
    on_report: Callable[[Report], None] = lambda report: None,
    on_note: Callable[[str], None] = lambda note: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[dict[int, Restarts]]:
    """For every source of recordings, restarts with every number of regimes, none dropped.

    All on one axis, as models of as many regimes as the largest number, of which a restart may use only its own; models
    that can not do without a regime, one number after the other.
    """
    if len(tried) > 1 and kinds.FEWER not in kinds.find(config.kind).offers:
        hears = {"on_report": on_report, "on_note": on_note, "should_stop": should_stop}
        found = [train_all(sources, config, [regimes], out=_under(out, regimes), **hears) for regimes in tried]
        return [{k: one for each in parts for k, one in each.items()} for parts in zip(*found, strict=True)]
    count = config.training.restarts
    allowed = [regimes for regimes in tried for _ in range(count)]
    whole = _for_search(config, allowed)
    made, first_lead = [], 0
    for number, source in enumerate(sources):
        on_note("fitting AR-HMMs that guide")
        cache = None if out is None else out / Part.SEEDS.of(number)
        key = jax.random.fold_in(jax.random.key(config.seed), number)
        one = make_restarts(source, whole, key=key, cache=cache, allowed=allowed)
        restarts = one.restarts._replace(guide=one.restarts.guide + first_lead, source=one.restarts.source + number)
        made.append(one._replace(restarts=restarts))
        first_lead += len(one.leads)
    states, restarts, leads = _one_axis([(one.states, one.restarts, one.leads) for one in made])
    training, validation = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *[(one.training, one.validation) for one in sources]
    )
    trained = loop.train(
        plan_of(whole),
        states,
        restarts,
        TrainingData(training, leads),
        validation,
        checkpoint=None if out is None else out / Part.TRAINING.of(config.kind),
        on_report=on_report,
        should_stop=should_stop,
    )
    if not trained.finished:
        raise InputError(
            "Stopped before the number of regimes was chosen: the same command goes on (swerve fit wants --resume too)."
        )
    found = []
    for number, source in enumerate(sources):
        by_regimes = {}
        for position, regimes in enumerate(tried):
            begin = number * len(allowed) + position * count
            own = [trained.alive.index(r) for r in range(begin, begin + count) if r in trained.alive]
            if own:
                by_regimes[regimes] = _judged(trained, own, source)
        found.append(by_regimes)
    return found


def _under(out: Path | None, regimes: int) -> Path | None:
    """A folder of its own for a number of regimes."""
    if out is None:
        return None
    (out / str(regimes)).mkdir(exist_ok=True)
    return out / str(regimes)


def _for_search(config: Config, allowed: Sequence[int]) -> Config:
    """Restarts with a number of regimes of their own; nothing is dropped or merged on the way."""
    count = config.training.restarts
    central, *others = [one for one in config.recipe.variants if not one.fewer_regimes] or [Variant()]
    variants = ([central] * max(1, count - len(others)) + others)[:count]  # most are guided, by other lags in turn
    training = dataclasses.replace(config.training, restarts=len(allowed), rungs=(), merging=0.0)
    model = dataclasses.replace(config.model, regimes=max(allowed))
    recipe = dataclasses.replace(config.recipe, variants=tuple(variants))
    return dataclasses.replace(config, training=training, model=model, recipe=recipe)


def _one_axis(parts: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def _judged(trained: loop.Trained, own: list[int], source: Prepared) -> Restarts:
    bounds = np.asarray(trained.held_out.bound)[own]
    order = [own[i] for i in np.argsort(-bounds, kind="stable")]
    valid = np.asarray(source.validation.valid)
    labels = [np.asarray(_labels(pick(trained.systems, i), source.validation))[valid] for i in order]
    return Restarts([np.asarray(trained.held_out.windows[i], float) for i in order], labels)


@jax.jit
def _labels(system: Model, frames: Frames) -> Int[Array, "N T"]:
    """The most probable regime of every held-out frame, by one draw of what is hidden."""
    with jax.default_matmul_precision("highest"):
        found = for_every_sequence(lambda one, key: system.infer(one, samples=1, key=key), frames)
    return jnp.argmax(found.probabilities, axis=-1)


def _searched(prepared: Prepared, config: Config, regimes: int) -> tuple[Restarts, Config]:
    """What a search for this many regimes finds, and settings for other numbers."""
    model = dataclasses.replace(config.model, regimes=regimes)
    found = fit_by_search(prepared, dataclasses.replace(config, model=model), unseen=True)
    return Restarts(found.windows, found.labels, found.doubtful), found.alike


def too_few(model: Model, windows: Float[np.ndarray, " N"], prepared: Prepared, config: Config) -> str:
    """Why a model that was searched for may need one regime more: held-out windows gain clearly, and restarts agree.

    `windows` is the likelihood of each of them now. Of other models nothing can be said so quickly.
    """
    lengths, regimes = _lengths(prepared), config.model.regimes + 1
    if len(lengths) < FEWEST_WINDOWS:
        return ""
    found, _ = _searched(prepared, maker_of(config).like(config, model), regimes)
    change, error = paired_change(found.windows[0], windows, lengths)
    agreed = agreed_by(found, regimes)
    doubtful = found.straddles or used(found.labels[0]) < regimes or agreed is None or agreed < AGREE
    if doubtful or change < max(CLEAR_GAIN, 2 * error):
        return ""
    return (
        f"{config.model.regimes} regimes may be too few: with {regimes}, restarts agree and held-out windows are"
        f" explained better by {change:.3f} +- {error:.3f} nats per frame."
    )
