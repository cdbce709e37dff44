"""The best any model could do on the bouncing ball: the physics are known, position and speed are fitted.

Because the ball turns before a step that would cross a wall, it walks to and fro on the points of a lattice,
position_t = p + v i_t, where the whole number i_t climbs from 0 to a, falls to a - m, climbs again and so on.
A course is the pair (a, m); a ball that starts downwards is an upward one seen from the other wall. Given the
course, p and v solve a linear least-squares problem under the few inequalities that make the ball turn just
there, and there are few enough courses to try them all: the fit is the exact maximum of the likelihood.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

BLOCK = 200_000  # sequences times courses fitted at once


@dataclass(frozen=True)
class BallFit:
    """Maximum-likelihood start, signed start velocity, course and regimes (1 up, 0 down) of each sequence."""

    position: Float[np.ndarray, " N"]
    velocity: Float[np.ndarray, " N"]
    clean: Float[np.ndarray, "N T"]
    s: Int[np.ndarray, "N T"]


@dataclass(frozen=True)
class Courses:
    """R courses, and for each the (p, v) that take it: normals @ (p, v) <= limits."""

    steps: Float[np.ndarray, "R T"]  # i_t
    normals: Float[np.ndarray, "R C 2"]
    limits: Float[np.ndarray, "R C"]


@dataclass(frozen=True)
class Edges:
    """The borders of those (p, v), as segments from `start` to `start + along`."""

    course: Int[np.ndarray, " E"]
    start: Float[np.ndarray, "E 2"]
    along: Float[np.ndarray, "E 2"]


class Moments(NamedTuple):
    """Sums over the observed frames of n sequences: of 1, i, i^2, x, i x and x^2, for each course."""

    n: Float[np.ndarray, "n 1"]
    i: Float[np.ndarray, "n R"]
    ii: Float[np.ndarray, "n R"]
    x: Float[np.ndarray, "n 1"]
    ix: Float[np.ndarray, "n R"]
    xx: Float[np.ndarray, "n 1"]

    def of(self, course: Int[np.ndarray, " E"]) -> "Moments":
        """The same for a list of courses."""
        return Moments(self.n, self.i[:, course], self.ii[:, course], self.x, self.ix[:, course], self.xx)

    def error(self, p: Float[np.ndarray, "n R"], v: Float[np.ndarray, "n R"]) -> Float[np.ndarray, "n R"]:
        """sum_t (x_t - p - v i_t)^2."""
        return self.xx + self.n * p**2 + 2 * self.i * p * v + self.ii * v**2 - 2 * (self.x * p + self.ix * v)


class Candidates(NamedTuple):
    """Squared error and parameters, one candidate per column."""

    error: Float[np.ndarray, "n R"]
    p: Float[np.ndarray, "n R"]
    v: Float[np.ndarray, "n R"]


def fit_bouncing_ball(x: Float[np.ndarray, "N T 1"], *, walls: float = 10.0, max_speed: float = 0.5) -> BallFit:
    """The most likely course of every sequence under Gaussian noise of any size; NaN frames do not count.

    x can not show a turn before the first step, so the first regime is taken to be the second one.
    """
    N, T, _ = x.shape
    if T < 2:
        raise ValueError(f"the oracle needs at least two frames, not {T}")
    courses = _courses(T, walls, max_speed)
    edges = _edges(courses)
    upward = x[..., 0]
    both_views = np.concatenate([upward, walls - upward])
    size = max(1, BLOCK // len(courses.steps))
    parts = [_best(both_views[i : i + size], courses, edges) for i in range(0, 2 * N, size)]
    error, p, v, course = (np.concatenate(part) for part in zip(*parts, strict=True))

    down = error[N:] < error[:N]
    chosen = np.arange(N) + N * down
    steps = courses.steps[course[chosen]]
    clean = p[chosen, None] + v[chosen, None] * steps
    climbs = np.diff(steps, axis=1) > 0
    s = np.concatenate([climbs[:, :1], climbs], axis=1) != down[:, None]
    return BallFit(
        position=np.where(down, walls - p[chosen], p[chosen]),
        velocity=np.where(down, -v[chosen], v[chosen]),
        clean=np.where(down[:, None], walls - clean, clean),
        s=s.astype(np.int32),
    )


def _courses(T: int, walls: float, max_speed: float) -> Courses:
    """All ways to climb a >= 1 steps, then fall and climb over m.

    No ball turns after fewer than m steps where (m + 2) max_speed > walls: both turns are within v of a wall.
    """
    shortest = max(1, int(np.floor(walls / max_speed - 2)) + 1)
    turns_once_or_never = [(a, T) for a in range(1, T)]
    turns_twice = [(a, m) for m in range(shortest, T) for a in range(1, min(m, T - 2 - m) + 1)]
    a, m = np.array(turns_once_or_never + turns_twice).T
    after = np.maximum(np.arange(T)[None, :] - a[:, None], 0) % (2 * m[:, None])
    fall = np.minimum(after, 2 * m[:, None] - after)
    steps = np.minimum(np.arange(T)[None, :], a[:, None]) - fall

    lowest = steps.min(axis=1)
    always, turns_above, turns_below = np.full(len(a), True), a < T - 1, a + m < T - 1
    inequalities = [  # (p, v, limit, where it holds):  p-factor * p + v-factor * v <= limit
        (1.0, a, walls, always),  # the highest point lies below the upper wall
        (-1.0, -(a + 1), -walls, turns_above),  # one step more would not
        (-1.0, -lowest, 0.0, always),  # the lowest point lies above the lower wall
        (1.0, lowest - 1, 0.0, turns_below),  # one step more would not
        (0.0, -1.0, 0.0, always),
        (0.0, 1.0, max_speed, always),
    ]
    normals = [np.stack([p * holds, v * holds], axis=-1) for p, v, _, holds in inequalities]
    limits = [np.where(holds, limit, 1.0) for _, _, limit, holds in inequalities]
    return Courses(steps.astype(float), np.stack(normals, axis=1).astype(float), np.stack(limits, axis=1))


def _edges(courses: Courses) -> Edges:
    """Each inequality's line, clipped by the other inequalities."""
    normals, limits = courses.normals, courses.limits
    length = np.linalg.norm(normals, axis=-1, keepdims=True)
    unit = normals / np.where(length > 0, length, 1.0)
    origin = unit * limits[..., None] / np.where(length > 0, length, 1.0)
    direction = np.stack([-unit[..., 1], unit[..., 0]], axis=-1)

    # origin + f direction keeps inequality k while  slope f <= room
    slope = np.einsum("rkd,rcd->rck", normals, direction)
    room = limits[:, None, :] - np.einsum("rkd,rcd->rck", normals, origin)
    parallel = np.abs(slope) < 1e-12
    bound = room / np.where(parallel, 1.0, slope)
    low = np.where(~parallel & (slope < 0), bound, -np.inf).max(axis=-1)
    high = np.where(~parallel & (slope > 0), bound, np.inf).min(axis=-1)
    kept = (length[..., 0] > 0) & (low <= high) & np.all(~parallel | (room > -1e-9), axis=-1)

    start = origin[kept] + low[kept, None] * direction[kept]
    stop = origin[kept] + high[kept, None] * direction[kept]
    return Edges(course=np.nonzero(kept)[0], start=start, along=stop - start)


