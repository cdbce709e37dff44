"""From recordings to a fitted run: which model, how far it may be trusted, and the folder that keeps it."""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from swerve.choosing import kinds as selection
from swerve.choosing import trust
from swerve.choosing.trust import Trust
from swerve.data import folder as claim
from swerve.data import tables
from swerve.data.folder import Part
from swerve.data.reading import Reading
from swerve.data.trees import digest_of
from swerve.data.windows import cut
from swerve.errors import InputError
from swerve.learning import budget
from swerve.learning.fit import fit_by_search, fit_system
from swerve.learning.loop import Report, Trained
from swerve.learning.preparation import Prepared, prepare
from swerve.learning.regimes import too_few
from swerve.learning.restarts import count, pick, stack
from swerve.learning.step import evaluate
from swerve.models.model import maker_of
from swerve.runs.alignment import align
from swerve.runs.infer import Looks
from swerve.runs.loading import load, load_names
from swerve.runs.run import Others, Run, with_model
from swerve.settings import kinds
from swerve.settings.sections import Config
from swerve.settings.text import expected_duration, with_kind
from swerve.types import Recording

LOOK_FRAMES = 10_000  # that restarts are compared on
LOOK_VALUES = 2_000_000  # of all channels
ALIGNED_FRAMES = 200_000  # that are enough to tell which regime is which


def fit(
    series: Sequence[Recording],
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
    looks: Looks | None = None,
) -> Run:
    """Fits a model. With `out`, everything is kept there and an interrupted fit can go on with `resume`.

    After each report, `on_look` gets the best restart as it is then, ready to segment. Before the first
    and after the last, `on_note` hears what is going on. `reading` is how the recordings were read: it is kept.
    Regimes take the numbers and names of those of `align_to`. With a `time_budget` in seconds there may be fewer
    restarts and steps, or AR-HMMs alone; `on_plan` hears how many. With `looks` the run goes on sharing what it made of
    these recordings, which must not change then.
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
        run = (_fit_best if config.kind == kinds.AUTO else _fit_one)(prepared, config, out, hears)
        shared = Looks() if looks is None else looks
        run = dataclasses.replace(run, reading=tables.remembered(reading or Reading(), series), looks=shared)
        if older is not None:
            on_note("comparing with the regimes of the older run")
            run = aligned_to(run, older, series, called=str(align_to) if not isinstance(align_to, Run) else "the run")
        on_note("comparing restarts")
        run = _with_trust(run, prepared, series, asked=config)
        if out is not None:
            names, _ = load_names(out)
            run = dataclasses.replace(run, given_names=names or run.given_names)
            run.save(out)
    return run if looks is not None else dataclasses.replace(run, looks=None)


class _Hears(NamedTuple):
    """Who is told what, and who may stop it."""

    on_report: Callable[[Report], None]
    on_look: Callable[[Run], None]
    on_note: Callable[[str], None]
    should_stop: Callable[[], bool]
    time_is_up: Callable[[], bool]


def _fit_one(prepared: Prepared, config: Config, out: Path | None, hears: _Hears) -> Run:
    if not kinds.find(config.kind).by_steps:
        return _searched(prepared, config, hears)

    def report(now: Report) -> None:
        hears.on_report(now)
        hears.on_look(with_model(now.system, prepared, config, now.bounds[now.best], finished=False))

    trained = fit_system(
        prepared,
        config,
        folder=out,
        on_report=report,
        on_note=hears.on_note,
        should_stop=lambda: hears.should_stop() or hears.time_is_up(),
    )
    judged = evaluate(trained.system, prepared.validation)
    return with_model(
        trained.system,
        prepared,
        config,
        float(judged.bound),
        windows=np.asarray(judged.windows, float),
        history=trained.history,
        chosen=trained.chosen,
        finished=trained.finished,
        others=_not_chosen(trained) if trained.finished else None,
    )


def _searched(prepared: Prepared, config: Config, hears: _Hears) -> Run:
    """The best that the kind's own search finds, and of those like it the better half without it."""
    hears.on_note(f"looking for {config.model.regimes} regimes with {config.kind}")
    found = fit_by_search(prepared, config, on_note=hears.on_note, should_stop=hears.time_is_up)
    others = found.models[1 : max(2, math.ceil(len(found.models) / 2))]
    return with_model(
        found.models[0],
        prepared,
        found.config,
        float(found.windows[0].sum() / np.asarray(prepared.validation.valid).sum()),
        windows=found.windows[0],
        others=Others(stack(others), list(range(1, 1 + len(others))), []) if others else None,
    )


