"""Tables of docs/results.md: what is stored stands there, and nothing else."""

import dataclasses
import json
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from swerve.api import make_config
from swerve.models.arhmm import Covariance
from swerve.models.arhmm.model import blank
from swerve.settings.text import as_dict
from swerve_lab.experiments import tables as results
from swerve_lab.experiments.rows import TEST_SEED, TRAINING_SEED, read_row
from swerve_lab.studies import decoding, figures
from swerve_lab.studies import results_page as page

EXPERIMENTS = Path(__file__).resolve().parents[3] / "experiments"
EVERY_SCORE = (*results.COLUMNS, *results.MERGED.values())


@pytest.fixture
def experiments(tmp_path):
    (tmp_path / "tables.toml").write_text(
        """
        [paper.arm]
        slds = { frame_f1 = [81.0, 3.4] }
        slds-merged = { frame_f1 = [90.0], switch_f1_tol5 = [70.0, 2.0] }
        [targets]
        arm = { frame_f1 = 94.0, switch_f1_tol5 = 85.0, success_rate = 60 }
        """
    )
    return tmp_path


def spread(mean, runs=(70.0, 72.52)):
    return {score: {"mean": mean, "sd": 1.5, "runs": list(runs)} for score in EVERY_SCORE}


def store(experiments, where, board="arm", mean=71.26, runs=(70.0, 72.52), **more):
    about = {
        "board": board,
        "model": "snlds",
        "row": "a | row",
        "scores": spread(mean, runs),
        "success_rate": 0.5,
        "details": [{}],
        "wall_seconds": 90.0,
        "hardware": "cpu: cpu",
        "commit": "0123456789",
    }
    path = experiments / "results" / f"{where}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(about | more))


def cells(experiments, name="arm"):
    lines = page.table(name, experiments).splitlines()
    found = [[cell.strip() for cell in line.replace("\\|", "/").strip("|").split("|")] for line in lines]
    assert {len(line) for line in found} == {len(page.HEADINGS)}
    return found[2:]


def test_a_row_stands_between_the_target_and_the_papers_numbers(experiments):
    store(experiments, "arm/snlds")
    target, ours, *paper = cells(experiments)
    assert target == ["**target**", "to be reached", "≥ 94.0", "", "≥ 85.0", "≥ 60 %", "", "", "", "", ""]
    scores = ["71.3 ± 1.5"] * 3
    assert ours == ["`snlds`", "snlds, a / row", *scores, "50 %", "", "2", "1.5", "CPU", "0123456"]
    assert [line[:5] for line in paper] == [
        ["slds", "the paper's", "81.0 ± 3.4", "", ""],
        ["slds-merged", "the paper's", "90.0", "", "70.0 ± 2.0"],
    ]


def test_training_has_its_own_time_and_hardware(experiments):
    training = {"training_seconds": 600.0, "trained_on": "gpu: NVIDIA H200"}
    store(experiments, "arm/snlds", details=[training, {}])
    assert cells(experiments)[1][8:10] == ["10.0", "NVIDIA H200"]


def test_a_single_run_has_no_spread_and_may_have_no_target(experiments):
    store(experiments, "arm/oracle", mean=100.0, runs=[100.0], success_rate=None)
    assert cells(experiments)[1][2:8] == ["100.0", "100.0", "100.0", "", "", "1"]


def test_runs_that_diverged_are_told(experiments):
    store(experiments, "arm/all", mean=None, runs=[None, None])
    store(experiments, "arm/one", runs=[None, 71.0, 71.5])
    every, one = cells(experiments)[1:3]
    assert every[2:8] == ["diverged"] * 3 + ["50 %", "", "0 of 2"]
    assert one[2] == "71.3 ± 1.5" and one[7] == "2 of 3"


def test_runs_with_the_right_number_of_regimes_are_counted(experiments):
    store(experiments, "arm/snlds", regimes={"true": 3, "found": [3, 4, 3, None]})
    store(experiments, "arm/story", regimes={"true": 3, "found": [None]})
    assert [line[6] for line in cells(experiments)[1:3]] == ["2 of 4", ""]


