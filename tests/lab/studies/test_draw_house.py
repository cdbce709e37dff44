"""The drawings of docs/architecture.md fit the code, and the paths that it and CONTRIBUTING.md name exist."""

import re

import pytest

from swerve_lab.figures.house import Box, rooms_drawing
from swerve_lab.studies.draw_house import PAGE, ROOT, SOURCE, stale

PATH = re.compile(r"`([a-z]+/[a-z0-9_./-]*)`")


def test_the_house_is_drawn_as_it_is():
    assert not stale()


@pytest.mark.parametrize("page", [PAGE, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_paths_that_are_named_exist(page):
    named = PATH.findall(page.read_text())
    missing = [path for path in named if not (ROOT / path).exists() and not (SOURCE / path).exists()]
    assert named
    assert not missing


def test_arrows_that_longer_ways_imply_are_left_out_and_wrong_ones_are_not():
    def box(name, height, imports=(), allowed=()):
        return Box(name, f"What {name} does.", 2 if height else 1, 250, imports, allowed, height)

    ground = box("ground", 0)
    low = box("low", 1, ("high",), ("ground",))
    middle = box("middle", 2, ("low",), ("ground", "low"))
    high = box("high", 3, ("ground", "low", "middle"), ("ground", "low", "middle"))
    drawing = rooms_drawing([ground, low, middle, high])
    assert drawing.count('class="line"') == 2
    assert drawing.count('class="wrong"') == 1
