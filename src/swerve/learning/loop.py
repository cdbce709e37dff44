"""The training run: all restarts, the held-out bound that judges them, and the file that survives a crash."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from swerve.choosing.rule import simplest
from swerve.data.trees import load_about, load_tree, save_tree
from swerve.errors import InputError
from swerve.inference.frames import Frames
from swerve.learning import restarts as axis
from swerve.learning.step import HeldOut, Restart, TrainingData, TrainingLog, TrainState
from swerve.models.model import Model

DIVERGED_AFTER = 100  # updates in a row that were not finite
CALM = 0.8  # segments shorter than this share of the longest are the mark of another explanation


class TrainingDivergedError(InputError):
    """Every restart diverged."""


@dataclass(frozen=True)
class Rung:
    """After this share of the steps, only this share of the restarts goes on."""

    at: float
    keep: float


@dataclass(frozen=True)
class Plan:
    """How long to train and when to look."""

    steps: int
    batch_size: int = 32
    report_every: int = 250
    rungs: tuple[Rung, ...] = ()


@dataclass
class History:
    """Curves of every restart, held-out and training; None where a restart was no longer trained, or not finite."""

    step: list[int] = field(default_factory=list)
    bound: list[list[float | None]] = field(default_factory=list)
    regimes_in_use: list[list[float | None]] = field(default_factory=list)
    mean_duration: list[list[float | None]] = field(default_factory=list)
    confidence: list[list[float | None]] = field(default_factory=list)
    objective: list[list[float | None]] = field(default_factory=list)
    """What training maximised since the last point, and its parts (TrainingLog)."""
    elbo: list[list[float | None]] = field(default_factory=list)
    tempering: list[list[float | None]] = field(default_factory=list)
    guidance: list[list[float | None]] = field(default_factory=list)
    uniformity: list[list[float | None]] = field(default_factory=list)
    balance: list[list[float | None]] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    retired: dict[str, str] = field(default_factory=dict)
    """Restart -> why it was given up."""
    merges: list[dict] = field(default_factory=list)
    """Attempts to do without a regime, after training (training/surplus.py)."""
    seconds: float = 0.0
    """Time spent training, compilation included."""
    elapsed: list[float] = field(default_factory=list)
    """The same at every point of the curves."""
    hardware: str = ""

    def latest(self, name: str, alive: list[int]) -> np.ndarray:
        """The last point of a curve, for the living."""
        return np.array(getattr(self, name)[-1], dtype=float)[alive]

    def record(self, step: int, alive: list[int], total: int, held_out: HeldOut, log: TrainingLog) -> None:
        """One more point of every curve."""
        self.step.append(step)
        curves = {**held_out._asdict(), **jax.device_get(log)._asdict()}
        del curves["windows"], curves["in_use"]
        for name, values in curves.items():
            row = np.full(total, np.nan)
            row[alive] = values
            getattr(self, name).append([float(v) if math.isfinite(v) else None for v in row])


@dataclass(frozen=True)
class Report:
    """What a progress display shows."""

    step: int
    steps: int
    alive: list[int]
    restarts: int
    bounds: list[float]
    regimes_in_use: list[float]
    steps_per_second: float
    messages: list[str]
    system: Model
    """The best restart's parameters as they are now."""
    systems: Model
    """All living restarts' parameters as they are now (leading axis); for video, those of models of codes."""
    best: int
    """Position among the living of the restart that would be chosen now."""


@dataclass(frozen=True)
class Trained:
    """The restart with the best held-out bound, and how it came to be chosen."""

    system: Model
    chosen: int
    alive: list[int]
    systems: Model
    """All restarts that were trained to the end (leading axis); for video, models of codes."""
    held_out: HeldOut
    """How they were judged at the end."""
    history: History
    finished: bool


@dataclass
class _Progress:
    states: TrainState
    alive: list[int]
    history: History
    judged: HeldOut | None = None
    """How the living stood when last looked at, unless that was before an interruption."""

    @property
    def held_out(self) -> HeldOut:
        assert self.judged is not None
        return self.judged

    def keep(self, which: np.ndarray) -> list[int]:
        """Goes on with some of the living alone; returns the others."""
        dropped = [r for i, r in enumerate(self.alive) if i not in which]
        self.states, self.judged = axis.pick((self.states, self.held_out), which)
        self.alive = [self.alive[i] for i in which]
        return dropped