def test_labels_may_be_of_a_later_commit_than_training(experiments):
    store(experiments, "arm/same", finished_commit="0123456789")
    store(experiments, "arm/snlds", finished_commit="abcdefghij")
    assert [line[-1] for line in cells(experiments)[1:3]] == ["0123456", "0123456, abcdefg"]


def test_scores_before_merging_stand_below_where_they_differ(experiments):
    store(experiments, "arm/same", scores_before_merging=spread(71.26))
    store(experiments, "arm/worse", scores_before_merging=spread(50.0))
    lines = [line for line in cells(experiments) if line[0].startswith("`")]
    assert [line[0] for line in lines] == ["`same`", "`worse`", "`worse`"]
    assert lines[-1][1].startswith("before surplus regimes were merged")
    assert lines[-1][2] == "50.0 ± 1.5"


def test_where_the_paper_merges_with_labels_so_do_we(experiments):
    store(experiments, "arm/slds", model="slds")
    _, ours, merged, *_ = cells(experiments)
    assert merged[0] == ours[0] and "joined to the true one" in merged[1]


def test_a_board_takes_rows_of_its_own_folder_alone(experiments):
    store(experiments, "fields/snlds", board="fields-0.02")
    store(experiments, "fields/snlds-0.1", board="fields-0.1")
    store(experiments, "ablation/no-gaps", board="fields-0.02")
    rows = {name: [line[0] for line in cells(experiments, name)] for name in ("fields-0.02", "fields-0.1", "ablation")}
    assert rows == {"fields-0.02": ["`snlds`"], "fields-0.1": ["`snlds-0.1`"], "ablation": ["`no-gaps`"]}


def test_what_was_never_run_or_drawn_says_so(experiments):
    assert page.table("unheard-of", experiments) == "No row has been run yet."
    assert [line[0] for line in cells(experiments)] == ["**target**", "slds", "slds-merged"]
    assert "Not drawn yet" in page.figure("arm", experiments, experiments)


def test_figures_say_what_they_were_made_from(experiments):
    docs = experiments / "docs"
    (docs / "images").mkdir(parents=True)
    (docs / "images" / "arm.png").touch()
    about = {"rows": {"arm/snlds": {"commit": "0123456789"}}, "sequences": [0, 3]}
    (docs / "images" / "arm.json").write_text(json.dumps(about))
    assert page.figure("arm", experiments, docs).splitlines() == [
        "![arm](images/arm.png)",
        "",
        "*Drawn from `arm/snlds` (commit 0123456); test sequences 0, 3.*",
    ]
    store(experiments, "story/default")
    (experiments / "results" / "story" / "default.png").touch()
    image, _, caption = page.figure("story/default", experiments, docs).splitlines()
    assert image == "![story/default](../results/story/default.png)"
    assert caption == "*Drawn from `story/default` (commit 0123456).*"


def test_only_blocks_are_written(experiments):
    store(experiments, "arm/snlds")
    before = (
        "# Mine\n\n<!-- table: arm -->\nedited by hand\n<!-- end -->\n\nmine\n\n<!-- table: other -->\n<!-- end -->\n"
    )
    after = page.written(before, experiments, experiments)
    assert after.startswith("# Mine\n\n<!-- table: arm -->\n\n| row |")
    assert "\n\nmine\n\n<!-- table: other -->\n\nNo row" in after and "edited by hand" not in after
    assert page.written(after, experiments, experiments) == after


def test_the_summary_has_scores_beside_targets_and_the_best_peer(experiments):
    default = {"config": {"recipe": {"name": "default"}, "model": {"regimes": 3}}}
    store(experiments, "arm/snlds", **default)
    store(experiments, "arm/snlds-one-restart", row=results.SINGLE, **default)
    store(experiments, "arm/snlds-paper", mean=99.0, config={"recipe": {"name": "paper"}})
    store(experiments, "arm/arhmm-told", mean=90.0, model="arhmm", config={"model": {"regimes": 2}})
    store(experiments, "arm/arhmm", mean=50.0, **(default | {"model": "arhmm"}))
    store(experiments, "arm/arhmm-2-lags", mean=60.0, **(default | {"model": "arhmm"}))
    *_, line = page.summary("snlds", experiments).splitlines()
    assert line == ("| arm | 71.3 ± 1.5 (≥ 94) | 71.3 ± 1.5 | 71.3 ± 1.5 (≥ 85) | 50 % (≥ 60) | 60.0 ± 1.5 |")


