"""The rooms of Swerve, and what they hand to each other, as SVG text: readable, and the same for the same code."""

from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from itertools import permutations
from textwrap import wrap
from typing import NamedTuple

STYLE = """
  svg { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 12px; fill: #1f2933; }
  .page { fill: #ffffff; } .box { fill: #f2f5f9; stroke: #8795a8; } .ground { fill: #e6ebf1; stroke: #8795a8; }
  .name { font-size: 15px; font-weight: 600; } .quiet { fill: #5b6878; font-size: 11px; }
  .line, .life { fill: none; stroke: #3f5f8a; stroke-width: 1.5; } .life { stroke: #c3ccd8; stroke-width: 1; }
  .tip { fill: #3f5f8a; } .over { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; }
  .wrong { fill: none; stroke: #c0392b; stroke-width: 1.5; stroke-dasharray: 5 4; } .wrong-tip { fill: #c0392b; }
  @media (prefers-color-scheme: dark) {
    svg { fill: #e4e9ef; } .page { fill: #14181d; } .box { fill: #212831; stroke: #66758a; }
    .ground { fill: #2a323d; stroke: #66758a; } .quiet { fill: #9aa7b8; } .over { stroke: #14181d; }
    .line { stroke: #8db4e8; } .life { stroke: #3a4552; } .tip { fill: #8db4e8; }
    .wrong { stroke: #ff8a7a; } .wrong-tip { fill: #ff8a7a; }
  }
"""
MARGIN, GAP, STOREY = 24.0, 22.0, 44.0
LETTER = 6.5  # mean width of one at 12 pixels; generous, since fonts differ
BOX_WIDTH, BOX_LINE, GROUND = 290.0, 16.0, 66.0
LANE, STEP, HEAD = 130.0, 38.0, 64.0


class Box(NamedTuple):
    """One room."""

    name: str
    does: str
    modules: int
    lines: int
    imports: tuple[str, ...]
    """The rooms that it really imports from."""
    allowed: tuple[str, ...]
    """Those that it may import from."""
    height: int
    """Storeys above the ground."""


Slot = tuple[str, str]
"""In a storey: a room, twice its name; or where the arrow from one room to another passes by."""


class Place(NamedTuple):
    """Where a slot lies."""

    x: float
    top: float
    bottom: float


class Handover(NamedTuple):
    """A record that a function of one room hands to another."""

    function: str
    hands: str
    giver: str
    taker: str
    times: int


def rooms_drawing(rooms: Sequence[Box]) -> str:
    """Rooms in storeys; an arrow says "imports from". What longer ways of arrows imply is left out."""
    folders = {room.name for room in rooms if room.modules > 1}
    ground = [room for room in rooms if room.name not in folders and not folders & set(room.allowed)]
    upper = {room.name: room for room in rooms if room not in ground}
    used = {a: {b for b in room.imports if b in upper} for a, room in upper.items()}
    arrows = _needed({a: used[a] & set(upper[a].allowed) for a in upper})
    wrong = [(a, b) for a in upper for b in sorted(used[a] - set(upper[a].allowed))]
    storeys: list[list[Slot]] = []
    for height in sorted({room.height for room in upper.values()}, reverse=True):
        here = [(name, name) for name, room in upper.items() if room.height == height]
        here += [(a, b) for a, b in arrows if upper[a].height > height > upper[b].height]
        storeys.append(_in_good_order(here, storeys[-1] if storeys else [], arrows))
    width = 2 * MARGIN + max(_width(storey) for storey in storeys)
    at: dict[Slot, list[Place]] = {}
    boxes, y = [], MARGIN
    for storey in storeys:
        own = [upper[a] for a, b in storey if a == b]
        tall = max(map(_box_height, own))
        for slot, middle in _middles(storey).items():
            at.setdefault(slot, []).append(Place(width / 2 + middle, y, y + tall))
        boxes += [line for room in own for line in _box(room, at[room.name, room.name][0], tall)]
        y += tall + STOREY
    y += GAP - STOREY
    lines = [_arrow([*at[a, a], *at.get((a, b), []), *at[b, b]]) for a, b in arrows]
    lines += [_arrow([*at[a, a], *at[b, b]], style="wrong") for a, b in wrong]
    words = "The rooms of src/swerve, and what imports from what"
    return _page(width, y + GROUND + MARGIN, [*lines, *boxes, *_ground(ground, width, y)], words)


def way_drawing(ways: Mapping[str, Sequence[Handover]], order: Sequence[str]) -> str:
    """What is handed from room to room, one line each, from the first time on; time runs down."""
    used = {room for steps in ways.values() for one in steps for room in (one.giver, one.taker)}
    lanes = [room for room in order if room in used]
    at = {room: MARGIN + LANE / 2 + i * LANE for i, room in enumerate(lanes)}
    width = 2 * MARGIN + len(lanes) * LANE
    body, y = [], MARGIN
    for title, steps in ways.items():
        bottom = y + HEAD + len(steps) * STEP
        body.append(_text(MARGIN, y + 12, title, "name"))
        for room, x in at.items():
            body.append(f'<path class="life" d="M{x:g} {y + HEAD - 12:g}V{bottom:g}"/>')
            body.append(_text(x, y + HEAD - 20, room, "name", middle=True))
        for i, one in enumerate(steps):
            body += _handover(one, at[one.giver], at[one.taker], y + HEAD + (i + 0.7) * STEP)
        y = bottom + MARGIN
    return _page(width, y, body, "What one room hands to another while a model is fitted, and while it segments")


def _needed(imports: Mapping[str, set[str]]) -> list[Slot]:
    """The arrows that no longer way of arrows implies."""

    @cache
    def reached(room: str) -> set[str]:
        return imports[room].union(*map(reached, imports[room]))

    return [(a, b) for a, of in imports.items() for b in sorted(of) if not any(b in reached(c) for c in of)]


