"""The best fit that a given time allows: measure this machine on these recordings, then choose how much to train."""

import dataclasses
import math
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax

from swerve.choosing.rule import FEWEST_WINDOWS
from swerve.errors import InputError
from swerve.learning import restarts as axis
from swerve.learning.fit import make_restarts, plan_of, wanted_regimes
from swerve.learning.loop import Plan, living
from swerve.learning.preparation import Prepared
from swerve.learning.restarts import stack
from swerve.learning.step import TrainingData
from swerve.models.arhmm.search import affordable_lags, fit_simplest
from swerve.settings import kinds
from swerve.settings.sections import ArHmmConfig, Config, Variant
from swerve.settings.text import with_kind

UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
MARGIN = 0.8  # of the time left is planned with; estimates err, and other programs want the machine too
TOO_SHORT = 60.0  # seconds in which measuring alone would eat the time
FEWEST_STEPS = 1000  # with fewer, guides are let go before anything else is learned
LOOK_SHARE = 0.05  # of the time may pass between two looks, at which training can stop
MEASURING = 0.4  # of the time at most goes into that
PROBE = 10  # steps that are timed
MERGING_TRIALS = 4  # models trained side by side in a round of merging
BENT_FITS = 8.0  # straight AR-HMMs that those with bent regimes take as long as, all together
CLOSING = 0.05  # of the time is kept for what comes after training

Clock = Callable[[], float]


@dataclass(frozen=True)
class Rates:
    """What the parts of a fit take on this machine, in seconds."""

    seeds: float
    """All AR-HMMs of one number of regimes."""
    start: float
    """A fresh restart."""
    compilation: float
    """Of the update and the bound."""
    step: float
    """One update of as many restarts as are trained at once."""
    look: float
    """One look at the held-out windows, by as many restarts."""
    at_once: int


@dataclass(frozen=True)
class Planned:
    """Settings that fit into the time, and what is to be said about them."""

    config: Config
    words: str
    closing: float
    """Seconds to keep for what comes after training."""


def parse_duration(text: str) -> float:
    """Seconds: 90s, 10m, 2h, 1h30m, or a bare number."""
    compact = text.replace(" ", "").lower()
    if re.fullmatch(r"\d+(\.\d+)?", compact):
        seconds = float(compact)
    elif re.fullmatch(r"(\d+(\.\d+)?h)?(\d+(\.\d+)?m)?(\d+(\.\d+)?s)?", compact) and compact:
        parts = re.findall(r"(\d+(?:\.\d+)?)([hms])", compact)
        seconds = sum(float(number) * UNITS[unit] for number, unit in parts)
    else:
        raise InputError(f"A time budget looks like 90s, 10m, 2h or 1h30m, not '{text}'.")
    if not 0 < seconds < math.inf:
        raise InputError(f"A time budget must be longer than nothing, not '{text}'.")
    return seconds


