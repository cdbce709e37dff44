"""Each drawing of swerve_lab.studies.figures on a few sequences of its board, by a model that knows the truth."""

from types import SimpleNamespace

import numpy as np
import pytest

from swerve.runs.run import Run
from swerve.types import Segmentation
from swerve_lab.boards import catalog as boards
from swerve_lab.studies import figures


class Knowing(Run):
    """Stands for a run: the truth under other numbers, and x itself as what it expects."""

    def __init__(self):
        pass

    def segment(self, series, **_):
        labels = [2 - one.s.astype(int) % 3 for one in series]
        return [Segmentation(own, np.eye(3)[own], np.arange(len(own))) for own in labels]

    def infer(self, series, **_):
        return [SimpleNamespace(expected=one.x) for one in series]


@pytest.mark.parametrize(
    ("name", "board", "panels"),
    [
        ("paths", "dubins-positions-0.01", 3 * 4),
        ("paths-video", "dubins", 3 * 4),
        ("arm", "reacher", 9 + 3),
        ("marginals", "reacher", 3),
        ("marginals-ball", "bouncing-ball", 3),
        ("reconstructions", "dubins", 3 * 5),
    ],
)
def test_a_drawing_has_panels_for_the_truth_and_each_model_and_stays_small(name, board, panels, tmp_path):
    drawing, test = figures.DRAWINGS[name], boards.find(board).generate(20, seed=3)
    shown = figures.first_with_all_regimes(test, drawing.sequences)
    assert len(shown) == drawing.sequences
    figure = drawing.draw(test, shown, {"ours": Knowing(), "theirs": Knowing()})
    assert len(figure.axes) == panels
    assert figures.save_small(figure, tmp_path / "figure.png").stat().st_size < 200_000


def test_paths_read_off_the_images_are_those_that_were_drawn():
    test = boards.find("dubins").generate(20, seed=3)
    shown = figures.first_with_all_regimes(test, 1)
    [axes, _] = figures.draw_paths(test, shown, {"ours": Knowing()}).axes
    steps = np.array([segment[1] for segment in axes.collections[0].get_segments()])
    again = figures.dubins_video.render(steps).reshape(len(steps), -1)
    np.testing.assert_allclose(again, test.x[shown[0], 1:], atol=0.01)
