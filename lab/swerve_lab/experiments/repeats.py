"""The runs of a row: independent repeats, trained side by side on one restart axis, each on a code of its own."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from swerve.cli import display
from swerve.cli.console import note
from swerve.data.trees import digest_of, load_about, load_tree, save_tree
from swerve.errors import InputError
from swerve.inference.frames import Frames
from swerve.learning import loop
from swerve.learning.fit import make_restarts, plan_of, simplify
from swerve.learning.images import learned_codes, train_on_images
from swerve.learning.preparation import Prepared
from swerve.learning.pruning import Merge, Simplified
from swerve.learning.restarts import pick, stack
from swerve.learning.step import HeldOut, Restart, TrainingData, TrainState
from swerve.models.model import Model
from swerve.settings import kinds
from swerve.settings.sections import Config
from swerve.settings.text import merge
from swerve.types import Recording
from swerve.views.codes import Codes
from swerve_lab.boards.board import Board, Recordings
from swerve_lab.experiments.rows import Experiment

CHECKPOINT = "training.safetensors"


class View(NamedTuple):
    """Recordings and a board as one restart reads them."""

    prepared: Prepared
    board: Board | Recordings
    recordings: Sequence[Recording] = ()
    """As they were before they were prepared."""


class Repeats(NamedTuple):
    """All restarts of all runs before their first step, and what they are trained and judged on."""

    states: TrainState
    restarts: Restart
    data: TrainingData
    validation: Frames
    sources: list[Prepared]
    """What the restarts read: recordings of numbers, or those of video as each run's code has them."""
    codes: list[Codes]
    """Of video, every source's; of numbers, none."""
    judged: list[bool]
    """Of which restarts a bound judges the regimes."""

    def views(self, data: Sequence[View]) -> list[View]:
        """What is scored, as each restart reads it; `data` has a pair for every fold, or one for all runs."""
        if self.codes:
            [(_, board, _)] = data
            assert isinstance(board, Board)
            codes = zip(self.sources, self.codes, strict=True)
            views = [View(source, coded_board(board, one)) for source, one in codes]
        else:
            views = [View(source, one.board) for source, one in zip(self.sources, data, strict=True)]
        return [views[source] for source in np.asarray(self.restarts.source)]


def as_numbers(data: View, config: Config, run: int, work: Path) -> View:
    """Video as a run's own code has it, for models that read numbers; numbers as they are."""
    prepared, board, _ = data
    if prepared.image is None or isinstance(board, Recordings):
        return data
    codes = _codes(prepared, config, run, work)
    return View(prepared.seen_as(codes), coded_board(board, codes))


def coded_board(board: Board, codes: Codes) -> Board:
    """The same sequences as the view has them."""
    x = np.stack([codes.read(one).x for one in board.series()])
    return dataclasses.replace(board, x=x, clean=x, columns=codes.columns, image=None)


def _codes(prepared: Prepared, config: Config, run: int, work: Path) -> Codes:
    cache = work / f"code-{run}.safetensors"
    return learned_codes(cache, prepared, config, key=jax.random.key(run), on_note=note)


def restarts_of_runs(config: Config, experiment: Experiment) -> list[int]:
    """How many restarts every run has: beyond those that choose among several, some have but the central one."""
    singles = max(0, experiment.single_runs - experiment.runs)
    return [config.training.restarts] * experiment.runs + [1] * singles


def make_repeats(folds: Sequence[Prepared], config: Config, experiment: Experiment, work: Path) -> Repeats:
    """Seeds, and for video a code, of every run; kept in `work`. With several folds each run has its own."""
    counts = restarts_of_runs(config, experiment)
    keys = [jax.random.key(seed) for seed in range(len(counts))]
    codes: list[Codes] = []
    if len(folds) == 1 and folds[0].image is not None:
        [prepared] = folds
        codes = [_codes(prepared, config, run, work) for run in range(len(counts))]
        sources = [prepared.seen_as(one) for one in codes]
    else:
        sources = as_many_windows(folds)
    goes_on = folds[0].goes_on if len(folds) == 1 else None  # the windows of folds differ
    made, restarts = [], []
    first_lead = 0
    for seed, (key, count) in enumerate(zip(keys, counts, strict=True)):
        own = merge(config, {"training": {"restarts": count}})
        source = seed % len(sources)
        one = make_restarts(sources[source], own, key=key, cache=work / f"seeds-{seed}.npz")
        restarts.append(
            one.restarts._replace(guide=one.restarts.guide + first_lead, source=one.restarts.source + source)
        )
        made.append(one)
        first_lead += len(one.leads)
    training, validation = stack([(one.training, one.validation) for one in sources])
    return Repeats(
        _one_axis([one.states for one in made]),
        _one_axis(restarts),
        TrainingData(training, jnp.concatenate([one.leads for one in made]), goes_on),
        validation,
        sources,
        codes,
        judged=[one.judged for one, count in zip(made, counts, strict=True) for _ in range(count)],
    )


def as_many_windows(folds: Sequence[Prepared]) -> list[Prepared]:
    """Folds that can lie on one axis: those with fewer windows have some of them twice."""
    most = [max(len(one.training.x) for one in folds), max(len(one.validation.x) for one in folds)]

    def filled(frames: Frames, count: int) -> Frames:
        return jax.tree.map(lambda leaf: leaf[np.arange(count) % len(leaf)], frames)

    return [
        dataclasses.replace(one, training=filled(one.training, most[0]), validation=filled(one.validation, most[1]))
        for one in folds
    ]