def _in_good_order(storey: Sequence[Slot], above: Sequence[Slot], arrows: Sequence[Slot]) -> list[Slot]:
    """The order with the shortest arrows from the storey above."""
    from_places = _middles(above)

    def length(order: Sequence[Slot]) -> float:
        to_places = _middles(order)
        starts = [(a, b, start) for a, b in arrows for start in ((a, a), (a, b)) if start in from_places]
        ends = [(start, end) for a, b, start in starts for end in ((a, b), (b, b)) if end in to_places]
        return sum((abs(from_places[start] - to_places[end]) for start, end in ends), 0.0)

    return list(min(permutations(sorted(storey)), key=length))


def _middles(storey: Sequence[Slot]) -> dict[Slot, float]:
    """Where the slots of a storey lie, seen from its middle."""
    left, found = -_width(storey) / 2, {}
    for slot in storey:
        found[slot] = left + _width([slot]) / 2
        left += _width([slot]) + GAP
    return found


def _width(storey: Sequence[Slot]) -> float:
    return sum((BOX_WIDTH if a == b else 0.0) + GAP for a, b in storey) - GAP


def _box(room: Box, place: Place, tall: float) -> list[str]:
    x, y = place.x - BOX_WIDTH / 2, place.top
    words = [(line, "") for line in _wrapped(room.does)]
    words += [(line, "quiet") for line in _facts(room)]
    return [
        f'<rect class="box" x="{x:g}" y="{y:g}" width="{BOX_WIDTH:g}" height="{tall:g}" rx="6"/>',
        _text(x + 12, y + 22, f"{room.name}/" if room.modules > 1 else f"{room.name}.py", "name"),
        *(_text(x + 12, y + 41 + i * BOX_LINE, line, style) for i, (line, style) in enumerate(words)),
    ]


def _facts(room: Box) -> list[str]:
    size = f"{room.modules} modules, about {room.lines:,} lines" if room.modules > 1 else f"about {room.lines:,} lines"
    return [size, *_wrapped(f"imports {', '.join(room.imports) or 'nothing of ours'}")]


def _box_height(room: Box) -> float:
    return 38.0 + BOX_LINE * (len(_wrapped(room.does)) + len(_facts(room)))


def _wrapped(words: str, width: float = BOX_WIDTH - 24) -> list[str]:
    return wrap(words, int(width / LETTER))


def _ground(rooms: Sequence[Box], width: float, y: float) -> list[str]:
    """What everybody may stand on."""
    wide = (width - 2 * MARGIN - (len(rooms) - 1) * GAP) / len(rooms)
    body = []
    for i, room in enumerate(rooms):
        x = MARGIN + i * (wide + GAP)
        body.append(f'<rect class="ground" x="{x:g}" y="{y:g}" width="{wide:g}" height="{GROUND:g}" rx="6"/>')
        body.append(_text(x + 12, y + 20, f"{room.name}.py", "name"))
        body += [
            _text(x + 12, y + 38 + k * BOX_LINE, line) for k, line in enumerate(_wrapped(room.does, wide - 24)[:2])
        ]
    return body


def _arrow(places: Sequence[Place], style: str = "line") -> str:
    """From the foot of the first box, between others, to the head of the last; one against the rule rises."""
    first, *between, last = places
    falls = last.top > first.bottom
    x, y = first.x + _aside(first.x, places[1].x), first.bottom if falls else first.top
    path = f"M{x:g} {y:g}"
    for place in between:
        path += f"{_bend(x, y, place.x, place.top)}V{place.bottom:g}"
        x, y = place.x, place.bottom
    tip = -8 if falls else 8
    to_x, to_y = last.x + _aside(last.x, x), last.top if falls else last.bottom
    path += _bend(x, y, to_x, to_y + tip)
    return f'<path class="{style}" d="{path}"/><path class="tip {style}-tip" d="M{to_x:g} {to_y:g}l-4.5 {tip}h9z"/>'


def _aside(x: float, other: float) -> float:
    """Arrows of one box do not start or end on one point."""
    return max(-BOX_WIDTH / 3, min(BOX_WIDTH / 3, (other - x) / 4))


def _bend(x: float, y: float, to_x: float, to_y: float) -> str:
    half = (to_y - y) / 2
    return f"C{x:g} {y + half:g} {to_x:g} {to_y - half:g} {to_x:g} {to_y:g}"


def _handover(one: Handover, x: float, to_x: float, y: float) -> list[str]:
    side = 1 if to_x > x else -1
    words = f"{one.hands}, {one.times:,} times" if one.times > 1 else one.hands
    return [
        _text((x + to_x) / 2, y - 5, words, "over", middle=True),
        _text((x + to_x) / 2, y + 13, one.function, "quiet over", middle=True),
        f'<path class="line" d="M{x:g} {y:g}H{to_x - 7 * side:g}"/>',
        f'<path class="tip" d="M{to_x:g} {y:g}l{-8 * side} -4.5v9z"/>',
    ]


def _text(x: float, y: float, words: str, style: str = "", *, middle: bool = False) -> str:
    attributes = (f' class="{style}"' if style else "") + (' text-anchor="middle"' if middle else "")
    return f'<text x="{x:g}" y="{y:g}"{attributes}>{escape(words)}</text>'


def _page(width: float, height: float, body: Sequence[str], title: str) -> str:
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    page = f'<rect class="page" width="{width:g}" height="{height:g}" rx="8"/>'
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<title>{escape(title)}</title>"]
    return "\n".join([*head, f"<style>{STYLE}</style>", page, *body, "</svg>\n"])
