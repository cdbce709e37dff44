"""Recordings as the page's script reads them: numbers in few bytes, and a sentence wherever something was left out."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from swerve.report.panels import channel_name, deviations
from swerve.types import Recording, Skeleton

MOST_BYTES = 5_500_000  # of series; base64 makes them a third longer
MOST_IMAGE_BYTES = 1_500_000
MOST_COLUMNS = 40
SHOWN_AT_FIRST = 6
LARGEST_IMAGE = 64
COMPONENTS = 3
ALIKE = 0.9  # correlation beyond which one channel can stand for another
MISSING, LEVELS = 65535, 65534


@dataclass(frozen=True)
class Shown:
    """One recording and what was found in it."""

    recording: Recording
    labels: Int[np.ndarray, " T"]
    probabilities: Float[np.ndarray, "T K"]
    expected: Float[np.ndarray, "T D"]
    truth: Int[np.ndarray, " T"] | None = None
    """In the numbers of the labels; negative where it is unknown."""
    length: int = 0
    """Frames of the whole recording, where only its beginning is here."""

    def beginning(self, frames: int) -> "Shown":
        """The first frames of it."""
        one = self.recording

        def cut(array):
            return None if array is None else array[:frames]

        recording = Recording(
            one.x[:frames],
            name=one.name,
            columns=one.columns,
            image=one.image,
            times=cut(one.times),
            rows=cut(one.rows),
            skeleton=one.skeleton,
        )
        return Shown(
            recording,
            self.labels[:frames],
            self.probabilities[:frames],
            self.expected[:frames],
            cut(self.truth),
            max(self.length, len(self.recording)),
        )


@dataclass(frozen=True)
class Channels:
    """The lines of the timeline: columns of the recordings, or components where columns mean little by themselves."""

    names: tuple[str, ...]
    observed: list[Float[np.ndarray, "_ C"]]
    expected: list[Float[np.ndarray, "_ C"]]
    plane: tuple[int, int] | None = None
    """The two whose path is drawn in the plane."""
    joints: tuple[int, ...] | None = None
    """The channel of each coordinate of each joint; -1 where there is none."""
    notes: list[str] = field(default_factory=list)


def packed(recordings: Sequence[Shown]) -> dict[str, Any]:
    """What the script is given, as plain records; arrays are base64 of little-endian numbers."""
    channels = channels_of(recordings)
    notes = list(channels.notes)
    count, regimes = len(channels.names), recordings[0].probabilities.shape[1]
    lengths = [len(one.recording) for one in recordings]
    with_expected = sum(lengths) * (4 * count + regimes) <= MOST_BYTES
    if not with_expected:
        notes.append("What the model expects is left out of the timeline, to keep the page small.")
    longest = _longest(lengths, MOST_BYTES // ((4 if with_expected else 2) * count + regimes))
    low, high = _ranges(channels.observed)
    expected = channels.expected if with_expected else [None] * len(recordings)
    image = recordings[0].recording.image
    every, block = (1, 1) if image is None else _thinning(image, [min(n, longest) for n in lengths])
    if every > 1:
        notes.append(f"Of the images, every {_ordinal(every)} is shown.")
    if block > 1:
        notes.append(f"Images are shown at 1/{block} of their size.")
    shown = [one.beginning(longest) for one in recordings]
    notes += [
        f"Of {one.recording.name}, the first {len(one.recording):,} of {one.length:,} frames are shown."
        for one in shown
        if len(one.recording) < one.length
    ]
    labels = np.concatenate([one.labels for one in recordings])
    first = most_telling(channels.observed, labels, SHOWN_AT_FIRST)
    return {
        "columns": list(channels.names),
        "low": low.tolist(),
        "high": high.tolist(),
        "shown": first,
        "plane": channels.plane,
        "skeleton": _skeleton(recordings[0].recording.skeleton, channels.joints),
        "image": None if image is None else {"height": image[0] // block, "width": image[1] // block, "every": every},
        "notes": notes,
        "recordings": [
            _record(one, x[: len(one.recording)], None if e is None else e[: len(one.recording)], low, high)
            | ({} if image is None else _images(one, every, block))
            for one, x, e in zip(shown, channels.observed, expected, strict=True)
        ],
    }


def channels_of(recordings: Sequence[Shown]) -> Channels:
    """All columns if they are few; of images their components, of poses their joints, else the most telling ones."""
    first = recordings[0].recording
    observed = [one.recording.x for one in recordings]
    expected = [one.expected for one in recordings]
    names: tuple[str, ...] = tuple(channel_name(first.columns, d) for d in range(first.x.shape[1]))
    if first.image is not None:
        project = components(observed, min(COMPONENTS, len(names)), same_scale=True)
        lines = tuple(f"component {i + 1}" for i in range(min(COMPONENTS, len(names))))
        note = "The timeline shows the main directions in which the images change."
        return Channels(lines, [project(x) for x in observed], [project(x) for x in expected], notes=[note])
    if first.skeleton is not None:
        place = {name: i for i, name in enumerate(names)}
        joints = tuple(place.get(name, -1) for name in first.skeleton.columns)
        return Channels(names, observed, expected, joints=joints)
    notes = []
    plane = (0, 1) if len(names) == 2 else None
    paths: list[np.ndarray] = []
    if len(names) > 2:
        project = components(observed, 2)
        paths = [project(x) for x in observed]
    if len(names) > MOST_COLUMNS:
        labels = np.concatenate([one.labels for one in recordings])
        kept = np.sort(np.argsort(-contrast(observed, labels), kind="stable")[:MOST_COLUMNS])
        notes.append(f"Of {len(names):,} columns, the timeline has the {MOST_COLUMNS} that tell regimes apart best.")
        names = tuple(name for i, name in enumerate(names) if i in kept)
        observed, expected = [x[:, kept] for x in observed], [x[:, kept] for x in expected]
    if paths:
        plane = (len(names), len(names) + 1)
        names = (*names, "component 1", "component 2")
        observed = [np.concatenate([x, path], axis=1) for x, path in zip(observed, paths, strict=True)]
        expected = [np.concatenate([x, np.full((len(x), 2), np.nan)], axis=1) for x in expected]
    return Channels(names, observed, expected, plane=plane, notes=notes)


def components(observed: Sequence[Float[np.ndarray, "_ D"]], count: int, *, same_scale: bool = False):
    """A function from frames to their first principal components; gaps hold the mean.

    Columns are standardised, but for pixels, which all have the `same_scale`.
    """
    pooled = np.concatenate(list(observed))
    pooled = pooled[:: -(-len(pooled) // 4000)]
    seen = np.ma.masked_invalid(pooled)
    mean, scale = np.ma.filled(seen.mean(axis=0), 0.0), np.ma.filled(seen.std(axis=0), 1.0)
    widest = scale.max(initial=0.0) or 1.0
    scale = np.full_like(scale, widest) if same_scale else np.where(scale > 1e-6 * widest, scale, np.inf)

    def standardised(x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D"]:
        return np.nan_to_num((x - mean) / scale)

    axes = np.linalg.svd(standardised(pooled), full_matrices=False)[2][:count]
    axes = axes * np.where(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)] < 0, -1, 1)[:, None]

    def project(x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n count"]:
        nothing = np.isnan(x).all(axis=1, keepdims=True)
        return np.where(nothing, np.nan, standardised(x) @ axes.T)

    return project


def contrast(observed: Sequence[Float[np.ndarray, "_ C"]], labels: Int[np.ndarray, " N"]) -> Float[np.ndarray, " C"]:
    """How well each channel tells regimes apart: the share of its variance, or its steps', that lies between them."""
    steps = [np.diff(x, axis=0, prepend=np.full((1, x.shape[1]), np.nan)) for x in observed]
    return np.maximum(_between(np.concatenate(list(observed)), labels), _between(np.concatenate(steps), labels))