def _not_chosen(trained: Trained) -> Others | None:
    others = [i for i, restart in enumerate(trained.alive) if restart != trained.chosen]
    if not others:
        return None
    return Others(pick(trained.systems, np.array(others)), [trained.alive[i] for i in others], [])


def _fit_best(prepared: Prepared, config: Config, out: Path | None, hears: _Hears) -> Run:
    """Every candidate, each in a folder of its own, and the one that explains held-out windows best."""
    if prepared.image is not None:
        kind = next(one for one in kinds.CANDIDATES if kinds.CODES in kinds.find(one).reads)
        own = with_kind(config, kind)
        return dataclasses.replace(
            _fit_one(prepared, own, out, hears),
            selection=selection.alone(
                kind, f"{kinds.find(kind).subject} was chosen: of these models it alone reads video."
            ),
        )
    runs, windows, seconds, failed = {}, {}, {}, None
    for kind in kinds.CANDIDATES:
        folder = None if out is None else out / Part.CANDIDATES / kind
        began = time.perf_counter()
        try:
            runs[kind] = _candidate(prepared, with_kind(config, kind), folder, hears)
        except InputError as error:
            hears.on_note(f"{kind}: {error}")
            failed = error
            continue
        history = runs[kind].history
        seconds[kind] = history.seconds if history else time.perf_counter() - began
        windows[kind] = runs[kind].windows
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
    if (folder / Part.MODEL).is_file():
        kept = load(folder)
        if kept.finished:
            return kept
    folder.mkdir(parents=True, exist_ok=True)
    run = _fit_one(prepared, config, folder, hears)
    run.save(folder)
    return run


def _with_trust(run: Run, prepared: Prepared, series: Sequence[Recording], *, asked: Config) -> Run:
    """The run with what it says about itself, looked up on some of the recordings."""
    some = _some_of(series)
    segmented = [[one.labels for one in run.infer(some, expects=False)]]
    if run.others is not None:
        for i in range(count(run.others.models)):
            other = dataclasses.replace(run, model=pick(run.others.models, i))
            segmented.append([one.labels for one in other.infer(some, expects=False)])
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
            remarks=maker_of(run.config).remarks(asked, run.config),
            too_few=""
            if kinds.find(run.config.kind).by_steps or run.windows is None
            else too_few(run.model, run.windows, prepared, run.config),
        ),
        selection=run.selection,
    )
    return dataclasses.replace(run, trust=found)


def _some_of(series: Sequence[Recording]) -> list[Recording]:
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


def _older_run(align_to: "Run | str | Path", series: Sequence[Recording]) -> Run:
    """The run to align to, if it can read these recordings."""
    try:
        older = align_to if isinstance(align_to, Run) else load(align_to)
        older.checked(series)
    except InputError as error:
        called = "that run" if isinstance(align_to, Run) else align_to
        raise InputError(f"The regimes can not be aligned to those of {called}: {error}") from None
    return older


def aligned_to(run: Run, older: Run, series: Sequence[Recording], *, called: str = "the older run") -> Run:
    """The same model, its regimes under the numbers and names of the older run's that they resemble most.

    Both segment the recordings, or the first of them where there are many frames.
    """
    some = _enough(series)
    found, old = (
        [one.labels for one in each.infer(some, expects=False)]
        for each in (dataclasses.replace(run, aligned=None), older)
    )
    regimes = run.config.model.regimes
    alignment = align(found, old, regimes=regimes, old_regimes=older.regimes, to=called)
    names = tuple(None if k in alignment.fresh else name for k, name in enumerate(older.given_names))
    return dataclasses.replace(run, aligned=alignment, given_names=names)


def _enough(series: Sequence[Recording]) -> list[Recording]:
    """The first recordings, as many as tell regimes apart."""
    before = np.cumsum([0, *map(len, series)])[:-1]
    return [one for one, frames in zip(series, before, strict=True) if frames < ALIGNED_FRAMES]


def fingerprint(prepared: Prepared) -> str:
    """Tells one data set from another."""
    return digest_of((prepared.training, prepared.validation), repr(prepared.columns))
