"""Draws the rooms of src/swerve and the way of a recording through them, from the code: docs/architecture.md.

    python -m swerve_lab.studies.draw_house [--follow | --check]

With --follow a small fit is followed while it runs (minutes), and what was handed on is kept in docs/images as JSON;
without, what was kept is drawn again. With --check nothing is written, and what is out of date is an error.
"""

import argparse
import ast
import json
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from swerve_lab.figures.house import Box, Handover, rooms_drawing, way_drawing

ROOT = Path(__file__).resolve().parents[3]
SOURCE, RULE = ROOT / "src" / "swerve", ROOT / "tests" / "test_imports.py"
PAGE, IMAGES = ROOT / "docs" / "architecture.md", ROOT / "docs" / "images"
WAY = IMAGES / "way-of-a-recording.json"
BEGIN, END = "<!-- rooms: written by swerve_lab.studies.draw_house -->", "<!-- end -->"
COARSE = 250  # lines: a drawing need not change with every commit
FRAMES, RECORDINGS = 120, 6
SMALL = (
    *("training.steps=20", "training.report_every=10", "training.restarts=2", "training.merging=0"),
    *("model.state_size=2", "arhmm.lags=[1]", "arhmm.features=[0]", "arhmm.restarts=2", "arhmm.max_iterations=5"),
)
YOU, DOORS = "you", ("api", "estimator", "cli")
ASIDE = ("settings",)  # rooms whose records are about a recording, and do not hold any of it


class Import(NamedTuple):
    """One name that a module imports from another module of Swerve; no name where it imports a module as a whole."""

    importer: str
    module: str
    name: str
    line: int


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax tree of every module of Swerve by its name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("swerve", *path.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text(), str(path))
    return found


@cache
def imports() -> tuple[Import, ...]:
    """All that modules of Swerve import from each other or from the laboratory, inside functions too."""
    return tuple(one for module in modules() for one in _imports_of(module))


def _imports_of(importer: str) -> Iterator[Import]:
    for node in ast.walk(modules()[importer]):
        if isinstance(node, ast.Import):
            found = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        for module, name in found:
            if module.split(".")[0] not in ("swerve", "swerve_lab"):
                continue
            whole = name != "" and (f"{module}.{name}" in modules() or is_room(f"{module}.{name}"))
            yield Import(importer, f"{module}.{name}" if whole else module, "" if whole else name, node.lineno)


def is_room(module: str) -> bool:
    """Whether this is a folder of modules."""
    return (SOURCE.parent / module.replace(".", "/")).is_dir()


def room_of(module: str) -> str:
    """The first name after `swerve`: a folder, or a file at the root."""
    package, *inside = module.split(".")
    return inside[0] if package == "swerve" and inside else package


@cache
def rule() -> dict[str, tuple[tuple[str, ...], str]]:
    """For each room those that it may import from, and why: ROOMS of tests/test_imports.py."""
    for node in ast.parse(RULE.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROOMS":
            return ast.literal_eval(node.value)
    raise LookupError(f"{RULE} has no ROOMS")


def heights() -> dict[str, int]:
    """How high above the ground a room lies: as high as those that may import from it allow."""
    rooms = [room for room in rule() if room != "swerve"]  # the door to all of them

    @cache
    def depth(room: str) -> int:
        return 1 + max((depth(above) for above in rooms if room in rule()[above][0]), default=-1)

    return {room: max(map(depth, rooms)) - depth(room) for room in rooms}


def boxes() -> list[Box]:
    """The rooms as they are drawn, each with what it really imports."""
    found = []
    for room, height in heights().items():
        own = [module for module in modules() if room_of(module) == room]
        used = {room_of(one.module) for one in imports() if room_of(one.importer) == room} & {*heights()} - {room}
        does = (ast.get_docstring(modules()[f"swerve.{room}"]) or "").splitlines()[0].replace("`", "")
        found.append(Box(room, does, len(own), _lines(own), tuple(sorted(used)), rule()[room][0], height))
    return found


def _lines(of: list[str]) -> int:
    count = sum(len(_path(module).read_text().splitlines()) for module in of)
    return max(COARSE, round(count / COARSE) * COARSE)


def _path(module: str) -> Path:
    path = SOURCE.parent / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def follow() -> dict[str, list[dict[str, Any]]]:
    """What one room hands to another, in order, while a small model is fitted and while it segments."""
    import jax

    import swerve

    with tempfile.TemporaryDirectory() as folder:
        for i in range(RECORDINGS):
            steps = np.random.default_rng(i).normal(size=(FRAMES, 2))
            np.savetxt(Path(folder, f"{i}.csv"), np.cumsum(steps, axis=0), delimiter=",", header="x,y", comments="")
        with _Followed() as fitting:
            run = swerve.fit(folder, 2, model="snlds", settings=SMALL)
        jax.clear_caches()  # what is compiled calls no Python any more
        with _Followed() as segmenting:
            swerve.segment(run, folder)
    return {"swerve.fit": fitting.handed(), "swerve.segment": segmenting.handed()}


class _Followed:
    """Watches functions of Swerve return to another room."""

    def __init__(self):
        self.seen: dict[tuple[str, str, str], dict[str, Any]] = {}

    def __enter__(self):
        threading.setprofile(self._hear)
        sys.setprofile(self._hear)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)

    def handed(self) -> list[dict[str, Any]]:
        return list(self.seen.values())

    def _hear(self, frame: FrameType, event: str, value: Any) -> None:
        giver = _module_of(frame)
        if event != "return" or giver is None:
            return
        back = frame.f_back
        while back is not None and _module_of(back) is None:  # JAX and others between
            back = back.f_back
        taker = None if back is None else _module_of(back)
        to = room_of(taker) if taker is not None else YOU if room_of(giver) in DOORS else room_of(giver)
        kind = _kind(value)
        if kind is None or to == room_of(giver) or room_of(giver) in ASIDE:
            return
        step = self.seen.setdefault(
            (room_of(giver), to, kind),
            {"function": f"{giver}.{_name(frame)}", "hands": kind, "to": to, "times": 0},
        )
        step["times"] += 1


