"""The search for an AR-HMM: every number of lags, straight regimes and bent ones, every start."""

import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from sklearn.metrics import adjusted_rand_score

from swerve.choosing.consensus import consensus
from swerve.choosing.rule import simplest
from swerve.choosing.use import in_use
from swerve.inference.frames import Frames, Key
from swerve.models import arhmm
from swerve.models.arhmm import ArHmm, ArHmmOptions, Covariance
from swerve.settings.sections import ArHmmConfig

VARIANCE_FLOOR = 1e-4  # of standardised data, the same for every fit
MORE_BENDING = 2  # more rounds of restarts where they do
WIDEST = 128  # numbers that a regime may read: more lags of more channels cost more than they tell
MOST_JOINT = 30  # channels that are asked whether they err together: with more, heavy tails alone look like it
GAPPY = 0.05  # share of values that are missing from which more than FEW_LAGS tell more of gaps than of regimes
FEW_LAGS = 2
STRADDLING = 1.25  # times its lags: a regime that does not last longer lives on windows that straddle a switch


class Candidate(NamedTuple):
    """One AR-HMM and how well it predicts what it was not fitted to."""

    model: ArHmm
    windows: Float[np.ndarray, " N"]
    """Of every held-out window, in nats, with gaps bridged: without gaps, the likelihood."""
    lags: int
    features: int
    labels: Int[np.ndarray, "N T"]
    """Of the held-out windows; -1 where there is no frame."""

    @property
    def frames(self) -> Int[np.ndarray, " N"]:
        """Of every held-out window."""
        return np.sum(self.labels >= 0, axis=1)

    @property
    def held_out(self) -> float:
        """In nats per frame."""
        return float(self.windows.sum() / self.frames.sum())


class Fits(NamedTuple):
    """Candidates, the most trustworthy first, and the settings that they were fitted with in the end."""

    candidates: list[Candidate]
    config: ArHmmConfig


