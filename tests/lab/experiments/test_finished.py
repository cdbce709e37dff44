"""Rows that have been run come back as models, and figures are drawn from them."""

import json

import numpy as np
import pytest
from tiny import TINY_ROW, TINY_SIZES

from swerve.choosing.scores import score
from swerve.errors import InputError
from swerve_lab.experiments import finished, reproduce
from swerve_lab.studies import figures

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]


def row(model: str) -> str:
    return TINY_ROW.format(model=model, runs=1) + TINY_SIZES.replace("[training]", "[training]\nmerging = 0.0")


@pytest.fixture(scope="module")
def experiments(tmp_path_factory, quick_compilation):
    folder = tmp_path_factory.mktemp("experiments")
    (folder / "tiny").mkdir()
    for model in ("snlds", "arhmm"):
        (folder / "tiny" / f"{model}.toml").write_text(row(model))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reproduce, "WORK", folder / "work")
        reproduce.run("tiny", folder, show=False, row=None)
        (folder / "tiny" / "slds.toml").write_text(row("slds"))
        (folder / "tiny" / "oracle.toml").write_text(row("oracle"))
        yield folder


@pytest.mark.parametrize("model", ["snlds", "arhmm"])
def test_a_finished_row_is_its_first_run_again(experiments, model):
    row = finished.load(experiments / "tiny" / f"{model}.toml")
    found = row.run.segment(row.test.series())
    again = score([one.labels for one in found], list(row.test.s)).as_dict()
    assert row.stored["model"] == model
    assert row.stored["scores"]["frame_f1"]["runs"][0] == round(again["frame_f1"], 3)


def test_rows_without_a_model_are_told_apart(experiments, monkeypatch):
    with pytest.raises(InputError, match="has not been run"):
        finished.load(experiments / "tiny" / "slds.toml")
    with pytest.raises(InputError, match="keeps no model"):
        finished.load(experiments / "tiny" / "oracle.toml")
    monkeypatch.setattr(reproduce, "WORK", experiments / "elsewhere")
    with pytest.raises(InputError, match="working files are not in"):
        finished.load(experiments / "tiny" / "snlds.toml")


def test_a_row_that_was_edited_since_is_not_drawn(experiments):
    row = experiments / "tiny" / "arhmm.toml"
    text = row.read_text()
    row.write_text(text.replace("max_iterations = 5", "max_iterations = 6"))
    with pytest.raises(InputError, match="other settings"):
        finished.load(row)
    row.write_text(text)


def test_a_figure_shows_the_rows_that_were_run_and_says_what_it_was_made_from(experiments, tmp_path, capsys):
    drawing = figures.DRAWINGS["marginals-ball"]._replace(rows=("tiny/snlds", "tiny/slds", "tiny/arhmm"))
    figures.draw("ball", drawing, experiments, tmp_path)
    assert "slds.toml has not been run" in capsys.readouterr().out
    assert (tmp_path / "ball.png").read_bytes().startswith(b"\x89PNG")
    about = json.loads((tmp_path / "ball.json").read_text())
    assert about["board"] == "bouncing-ball"
    assert list(about["rows"]) == ["tiny/snlds", "tiny/arhmm"]
    assert about["versions"] and len(about["sequences"]) == 1
    for row in about["rows"].values():
        assert row["seeds"]["test"] == finished.TEST_SEED and row["commit"]


def test_a_figure_without_any_row_is_not_drawn(experiments, tmp_path, capsys):
    drawing = figures.DRAWINGS["marginals-ball"]._replace(rows=("tiny/slds",))
    figures.draw("ball", drawing, experiments, tmp_path)
    assert "ball: not drawn" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_unknown_figures_name_the_known(monkeypatch):
    monkeypatch.setattr("sys.argv", ["figures.py", "path"])
    with pytest.raises(SystemExit, match="no figure path; there are paths"):
        figures.main()


def test_the_sequences_shown_are_the_first_with_all_regimes():
    labels = np.array([[0, 0], [0, 1], [1, 1], [1, 0], [0, 1]])
    board = figures.Board("board", np.zeros((5, 2, 1)), np.zeros((5, 2, 1)), labels, ("x",))
    assert figures.first_with_all_regimes(board, 2) == [1, 3]