def test_the_summary_leaves_room_for_what_has_not_been_run(experiments):
    assert page.summary("snlds", experiments).splitlines()[-1] == "| arm |  |  |  |  |  |"


def test_a_row_whose_settings_have_changed_says_so(experiments):
    path = experiments / "arm" / "snlds.toml"
    path.parent.mkdir()
    path.write_text('[experiment]\nboard = "bouncing-ball"\n')
    experiment, config = read_row(path)
    seeds = {"training": TRAINING_SEED, "test": TEST_SEED}
    settings = {"experiment": dataclasses.asdict(experiment), "config": as_dict(config), "seeds": seeds}
    store(experiments, "arm/snlds", **settings)
    assert page.OTHER_SETTINGS not in page.table("arm", experiments)
    path.write_text('[experiment]\nboard = "bouncing-ball"\nruns = 7\n')
    assert page.OTHER_SETTINGS in page.table("arm", experiments)


def test_the_pages_are_up_to_date_and_has_a_place_for_every_board(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["results_page.py", "--check"])
    page.main()
    text = page.PAGES[0].read_text()
    assert "<!-- summary: snlds -->" in page.PAGES[-1].read_text()
    tables = results.read_tables(EXPERIMENTS)
    for board in {*tables.paper, *tables.targets}:
        assert f"<!-- table: {board} -->" in text
    for name in figures.DRAWINGS:
        assert f"<!-- figure: {name} -->" in text


def test_an_edited_page_fails_the_check(tmp_path, monkeypatch, capsys):
    edited = tmp_path / "docs" / "results.md"
    edited.parent.mkdir()
    edited.write_text("<!-- table: reacher -->\nbetter numbers\n<!-- end -->\n")
    monkeypatch.setattr(page, "PAGES", (edited,))
    monkeypatch.setattr(sys, "argv", ["results_page.py", "--check"])
    with pytest.raises(SystemExit) as stopped:
        page.main()
    assert stopped.value.code == 1 and "better numbers" in edited.read_text()
    assert "out of date" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["results_page.py"])
    page.main()
    assert "better numbers" not in edited.read_text()


def test_the_time_to_the_papers_score_stands_under_its_row(experiments):
    curve = [{"step": 250, "frame_f1": 60.0}, {"step": 500, "frame_f1": 82.0}]
    details = [{"elapsed": {"250": 9.0, "500": 31.4}}, {"curve": curve}]
    store(experiments, "quickly/arm", model="slds", details=details)
    store(experiments, "quickly/other", board="leg", model="slds", details=details)
    page_now = page.written("<!-- time: quickly -->\n<!-- end -->", experiments, experiments)
    assert "- `quickly/arm` (0123456): 1 of 1 runs reach the paper's 81.0 % of frames" in page_now
    assert "within 500 steps, 31 s" in page_now
    assert "leg" not in page_now
    assert "other" not in page_now


def test_ways_of_decoding_stand_beside_each_other(experiments):
    folder = experiments / "results" / "decoding"
    folder.mkdir(parents=True)
    ways = {
        "1 draw": {"frame_f1": 80.0, "tol0": 20.0, "tol5": 70.0},
        "Viterbi": {"frame_f1": 82.5, "tol0": 1, "tol5": 2},
    }
    about = {"row": "arm/snlds", "commit_of_row": "0123456789", "decoded": ways, "late": {"median": 1.0}}
    (folder / "arm.json").write_text(json.dumps({**about, "log_weight_sd": 2.36}))
    page_now = page.written("<!-- decoding: decoding -->\n<!-- end -->", experiments, experiments)
    assert "| row | 1 draw | Viterbi | median delay, frames | spread of log weights |" in page_now
    assert "| `arm/snlds` (0123456) | 80.0 / 20.0 / 70.0 | 82.5 / 1.0 / 2.0 | +1 | 2.4 |" in page_now