def _one_axis(parts: list):
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


def train(
    repeats: Repeats, config: Config, work: Path, *, watch: Callable[[loop.Report], None] = lambda report: None
) -> loop.Trained:
    """All restarts of all runs, none dropped; goes on from `work` if it was stopped."""
    plan = dataclasses.replace(plan_of(config, video=bool(repeats.codes)), rungs=())
    with display.stop_on_interrupt() as stop, display.training_progress(plan.steps) as show:

        def report(now: loop.Report) -> None:
            show(now)
            watch(now)

        trained = loop.train(
            plan,
            repeats.states,
            repeats.restarts,
            repeats.data,
            repeats.validation,
            checkpoint=work / CHECKPOINT,
            on_report=report,
            should_stop=stop,
        )
    if not trained.finished:
        raise InputError("Stopped; run the same command again to go on.")
    return trained


class Choice(NamedTuple):
    """Which restarts a run has on the common axis and which stand for it; None where they diverged."""

    begins: list[int]
    own: list[list[int]]
    best: list[int | None]
    first: list[int | None]

    @property
    def standing(self) -> list[int]:
        """All that stand for a run, chosen or first."""
        return sorted({restart for restart in (*self.best, *self.first) if restart is not None})


def choose(trained: loop.Trained, config: Config, experiment: Experiment) -> Choice:
    """Each run chooses among its own restarts."""
    begins, own = _runs(trained, config, experiment)
    best = [of_run[loop.choose(_held_out(trained, of_run))] if of_run else None for of_run in own]
    return Choice(begins, own, best, _first(trained, begins))


def made_before(chosen: list[int | None], trained: loop.Trained, config: Config, experiment: Experiment) -> Choice:
    """The choice that is known to have been made: every run's restart, counted within the run."""
    begins, own = _runs(trained, config, experiment)
    best = [None if one is None else begin + one for begin, one in zip(begins, chosen, strict=True)]
    return Choice(begins, own, best, _first(trained, begins))


def _runs(trained: loop.Trained, config: Config, experiment: Experiment) -> tuple[list[int], list[list[int]]]:
    """Where every run begins on the common axis, and its restarts that live."""
    ends = np.cumsum(restarts_of_runs(config, experiment)).tolist()
    begins = [0, *ends[:-1]]
    return begins, [
        [r for r in range(begin, end) if r in trained.alive] for begin, end in zip(begins, ends, strict=True)
    ]


def _first(trained: loop.Trained, begins: list[int]) -> list[int | None]:
    return [begin if begin in trained.alive else None for begin in begins]


def _held_out(trained: loop.Trained, restarts: list[int]) -> HeldOut:
    return pick(trained.held_out, np.array([trained.alive.index(restart) for restart in restarts]))


def system_of(trained: loop.Trained, restart: int) -> Model:
    """One of the living."""
    return pick(trained.systems, trained.alive.index(restart))


def simplified(repeats: Repeats, systems: Mapping[int, Model], config: Config, work: Path) -> dict[int, Simplified]:
    """Every restart without its surplus regimes, unless they count events; kept in `work`, so that it is done once."""
    as_they_are = {restart: Simplified(system, []) for restart, system in systems.items()}
    prunes = kinds.FEWER in kinds.find(config.kind).offers
    own = {restart: one for restart, one in systems.items() if prunes and repeats.judged[restart]}
    order = sorted(own)
    if not (order and config.training.merging):
        return as_they_are
    kept, together = work / "simplified.safetensors", stack([own[restart] for restart in order])
    if not _made_from(together, kept):
        note(f"merging surplus regimes of {len(order)} restarts")
        sources = np.asarray(repeats.restarts.source)[order].tolist()
        found = simplify([own[restart] for restart in order], sources, repeats.data.frames, repeats.validation, config)
        merges = [[merge._asdict() for merge in one.merges] for one in found]
        about = {"of": digest_of(together), "restarts": order, "merges": merges}
        save_tree(kept, stack([one.system for one in found]), about)
    simple, about = load_tree(kept, together)
    simple = jax.tree.map(jnp.asarray, simple)
    merged = {
        restart: Simplified(pick(simple, position), [Merge(**merge) for merge in about["merges"][position]])
        for position, restart in enumerate(order)
    }
    return as_they_are | merged


def finished(repeats: Repeats, restart: int, system: Model, prepared: Prepared, config: Config, work: Path) -> Model:
    """A restart after its last steps, which for video are those on the images; kept in `work`."""
    if not repeats.codes:
        return system
    code = repeats.codes[int(repeats.restarts.source[restart])].code
    assert code is not None
    kept, made_of = work / f"images-{restart}.safetensors", (system, code)
    system = system.on_pixels(code, config.model)
    if not _made_from(made_of, kept):
        note(f"training restart {restart} on the images")
        own = pick(repeats.restarts, restart)
        seen = train_on_images(system, prepared.training, prepared.validation, own, config, on_note=note)
        save_tree(kept, seen, {"of": digest_of(made_of)})
    trained, _ = load_tree(kept, system)
    return jax.tree.map(jnp.asarray, trained)


def _made_from(parameters: Any, kept: Path) -> bool:
    """Whether a file goes back to these parameters, and not to others that were trained in its folder before."""
    return kept.is_file() and load_about(kept).get("of") == digest_of(parameters)
