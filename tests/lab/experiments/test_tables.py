"""Stored results as tables: beside the paper's numbers, with what the bound says about the restarts."""

import json
from pathlib import Path

import pytest
from rich.box import HEAVY_HEAD
from scipy.stats import spearmanr
from typer.testing import CliRunner

from swerve.cli.console import console
from swerve.errors import InputError
from swerve_lab import cli
from swerve_lab.experiments import tables as results

EXPERIMENTS = Path(__file__).resolve().parents[3] / "experiments"


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setattr(console, "_width", 220)
    monkeypatch.setattr(results, "SIMPLE_HEAD", HEAVY_HEAD)  # with borders between the cells


def restarts(*pairs):
    return {"chosen": 0, "restarts": [{"bound": bound, "frame_f1": f1} for bound, f1 in pairs]}


def stored(folder: Path, name: str, model: str, **more):
    spread = {"mean": 71.23, "sd": 1.5, "runs": [70.0, 72.46]}
    scores = {**dict.fromkeys(results.COLUMNS, spread), "accuracy_merged": {**spread, "mean": 88.81}}
    about = {"board": "reacher", "model": model, "row": f"a {model}", "scores": scores, "details": [], **more}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(about))


def show(capsys, folder: Path, name: str, tables: results.Tables) -> list[str]:
    results.print_tables(name, results.read_stored(folder), tables)
    return capsys.readouterr().out.splitlines()


def line_of(lines: list[str], word: str) -> list[str]:
    [line] = [line for line in lines if word in line and "│" in line]
    return [cell.strip() for cell in line.strip("│").split("│")]


PAPER = results.Tables(
    tables={"table9": ["arm"]},
    paper={
        "reacher": {
            "snlds": {"frame_f1": [89.0, 2.0]},
            "snlds-merged": {"frame_f1": [95.5]},
            "kvae": {"frame_f1": [33.7, 7.5]},
        }
    },
)


def test_the_papers_numbers_stand_beside_ours(tmp_path, capsys, wide):
    stored(tmp_path, "good", "snlds", success_rate=0.5)
    lines = show(capsys, tmp_path, "table9", PAPER)
    assert "table9: reacher" in lines[0]
    assert "paper's" in lines[2]
    rows = [[c.strip() for c in line.strip("│").split("│")] for line in lines if "│" in line]
    assert rows[0] == ["good", "71.2±1.5", "89.0±2.0", "71.2±1.5", "71.2±1.5", "50 %"]
    assert rows[1][:3] == [f"good {results.ORACLE}", "88.8±1.5", "95.5"]
    assert rows[2][:3] == [f"kvae {results.THEIRS}", "", "33.7±7.5"]
    assert "  good: snlds, a snlds" in lines
    assert "kvae" not in "".join(show(capsys, tmp_path, "arm", PAPER))


def test_quick_results_say_so(tmp_path, capsys, wide):
    stored(tmp_path, "real", "snlds")
    assert "not the real thing" not in show(capsys, tmp_path, "arm", PAPER)[0]
    stored(tmp_path, "hasty", "slds", quick="quick: not the real thing")
    assert "quick: not the real thing" in show(capsys, tmp_path, "arm", PAPER)[0]


def test_the_rank_correlation_of_bound_and_frame_f1():
    rising = [{"training_seconds": 1.0}, restarts((1.0, 50), (2.0, 60)), restarts((3.0, 70), (4.0, 80))]
    assert results.rank_correlation(rising) == 1.0
    assert results.rank_correlation([restarts((1.0, 70), (2.0, 60), (3.0, 50))]) == -1.0
    assert results.rank_correlation([restarts((1.0, 50), (2.0, 60)), restarts((9.0, 1))]) == 1.0
    bounds, scores = [3.0, 1.0, 2.0, 2.0, 5.0], [50.0, 60.0, 60.0, 90.0, 95.0]
    ours = results.rank_correlation([restarts(*zip(bounds, scores, strict=True))])
    assert ours == pytest.approx(spearmanr(bounds, scores).statistic, abs=1e-3)
    for nothing_to_order in ([], [restarts((1.0, 50))], [restarts((1.0, 50), (2.0, 50))]):
        assert results.rank_correlation(nothing_to_order) is None