def most_telling(observed: Sequence[Float[np.ndarray, "_ C"]], labels: Int[np.ndarray, " N"], count: int) -> list[int]:
    """The channels to look at first: those that tell regimes apart, but no two that say the same."""
    pooled = np.concatenate(list(observed))
    values = np.nan_to_num(deviations(pooled, pooled))[:: -(-len(pooled) // 4000)]
    alike = np.abs(values.T @ values) / len(values)
    chosen: list[int] = []
    waiting = np.argsort(-contrast(observed, labels), kind="stable").tolist()
    for likeness in (ALIKE, np.inf):
        for channel in waiting:
            if len(chosen) < count and channel not in chosen and (alike[channel, chosen] < likeness).all():
                chosen.append(channel)
    return sorted(chosen)


def _between(values: Float[np.ndarray, "N C"], labels: Int[np.ndarray, " N"]) -> Float[np.ndarray, " C"]:
    seen = np.ma.masked_invalid(values)
    mean = np.ma.filled(seen.mean(axis=0), 0.0)
    explained = np.zeros(values.shape[1])
    for regime in np.unique(labels):
        part = seen[labels == regime]
        explained += part.count(axis=0) * (np.ma.filled(part.mean(axis=0), 0.0) - mean) ** 2
    total = np.ma.filled(((seen - mean) ** 2).sum(axis=0), 0.0)
    return np.divide(explained, total, out=np.zeros_like(explained), where=total > 0)


def _longest(lengths: Sequence[int], frames: int) -> int:
    """The most frames a recording may have so that all of them together have at most `frames`."""
    spare = frames
    for done, length in enumerate(sorted(lengths)):
        if length * (len(lengths) - done) >= spare:
            return max(1, spare // (len(lengths) - done))
        spare -= length
    return max(lengths)


def _ranges(observed: Sequence[Float[np.ndarray, "_ C"]]) -> tuple[np.ndarray, np.ndarray]:
    """What 0 and the highest level stand for: the channel's range and half as much again on either side.

    Expectations that lie beyond are drawn at the edge.
    """
    seen = np.ma.masked_invalid(np.concatenate(list(observed)))
    low, high = np.ma.filled(seen.min(axis=0), 0.0), np.ma.filled(seen.max(axis=0), 1.0)
    margin = np.where(high > low, (high - low) / 2, 0.5)
    return low - margin, high + margin


def _record(one: Shown, x, expected, low, high) -> dict[str, Any]:
    times, rows = one.recording.times, one.recording.rows
    return {
        "name": one.recording.name,
        "frames": len(one.recording),
        "length": one.length or len(one.recording),
        "x": _base64(_levels(x, low, high), "<u2"),
        "expected": None if expected is None else _base64(_levels(expected, low, high), "<u2"),
        "labels": _base64(one.labels, "<u2"),
        "probabilities": _base64(np.rint(255 * np.nan_to_num(one.probabilities)), "u1"),
        "truth": None if one.truth is None else _base64(np.where(one.truth < 0, MISSING, one.truth), "<u2"),
        "times": None if times is None else _base64(times, "<f8"),
        "rows": None if rows is None else _base64(rows, "<i4"),
    }


def _levels(values: Float[np.ndarray, "T C"], low: np.ndarray, high: np.ndarray) -> Int[np.ndarray, "C T"]:
    """Channel by channel, as whole numbers."""
    share = np.clip((values - low) / (high - low), 0, 1)
    return np.where(np.isnan(share), MISSING, np.rint(LEVELS * np.nan_to_num(share))).astype(int).T


def _thinning(image: tuple[int, int], lengths: Sequence[int]) -> tuple[int, int]:
    """Every so-many-th image, at one so-many-th of its size; observed and expected ones are kept."""
    block = -(-max(image) // LARGEST_IMAGE)
    pixels = 2 * (image[0] // block) * (image[1] // block)
    return -(-sum(lengths) * pixels // MOST_IMAGE_BYTES), block


def _images(one: Shown, every: int, block: int) -> dict[str, Any]:
    height, width = one.recording.image or (0, 0)
    low, high = np.nanmin(one.recording.x, initial=np.inf), np.nanmax(one.recording.x, initial=-np.inf)
    low, high = (low, high) if low < high else (0.0, 1.0)

    def small(x: Float[np.ndarray, "T D"]) -> str:
        frames = np.nan_to_num((x[::every] - low) / (high - low)).reshape(-1, height, width)
        frames = frames[:, : height // block * block, : width // block * block]
        blocks = frames.reshape(len(frames), height // block, block, width // block, block).mean(axis=(2, 4))
        return _base64(np.rint(255 * np.clip(blocks, 0, 1)), "u1")

    return {"images": small(one.recording.x), "drawn": small(one.expected)}


def _skeleton(skeleton: Skeleton | None, joints: tuple[int, ...] | None) -> dict[str, Any] | None:
    if skeleton is None or joints is None:
        return None
    return {
        "joints": list(skeleton.joints),
        "parents": list(skeleton.parents),
        "axes": len(skeleton.axes),
        "channels": list(joints),
    }


def _base64(values: np.ndarray, kind: str) -> str:
    return b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number // 10 % 10 != 1 else "th"
    return f"{number}{ending}"
