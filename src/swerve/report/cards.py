"""A card for every regime: how much of the time, for how long, what comes next, and what it is like."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from swerve.report.drawings import durations, number, regime_paint, successors
from swerve.report.markup import Markup, joined, tag
from swerve.report.packing import Shown
from swerve.report.portraits import portraits
from swerve.report.regimes import regime_spells, successor_shares

MOST_SUCCESSORS = 3


def regime_names(regimes: int, names: Sequence[str] = ()) -> list[str]:
    """What people call them; a regime without a name has its number."""
    return [names[k] if k < len(names) and names[k] else f"regime {k}" for k in range(regimes)]


def regime_section(recordings: Sequence[Shown], names: Sequence[str]) -> Markup:
    """All cards, and who follows whom."""
    labels = [one.labels for one in recordings]
    spells = regime_spells(labels)
    used = [k for k in range(len(names)) if k in spells]
    unused = [names[k] for k in range(len(names)) if k not in spells]
    time = np.array([spells[k].sum() if k in spells else 0 for k in range(len(names))], dtype=float)
    time = time / time.sum()
    shares = successor_shares(labels, len(names))
    unit = _frame_time(recordings)
    cards = [
        _card(k, names, time[k], spells[k], shares[k], unit, picture)
        for k, picture in zip(used, portraits(recordings, used), strict=True)
    ]
    graph = tag(
        "article",
        tag("h3", "What follows what"),
        tag("p", "A circle is as large as its regime's share of the time, an arrow as broad as it is often taken.",
            class_="quiet"),
        successors(shares, time, names) if len(used) > 1 else tag("p", "Only one regime is in use."),
        class_="card graph",
    )  # fmt: skip
    rest = [tag("p", f"Not used in what is shown: {', '.join(unused)}.", class_="quiet")] if unused else []
    return joined(tag("div", *cards, graph, class_="cards"), *rest)


def _card(
    regime: int,
    names: Sequence[str],
    share: float,
    lengths: Int[np.ndarray, " n"],
    successors_of: Float[np.ndarray, " K"],
    unit: float | None,
    picture: Markup,
) -> Markup:
    facts = [
        ("stays", f"{len(lengths):,}"),
        ("median stay", _duration(float(np.median(lengths)))),
        ("mean stay", _duration(float(lengths.mean()))),
        *([("median time", number(float(np.median(lengths)) * unit))] if unit else []),
    ]
    order = [k for k in np.argsort(-np.nan_to_num(successors_of)) if successors_of[k] > 0]
    after = [
        tag("span", _swatch(int(k)), f"{names[k]} {successors_of[k]:.0%}", class_="after")
        for k in order[:MOST_SUCCESSORS]
    ]
    return tag(
        "article",
        tag(
            "h3",
            _swatch(regime),
            tag("span", names[regime], class_="grow"),
            tag("b", f"{share:.1%}"),
        ),
        tag("div", tag("div", style=f"width:{100 * share:.2f}%;background:{regime_paint(regime)}"), class_="share"),
        tag("div", picture, class_="portrait"),
        tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts)),
        durations(lengths, regime),
        tag("p", "Then: ", *(after or ["nothing: it lasts to the end"]), class_="then"),
        tag("button", "Show its next stay", type="button", data_next=str(regime), class_="scripted"),
        class_="card",
        data_regime=str(regime),
    )


def _swatch(regime: int) -> Markup:
    return tag("i", class_="swatch", style=f"background:{regime_paint(regime)}")


def _duration(frames: float) -> str:
    return f"{frames:,.0f} frames" if frames >= 100 else f"{frames:.3g} frames"


def _frame_time(recordings: Sequence[Shown]) -> float | None:
    """The usual time from frame to frame, where times are known."""
    steps = [np.diff(one.recording.times) for one in recordings if one.recording.times is not None]
    pooled = np.concatenate(steps) if steps else np.zeros(0)
    return float(np.median(pooled)) if len(pooled) else None
