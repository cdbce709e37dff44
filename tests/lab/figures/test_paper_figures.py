"""The paper's figures: as many panels as there are sequences and models, and one colour for one regime."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from swerve.report import figures
from swerve.report.palette import regime_colors
from swerve_lab.figures.arm import arm
from swerve_lab.figures.paths import paths
from swerve_lab.figures.poses import posed_marginals
from swerve_lab.figures.reconstructions import time_weighted, video_reconstructions


def walks(n, frames, seed=0):
    return np.cumsum(np.random.default_rng(seed).normal(size=(n, frames, 2)), axis=1)


def cycling(frames, regimes, stay=7):
    return np.arange(frames) // stay % regimes


def legend_colors(figure):
    (legend,) = [one for one in figure.legends if one.get_title().get_text() == "regime"]
    names = [text.get_text() for text in legend.get_texts()]
    return dict(zip(names, [to_rgb(patch.get_facecolor()) for patch in legend.get_patches()], strict=True))


def titles(figure):
    return [title for axes in figure.axes if (title := axes.get_title(loc="left"))]


def ribbon_of(figure, title):
    (axes,) = [axes for axes in figure.axes if axes.get_title(loc="left") == title]
    return np.asarray(axes.images[0].get_array())[0]


def scene(frames):
    angles = np.linspace(0, 2, frames)
    elbow = 0.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    joints = np.stack([np.zeros_like(elbow), elbow, 2 * elbow], axis=1)
    objects = np.tile(np.array([[0.3, 0.1], [-0.2, 0.5], [0.6, -0.6]]), (frames, 1, 1))
    waiting = np.tile(np.array([True, True, False]), (frames, 1))
    return joints, objects, waiting


def test_paths_have_a_row_per_labelling_and_a_column_per_sequence(tmp_path):
    labels = np.stack([cycling(30, 3), cycling(30, 2)])
    figure = paths(walks(2, 30), {"truth": labels, "ours": labels, "theirs": labels}, sequences=["a", "b"])
    assert len(figure.axes) == 6
    assert titles(figure) == ["truth", "ours", "theirs"]
    assert [axes.get_title(loc="right") for axes in figure.axes] == ["a", "b", "", "", "", ""]
    assert figures.save(figure, tmp_path / "paths.png").read_bytes().startswith(b"\x89PNG")


def test_steps_of_a_path_have_the_colours_of_the_legend_and_switches_are_marked():
    labels, positions = cycling(20, 3)[None], walks(1, 20)
    found = np.where(labels == 2, 3, labels)
    figure = paths(positions, {"truth": labels, "ours": found}, regimes=("straight", "left", "right"))
    truth, ours = figure.axes
    named = legend_colors(figure)
    assert list(named) == ["straight", "left", "right", "unmatched"]
    shown = [[tuple(color) for color in axes.collections[0].get_colors()[:, :3]] for axes in (truth, ours)]
    assert [named["right"] in colors for colors in shown] == [True, False]
    assert named["unmatched"] in shown[1]
    assert [color for color, kept in zip(shown[0], labels[0, 1:] < 2, strict=True) if kept] == [
        color for color, kept in zip(shown[1], labels[0, 1:] < 2, strict=True) if kept
    ]
    (switches,) = [one for one in truth.collections if one.get_gid() == "switches"]
    np.testing.assert_array_equal(switches.get_offsets(), positions[0, [6, 13]])


def test_a_path_that_rests_can_be_drawn():
    paths(np.zeros((1, 5, 2)), {"truth": np.zeros((1, 5), int)}).canvas.draw()


def test_the_arm_is_shown_at_moments_of_every_true_regime(tmp_path):
    truth = np.array([0] * 20 + [1] * 2 + [2] * 20)
    found = {"ours": np.roll(truth, 3), "theirs": truth}
    figure = arm(*scene(42), truth, found, regimes=("one", "two", "three"))
    moments, ribbons = figure.axes[:-3], figure.axes[-3:]
    frames = [int(axes.get_title().removeprefix("frame ")) for axes in moments]
    assert 8 <= len(moments) <= 10
    assert set(truth[frames]) == {0, 1, 2}
    assert [axes.get_title(loc="left") for axes in ribbons] == ["truth (border above)", "ours (arm above)", "theirs"]
    for axes, t in zip(moments, frames, strict=True):
        assert to_rgb(axes.spines["left"].get_edgecolor()) == tuple(regime_colors(truth)[t])
        (drawn,) = [line for line in axes.lines if line.get_gid() == "arm"]
        np.testing.assert_array_equal(drawn.get_color(), regime_colors(found["ours"])[t])
    np.testing.assert_allclose(ribbon_of(figure, "theirs"), regime_colors(truth))
    assert list(legend_colors(figure)) == ["one", "two", "three"]
    assert figures.save(figure, tmp_path / "arm.png").read_bytes().startswith(b"\x89PNG")


def test_an_arm_of_a_few_frames():
    arm(*scene(2), np.array([0, 1]), {"ours": np.array([0, 0])}).canvas.draw()


def test_marginals_are_stacked_to_one_in_the_colours_of_the_truth(tmp_path):
    truth = cycling(30, 2)
    sure, unsure = np.eye(3)[truth], np.full((30, 4), 0.25)
    figure = figures.stacked_marginals(truth, {"ours": sure, "theirs": unsure}, regimes=("down", "up"))
    _, ours, theirs = figure.axes
    assert titles(figure) == ["truth", "ours", "theirs"]
    assert [len(axes.collections) for axes in (ours, theirs)] == [3, 4]
    for axes in (ours, theirs):
        tops = [area.get_paths()[0].vertices[:, 1].max() for area in axes.collections]
        assert tops[-1] == pytest.approx(1)
        for regime, area in enumerate(axes.collections):
            assert to_rgb(area.get_facecolor()[0]) == tuple(regime_colors(np.array([regime]))[0])
    np.testing.assert_allclose(ribbon_of(figure, "truth"), regime_colors(truth))
    assert list(legend_colors(figure)) == ["down", "up", "unmatched"]
    assert figures.save(figure, tmp_path / "marginals.png").read_bytes().startswith(b"\x89PNG")


def test_a_regime_that_is_never_probable_is_not_in_the_legend():
    truth = cycling(10, 2)
    figure = figures.stacked_marginals(truth, {"ours": np.eye(5)[truth]})
    assert list(legend_colors(figure)) == ["0", "1"]


def test_time_weighted_means_grow_with_time_and_with_staying():
    frames = np.zeros((4, 2, 2))
    frames[0, 0, 0] = frames[3, 0, 1] = frames[1:3, 1, 0] = 1.0
    shown = time_weighted(frames)
    np.testing.assert_allclose(shown, np.array([[0.25, 1.0], [0.5 + 0.75, 0.0]]) / 4)


def test_reconstructions_stand_beneath_their_originals_on_one_scale(tmp_path):
    original = np.random.default_rng(0).uniform(size=(3, 5, 4, 4))
    figure = video_reconstructions(original, {"ours": original / 2}, sequences=["a", "b", "c"])
    assert len(figure.axes) == 6
    assert titles(figure) == ["original", "ours"]
    for above, below in zip(figure.axes[:3], figure.axes[3:], strict=True):
        np.testing.assert_allclose(below.images[0].get_array(), above.images[0].get_array() / 2)
        assert below.images[0].norm is above.images[0].norm
    assert figures.save(figure, tmp_path / "videos.png").read_bytes().startswith(b"\x89PNG")


def drawn_with(rows):
    truth = cycling(12, 2)
    return {
        "paths": lambda: paths(walks(2, 12), {name: np.stack([row, row]) for name, row in rows.items()}),
        "arm": lambda: arm(*scene(12), truth, rows),
        "marginals": lambda: figures.stacked_marginals(truth, {name: np.eye(2)[row] for name, row in rows.items()}),
        "reconstructions": lambda: video_reconstructions(
            np.ones((1, 12, 2, 2)), {name: np.ones((1, len(row), 2, 2)) for name, row in rows.items()}
        ),
    }


@pytest.mark.parametrize("figure", drawn_with({}))
def test_rows_of_other_lengths_and_no_rows_at_all_are_refused(figure):
    drawn_with({"ours": cycling(12, 2)})[figure]()
    with pytest.raises(ValueError, match='"ours" has the shape'):
        drawn_with({"ours": cycling(11, 2)})[figure]()
    with pytest.raises(ValueError, match="nothing to draw"):
        drawn_with({})[figure]()


def test_poses_come_from_the_longest_stay_of_every_regime_that_was_found():
    truth, found = cycling(60, 3, stay=10), np.zeros((60, 3))
    found[:, 0] = 1.0
    found[20:25] = found[40:55] = np.array([0.0, 1.0, 0.0])
    pose = np.random.default_rng(0).normal(size=(60, 4, 3))
    figure = posed_marginals(truth, found, pose, (-1, 0, 1, 1), regimes=("still", "turning", "falling"))
    assert titles(figure) == ["direction of turns", "found", "still, frames 0 to 19", "turning, frames 40 to 54"]
    assert all(len(axes.lines) == 7 * 3 for axes in figure.axes[2:])
