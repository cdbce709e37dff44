"""From recordings and a config to a trained model: the path that every face of Swerve takes."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from swerve.data.folder import Part
from swerve.errors import InputError
from swerve.inference.frames import Frames, Key
from swerve.learning import loop
from swerve.learning.images import learned_codes, train_on_images
from swerve.learning.loop import Plan, Report, Rung, Trained
from swerve.learning.preparation import Prepared
from swerve.learning.proposals import merged
from swerve.learning.proposals.proposal import Asked, Proposal
from swerve.learning.proposals.proposers import propose
from swerve.learning.pruning import Merge, Simplified, without_surplus
from swerve.learning.restarts import pick, stack
from swerve.learning.schedule import Schedule
from swerve.learning.step import Restart, TrainingData, TrainState, start
from swerve.models.model import Found, Model, Shape, maker_of
from swerve.settings import kinds
from swerve.settings.sections import Config, Recipe, Variant

MERGING_CALLS = 5  # in which a merge is trained; after each of them it may be given up


def fit_by_search(
    prepared: Prepared,
    config: Config,
    *,
    unseen: bool = False,
    on_note: Callable[[str], None] = lambda note: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Found:
    """What the kind's own search finds; less if it should stop. With `unseen`, nothing has seen the held-out part."""
    kind = kinds.find(config.kind)
    if prepared.image is not None and kinds.CODES not in kind.reads:
        raise InputError(f"{kind.subject} reads numbers, and these recordings are video: choose --model snlds or slds.")
    search = kind.maker().search
    assert search is not None
    with _on_cpu(prepared) as there:
        found = search(
            there.training,
            there.validation,
            config,
            key=jax.random.key(config.seed),
            unseen=unseen,
            on_note=on_note,
            should_stop=should_stop,
        )
    if found is None:
        raise InputError(f"{kind.subject} has no finite likelihood on these recordings: look for extreme values.")
    return found