def test_a_switch_is_as_late_as_the_nearest_that_was_found():
    offsets = decoding.offsets
    truth = np.array([[0, 0, 0, 1, 1, 1, 1, 0], [0, 0, 1, 1, 1, 1, 1, 1]])
    found = [np.array([0, 0, 0, 0, 0, 1, 0, 0]), np.zeros(8, int)]
    assert offsets(found, truth).tolist() == [2, -1]


def test_models_stand_side_by_side_in_their_default_recipe(experiments):
    arhmm, paper = make_config(2, "arhmm"), make_config(2, "slds", "paper-short")
    chose = [{"lags": 1, "features": 0}]
    store(experiments, "bouncing-ball/arhmm", "bouncing-ball", model="arhmm", config=as_dict(arhmm), details=chose)
    store(experiments, "bouncing-ball/slds", "bouncing-ball", model="slds", config=as_dict(paper))
    store(experiments, "bouncing-ball/one", "bouncing-ball", config=as_dict(make_config()), row=results.SINGLE)
    store(experiments, "bouncing-ball/oracle", "bouncing-ball", model="oracle", config=as_dict(make_config()))
    lines = page.models("bouncing-ball", experiments).splitlines()[2:]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    size = sum(leaf.size for leaf in jax.tree.leaves(blank(2, 1, 1, Covariance.DIAGONAL)))
    scores = ["71.3 ± 1.5"] * 3
    assert found == [
        ["`arhmm`", *scores, "", "", str(size), "1.5", "CPU"],
        ["`oracle`", *scores, "", "", "", "1.5", "CPU"],
    ]
    assert page.models("arm", experiments) == "No row has been run yet."


def test_recordings_are_told_with_the_best_first(experiments):
    for name, mean in (("ours", 60.0), ("theirs", 70.0)):
        scores = {score: {"mean": mean, "sd": 1.0, "runs": [mean, mean]} for score in page.RECORDING_SCORES}
        store(experiments, f"bees/{name}", board="honeybee", scores=scores)
    lines = page.recordings("bees", experiments).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| `theirs`", "| `ours`"]
    assert "60.0 ± 1.0 | 60.0 ± 1.0" in lines[3]
    assert page.recordings("salsa", experiments) == "No row has been run yet."


def test_drops_are_taken_fit_by_fit(experiments):
    store(experiments, "robustness/ball-complete", runs=(90.0, 80.0))
    lost = {"missing_frames": 0.2, "missing_cells": 0.1}
    assert page.robustness("robustness", experiments) == "No pair of rows has been run yet."
    store(experiments, "robustness/ball-damaged", runs=(89.0, 77.0), experiment=lost)
    line = page.robustness("robustness", experiments).splitlines()[-1]
    assert "20 % of frames, 10 % of cells" in line and "| 2.0 ± 1.4 |" in line


def test_numbers_of_regimes_stand_beside_the_true_one(experiments):
    assert page.choosing("choosing", experiments) == "No board has been searched yet."
    folder = experiments / "results" / "choosing"
    folder.mkdir(parents=True)

    def chosen(board, **numbers):
        about = {"board": board, "true_regimes": 2, "commits": dict.fromkeys(numbers, "0123456789")}
        right = {model: found.count(2) for model, found in numbers.items()}
        choices = {model: [{"regimes": one} for one in found] for model, found in numbers.items()}
        (folder / f"{board}-choices.json").write_text(json.dumps({**about, "right": right, "choices": choices}))

    chosen("arm", snlds=[2, 3], auto=[2, 2])
    chosen("leg", snlds=[2, 2])
    assert page.choosing("choosing", experiments).splitlines()[2:] == [
        "| arm | 2 | 1 of 2 (2 3) | 2 of 2 (2 2) | 0123456 |",
        "| leg | 2 | 2 of 2 (2 2) | not run | 0123456 |",
    ]