def in_words(seconds: float) -> str:
    """As a person says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def plan(prepared: Prepared, config: Config, seconds: float, *, clock: Clock = time.monotonic) -> Planned:
    """The model that was asked for with as many restarts and steps as fit, at most those of `config`.

    Where not even a short training of our own models fits, AR-HMMs take their place: they can stop at any time.
    """
    if prepared.image is not None:
        raise InputError("A time budget can not be planned for video yet: give --set training.steps instead.")
    began = clock()
    if config.kind != kinds.AUTO and not kinds.find(config.kind).by_steps:
        return _only_arhmms(config, seconds, f"AR-HMMs until {in_words(seconds)} have passed")
    if seconds < TOO_SHORT:
        kind = _trained_kind(config)
        words = f"{in_words(seconds)} are too short to train a {kind}: AR-HMMs instead"
        return _only_arhmms(config, seconds, words)
    trained = with_kind(config, _trained_kind(config)) if config.kind == kinds.AUTO else config
    windows = prepared.validation.x.shape[0]
    rates = measure(prepared, trained, clock=clock, until=began + MEASURING * seconds)
    if rates is None:
        return _only_arhmms(
            config, seconds, f"measuring alone takes over {in_words(MEASURING * seconds)}: AR-HMMs instead"
        )
    beside = rates.seeds if config.kind == kinds.AUTO else 0.0  # AR-HMMs are fitted in any case
    left = MARGIN * (seconds - (clock() - began)) - beside
    chosen = choose(trained, rates, left, windows)

    def takes(settings: Config) -> str:
        return f"{amount(settings)}, about {in_words(beside + seconds_of(settings, rates, windows))}"

    if chosen is None:
        least = takes(_reduced(trained, 1, min(FEWEST_STEPS, config.training.steps), left, rates))
        words = f"as asked for: {takes(trained)}; the least: {least}, which is too long, so AR-HMMs instead"
        return _only_arhmms(config, seconds, words)
    words = f"as asked for: {takes(trained)}; {'this fits' if chosen == trained else f'what fits: {takes(chosen)}'}"
    whole = dataclasses.replace(config, training=chosen.training)
    return Planned(whole, words, closing=CLOSING * seconds + rates.look)


def measure(
    prepared: Prepared, config: Config, *, clock: Clock = time.monotonic, until: float = math.inf
) -> Rates | None:
    """Trains for a moment: one AR-HMM, and a few steps of as many restarts as are trained at once.

    None where that is not done by the time `until`: then there is nothing left to train in.
    """
    laps = _Laps(clock)
    fit_simplest(prepared.training, prepared.validation, config.arhmm, regimes=config.model.regimes)
    seeds = laps() * _seed_fits(config.arhmm, prepared.training.x.shape[-1])
    if clock() > until:
        return None
    at_once = config.training.restarts
    if jax.default_backend() == "cpu":
        at_once = min(at_once, os.cpu_count() or 1)
    alone = dataclasses.replace(
        config,
        recipe=dataclasses.replace(config.recipe, guidance=0.0, variants=(Variant(),)),
        training=dataclasses.replace(config.training, restarts=at_once),
    )
    made = make_restarts(prepared, alone, key=jax.random.key(config.seed))
    start = laps() / at_once
    if clock() > until:
        return None
    training, validation = stack([(prepared.training, prepared.validation)])
    data, states = TrainingData(training, made.leads, prepared.goes_on), made.states

    def advance() -> float:
        nonlocal states
        states, _ = axis.advance_all(states, data, made.restarts, steps=PROBE, batch_size=config.training.batch_size)
        jax.block_until_ready(states)
        return laps()

    def look() -> float:
        axis.evaluate_all(states, validation, made.restarts.source)
        return laps()

    laps()
    (first_advance, next_advance), (first_look, next_look) = (advance(), advance()), (look(), look())
    compilation = max(0.0, first_advance - next_advance) + max(0.0, first_look - next_look)
    return Rates(seeds, start, compilation, next_advance / PROBE, next_look, at_once)


def choose(config: Config, rates: Rates, seconds: float, windows: int) -> Config | None:
    """As many restarts as can each have half of their steps, then as many steps as fit; None where one is too much."""
    most = config.training
    for restarts in _halved(most.restarts):
        least = min(most.steps, FEWEST_STEPS if restarts == 1 else max(FEWEST_STEPS, most.steps // 2))
        for steps in _descending(most.steps, least):
            smaller = _reduced(config, restarts, steps, seconds, rates)
            if seconds_of(smaller, rates, windows) <= seconds:
                return smaller
    return None


def seconds_of(config: Config, rates: Rates, windows: int) -> float:
    """What a fit with these settings takes: seeds, restarts until a rung drops them, looks, and a round of merging."""
    training = plan_of(config)
    count = config.training.restarts
    work = updates(training, count, rates.at_once)
    looks = math.ceil(training.steps / training.report_every) * _rounds(count, rates.at_once)
    total = rates.seeds * len(set(wanted_regimes(config)) - {0}) + count * rates.start
    total += rates.compilation + work * rates.step + looks * rates.look
    if config.training.merging and config.model.regimes > 2 and windows >= FEWEST_WINDOWS:
        steps = config.training.merging * training.steps * _rounds(MERGING_TRIALS, rates.at_once)
        total += 2 * rates.compilation + steps * rates.step
    return total


def updates(plan: Plan, restarts: int, at_once: int, since: int = 0) -> int:
    """Updates one after the other that all restarts still need after a step, losers dropped at the rungs."""
    stops = [*range(plan.report_every, plan.steps, plan.report_every), plan.steps]
    total, before = 0, 0
    for stop in stops:
        if stop > since:
            total += (stop - max(before, since)) * _rounds(living(plan, restarts, before), at_once)
        before = stop
    return total


def amount(config: Config) -> str:
    """How much is trained."""
    many = config.training.restarts
    return f"{many} restart{'' if many == 1 else 's'} of {config.training.steps} steps"


def _only_arhmms(config: Config, seconds: float, words: str) -> Planned:
    if config.kind not in (kinds.AUTO, *kinds.CANDIDATES, *kinds.SEARCHED):
        raise InputError(f"--time-budget {in_words(seconds)} is too short for --model {config.kind}: {words}.")
    return Planned(with_kind(config, kinds.CANDIDATES[0]), words, closing=CLOSING * seconds)


def _trained_kind(config: Config) -> str:
    """The kind that takes the time; of `auto`, the one that is trained step by step."""
    return kinds.CANDIDATES[-1] if config.kind == kinds.AUTO else config.kind


def _reduced(config: Config, restarts: int, steps: int, seconds: float, rates: Rates) -> Config:
    """Looks often enough to stop in time; a whole number of them, so that nothing is compiled twice."""
    often = LOOK_SHARE * seconds / (rates.step * _rounds(restarts, rates.at_once))
    every = max(1, min(config.training.report_every, steps, round(often)))
    training = dataclasses.replace(
        config.training, restarts=restarts, steps=max(1, steps // every) * every, report_every=every
    )
    return dataclasses.replace(config, training=training)


def _seed_fits(config: ArHmmConfig, channels: int) -> float:
    """How many times as long as the AR-HMM that was timed all of them take; those that read more take longer."""
    widths = [1 + lags * channels for lags in affordable_lags(config, channels)]
    straight = sum((width / min(widths)) ** 0.5 for width in widths)
    return straight + (BENT_FITS if max(config.features) else 0.0)


def _rounds(restarts: int, at_once: int) -> int:
    return math.ceil(restarts / at_once)


def _halved(restarts: int) -> list[int]:
    """All of them, half of them, and so on down to one."""
    found = [restarts]
    while found[-1] > 1:
        found.append(found[-1] // 2)
    return found


def _descending(most: int, least: int) -> Sequence[int]:
    """From all steps down to the fewest, a twentieth at a time."""
    return [*range(most, least, -max(1, most // 20)), least]


class _Laps:
    """Seconds since it was last asked."""

    def __init__(self, clock: Clock):
        self._clock, self._before = clock, clock()

    def __call__(self) -> float:
        now = self._clock()
        passed, self._before = now - self._before, now
        return passed