def fit_candidates(
    training: Frames,
    validation: Frames,
    config: ArHmmConfig,
    *,
    regimes: int,
    key: Key,
    on_note: Callable[[str], None] = lambda note: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Fits:
    """Every restart with every number of lags; all again where channels turn out to err together.

    Single frames that break a law are wrong in all channels too: where no lags are to be trusted, nothing is said.
    """
    data = training, validation
    candidates = _candidates(*data, config, regimes=regimes, key=key, should_stop=should_stop)
    asked = config.as_one_from and not config.channels_as_one and training.x.shape[-1] <= MOST_JOINT
    if not candidates or not asked:
        return Fits(candidates, config)
    together = arhmm.joint_errors(candidates[0].model, training)
    if together < config.as_one_from or all(map(straddles, _by_lags(candidates))) or should_stop():
        return Fits(candidates, config)
    on_note(f"channels err together ({together:.1f}, where 1 is each on its own): they count as one")
    as_one = config.for_joint_errors()
    again = _candidates(*data, as_one, regimes=regimes, key=key, should_stop=should_stop)
    return Fits(again, as_one) if again else Fits(candidates, config)


def _candidates(
    training: Frames,
    validation: Frames,
    config: ArHmmConfig,
    *,
    regimes: int,
    key: Key,
    should_stop: Callable[[], bool],
) -> list[Candidate]:
    """Every restart with every number of lags, the most trustworthy first, nonlinear ones only if they pay.

    Regimes that bend are tried with the two best numbers of lags so far. Where they pay, more of them are fitted:
    they have more ways to go wrong. Once `should_stop` says so, those fitted so far are all there are.
    """
    candidates: list[Candidate] = []

    def fit_all(lags: Iterable[int], features: int, key: Key) -> None:
        for count in lags:
            if candidates and should_stop():
                return
            candidates.extend(_fit(training, validation, config, regimes, count, features, key))

    for features in sorted(config.features):
        promising = _best_lags(most_trustworthy_first(candidates)) or lags_to_try(config, training)
        fit_all([lags for lags in promising if lags or not features], features, key)
    reference = random_walk(training, validation)
    best = simplest_that_pays(candidates, reference)
    for extra in range(MORE_BENDING if best and best[0].features else 0):
        again = jax.random.fold_in(key, 1000 + extra)
        fit_all(_best_lags(most_trustworthy_first(best)), best[0].features, again)
    return simplest_that_pays(candidates, reference)


def affordable_lags(config: ArHmmConfig, channels: int) -> list[int]:
    """Those with which a regime does not read more than it can learn from."""
    return [lags for lags in config.lags if lags * channels <= WIDEST or lags == min(config.lags)]


def lags_to_try(config: ArHmmConfig, training: Frames) -> list[int]:
    """The affordable ones; where much is missing, only the fewest of them (docs/decisions/0029)."""
    affordable = affordable_lags(config, training.x.shape[-1])
    few = [lags for lags in affordable if lags <= FEW_LAGS] or [min(affordable)]
    seen = np.asarray(training.observed & training.valid[..., None]).sum()
    values = np.asarray(training.valid).sum() * training.x.shape[-1]
    return few if seen < (1 - GAPPY) * values else affordable


def fit_simplest(training: Frames, validation: Frames, config: ArHmmConfig, *, regimes: int) -> list[Candidate]:
    """Those with the fewest lags, as seeds are fitted: what the others take can be guessed from them."""
    some = jax.tree.map(lambda leaf: leaf[: config.seed_windows], training)
    return _fit(some, validation, config, regimes, min(config.lags), 0, jax.random.key(0))


def _best_lags(best_first: list[Candidate]) -> list[int]:
    return list(dict.fromkeys(one.lags for one in best_first))[:2]


def _fit(
    training: Frames, validation: Frames, config: ArHmmConfig, regimes: int, lags: int, features: int, key: Key
) -> list[Candidate]:
    options = _options(config, regimes, lags, features, channels=training.x.shape[-1])
    fit = arhmm.fit(training, options, key=jax.random.fold_in(key, lags))
    models = [
        jax.tree.map(lambda leaf, r=restart: jnp.asarray(leaf)[r], fit.models) for restart in range(config.restarts)
    ]
    found = [_judged(model, validation, lags, features) for model in models]
    return [one for one in found if np.isfinite(one.held_out)]


def _options(config: ArHmmConfig, regimes: int, lags: int, features: int, *, channels: int) -> ArHmmOptions:
    return ArHmmOptions(
        regimes=regimes,
        lags=lags,
        features=features,
        stickiness=config.stickiness,
        covariance=Covariance(config.covariance),
        restarts=config.restarts,
        variance_floor=VARIANCE_FLOOR,
        max_iterations=config.max_iterations,
        temperature=config.temperature(channels),
    )


def _judged(model: ArHmm, validation: Frames, lags: int, features: int) -> Candidate:
    windows = np.asarray(_bridged_windows(model, validation), float)
    return Candidate(model, windows, lags, features, labels_of(model, validation))


def most_trustworthy_first(candidates: list[Candidate]) -> list[Candidate]:
    """First the fewest lags that held-out windows can not tell from the best, then the others by their likelihood.

    Many lags average noise away. But after a switch they reach back into the regime before it, and a regime that
    serves only such windows predicts well and segments badly: lags whose best fit has one come last, set no mark, and
    are chosen only where all have (docs/decisions/0013). Errors alone decide.
    """

    def doubts(group: list[Candidate]) -> tuple[bool, float]:
        return (True, float(group[0].lags)) if straddles(group) else (False, -group[0].held_out)

    groups = sorted(_by_lags(candidates), key=doubts)
    sound = [group for group in groups if not straddles(group)]
    if sound:
        verdict = simplest(
            [group[0].windows for group in sound], sound[0][0].frames, order=[group[0].lags for group in sound]
        )
        groups.insert(0, groups.pop(verdict.chosen))
    return [one for group in groups for one in group]


def agreement(group: list[Candidate]) -> float:
    """Mean adjusted Rand index over pairs of restarts, of the held-out frames; 0 where there is but one restart."""
    labels = [one.labels[one.labels >= 0] for one in group]
    pairs = [adjusted_rand_score(*pair) for pair in itertools.combinations(labels, 2)]
    return float(np.mean(pairs)) if pairs else 0.0


def _by_lags(candidates: list[Candidate]) -> list[list[Candidate]]:
    """Those with the same lags and features together, the best held-out likelihood first."""
    groups: dict[tuple[int, int], list[Candidate]] = {}
    for one in sorted(candidates, key=lambda one: -one.held_out):
        groups.setdefault((one.lags, one.features), []).append(one)
    return list(groups.values())


def straddles(group: list[Candidate]) -> bool:
    """Whether the best of them has a regime that lasts no longer than the frames it reads."""
    return bool(shortest_regime(group[0].labels) <= STRADDLING * group[0].lags)


def shortest_regime(labels: Int[np.ndarray, "N T"]) -> float:
    """Mean duration, in frames, of the regime with the shortest segments; one that hardly occurs does not count."""
    begins = np.diff(labels, axis=1, prepend=-1) != 0
    regimes, counts = np.unique(labels[labels >= 0], return_counts=True)
    durations = [np.sum(labels == k) / np.sum(begins & (labels == k)) for k in regimes[in_use(counts)]]
    return min(durations, default=np.inf)


def simplest_that_pays(
    candidates: list[Candidate], reference: Float[np.ndarray, " N"] | None = None
) -> list[Candidate]:
    """Those with the fewest features that held-out windows can not tell from the best, the most trustworthy first.

    Regimes that bend can follow a bounce that straight ones call a switch, for a gain too small to believe in.
    """
    groups = _by_lags(candidates)
    bests = [group[0] for group in groups if not straddles(group)] or [group[0] for group in groups]
    if not bests:
        return []
    verdict = simplest(
        [one.windows for one in bests], bests[0].frames, reference, order=[one.features for one in bests]
    )
    fewest = bests[verdict.chosen].features
    return most_trustworthy_first([one for one in candidates if one.features == fewest])


def by_lags_in_turn(candidates: list[Candidate]) -> list[Candidate]:
    """The best of every number of lags, then the second best of each, and so on; `candidates` has the best first.

    Other lags see other regimes: with two, a bounce can be a jolt within one regime; with one, a turn of course.
    """
    ranked = {
        lags: [one for one in candidates if one.lags == lags] for lags in dict.fromkeys(one.lags for one in candidates)
    }
    rounds = itertools.zip_longest(*ranked.values())
    return [one for each in rounds for one in each if one is not None]


def most_agreeing(candidates: list[Candidate]) -> list[Candidate]:
    """Those with the lags whose restarts agree most."""
    return max(_by_lags(candidates), key=agreement)


def with_consensus(
    candidates: list[Candidate], training: Frames, validation: Frames, config: ArHmmConfig
) -> list[Candidate]:
    """First a model that EM finds from the consensus of all candidates about all frames, then those with its lags.

    More lags always predict better, so the lags are those whose restarts agree most: regimes that are found again from
    other starts are there to be found. The model has seen the held-out part; its number is that of the best that has
    not.
    """
    every = jax.tree.map(lambda *parts: jnp.concatenate(parts), training, validation)
    agreeing = most_agreeing(candidates)
    best, valid = agreeing[0], np.asarray(every.valid)
    regimes = best.model.regimes
    together = consensus(np.stack([labels_of(one.model, every)[valid] for one in candidates]), regimes)
    labels = np.full(valid.shape, -1, np.int32)
    labels[valid] = together
    options = _options(config, regimes, best.lags, best.features, channels=every.x.shape[-1])
    fit = arhmm.fit_from_labels(every, labels, options)
    reached = fit.model if np.isfinite(fit.log_likelihood) else best.model
    return [best._replace(model=reached), *agreeing]


@jax.jit
def _bridged_windows(model: ArHmm, frames: Frames) -> Float[Array, " N"]:
    """Of every window in nats, were all observed values to tell as much as those that do."""
    windows = jax.vmap(lambda one: arhmm.bridged_likelihood(model, one))(frames)
    told = jax.vmap(lambda one: arhmm.bridged(one, model.start_mean, model.lags).tells)(frames).at[:, 0].set(True)
    observed = frames.observed & frames.valid[..., None]
    return windows * observed.sum() / jnp.maximum((told & observed).sum(), 1)


def random_walk(training: Frames, validation: Frames) -> Float[np.ndarray, " N"]:
    """What gains are counted from: log p of every held-out window, were x_t = x_{t-1} + e_t in every channel."""

    def steps(frames: Frames) -> tuple[Float[np.ndarray, "N t D"], Bool[np.ndarray, "N t D"]]:
        x, seen = np.asarray(frames.x, float), np.asarray(frames.observed & frames.valid[..., None])
        both = seen[:, 1:] & seen[:, :-1]
        return np.where(both, np.diff(x, axis=1), 0.0), both

    (step, both), (unseen, told) = steps(training), steps(validation)
    variance = np.sum(step**2, axis=(0, 1)) / np.maximum(both.sum(axis=(0, 1)), 1) + VARIANCE_FLOOR
    densities = np.where(told, unseen**2 / variance + np.log(2 * np.pi * variance), 0.0)
    observed = np.sum(np.asarray(validation.observed & validation.valid[..., None]))
    return -0.5 * densities.sum(axis=(1, 2)) * observed / max(told.sum(), 1)


@jax.jit
def window_likelihoods(model: ArHmm, frames: Frames) -> Float[Array, " N"]:
    """Exact log p(x) of every window, in nats."""
    return jax.vmap(lambda one: arhmm.log_likelihood(model, one))(frames)


@jax.jit
def responsibilities(model: ArHmm, frames: Frames) -> Float[Array, "N T K"]:
    """p(s_t = k | x) for every window."""
    return jax.vmap(lambda one: arhmm.smooth(model, one))(frames)


def labels_of(model: ArHmm, frames: Frames) -> Int[np.ndarray, "N T"]:
    """The most probable regime of every frame; -1 where there is none."""
    return np.where(frames.valid, np.argmax(responsibilities(model, frames), axis=-1), -1)


def fit_from_guess(
    training: Frames, validation: Frames, labels: Int[np.ndarray, "N T"], config: ArHmmConfig
) -> Candidate:
    """Two regimes with one lag, from a first guess at the labels of all frames."""
    fit = arhmm.fit_from_labels(training, labels, _options(config, 2, 1, 0, channels=training.x.shape[-1]))
    return _judged(fit.model, validation, 1, 0)
