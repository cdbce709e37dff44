"""Nothing changed: small fits, readers, exports and commands give the numbers that are stored (tests/golden/cases.py).

`SWERVE_GOLDEN=exact` asks for the last bit, as the machine that stored them gives it.
"""

import os

import cases
import golden_store as store
import jax
import pytest

EXACT = os.environ.get(store.VARIABLE) == "exact"
NAMES = [pytest.param(name, marks=[] if case.quick else [pytest.mark.slow]) for name, case in cases.CASES.items()]


@pytest.fixture(scope="module", autouse=True)
def compiled_alike():
    before = jax.config.read("jax_disable_most_optimizations")
    cases.alike()
    yield
    jax.config.update("jax_disable_most_optimizations", before)
    jax.clear_caches()


@pytest.fixture(autouse=True)
def one_case_after_the_other():
    """All slow cases in one process would hold more memory maps than it may have."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="module")
def stored():
    return store.load()["cases"]


def test_nothing_is_stored_that_no_case_computes(stored):
    assert set(stored) <= set(cases.CASES)


@pytest.mark.parametrize("name", NAMES)
def test_a_case_is_as_it_was(name, stored):
    if name not in stored:
        pytest.skip(f"not stored yet: python tests/golden/cases.py --write --only {name}")
    found = list(store.differences(stored[name], cases.compute(name), exact=EXACT))
    assert not found, "\n".join([f"{name}: {len(found)} numbers or words changed", *found[:40]])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"a": [1.0, 2.001], "n": 3, "w": "up"}, "a/1: was 2.0, is 2.001"),
        ({"a": [1.0, 2.0], "n": 4, "w": "up"}, "n: was 3, is 4"),
        ({"a": [1.0, 2.0], "n": 3, "w": "down"}, "w: was 'up', is 'down'"),
        ({"a": [1.0], "n": 3, "w": "up"}, "a/1: was 2.0, is 'nothing'"),
        ({"a": [1.0, 2.0, 5.0], "n": 3, "w": "up"}, "a/2: was 'nothing', is 5.0"),
    ],
)
def test_a_change_is_named_with_its_place(changed, said):
    assert list(store.differences({"a": [1.0, 2.0], "n": 3, "w": "up"}, changed)) == [said]


def test_the_last_bits_and_the_digests_of_bytes_count_only_where_all_must_be_exact():
    before, now = {"a": 1.0, "b/sha256": "x"}, {"a": 1.0 + 1e-9, "b/sha256": "y"}
    assert not list(store.differences(before, now))
    assert len(list(store.differences(before, now, exact=True))) == 2
