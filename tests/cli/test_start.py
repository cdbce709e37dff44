"""What is quick to start loads nothing heavy."""

import subprocess
import sys

import pytest

HEAVY = ["jax", "jaxlib", "equinox", "optax", "sklearn", "scipy", "pandas", "matplotlib"]


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--version"], *([command, "--help"] for command in ("demo", "fit", "segment", "evaluate", "report"))],
    ids=" ".join,
)
def test_help_waits_for_nothing_heavy(words):
    assert loaded_by(f"from swerve.cli.main import app; app({words}, standalone_mode=False)") == []


def test_importing_swerve_waits_for_nothing_heavy():
    assert loaded_by("import swerve; dir(swerve)") == []
    assert loaded_by("from swerve import InputError, Recording, Segmentation, Forecast") == []


def test_every_name_is_there_when_it_is_asked_for():
    import swerve

    assert {name for name in dir(swerve) if name in swerve.__all__} == set(swerve.__all__)
    assert all(getattr(swerve, name).__name__ == name for name in swerve.__all__ if name != "Series")
    assert swerve.Series is swerve.Recording
    with pytest.raises(AttributeError, match="module 'swerve' has no attribute 'fitt'"):
        swerve.fitt  # noqa: B018


def loaded_by(program: str) -> list[str]:
    """What of the heavy packages a fresh Python has loaded afterwards."""
    ending = f"import sys; print('loaded:', *(name for name in {HEAVY} if name in sys.modules))"
    shown = subprocess.run([sys.executable, "-c", f"{program}\n{ending}"], capture_output=True, text=True, check=True)
    return shown.stdout.rpartition("loaded:")[2].split()
