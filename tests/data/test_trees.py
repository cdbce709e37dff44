"""Files that hold arrays and nothing else: whole, or refused with a reason; never half-written."""

import json
import math
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from safetensors.numpy import save_file

from swerve.data.trees import FORMAT, HEADER, load_about, load_tree, save_tree, write_json
from swerve.errors import InputError


class Tree(NamedTuple):
    weights: dict
    step: np.ndarray


def tree(seed=0, size=3):
    rng = np.random.default_rng(seed)
    return Tree(
        {"a": rng.normal(size=(2, size)).astype(np.float32), "b": [rng.normal(size=()).astype(np.float32)]},
        np.int32(seed) * np.ones((), np.int32),
    )


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.safetensors"
    save_tree(path, tree(1), {"name": "Zoë", "alive": [0, 2], "bound": None})
    return path


def equal(one, other):
    assert one.weights["a"].dtype == other.weights["a"].dtype
    np.testing.assert_array_equal(one.weights["a"], other.weights["a"])
    np.testing.assert_array_equal(one.weights["b"][0], other.weights["b"][0])
    assert one.step == other.step


def test_a_file_gives_back_what_it_was_given(path):
    restored, about = load_tree(path, tree(2))
    equal(restored, tree(1))
    assert about == load_about(path) == {"format": FORMAT, "name": "Zoë", "alive": [0, 2], "bound": None}


def test_writing_again_replaces_the_file(path):
    save_tree(path, tree(5), {})
    equal(load_tree(path, tree())[0], tree(5))
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_file_cut_short_is_refused(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    refused(path, "damaged")


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes_are_refused(path, seed):
    path.write_bytes(np.random.default_rng(seed).bytes(1000))
    refused(path, "damaged")


def test_a_foreign_file_is_refused(path):
    save_file({"a": np.zeros(3)}, path)
    refused(path, "not written by Swerve")


def test_a_newer_format_is_refused(path):
    save_file({"a": np.zeros(3)}, path, metadata={HEADER: json.dumps({"format": FORMAT + 1})})
    refused(path, "newer")


def test_a_missing_file_and_a_folder_are_refused(path, tmp_path):
    path.unlink()
    refused(path, "no file")
    path.mkdir()
    refused(path, "no file")


def refused(path, reason, like=None):
    with pytest.raises(InputError, match=reason) as error:
        load_tree(path, tree() if like is None else like)
    assert str(path) in str(error.value)


def test_other_shapes_types_and_names_are_refused(path):
    original = tree()
    refused(path, r"weights\.a as float32\(2, 3\), not as float32\(2, 4\)", tree(size=4))
    refused(path, r"step as int32\(\), not as float32\(\)", original._replace(step=np.zeros((), np.float32)))
    refused(path, r"lacks the array weights\.c", original._replace(weights={**original.weights, "c": np.zeros(2)}))
    refused(path, r"unknown array weights\.b", original._replace(weights={"a": original.weights["a"]}))


@pytest.mark.parametrize(("owner", "name"), [(os, "fsync"), (Path, "replace")])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(path, monkeypatch, owner, name):
    before = path.read_bytes()

    def fail(*_):
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, fail)
        with pytest.raises(OSError, match="no space"):
            save_tree(path, tree(9), {})
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_the_content_is_on_disk_before_the_name_is(path, monkeypatch):
    calls = []
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("fsync"))
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, target: (calls.append("replace"), replace(self, target)))
    save_tree(path, tree(3), {})
    assert calls[:2] == ["fsync", "replace"]


def test_json_is_readable_and_replaced_whole(tmp_path):
    path = tmp_path / "run.json"
    for content in ({"a": [1, None]}, {"b": 2}):
        write_json(path, content)
        assert json.loads(path.read_text()) == content
    assert len(list(tmp_path.iterdir())) == 1


def test_json_has_null_for_what_is_no_number(tmp_path):
    def refuse(constant):
        raise AssertionError(constant)

    path = tmp_path / "trust.json"
    write_json(path, {"a": [math.nan, (1.5, -math.inf)], "b": {"c": np.float64(np.inf)}, "d": [2, "NaN", None, True]})
    stored = json.loads(path.read_text(), parse_constant=refuse)
    assert stored == {"a": [None, [1.5, None]], "b": {"c": None}, "d": [2, "NaN", None, True]}
