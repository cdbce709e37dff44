"""The stored numbers: where they lie, and how new ones are compared with them."""

import json
import math
import os
import platform
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from golden_record import flat

HERE = Path(__file__).resolve().parent
STORED = HERE / "stored.json"
TOLERANCE = 1e-5
MISSING = "nothing"
VARIABLE = "SWERVE_GOLDEN"


def load() -> dict[str, Any]:
    """Everything stored; empty where nothing is."""
    return json.loads(STORED.read_text()) if STORED.is_file() else {"about": {}, "cases": {}}


def save(found: dict[str, Any]) -> None:
    """Adds cases to those that are stored, or replaces them."""
    stored = load()
    cases = {**stored["cases"], **found}
    lines = [f"{json.dumps(name)}: {json.dumps(cases[name], sort_keys=True)}" for name in sorted(cases)]
    text = f'{{"about": {json.dumps(about(), indent=1)},\n"cases": {{\n' + ",\n".join(lines) + "\n}}\n"
    STORED.write_text(text)


def about() -> dict[str, Any]:
    """What the numbers were made with."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False)
    packages = ("jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "scikit-learn", "pyarrow")
    return {
        "commit": commit.stdout.strip(),
        "versions": {name: version(name) for name in packages},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def differences(stored: Any, found: Any, *, exact: bool = False) -> Iterator[str]:
    """Every number or word that is not as it was, with its place, the old one and the new one.

    Numbers with a fraction may differ by a hundred-thousandth, and digests of bytes are skipped, unless it is `exact`.
    """
    old, new = flat(stored), flat(json.loads(json.dumps(found)))
    for place in [*old, *(place for place in new if place not in old)]:
        if not exact and place.rsplit("/", 1)[-1] == "sha256" and place in old and place in new:
            continue
        before, now = old.get(place, MISSING), new.get(place, MISSING)
        if not _same(before, now, exact):
            yield f"{place}: was {before!r}, is {now!r}"


def _same(before: Any, now: Any, exact: bool) -> bool:
    if not (isinstance(before, float) and isinstance(now, float)):
        return type(before) is type(now) and before == now
    if math.isnan(before) or math.isnan(now):
        return math.isnan(before) and math.isnan(now)
    return before == now if exact else math.isclose(before, now, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
