"""Dependencies between modules point one way (docs/how-it-works.md, "The house")."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "swerve"

# Each room and the rooms it may import from.
ALLOWED = {
    "types": set(),
    "errors": set(),
    "atomic": set(),  # whole files or none: anybody who writes
    "networks": {"types"},
    "coordconv": {"types", "networks"},
    "imagecode": {"types", "coordconv"},
    "messages": {"types"},
    "chunks": {"types", "messages"},
    "bridges": {"types"},
    "triangles": set(),
    "kalman": {"types", "triangles"},
    "arhmm": {"types", "messages", "chunks", "bridges"},
    "model": {"types", "networks", "coordconv", "messages"},
    "posterior": {"types", "networks", "coordconv", "bridges"},
    "system": {"types"},
    "objective": {"types", "messages", "model", "posterior", "system"},
    "collapsed": {"types", "messages", "chunks", "model", "posterior", "objective", "system"},
    "ofimages": {"types", "coordconv", "system"},
    "baselines": {
        *("types", "networks", "messages", "triangles", "kalman", "model", "posterior", "objective", "system"),
        "collapsed",
    },
    "schedule": {"types", "system"},
    "data": {"types", "errors", "atomic"},
    "evaluation": {"types"},
    "alignment": {"evaluation"},  # labels in, numbers out
    "names": {"errors"},
    "report": {"types", "atomic"},
    "training": {"types", "errors", "atomic", "messages", "model", "objective", "schedule", "system", "collapsed"},
    "stages": {"types"},
    "ensemble": set(),  # labels in, labels out
    "segment": {"types", "messages", "system"},
    # samples and forecasts, of the two models that are generative: an AR-HMM and our own system
    "generation": {"types", "messages", "arhmm", "objective", "system", "collapsed"},
    "trust": {"types", "errors", "evaluation"},  # compares labels, whatever model they come from
    "selection": {"types", "data", "training"},
}
TOP = {
    *(
        "config",
        "recipes",
        "settings",
        "build",
        "seeds",
        "preparation",
        "fitting",
        "run",
        "api",
        "cli",
        "commands",
        "display",
        "reporting",
        "demo",
        "export",
        "options",
        "reproduce",
    ),
    *("budget", "choice", "choosing", "claim", "applying", "fitted", "loading", "estimator", "forecasting"),
    *("boards", "story", "experiment", "results", "curves", "video", "repeats", "finished", "__init__"),
}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").startswith("swerve"):
            parts = node.module.split(".")
            rooms |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level > 0:
            pytest.fail(f"{path.name}: use absolute imports")
        elif isinstance(node, ast.Import):
            rooms |= {a.name.split(".")[1] for a in node.names if a.name.startswith("swerve.")}
    return rooms


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_module_imports_only_from_rooms_below_it(path):
    room = room_of(path)
    if room in TOP:
        return
    assert room in ALLOWED, f"{room} has no place in the house yet: add it to ALLOWED with a reason"
    assert imported_rooms(path) - {room} <= ALLOWED[room]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_pickle_no_eval(path):
    names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
    assert not names & {"pickle", "eval", "exec"}
