"""What a regime is like: its mean steps through the plane, its mean pose, or its mean image."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from swerve.report.drawings import drawing, number, regime_paint, short, words
from swerve.report.markup import Markup, tag
from swerve.report.packing import Shown, channels_of
from swerve.report.pictures import image_tag
from swerve.report.spans import true_spans
from swerve.report.video import overlay
from swerve.types import Skeleton

CELLS = 11
FEWEST = 3  # frames that an arrow or a point of a curve stands for
MOST_DOTS = 500
MOST_POSES = 2000
SIDE = 240.0


def portraits(recordings: Sequence[Shown], regimes: Sequence[int]) -> list[Markup]:
    """One picture for each of these regimes, in the way that suits the recordings."""
    labels = [one.labels for one in recordings]
    first = recordings[0].recording
    if first.image is not None:
        return [_image_portrait(recordings, regime) for regime in regimes]
    channels = channels_of(recordings)
    if first.skeleton is not None and channels.joints is not None:
        poses = [poses_of(x, first.skeleton, channels.joints) for x in channels.observed]
        return _pose_portraits(poses, labels, first.skeleton, regimes)
    if channels.plane is None:
        observed = [x[:, 0] for x in channels.observed]
        return [_step_curve(observed, labels, regime, channels.names[0]) for regime in regimes]
    a, b = channels.plane
    plane = [x[:, [a, b]] for x in channels.observed]
    return _phase_portraits(plane, labels, regimes, (channels.names[a], channels.names[b]))


def _steps(observed: Sequence[np.ndarray], labels: Sequence[np.ndarray]):
    """Where each step began, the step, and the regime that made it: s_t moves x_{t-1} to x_t."""
    begin = np.concatenate([x[:-1] for x in observed])
    step = np.concatenate([np.diff(x, axis=0) for x in observed])
    regime = np.concatenate([s[1:] for s in labels])
    whole = np.isfinite(step if step.ndim == 1 else step.sum(axis=1))
    return begin[whole], step[whole], regime[whole]


def _step_curve(observed, labels, regime: int, name: str) -> Markup:
    """One channel: the mean step against where it starts, with the spread of single steps."""
    begin, step, which = _steps(observed, labels)
    mine = which == regime
    low, high = np.nanmin(begin, initial=np.inf), np.nanmax(begin, initial=-np.inf)
    tall = np.percentile(np.abs(step), 99) if len(step) else 1.0
    tall, wide = tall or 1.0, (high - low) or 1.0
    across = 8 + (SIDE - 16) * (begin - low) / wide
    up = SIDE / 2 - (SIDE / 2 - 28) * np.clip(step / tall, -1.05, 1.05)
    cell = np.clip((CELLS * (begin - low) / wide).astype(int), 0, CELLS - 1)
    dots = _dots(across[mine], up[mine], regime)
    centres, means = [], []
    for one in range(CELLS):
        here = mine & (cell == one)
        centres.append(8 + (SIDE - 16) * (one + 0.5) / CELLS)
        means.append(up[here].mean() if here.sum() >= FEWEST else np.nan)
    curve = _curve(np.array(centres), np.array(means))
    return drawing(
        SIDE,
        SIDE,
        f"Steps of regime {regime} against {name}",
        tag("line", x1=8, x2=SIDE - 8, y1=SIDE / 2, y2=SIDE / 2, class_="axis"),
        dots,
        tag("path", d=curve, class_="mean"),
        words(8, 14, f"step up to {number(tall)}", "start"),
        words(8, SIDE / 2 - 4, "no step", "start"),
        words(8, SIDE - 6, number(low), "start"),
        words(SIDE / 2, SIDE - 6, short(name, 24)),
        words(SIDE - 8, SIDE - 6, number(high), "end"),
    )


def _curve(x: np.ndarray, y: np.ndarray) -> str:
    seen = np.isfinite(y)
    return "M" + " L".join(f"{a:.1f},{b:.1f}" for a, b in zip(x[seen], y[seen], strict=True)) if seen.any() else "M0,0"


def _phase_portraits(plane, labels, regimes: Sequence[int], names: tuple[str, str]) -> list[Markup]:
    """Arrows of the mean step in every cell of the plane; frames of the regime lie behind them."""
    begin, step, which = _steps(plane, labels)
    if not len(begin):
        return [Markup("") for _ in regimes]
    low, high = np.percentile(begin, 0.5, axis=0), np.percentile(begin, 99.5, axis=0)
    wide = np.where(high > low, high - low, 1.0)
    inside = SIDE - 36
    corner = np.array([24.0, 8.0])
    flipped = np.array([1.0, -1.0])
    base = corner + np.array([0.0, inside])
    place = base + inside * flipped * (begin - low) / wide
    moved = inside * flipped * step / wide
    cell = np.clip(np.floor(CELLS * (begin - low) / wide), 0, CELLS - 1).astype(int) @ np.array([CELLS, 1])
    flat = which * CELLS**2 + cell
    size = (max(int(which.max()), *regimes) + 1) * CELLS**2
    count = np.bincount(flat, minlength=size)
    means = [np.bincount(flat, v, minlength=size) / np.maximum(count, 1) for v in (*place.T, *moved.T)]
    length = np.hypot(means[2], means[3])
    usual = np.percentile(length[count >= FEWEST], 90) if (count >= FEWEST).any() else 1.0
    zoom = 1.15 * inside / CELLS / (usual or 1.0)
    frame = tag("rect", x=corner[0], y=corner[1], width=inside, height=inside, class_="frame")
    axes = [
        words(corner[0] + inside / 2, SIDE - 8, short(names[0], 26)),
        tag("text", short(names[1], 26), x=0, y=0, text_anchor="middle",
            transform=f"translate(14 {corner[1] + inside / 2:g}) rotate(-90)"),
    ]  # fmt: skip
    drawn = []
    for regime in regimes:
        mine = which == regime
        arrows = [
            _arrow(np.array([means[0][i], means[1][i]]), zoom * np.array([means[2][i], means[3][i]]))
            for i in range(regime * CELLS**2, (regime + 1) * CELLS**2)
            if count[i] >= FEWEST
        ]
        within = mine & ((begin >= low) & (begin <= high)).all(axis=1)
        label = f"Mean steps of regime {regime} over {names[0]} and {names[1]}"
        drawn.append(
            drawing(SIDE, SIDE, label, frame, _dots(place[within, 0], place[within, 1], regime), *arrows, *axes)
        )
    return drawn


def _dots(x: np.ndarray, y: np.ndarray, regime: int) -> Markup:
    thin = slice(None, None, max(1, -(-len(x) // MOST_DOTS)))
    marks = "".join(f"M{a:.1f},{b:.1f}h0" for a, b in zip(x[thin], y[thin], strict=True))
    return tag("path", d=marks or "M0,0", stroke=regime_paint(regime), class_="dots")


def _arrow(start: Float[np.ndarray, " 2"], step: Float[np.ndarray, " 2"]) -> Markup:
    length = float(np.linalg.norm(step))
    if length < 0.5:
        return tag("circle", cx=float(start[0]), cy=float(start[1]), r=1.0, class_="still")
    along = step / length
    aside = np.array([along[1], -along[0]])
    tip, head = start + step, min(4.0, 0.6 * length)
    wings = [tip - head * along + side * 0.55 * head * aside for side in (1, -1)]
    ways = [start, tip, wings[0], tip, wings[1]]
    d = f"M{ways[0][0]:.1f},{ways[0][1]:.1f}" + "".join(f"L{x:.1f},{y:.1f}" for x, y in ways[1:])
    return tag("path", d=d, class_="step")


def poses_of(x: Float[np.ndarray, "T C"], skeleton: Skeleton, joints: Sequence[int]) -> Float[np.ndarray, "T J A"]:
    """Joint positions; a coordinate that was left out because it never changes is 0."""
    padded = np.concatenate([x, np.zeros((len(x), 1))], axis=1)
    return padded[:, list(joints)].reshape(len(x), len(skeleton.joints), len(skeleton.axes))


def _pose_portraits(poses, labels, skeleton: Skeleton, regimes: Sequence[int]) -> list[Markup]:
    """The mean pose from the front and from above, turned and moved to lie on one another, with the joints' steps."""
    pose = np.concatenate([p[1:] for p in poses])
    step = np.concatenate([np.diff(p, axis=0) for p in poses])
    which = np.concatenate([s[1:] for s in labels])
    whole = np.isfinite(step).all(axis=(1, 2))
    pose, step, which = pose[whole], step[whole], which[whole]
    if not len(pose):
        return [Markup("") for _ in regimes]
    thin = slice(None, None, -(-len(pose) // (MOST_POSES * max(1, len(regimes)))))
    pose, step = aligned(pose[thin], step[thin])
    which = which[thin]
    means = {k: (pose[which == k].mean(axis=0), step[which == k].mean(axis=0)) for k in regimes if (which == k).any()}
    if not means:
        return [Markup("") for _ in regimes]
    reach = np.max([np.abs(p).max(axis=0) for p, _ in means.values()], axis=0)
    fastest = max(np.linalg.norm(v, axis=1).max() for _, v in means.values()) or 1.0
    return [
        _pose_drawing(*means[k], skeleton, k, reach, 0.35 * reach.max() / fastest) if k in means else Markup("")
        for k in regimes
    ]


def aligned(
    pose: Float[np.ndarray, "n J A"], step: Float[np.ndarray, "n J A"]
) -> tuple[Float[np.ndarray, "n J A"], Float[np.ndarray, "n J A"]]:
    """Poses without their place, turned about the upright axis (y of three) like the mean pose; steps with them."""
    flat = [0, 2] if pose.shape[2] == 3 else [0, 1]
    pose = pose - pose.mean(axis=1, keepdims=True)
    plane = pose[..., flat] @ np.array([1, 1j])  # a turn is a complex factor
    reference = plane[0]
    for _ in range(5):
        turn = _unit((plane.conj() * reference).sum(axis=1))
        reference = (plane * turn[:, None]).mean(axis=0)
    spread = (reference**2).sum()
    turn = turn * _unit(np.atleast_1d(spread.conj())) ** 0.5  # the broad side of the mean pose lies along x
    pose, step = pose.copy(), step.copy()
    for array in (pose, step):
        turned = (array[..., flat] @ np.array([1, 1j])) * turn[:, None]
        array[..., flat[0]], array[..., flat[1]] = turned.real, turned.imag
    return pose, step


def _unit(values: np.ndarray) -> np.ndarray:
    size = np.abs(values)
    return np.where(size > 0, values / np.where(size > 0, size, 1), 1)


def _pose_drawing(pose, step, skeleton: Skeleton, regime: int, reach: Float[np.ndarray, " A"], zoom: float) -> Markup:
    solid = pose.shape[1] == 3
    views = {"from the front": [0, 1], "from above": [0, 2]} if solid else {"mean pose": [0, 1]}
    each = SIDE / len(views)
    parts: list[Markup] = []
    scale = min(0.47 * each / (reach[0] or 1.0), 0.43 * SIDE / (reach[1:].max() or 1.0))
    height = 2 * scale * (reach[1:].max() or 1.0) + 44
    up = np.array([1.0, -1.0]) if solid else np.array([1.0, 1.0])  # points in images count downwards
    for i, (name, axes) in enumerate(views.items()):
        middle = np.array([each * (i + 0.5), height / 2 - 8])
        signs = up if axes == [0, 1] else np.array([1.0, 1.0])
        spots, moves = middle + scale * signs * pose[:, axes], scale * zoom * signs * step[:, axes]
        bones = "".join(
            f"M{spots[p][0]:.1f},{spots[p][1]:.1f}L{spots[j][0]:.1f},{spots[j][1]:.1f}"
            for j, p in enumerate(skeleton.parents)
            if p >= 0
        )
        dots = "".join(f"M{x:.1f},{y:.1f}h0" for x, y in spots)
        parts += [
            tag("path", d=bones or "M0,0", stroke=regime_paint(regime), class_="bones"),
            tag("path", d=dots, stroke=regime_paint(regime), class_="joints"),
            *(_arrow(spot, move) for spot, move in zip(spots, moves, strict=True) if np.linalg.norm(move) > 4),
            words(middle[0], height - 6, name),
        ]
    return drawing(SIDE, height, f"Mean pose of regime {regime}", *parts)


def _image_portrait(recordings: Sequence[Shown], regime: int) -> Markup:
    """The mean image, and the images of the longest stay laid over one another, later ones brighter."""
    shape = recordings[0].recording.image
    mine = [one.labels == regime for one in recordings]
    images = np.concatenate([one.recording.x[here] for one, here in zip(recordings, mine, strict=True)])
    mean = np.ma.filled(np.ma.masked_invalid(images).mean(axis=0), 0.0).reshape(shape)
    first, begin, end = _longest_stay(mine)
    stay = np.nan_to_num(recordings[first].recording.x[begin:end]).reshape(-1, *(shape or ()))
    pictures = {"mean image": mean, f"longest stay, {end - begin} frames": overlay(stay)}
    return tag(
        "div",
        *(tag("div", image_tag(picture, name), tag("small", name)) for name, picture in pictures.items()),
        class_="images",
    )


def _longest_stay(mine: Sequence[Bool[np.ndarray, "_"]]) -> tuple[int, int, int]:
    stays = [(i, int(begin), int(end)) for i, one in enumerate(mine) for begin, end in true_spans(one)]
    return max(stays, key=lambda stay: stay[2] - stay[1])