def _best(x: Float[np.ndarray, "n T"], courses: Courses, edges: Edges) -> tuple[np.ndarray, ...]:
    """(squared error, p, v, course) of the best course of each sequence."""
    moments = _moments(x, courses)
    inside = _free_minimum(moments, courses)
    on_edge = _edge_minimum(moments, edges)
    error, p, v = (np.concatenate(pair, axis=1) for pair in zip(inside, on_edge, strict=True))
    course = np.concatenate([np.arange(len(courses.steps)), edges.course])
    best = error.argmin(axis=1)
    row = np.arange(len(x))
    return error[row, best], p[row, best], v[row, best], course[best]


def _moments(x: Float[np.ndarray, "n T"], courses: Courses) -> Moments:
    seen = ~np.isnan(x)
    filled, weight = np.where(seen, x, 0.0), seen.astype(float)
    return Moments(
        n=weight.sum(axis=1, keepdims=True),
        i=weight @ courses.steps.T,
        ii=weight @ (courses.steps**2).T,
        x=filled.sum(axis=1, keepdims=True),
        ix=filled @ courses.steps.T,
        xx=(filled**2).sum(axis=1, keepdims=True),
    )


def _free_minimum(moments: Moments, courses: Courses) -> Candidates:
    """Plain least squares, where it keeps the inequalities."""
    n, i, ii, x, ix, _ = moments
    determinant = n * ii - i * i
    solvable = determinant > 1e-9
    safe = np.where(solvable, determinant, 1.0)
    p, v = (x * ii - i * ix) / safe, (n * ix - i * x) / safe
    kept = np.all(
        p[..., None] * courses.normals[..., 0] + v[..., None] * courses.normals[..., 1] <= courses.limits,
        axis=-1,
    )
    return Candidates(np.where(kept & solvable, moments.error(p, v), np.inf), p, v)


def _edge_minimum(moments: Moments, edges: Edges) -> Candidates:
    """Least squares along each edge."""
    at_edge = moments.of(edges.course)
    n, i, ii, x, ix, _ = at_edge
    (p0, v0), (dp, dv) = edges.start.T, edges.along.T
    slope = dp * (n * p0 + i * v0 - x) + dv * (i * p0 + ii * v0 - ix)
    curvature = n * dp**2 + 2 * i * dp * dv + ii * dv**2
    share = np.clip(-slope / np.maximum(curvature, 1e-12), 0.0, 1.0)
    p, v = p0 + share * dp, v0 + share * dv
    return Candidates(at_edge.error(p, v), p, v)
