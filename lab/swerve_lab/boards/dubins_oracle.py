"""The best one can hope for on Dubins paths: the physics are known, speed, heading and turn rate are fitted.

In the complex plane a path is position_t = v c_t, with v = speed e^{i heading} and c_t = c_{t-1} + e^{i w k_t}, where
k_t counts left turns less right ones. Given the regimes and the turn rate w, v is a linear regression whose sums can be
carried along frame by frame, also where only one coordinate was seen. A beam search keeps the most probable regimes for
each w of a grid. Without noise none of this is needed: every turn can be read off.

With m_x, m_y in {0, 1} for what was seen, the sums are S = sum (m_x + m_y) / 2 |c|^2, D = sum (m_x - m_y) / 2 c^2 and
P = sum conj(c) (m_x x + i m_y y). The regression solves S v + conj(D v) = P.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Complex, Float, Int
from scipy.stats import poisson

TURN = np.array([0, 1, -1])  # of k, by regime: straight, left, right
BEAM = 64
TURN_RATES = 17
ROUNDS = 3
LEVER = 3.0  # pixels per radian: how far a path strays when its turn rate is wrong


class Physics(NamedTuple):
    """What the oracle is told."""

    speed: tuple[float, float]
    turns_per_step: tuple[float, float]
    mean_duration: int
    noise: float
    """Standard deviation, in pixels."""


class Beam(NamedTuple):
    """M hypotheses for each of N sequences and W turn rates."""

    regime: Int[np.ndarray, "N W M"]
    age: Int[np.ndarray, "N W M"]
    turns: Int[np.ndarray, "N W M"]
    place: Complex[np.ndarray, "N W M"]
    """c_t"""
    squares: Float[np.ndarray, "N W M"]
    """S"""
    skew: Complex[np.ndarray, "N W M"]
    """D: how much more of x than of y was seen; 0 where nothing is missing."""
    products: Complex[np.ndarray, "N W M"]
    """P"""
    log_prior: Float[np.ndarray, "N W M"]
    path: Int[np.ndarray, "N W M T"]


def decode(x: Float[np.ndarray, "N T 2"], physics: Physics) -> Int[np.ndarray, "N T"]:
    """The most probable regimes of each sequence; NaN is a missing coordinate.

    The grid of turn rates closes in on the best in a few rounds.
    """
    lowest, highest = (2 * np.pi * turns for turns in physics.turns_per_step)
    rates = np.tile(np.linspace(lowest, highest, TURN_RATES), (len(x), 1))
    s = np.zeros(x.shape[:2], np.int32)
    for _ in range(ROUNDS):
        gap = rates[:, 1] - rates[:, 0]
        noise = np.hypot(physics.noise, LEVER * gap)  # what a rate between two of the grid would look like
        s, best = _search(x, rates, physics, noise[:, None, None])
        rates = best[:, None] + gap[:, None] * np.linspace(-2, 2, TURN_RATES)[None]
    return s


def read_turns(x: Float[np.ndarray, "N T 2"], slowest_turn: float) -> Int[np.ndarray, "N T"]:
    """The regimes of paths without noise: the angle between a step and the last, in turns, is 0 or at least this.

    The first two frames come before the first angle; the regime that follows them is the best guess.
    """
    steps = np.diff(x[..., 0] + 1j * x[..., 1], axis=1)
    angles = np.angle(steps[:, 1:] * np.conj(steps[:, :-1])) / (2 * np.pi)
    turns = np.sign(angles) * (np.abs(angles) > slowest_turn / 2)
    s = np.select([turns > 0, turns < 0], [1, 2], default=0).astype(np.int32)
    return np.pad(s, ((0, 0), (2, 0)), mode="edge")


def _search(
    x: Float[np.ndarray, "N T 2"],
    rates: Float[np.ndarray, "N W"],
    physics: Physics,
    noise: Float[np.ndarray, "N 1 1"],
) -> tuple[Int[np.ndarray, "N T"], Float[np.ndarray, " N"]]:
    """The best regimes and turn rate on the grid."""
    n, length, _ = x.shape
    log_leave, log_stay = _hazard(physics.mean_duration, length)
    beam = _start(n, length)
    for t in range(1, length):
        beam = _extend(beam, x[:, t], rates, t, log_leave, log_stay)
        beam = _prune(beam, _score(beam, physics, noise))
    best = _score(beam, physics, noise).reshape(n, -1).argmax(axis=1)
    rows = np.arange(n)
    return beam.path.reshape(n, -1, length)[rows, best].astype(np.int32), rates[rows, best // BEAM]


def _hazard(mean: int, length: int) -> tuple[Float[np.ndarray, " A"], Float[np.ndarray, " A"]]:
    """log P(D = a | D >= a) - log 2 (to either of the others) and log P(D > a | D >= a), D = max(1, Poisson)."""
    age = np.arange(length + 1)
    at_least = poisson.logsf(age - 1, mean)
    at_least[:2] = 0.0
    leave = np.where(age == 1, poisson.logcdf(1, mean), poisson.logpmf(age, mean)) - at_least
    return leave - np.log(2), poisson.logsf(age, mean) - at_least


def _start(n: int, length: int) -> Beam:
    """Three hypotheses about s_1; the rest of the beam is empty."""
    shape = (n, TURN_RATES, BEAM)
    regime = np.broadcast_to(np.arange(BEAM) % 3, shape)
    path = np.zeros((*shape, length), np.int8)
    path[..., 0] = regime
    zeros = np.zeros(shape)
    log_prior = np.where(np.broadcast_to(np.arange(BEAM) < 3, shape), -np.log(3.0), -np.inf)
    ones, none = np.ones(shape, int), np.zeros(shape, int)
    return Beam(regime, ones, none, zeros + 0j, zeros, zeros + 0j, zeros + 0j, log_prior, path)


def _extend(beam: Beam, x: Float[np.ndarray, "N 2"], rates, t: int, log_leave, log_stay) -> Beam:
    """Every hypothesis goes on in each of the three regimes."""
    seen, weights = np.nan_to_num(x), ~np.isnan(x)
    point = (seen[:, 0] + 1j * seen[:, 1])[:, None, None]
    both, uneven = (0.5 * (weights[:, 0] + sign * weights[:, 1])[:, None, None] for sign in (1.0, -1.0))

    def tripled(leaf):
        return np.concatenate([leaf] * 3, axis=2)

    former = Beam(*map(tripled, beam))
    regime = np.repeat(np.arange(3), BEAM)[None, None] + 0 * former.regime
    stays = regime == former.regime
    turns = former.turns + TURN[regime]
    place = former.place + np.exp(1j * rates[:, :, None] * turns)
    path = former.path
    path[..., t] = regime
    return Beam(
        regime,
        np.where(stays, former.age + 1, 1),
        turns,
        place,
        former.squares + both * np.abs(place) ** 2,
        former.skew + uneven * place**2,
        former.products + np.conj(place) * point,
        former.log_prior + np.where(stays, log_stay[former.age], log_leave[former.age]),
        path,
    )


def _score(beam: Beam, physics: Physics, noise: Float[np.ndarray, "N 1 1"]) -> Float[np.ndarray, "N W M"]:
    """log p(x, regimes | w) up to a constant: v integrated out, its estimate held to the known range of speeds.

    A weak prior on v, normal and as wide as the fastest speed, is all there is as long as one coordinate was not seen.
    """
    slowest, fastest = physics.speed
    variance = noise**2
    squares = beam.squares + variance / fastest**2
    determinant = squares**2 - np.abs(beam.skew) ** 2
    v = (squares * beam.products - np.conj(beam.skew * beam.products)) / determinant
    speed = np.clip(np.abs(v), slowest, fastest)
    v *= speed / np.maximum(np.abs(v), 1e-12)
    explained = (np.conj(beam.products) * 2 * v - beam.skew * v**2).real - squares * speed**2
    return beam.log_prior + explained / (2 * variance) - np.log(determinant / variance**2) / 2 - np.log(speed)


def _prune(beam: Beam, score: Float[np.ndarray, "N W M"]) -> Beam:
    keep = np.argpartition(-score, BEAM - 1, axis=2)[..., :BEAM]
    kept = {name: np.take_along_axis(getattr(beam, name), keep, axis=2) for name in Beam._fields if name != "path"}
    return Beam(**kept, path=np.take_along_axis(beam.path, keep[..., None], axis=2))
