"""What is in the package that people install, and what is not."""

import ast
import tomllib
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

from swerve.settings import kinds

SOURCE = ROOT / "src" / "swerve"


def test_the_wheel_holds_swerve_alone(tmp_path):
    wheel = pytest.importorskip("hatchling.builders.wheel")
    built = next(wheel.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    names = [Path(name) for name in zipfile.ZipFile(built).namelist()]
    assert {name.parts[0].split("-")[0] for name in names} == {"swerve"}
    packed = {name for name in names if name.parts[0] == "swerve"}
    there = {one.relative_to(SOURCE.parent) for one in SOURCE.rglob("*") if one.is_file()}
    assert packed == {one for one in there if "__pycache__" not in one.parts}
    assert {".css", ".html", ".js", ".py"} <= {one.suffix for one in packed}


def test_the_wheel_is_told_to_hold_swerve_alone():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["src/swerve"]}
    assert settings["project"]["scripts"] == {"swerve": "swerve.cli.main:main"}


def test_no_module_knows_the_laboratory():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "swerve_lab" for name in names), path


@pytest.mark.parametrize("kind", kinds.every(), ids=lambda kind: kind.name)
def test_every_model_that_is_known_can_be_loaded(kind):
    assert kind.maker() is not None