def test_older_results_get_their_rank_correlation_from_their_details(tmp_path, capsys, wide):
    details = [restarts((1.0, 50), (2.0, 60), (3.0, 55))]
    stored(tmp_path, "older", "snlds", details=details)
    stored(tmp_path, "newer", "slds", details=details, bound_f1_rank_correlation=-0.25)
    stored(tmp_path, "single", "arhmm", details=details, row=results.SINGLE)
    lines = show(capsys, tmp_path, "arm", results.Tables())
    assert [line_of(lines, name)[-1] for name in ("older", "newer", "single")] == ["0.50", "-0.25", ""]


def test_the_papers_tables_are_made_of_folders_that_exist():
    tables = results.read_tables(EXPERIMENTS)
    assert {"table1", "table2"} <= set(tables.tables)
    for name, members in tables.tables.items():
        assert [one.name for one in results.folders(name, EXPERIMENTS)] == list(members)
    for models in tables.paper.values():
        for numbers in models.values():
            assert set(numbers) <= set(results.COLUMNS)
            assert all(len(one) in (1, 2) for one in numbers.values())
    assert tables.paper["reacher"]["snlds"] == {"frame_f1": [89.0, 2.0], "switch_f1_tol0": [78.1, 4.2]}


def test_unknown_experiments_name_the_known(tmp_path):
    (tmp_path / "arm").mkdir()
    (tmp_path / "arm" / "row.toml").touch()
    (tmp_path / results.TABLES_FILE).write_text('[tables]\ntable9 = ["arm"]')
    assert results.folders("table9", tmp_path) == results.folders("arm", tmp_path) == [tmp_path / "arm"]
    with pytest.raises(InputError, match="there are: arm, table9"):
        results.folders("table8", tmp_path)


@pytest.mark.parametrize("name", ["table1", "bouncing-ball", "dubins-positions", "fields", "learning-story"])
def test_what_is_stored_can_be_shown(name):
    done = CliRunner().invoke(cli.app, ["reproduce", name, "--show", "--experiments", str(EXPERIMENTS)])
    assert done.exit_code == 0, done.output


def test_help_teaches_the_names():
    shown = CliRunner().invoke(cli.app, ["reproduce", "--help"]).output
    for name in ("table1", "table2", "fields", "annealing", "correlation", "ablation"):
        assert name in shown


def test_scores_before_surplus_regimes_were_merged_stand_below(tmp_path, capsys, wide):
    before = {name: {"mean": 55.5, "sd": 1.0, "runs": [55.0, 56.0]} for name in results.COLUMNS}
    stored(tmp_path, "good", "snlds", scores_before_merging=before)
    assert "55.5±1.0" in line_of(show(capsys, tmp_path, "arm", results.Tables()), results.RAW)
    same = {name: {"mean": 71.23, "sd": 1.5, "runs": [70.0, 72.46]} for name in results.COLUMNS}
    stored(tmp_path, "good", "snlds", scores_before_merging=same)
    assert not any(results.RAW in line for line in show(capsys, tmp_path, "arm", results.Tables()))


def test_the_time_to_the_papers_score_is_that_of_the_median_run():
    def run(*scores):
        return {"curve": [{"step": 10 * (i + 1), "frame_f1": score} for i, score in enumerate(scores)]}

    paper = {"snlds": {"frame_f1": [80.0, 2.0]}}
    timing = {"elapsed": {"10": 1.0, "20": 7.2, "30": 9.0}}
    row = {"model": "snlds", "details": [timing, run(50, 81, 90), run(85, 60, 60), run(70, 75, 80), run(1, 2, 3)]}
    words = results.time_to_paper(row, paper)
    assert words is not None
    assert words.startswith("3 of 4 runs reach the paper's 80.0 % of frames; the median run within 30 steps, 9 s")
    few = {"model": "snlds", "details": [timing, run(85, 60, 60), run(1, 2, 3), run(1, 2, 3)]}
    assert results.time_to_paper(few, paper) == "1 of 3 runs reach the paper's 80.0 % of frames"
    never = {"model": "snlds", "details": [timing, run(1, 2, 3)]}
    assert results.time_to_paper(never, paper) == "0 of 1 runs reach the paper's 80.0 % of frames"
    assert results.time_to_paper(row, {}) is None
    assert results.time_to_paper({"model": "snlds", "details": [timing]}, paper) is None