def fit_system(
    prepared: Prepared,
    config: Config,
    *,
    folder: Path | None = None,
    on_report: Callable[[Report], None] = lambda report: None,
    on_note: Callable[[str], None] = lambda note: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Trained:
    """Trains all restarts, chooses by the held-out bound, and merges regimes that an SNLDS or SLDS can do without.

    Restarts on video are trained on codes of its images. The images themselves are for the chosen one, at the end.
    """
    key = jax.random.key(config.seed)
    code, numbers = None, prepared
    if prepared.image is not None:
        kept = None if folder is None else folder / Part.CODE
        codes = learned_codes(kept, prepared, config, key=key, on_note=on_note, should_stop=should_stop)
        code, numbers = codes.code, prepared.seen_as(codes)
    seeds = None if folder is None else folder / Part.SEEDS
    made = make_restarts(numbers, config, key=key, cache=seeds)
    if not made.judged:
        on_note("single frames break a law that holds otherwise: regimes count these events")
    training, validation = stack([(numbers.training, numbers.validation)])

    def seeing(system: Model) -> Model:
        return system if code is None else system.on_pixels(code, config.model)

    trained = loop.train(
        plan_of(config, video=code is not None),
        made.states,
        made.restarts,
        TrainingData(training, made.leads, prepared.goes_on),
        validation,
        checkpoint=None if folder is None else folder / Part.TRAINING,
        on_report=lambda report: on_report(dataclasses.replace(report, system=seeing(report.system))),
        should_stop=should_stop,
    )
    prunes = config.training.merging and made.judged and kinds.FEWER in kinds.find(config.kind).offers
    if trained.finished and prunes:
        trained = _simplified(trained, training, validation, config, on_note, should_stop)
    if code is None:
        return trained
    every = stack([seeing(pick(trained.systems, i)) for i in range(len(trained.alive))])
    trained = dataclasses.replace(trained, system=seeing(trained.system), systems=every)
    if not trained.finished:
        return trained
    system = train_on_images(
        trained.system,
        prepared.training,
        prepared.validation,
        pick(made.restarts, trained.chosen),
        config,
        on_note=on_note,
        should_stop=should_stop,
    )
    return dataclasses.replace(trained, system=system, finished=not should_stop())


def _simplified(
    trained: Trained,
    training: Frames,
    validation: Frames,
    config: Config,
    on_note: Callable[[str], None],
    should_stop: Callable[[], bool],
) -> Trained:
    on_note("looking for regimes that the recordings do not need")
    (simplified,) = simplify(
        [trained.system],
        [0],
        training,
        validation,
        config,
        on_merge=lambda _, merge: on_note(in_words(merge)),
        on_call=lambda done, calls: on_note(f"trying regimes as one: {done} of {calls}"),
        should_stop=should_stop,
    )
    trained.history.merges = [merge._asdict() for merge in simplified.merges]
    return dataclasses.replace(trained, system=simplified.system, finished=not should_stop())


def simplify(
    systems: Sequence[Model],
    sources: Sequence[int],
    training: Frames,
    validation: Frames,
    config: Config,
    *,
    on_merge: Callable[[int, Merge], None] = lambda owner, merge: None,
    on_call: Callable[[int, int], None] = lambda done, calls: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[Simplified]:
    """Merges the regimes of trained systems as long as held-out windows, those of each one's source, allow it."""
    plan = plan_of(config)
    steps = max(1, round(config.training.merging * plan.steps / MERGING_CALLS))
    guided = Variant(guidance=merged.STRENGTH, evidence_temperature=1.0)
    calm = dataclasses.replace(config.recipe, uniformity=0.0, temperature=1.0)
    return without_surplus(
        systems,
        sources,
        training,
        validation,
        make_schedule(calm, guided, MERGING_CALLS * steps, widest_layer=config.widest_layer),
        calls=MERGING_CALLS,
        steps_per_call=steps,
        batch_size=plan.batch_size,
        key=jax.random.fold_in(jax.random.key(config.seed), 1_000_000),
        on_merge=on_merge,
        on_call=on_call,
        should_stop=should_stop,
    )


def in_words(merge: Merge) -> str:
    """A merge in words."""
    verdict = "merged" if merge.accepted else "kept apart before all steps" if merge.given_up else "kept apart"
    return (
        f"regimes {merge.kept} and {merge.dropped} {verdict}: as one, the held-out bound"
        f" changes by {merge.change:+.3f} +- {merge.error:.3f} nats per frame"
    )


def plan_of(config: Config, *, video: bool = False) -> Plan:
    """The training part of a config in the trainer's own words; of video, the steps on codes."""
    settings = config.training
    steps = config.steps_on_codes if video else settings.steps
    rungs = tuple(Rung(rung.at, rung.keep) for rung in settings.rungs)
    return Plan(steps, settings.batch_size, min(settings.report_every, steps), rungs)


class Begun(NamedTuple):
    """Restarts before their first step."""

    states: TrainState
    restarts: Restart
    leads: Float[Array, "G N T K"]
    """The preferences of all proposals; the first says nothing."""
    judged: bool
    """Whether a bound is a judge of the regimes that were proposed."""


def make_restarts(
    prepared: Prepared,
    config: Config,
    *,
    key: Key,
    cache: Path | None = None,
    allowed: Sequence[int] | None = None,
) -> Begun:
    """Fresh states, what makes each restart different, and what leads them (kept in `cache`).

    `allowed`: how many regimes each restart may use, in place of what its variant says.

    All made on the CPU, where the EM behind proposals is far quicker than on an accelerator, then moved to the device.
    """
    with _on_cpu(prepared) as there:
        made = _make_restarts(there, config, key=key, cache=cache, allowed=allowed)
    if jax.default_backend() == "cpu":
        return made
    states, restarts, leads = jax.device_put(made[:3], jax.devices()[0])
    return Begun(states, restarts, leads, made.judged)


def wanted_regimes(config: Config, allowed: Sequence[int] | None = None) -> list[int]:
    """The number of regimes that each restart wants of the AR-HMM that guides it; 0 for one without a guide."""
    return [
        regimes if _or(variant.guidance, config.recipe.guidance) > 0 else 0
        for regimes, variant in zip(allowed or _allowed(config), _variants(config), strict=True)
    ]


def _allowed(config: Config) -> list[int]:
    return [_regimes_of(variant, config.model.regimes) for variant in _variants(config)]


def _variants(config: Config) -> list[Variant]:
    variants = config.recipe.variants
    return [variants[r % len(variants)] for r in range(config.training.restarts)]


def _make_restarts(
    prepared: Prepared, config: Config, *, key: Key, cache: Path | None, allowed: Sequence[int] | None
) -> Begun:
    K, variants, maker = config.model.regimes, _variants(config), maker_of(config)
    allowed = list(allowed or _allowed(config))
    strongest = max(_or(variant.guidance, config.recipe.guidance) for variant in variants)
    asked = Asked(
        prepared.training,
        prepared.validation,
        K,
        wanted_regimes(config, allowed),
        prepared.whole,
        jax.random.fold_in(key, 0),
    )
    proposals = propose(cache, asked, config, strength=strongest)
    states, restarts = [], []
    for r, variant in enumerate(variants):
        lead = proposals.of(r)
        if lead is not None and not lead.judged:  # which regimes are surplus no bound can tell
            allowed[r], variant = K, Variant()
        build_key, train_key = jax.random.split(jax.random.fold_in(key, 1 + r))
        system = maker.build(
            config,
            Shape(prepared.training.x.shape[-1], prepared.controls, prepared.change_scale),
            stickiness=_or(variant.stickiness, config.recipe.stickiness),
            allowed=allowed[r],
            key=build_key,
        )
        schedule = make_schedule(
            config.recipe, variant, config.training.steps, lead=lead, widest_layer=config.widest_layer
        )
        states.append(start(system))
        position = proposals.followed[r]
        followed = jnp.asarray(0 if position is None else 1 + position)
        restarts.append(Restart(schedule, train_key, guide=followed, source=jnp.asarray(0)))
    silence = jnp.zeros((*prepared.training.valid.shape, K))
    leads = jnp.stack([silence, *(one.preferences for one in proposals.made)])
    return Begun(stack(states), stack(restarts), leads, proposals.judged)


def make_schedule(
    recipe: Recipe, variant: Variant, steps: int, *, lead: Proposal | None = None, widest_layer: int = 1
) -> Schedule:
    """Shares of the run become steps; wide layers learn more slowly. A proposal may lead otherwise than the recipe."""
    pace = min(1.0, recipe.full_rate_width / widest_layer)
    strength, hold = (None, None) if lead is None else (lead.strength, lead.hold)
    numbers = Schedule(
        learning_rate=pace * _or(variant.learning_rate, recipe.learning_rate),
        first_learning_rate=recipe.first_learning_rate,
        last_learning_rate=recipe.last_learning_rate,
        warmup_steps=recipe.warmup * steps,
        cosine_end=np.inf if recipe.cosine_end is None else recipe.cosine_end * steps,
        clip=recipe.clip,
        uniformity=recipe.uniformity,
        uniformity_hold=recipe.uniformity_hold * steps,
        temperature=recipe.temperature,
        temperature_hold=recipe.temperature_hold * steps,
        anneal_steps=max(recipe.anneal * steps, 1.0),
        evidence_temperature=_or(variant.evidence_temperature, recipe.evidence_temperature),
        evidence_decay_steps=max(recipe.evidence_decay * steps, 1.0),
        balance=_or(variant.balance, recipe.balance),
        last_balance=recipe.last_balance,
        balance_decay_steps=max(recipe.balance_decay * steps, 1.0),
        guidance=_or(strength, _or(variant.guidance, recipe.guidance)),
        guidance_hold=_or(hold, recipe.guidance_hold) * steps,
        guidance_release_steps=max(recipe.guidance_release * steps, 1.0),
        gap_rate=recipe.gap_rate / 2,
        channel_gap_rate=recipe.gap_rate / 2,
        steps=float(steps),
    )
    return jax.tree.map(jnp.float32, numbers)


@contextmanager
def _on_cpu(prepared: Prepared) -> Iterator[Prepared]:
    """The same data on the CPU, and new arrays there too, whatever accelerator there is."""
    if jax.default_backend() == "cpu":
        yield prepared
        return
    cpu = jax.local_devices(backend="cpu")[0]
    training, validation = jax.device_put((prepared.training, prepared.validation), cpu)
    with jax.default_device(cpu):
        yield dataclasses.replace(prepared, training=training, validation=validation)


def _regimes_of(variant: Variant, regimes: int) -> int:
    return max(regimes - variant.fewer_regimes, min(regimes, 2))


def _or(special: float | None, central: float) -> float:
    return central if special is None else special