def train(
    plan: Plan,
    states: TrainState,
    restarts: Restart,
    data: TrainingData,
    validation: Frames,
    *,
    checkpoint: Path | None = None,
    on_report: Callable[[Report], None] = lambda report: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Trained:
    """Trains every restart, drops the losers at each rung, and returns the best by the held-out bound.

    With a checkpoint file the run goes on where the file says, and ends with the same parameters as one that
    was never interrupted.
    """
    total = axis.count(states)
    run = _Progress(states, list(range(total)), History())
    if checkpoint is not None and checkpoint.is_file():
        run = _resume(checkpoint, states)
    elif checkpoint is not None:
        _save(checkpoint, run, total)  # from here on there is a good state to go back to
    stops = _stops(plan)
    position = run.history.step[-1] if run.history.step else 0
    for step in [s for s in stops if s > position]:
        began = time.perf_counter()
        living = axis.pick(restarts, np.array(run.alive))
        run.states, log = axis.advance_all(run.states, data, living, steps=step - position, batch_size=plan.batch_size)
        run.judged = axis.evaluate_all(run.states, validation, living.source)
        run.history.record(step, run.alive, total, run.held_out, log)
        elapsed = time.perf_counter() - began
        run.history.seconds += elapsed
        run.history.elapsed.append(run.history.seconds)
        run.history.hardware = f"{jax.devices()[0].platform}: {jax.devices()[0].device_kind}"
        messages = _retire_diverged(run, total)
        if not run.alive:  # the file still holds the last good state
            raise TrainingDivergedError(_all_diverged(checkpoint))
        messages += _drop_losers(run, plan, step)
        if checkpoint is not None:
            _save(checkpoint, run, total)
        on_report(_report(run, plan, step, total, (step - position) / elapsed, messages))
        position = step
        if step < plan.steps and should_stop():
            break
    if run.judged is None:
        run.judged = axis.evaluate_all(run.states, validation, axis.pick(restarts, np.array(run.alive)).source)
    best = choose(run.held_out)
    return Trained(
        system=axis.pick(run.states.system, best),
        chosen=run.alive[best],
        alive=run.alive,
        systems=run.states.system,
        held_out=run.held_out,
        history=run.history,
        finished=position >= plan.steps,
    )


def choose(held_out: HeldOut) -> int:
    """Position of the restart that the rule takes: of those as good as the best, the simplest (docs/decisions/0004).

    That is the fewest regimes in use (a single one, which segments nothing, comes last), then segments at least CALM
    times as long as the longest. Errors alone decide: what a true regime gains may be less than a share of all.
    """
    used, durations, windows = (
        np.asarray(part, float) for part in (held_out.in_use, held_out.mean_duration, held_out.windows)
    )
    same = np.ones(windows.shape[1], int)  # the rule knows no unit
    rank = np.where(used > 1, used, np.inf)
    fewest = simplest(windows, same, order=rank)
    peers = fewest.equal & (rank == rank[fewest.chosen])
    restless = durations < CALM * durations[peers].max()
    return simplest(windows, same, order=list(zip(rank, restless, strict=True))).chosen


def _stops(plan: Plan) -> list[int]:
    """Every step at which training pauses to look; the rungs fall on them."""
    regular = range(plan.report_every, plan.steps, plan.report_every)
    return [*regular, plan.steps]


def _rung_step(plan: Plan, rung: Rung) -> int:
    return max(1, round(rung.at * plan.steps / plan.report_every)) * plan.report_every


def living(plan: Plan, restarts: int, step: int) -> int:
    """How many restarts go on after a step, if none diverges."""
    for rung in plan.rungs:
        if _rung_step(plan, rung) <= step:
            restarts = _kept(rung, restarts)
    return restarts


def _kept(rung: Rung, restarts: int) -> int:
    return max(1, math.ceil(rung.keep * restarts))


def _drop_losers(run: _Progress, plan: Plan, step: int) -> list[str]:
    messages = []
    for rung in plan.rungs:
        keep = _kept(rung, len(run.alive))
        if _rung_step(plan, rung) != step or keep == len(run.alive) or step == plan.steps:
            continue
        order = np.argsort(-np.asarray(run.held_out.bound), kind="stable")
        simplest = choose(run.held_out)
        order = np.concatenate([[simplest], order[order != simplest]])
        dropped = run.keep(np.sort(order[:keep]))
        for restart in dropped:
            run.history.retired[str(restart)] = f"lower bound at step {step}"
        messages.append(f"step {step}: went on with restarts {run.alive} of {sorted(run.alive + dropped)}")
    return messages


def _retire_diverged(run: _Progress, total: int) -> list[str]:
    skipped = np.zeros(total, int)
    skipped[run.alive] = jax.device_get(run.states.skipped)
    run.history.skipped = [int(max(a, b)) for a, b in zip(skipped, run.history.skipped or [0] * total, strict=True)]
    in_a_row = jax.device_get(run.states.skipped_in_a_row)
    good = np.isfinite(run.held_out.bound) & (in_a_row < DIVERGED_AFTER)
    messages = []
    for restart in [] if good.all() else run.keep(np.flatnonzero(good)):
        run.history.retired[str(restart)] = "diverged"
        messages.append(f"restart {restart} diverged and was retired; the others go on")
    return messages


def _all_diverged(checkpoint: Path | None) -> str:
    kept = f" The last good state is in {checkpoint}." if checkpoint else ""
    return (
        "Every restart diverged: try --set recipe.learning_rate=1e-3, --set recipe.clip=10, or look for"
        f" extreme values in the data.{kept}"
    )


def _report(run: _Progress, plan: Plan, step: int, total: int, rate: float, messages: list[str]) -> Report:
    best = choose(run.held_out)
    return Report(
        step=step,
        steps=plan.steps,
        alive=run.alive,
        restarts=total,
        bounds=np.asarray(run.held_out.bound).tolist(),
        regimes_in_use=np.asarray(run.held_out.regimes_in_use).tolist(),
        steps_per_second=rate,
        messages=messages,
        best=best,
        system=axis.pick(run.states.system, best),
        systems=run.states.system,
    )


def _save(path: Path, run: _Progress, total: int) -> None:
    save_tree(path, run.states, {"alive": run.alive, "restarts": total, "history": asdict(run.history)})


def _resume(path: Path, states: TrainState) -> _Progress:
    about, total = load_about(path), axis.count(states)
    if about.get("restarts") != total:
        raise InputError(f"{path} belongs to a run with {about.get('restarts')} restarts, not {total}.")
    alive = about["alive"]
    restored, _ = load_tree(path, axis.pick(states, np.arange(len(alive))))
    return _Progress(jax.tree.map(jnp.asarray, restored), alive, History(**about["history"]))
