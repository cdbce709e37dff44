"""Every module is in a room, and a room imports only from rooms below it (docs/architecture.md)."""

import ast

import pytest

from swerve.settings import kinds
from swerve_lab.studies.draw_house import SOURCE, Import, imports, is_room, modules, room_of

# Each room, the rooms that it may import from, and why. Files at the root are rooms of one module.
ROOMS = {
    "errors": ((), "the one error that is meant for users; anybody may raise it"),
    "types": (("errors",), "what a person meets; NumPy alone, so that it loads in no time"),
    "settings": (("errors",), "a wrong name is refused; read without JAX, before any model is"),
    "inference": (("types", "errors"), "arrays in, arrays out: knows no model, file or setting"),
    "data": (
        ("types", "errors", "settings", "inference"),
        "windows are cut as the frames that inference sums over, a run's folder keeps settings; knows no model",
    ),
    "choosing": (
        ("types", "errors", "settings", "inference", "data"),
        "judges numbers and labels, whatever model they come from; names kinds in its verdicts",
    ),
    "views": (("types", "errors", "inference", "data"), "small networks read recordings; knows no model"),
    "models": (
        ("types", "errors", "settings", "inference", "data", "choosing", "views"),
        "built from settings; an AR-HMM searches by itself, so that it judges candidates",
    ),
    "learning": (
        ("types", "errors", "settings", "inference", "data", "choosing", "views", "models"),
        "trains models, and tries several; knows no page or command",
    ),
    "report": (("types", "errors", "data"), "arrays in, pictures out: knows no model and no run"),
    "runs": (
        ("types", "errors", "settings", "inference", "data", "choosing", "views", "models", "learning", "report"),
        "puts the rooms together: models with all that belongs to them",
    ),
    "api": (
        ("types", "errors", "settings", "data", "choosing", "views", "models", "learning", "report", "runs"),
        "the verbs for Python, for everything that people may give them",
    ),
    "estimator": (
        ("types", "errors", "settings", "data", "views", "models", "learning", "runs", "api"),
        "the same in the words of scikit-learn",
    ),
    "swerve": (("types", "errors", "api", "estimator"), "the names that people import, and the version"),
    "cli": (
        ("types", "errors", "settings", "data", "choosing", "views", "learning", "report", "runs", "api", "swerve"),
        "the same as commands, which import what they need when they run",
    ),
}
MOST_AT_THE_ROOT = 16

# Imports that break the rule, each with the cut that will mend it. The list may only shrink.
NOT_YET: dict[tuple[str, str], str] = {}

BROKEN = sorted(
    {
        (one.importer, one.module)
        for one in imports()
        if room_of(one.importer) != room_of(one.module)
        and room_of(one.module) not in ROOMS.get(room_of(one.importer), ((), ""))[0]
    }
)


def test_every_module_is_in_a_room():
    assert {room_of(module) for module in modules()} == set(ROOMS)


def test_every_folder_is_a_package_that_says_what_it_is():
    packages = {module.rpartition(".")[0] for module in modules()} - {""}
    assert all(ast.get_docstring(modules()[package]) for package in packages)


def test_the_root_stays_small():
    files = [path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.is_file()]
    entries = {file.parts[0] for file in files if "__pycache__" not in file.parts}
    assert "py.typed" in entries
    assert len(entries) <= MOST_AT_THE_ROOT, sorted(entries)


def test_the_rule_points_down():
    rooms = list(ROOMS)
    for room, (allowed, reason) in ROOMS.items():
        assert set(allowed) <= set(rooms[: rooms.index(room)]), f"{room} may import from what lies above it"
        assert reason


def test_rooms_import_only_from_rooms_below_them():
    assert sorted(NOT_YET) == BROKEN, "mend what is new; what is no longer broken leaves NOT_YET"


def test_no_module_imports_itself_on_a_way_round():
    below = {module: {one.module for one in imports() if one.importer == module} for module in modules()}
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " -> ".join((*way[way.index(module) :], module))
        if module not in done:
            for other in sorted(below.get(module, ())):
                visit(other, (*way, module))
            done.add(module)

    for module in below:
        visit(module, ())


def test_every_name_is_imported_from_where_it_is_defined():
    at_second_hand = [one for one in imports() if one.module in modules() and not _is_at_home(one)]
    assert not at_second_hand


def _is_at_home(one: Import) -> bool:
    """A package may hand on what its `__all__` lists."""
    tree = modules()[one.module]
    return not one.name or one.name in _defined(tree) or (is_room(one.module) and one.name in _listed(tree))


def _defined(tree: ast.Module) -> set[str]:
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            names |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return names


def _listed(tree: ast.Module) -> set[str]:
    lists = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return {name for one in lists for name in ast.literal_eval(one)}


@pytest.mark.parametrize("module", modules())
def test_no_pickle_no_eval_no_relative_import(module):
    for node in ast.walk(modules()[module]):
        names = (
            {alias.name.split(".")[0] for alias in node.names}
            if isinstance(node, ast.Import | ast.ImportFrom)
            else set()
        )
        names |= {node.id} if isinstance(node, ast.Name) else set()
        assert not names & {"pickle", "eval", "exec"}
        assert not (isinstance(node, ast.ImportFrom) and node.level), "use absolute imports"


def test_only_models_know_which_kinds_there_are():
    asking = {module: _questions(module) for module in modules() if _may_not_ask(module)}
    assert not {module: asked for module, asked in asking.items() if asked}, "ask the registry what a kind offers"


def _may_not_ask(module: str) -> bool:
    return room_of(module) != "models" and module != "swerve.settings.kinds"


def _questions(module: str) -> list[str]:
    """Each `isinstance` of a class from models/, and each comparison with the name of a kind."""
    classes = {one.name for one in imports() if one.importer == module and room_of(one.module) == "models"}
    kind_names = {kinds.AUTO, *kinds.IN_THE_LABORATORY, *(kind.name for kind in kinds.every())}
    found = []
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            asked = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)} & classes
        elif isinstance(node, ast.Compare | ast.MatchValue):
            asked = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant)} & kind_names
        else:
            continue
        if asked:
            found.append(f"{ast.unparse(node)} in line {getattr(node, 'lineno', '?')}")
    return found
