"""Strict settings for every test: shapes checked by jaxtyping and beartype, no silent rank promotion."""

import os
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")

import jax
import pytest

ROOT = Path(__file__).resolve().parents[1]
COMPILED = ROOT / ".pytest_cache" / "compiled"  # modules, processes and scripts compile the same small programs
MANY_MAPS = 20_000  # Linux ends a process that wants more than 65,530

jax.config.update("jax_numpy_rank_promotion", "raise")
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(COMPILED)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
jax.config.update("jax_compilation_cache_dir", str(COMPILED))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)

SHARED_DATA = ROOT.parent / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    """Real recordings that lie beside the project, never in it."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real recordings are not beside this checkout (../shared/data)")
    return SHARED_DATA


@pytest.fixture(scope="module", autouse=True)
def not_too_much_compiled_is_kept():
    yield
    forget_what_is_too_much()


def forget_what_is_too_much() -> None:
    """Every compiled function holds on to memory maps, of which a process may have only so many."""
    maps = Path("/proc/self/maps")
    if not maps.exists() or len(maps.read_bytes().splitlines()) > MANY_MAPS:
        jax.clear_caches()


@pytest.fixture(scope="module")
def quick_compilation():
    """For modules whose time goes into compiling. What is made for the whole session is made before it."""
    with compiled_quickly():
        yield


@contextmanager
def compiled_quickly():
    """Little optimisation."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