def _module_of(frame: FrameType) -> str | None:
    module = frame.f_globals.get("__name__", "")
    return module if module.split(".")[0] == "swerve" and frame.f_code.co_filename.startswith(str(SOURCE)) else None


def _name(frame: FrameType) -> str:
    return frame.f_code.co_qualname.split(".<locals>")[0]


def _kind(value: Any) -> str | None:
    """What a record of Swerve's own that holds numbers is called; None for all else."""
    if isinstance(value, list) or type(value) is tuple:
        inner = _kind(value[0]) if value else None
        return inner and f"list of {inner.removeprefix('list of ')}"
    own = type(value).__module__.startswith("swerve.") and type(value).__module__.split(".")[1] not in ASIDE
    return type(value).__name__ if own and _holds_numbers(value) else None


def _holds_numbers(value: Any, depth: int = 3) -> bool:
    if getattr(value, "shape", None):
        return True
    if isinstance(value, list | tuple):
        return depth > 0 and any(_holds_numbers(one, depth - 1) for one in value[:8])
    return depth > 0 and any(_holds_numbers(one, depth - 1) for one in getattr(value, "__dict__", {}).values())


def ways() -> dict[str, list[Handover]]:
    """The way of a recording as it was followed last."""
    kept = json.loads(WAY.read_text())
    return {
        title: [
            Handover(
                one["function"].removeprefix("swerve."), one["hands"], room_of(one["function"]), one["to"], one["times"]
            )
            for one in steps
        ]
        for title, steps in kept.items()
    }


def gone() -> list[str]:
    """Functions and records on the way that the code does not have any more."""
    steps = [one for way in json.loads(WAY.read_text()).values() for one in way]
    classes = {node.name for tree in modules().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    records = {one["hands"].removeprefix("list of ") for one in steps} - classes
    return sorted({one["function"] for one in steps if not _exists(one["function"])} | records)


def _exists(function: str) -> bool:
    module = max((name for name in modules() if function.startswith(f"{name}.")), key=len, default=None)
    inside: list[ast.stmt] = [] if module is None else modules()[module].body
    for name in function.removeprefix(f"{module}.").split("."):
        found = [one for one in inside if isinstance(one, ast.FunctionDef | ast.ClassDef) and one.name == name]
        if not found:
            return False
        inside = found[0].body
    return True


def table() -> str:
    """What every room may import from, and why."""
    lines = ["| room | may import from | why |", "|---|---|---|"]
    for room, (allowed, reason) in reversed(rule().items()):
        lines.append(f"| `{room}` | {', '.join(allowed) or 'nothing'} | {reason} |")
    return "\n".join(lines)


def drawn() -> dict[Path, str]:
    """Every file that this script writes, as it should be."""
    order = sorted(heights(), key=lambda room: (heights()[room], room))
    between = f"{BEGIN}\n\n{table()}\n\n{END}"
    return {
        IMAGES / "rooms.svg": rooms_drawing(boxes()),
        IMAGES / "way-of-a-recording.svg": way_drawing(ways(), [*order, YOU]),
        PAGE: re.sub(f"{BEGIN}.*{END}", lambda _: between, PAGE.read_text(), flags=re.DOTALL),
    }


def stale() -> list[str]:
    """What is out of date, in words."""
    found = [
        f"{path.relative_to(ROOT)} is out of date: python -m swerve_lab.studies.draw_house"
        for path, text in drawn().items()
        if not path.exists() or path.read_text() != text
    ]
    lost = gone()
    if lost:
        found.append(
            f"The way has {', '.join(lost)}, the code has not: python -m swerve_lab.studies.draw_house --follow"
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--follow", action="store_true")
    how.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    if asked.follow:
        WAY.write_text(json.dumps(follow(), indent=1) + "\n")
    if not asked.check:
        for path, text in drawn().items():
            path.write_text(text)
    if found := stale():
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
