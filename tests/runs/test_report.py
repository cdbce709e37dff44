"""What a report says of a run, and the examples it is drawn from."""

import errno
import math
import os
from dataclasses import replace

import numpy as np
import pytest

from swerve import api
from swerve.choosing import trust
from swerve.data.folder import Part
from swerve.data.reading import Reading
from swerve.data.trees import write_json
from swerve.data.windows import Standardizer
from swerve.errors import InputError
from swerve.learning.loop import History
from swerve.models.arhmm import Covariance
from swerve.models.arhmm.model import blank
from swerve.runs import report as reporting
from swerve.runs.infer import Inferred
from swerve.runs.run import Run
from swerve.settings.text import with_stickiness
from swerve.types import Recording, Skeleton

FRAMES = 60
COLUMNS = ("height", "weight")


@pytest.fixture
def fitted() -> Run:
    """A run of which only the surroundings matter here."""
    return Run(
        config=api.make_config(3, "arhmm"),
        model=blank(3, 2, 1, Covariance.DIAGONAL),
        columns=COLUMNS,
        controls=0,
        standardizer=Standardizer(np.zeros(2), np.ones(2)),
        held_out=-1.25,
    )


def found(labels, name="walk") -> Inferred:
    labels = np.asarray(labels, dtype=np.int64)
    return Inferred(labels, np.eye(3)[labels], np.zeros((len(labels), 2)), name)


def walk(name="walk", frames=FRAMES, truth=None) -> Recording:
    x = np.random.default_rng(0).standard_normal((frames, 2))
    return Recording(x, s=truth, name=name, columns=COLUMNS)


CALM = np.repeat([0, 1, 2], 20)


def test_a_good_run_has_no_warnings(fitted):
    assert reporting.warnings(fitted, [found(CALM)]) == []


def test_nothing_inferred_has_no_warnings(fitted):
    assert reporting.warnings(fitted, []) == []


def test_a_warning_of_collapse(fitted):
    (warning,) = reporting.warnings(fitted, [found(np.zeros(99, int)), found(np.ones(1, int))])
    assert "One regime holds 99 % of the frames" in warning.problem
    assert "--restarts" in warning.remedy


def test_a_single_regime_can_not_collapse(fitted):
    config = replace(fitted.config, model=replace(fitted.config.model, regimes=1))
    assert reporting.warnings(replace(fitted, config=config), [found(np.zeros(50, int))]) == []


def test_a_warning_of_flicker(fitted):
    (warning,) = reporting.warnings(fitted, [found(np.arange(FRAMES) % 3)])
    assert "flicker" in warning.problem
    assert "stickiness" in warning.remedy


def test_a_warning_of_an_unfinished_run(fitted):
    (warning,) = reporting.warnings(replace(fitted, finished=False), [found(CALM)])
    assert "--resume" in warning.remedy


def test_a_warning_of_columns_left_out(fitted):
    (warning,) = reporting.warnings(replace(fitted, dropped=("age", "name")), [found(CALM)])
    assert "age, name" in warning.problem


def test_the_remedies_are_settings_that_exist():
    sticky = with_stickiness(api.make_config(3), 100.0)
    assert sticky.arhmm.stickiness == 10 * api.make_config(3).arhmm.stickiness
    stay = np.exp(sticky.recipe.stickiness)
    assert stay / (stay + 2) == pytest.approx(1 - 1 / 100)
    with pytest.raises(InputError, match="more than 1"):
        with_stickiness(api.make_config(3), 1.0)


def test_the_summary_counts(fitted):
    facts = dict(reporting.summary(fitted, [found(CALM), found(np.zeros(40, int))]))
    assert facts["model"] == "arhmm"
    assert facts["regimes in them"] == "3 of 3"
    assert facts["mean duration"] == "25.0 frames"
    assert facts["recordings shown"] == "2 (100 frames)"
    assert facts["held-out likelihood"] == "-1.250 nats per frame"
    assert "restart chosen" not in facts


def test_the_summary_tells_of_merges():
    merge = {"kept": 0, "dropped": 2, "change": -0.001, "error": 0.002, "accepted": True}
    refused = {"kept": 0, "dropped": 1, "change": -0.25, "error": 0.002, "accepted": False}
    assert reporting._merges([merge, refused], (0, 1, 2)) == "2 into 0 (one more would cost 0.250 nats per frame)"
    assert reporting._merges([refused], (0, 1, 2)) == "none (one more would cost 0.250 nats per frame)"
    assert reporting._merges([merge], (0, 1, 2)) == "2 into 0"


def test_examples_come_back_as_they_were(tmp_path):
    truth = np.r_[np.full(5, -1), np.zeros(FRAMES - 5, int)]
    series = [walk("one, two", truth=truth), walk("three", frames=30)]
    series[1].x[3] = np.nan
    inferred = [found(CALM, "one, two"), found(CALM[:30], "three")]
    reporting.save_examples(tmp_path, series, inferred)
    again, found_again = reporting.load_examples(tmp_path, COLUMNS)
    for before, after in zip(series, again, strict=True):
        assert (after.name, after.columns) == (before.name, COLUMNS)
        np.testing.assert_array_equal(after.x, before.x)
    np.testing.assert_array_equal(again[0].s, truth)
    assert again[1].s is None
    for before, after in zip(inferred, found_again, strict=True):
        np.testing.assert_array_equal(after.labels, before.labels)
        np.testing.assert_array_equal(after.probabilities, before.probabilities)
        np.testing.assert_array_equal(after.expected, before.expected)


def test_only_a_few_examples_are_kept_and_only_their_beginning(tmp_path, monkeypatch):
    monkeypatch.setattr(reporting, "EXAMPLE_FRAMES", 25)
    many = reporting.EXAMPLES + 2
    reporting.save_examples(tmp_path, [walk(str(i)) for i in range(many)], [found(CALM)] * many)
    series, inferred = reporting.load_examples(tmp_path, COLUMNS)
    assert len(series) == len(inferred) == reporting.EXAMPLES
    assert {len(one) for one in series} == {len(one.labels) for one in inferred} == {25}


def test_examples_keep_times_rows_skeleton_and_the_whole_length(tmp_path, monkeypatch):
    monkeypatch.setattr(reporting, "EXAMPLE_FRAMES", 25)
    times, rows = np.arange(FRAMES) / 20, np.arange(FRAMES) * 6 + 1
    skeleton = Skeleton(("nose", "tail"), (-1, 0), ("x",))
    posed = replace(walk(), times=times, rows=rows, skeleton=skeleton)
    reporting.save_examples(tmp_path, [posed, walk("plain", 20)], [found(CALM), found(CALM[:20], "plain")])
    (again, plain), _ = reporting.load_examples(tmp_path, COLUMNS)
    np.testing.assert_array_equal(again.times, times[:25])
    np.testing.assert_array_equal(again.rows, rows[:25])
    assert again.skeleton == skeleton
    assert plain.times is None and plain.rows is None and plain.skeleton is None
    assert reporting.example_lengths(tmp_path) == [FRAMES, 20]


def test_examples_of_video_stay_video(tmp_path):
    film = replace(walk(), image=(2, 1))
    reporting.save_examples(tmp_path, [film], [found(CALM)])
    assert reporting.load_examples(tmp_path, COLUMNS)[0][0].image == (2, 1)


def test_a_folder_without_examples(tmp_path):
    with pytest.raises(InputError, match="name the recordings"):
        reporting.load_examples(tmp_path, COLUMNS)


def test_frames_whose_true_regime_is_unknown_are_drawn_as_unknown(fitted, tmp_path):
    truth = np.repeat([2, 0, 1], 20)
    truth[20:26] = -1
    series, inferred = [walk(truth=truth)], [found(CALM)]
    (matched,) = reporting._matched_truth(series, inferred)
    np.testing.assert_array_equal(matched, np.where(truth < 0, -1, CALM))
    assert reporting.write_report(tmp_path, fitted, series, inferred).is_file()


def test_a_truth_of_which_nothing_is_known_is_none(fitted):
    unknown = [walk(truth=np.full(FRAMES, -1))]
    assert reporting._matched_truth(unknown, [found(CALM)]) == [None]
    assert reporting.FrameF1Curve(unknown).series == []


def test_a_report_with_everything(fitted, tmp_path):
    """All scores there are, a history with a retired restart, truth under other numbers, columns in another order."""
    history = History(
        step=[10, 20],
        bound=[[-2.0, -3.0], [-1.0, None]],
        regimes_in_use=[[3.0, 2.0], [2.9, None]],
        mean_duration=[[5.0, 5.0], [6.0, None]],
        confidence=[[0.9, 0.9], [0.9, None]],
    )
    truth = np.repeat([2, 0, 1], 20)
    series = [walk("<first>", truth=truth), walk("second", truth=truth)]
    series = [replace(one, x=one.x[:, ::-1], columns=COLUMNS[::-1]) for one in series]
    scores = {name: dict.fromkeys((*reporting.SHOWN_SCORES, *"abcdefghijk"), 50.0) for name in ("snlds", "oracle")}
    page = reporting.write_report(
        tmp_path,
        replace(fitted, history=history, finished=False),
        series,
        [found(CALM, "<first>"), found(CALM, "second")],
        scores=scores,
        frame_f1=[40.0, 50.0],
        title="A & B",
    )
    text = page.read_text()
    figures = {one.stem for one in (tmp_path / "figures").glob("*.png")}
    assert figures == {"scores", "regimes-0", "regimes-1", "marginals", "reconstruction", "cards", "training"}
    assert "A &amp; B" in text
    assert "<first>" not in text
    assert "Go on with --resume" in text
    assert "--model arhmm --regimes 3" in text and "[model]\nregimes = 3" in text


def test_a_report_without_recordings(fitted, tmp_path):
    assert reporting.write_report(tmp_path, fitted, [], []).is_file()


def test_the_fit_s_own_warnings_names_and_lengths_reach_the_page(fitted, tmp_path):
    said = trust.Trust(
        agreement=0.71,
        restarts=2,
        pairs=1,
        pairwise=(0.71,),
        sure=0.5,
        frames=FRAMES,
        regimes=trust.uses([CALM], 3),
        held_out=1.0,
        held_out_in_data_units=1.0,
        warnings=(trust.Warned("Restarts differ.", "Try <more>."),),
        selection=None,
    )
    flicker = found(np.arange(FRAMES) % 3)
    reading = Reading(every=6, egocentric=True)
    page = reporting.write_report(
        tmp_path,
        replace(fitted, trust=said, given_names=("rest", None, "run & jump"), reading=reading),
        [walk()],
        [flicker],
        lengths=[9999],
    )
    text = page.read_text()
    assert "<b>Restarts differ.</b> Try &lt;more&gt;." in text
    assert "Regimes flicker" not in text  # the fit has looked at all recordings
    assert "0.71" in text and "rest" in text and "regime 1" in text and "run &amp; jump" in text
    assert "the first 60 of 9,999 frames" in text
    assert "--every 6 --egocentric" in text


@pytest.mark.parametrize(("owner", "name"), [(reporting, "write_page"), (reporting.figures, "save")])
def test_a_full_disk_leaves_figures_and_page_as_they_were(fitted, tmp_path, monkeypatch, owner, name):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    report = tmp_path / "report"
    (report / "figures").mkdir(parents=True)
    for old in ("report.html", "figures/regimes-0.png", "scores.json"):
        (report / old).write_text("old")
    monkeypatch.setattr(owner, name, full)
    with pytest.raises(OSError, match="No space left") as error:
        reporting.write_report(report, fitted, [walk()], [found(CALM)])
    assert error.value.filename == str(report)
    kept = {str(path.relative_to(report)): path.read_text() for path in report.rglob("*") if path.is_file()}
    assert kept == dict.fromkeys(("report.html", "figures/regimes-0.png", "scores.json"), "old")


def test_a_report_in_a_folder_of_other_things_leaves_them(fitted, tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "mine.png").write_text("mine")
    page = reporting.write_report(tmp_path, fitted, [walk()], [found(CALM)])
    assert page == tmp_path / "report.html" and page.is_file()
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"mine.png", "regimes-0.png", "marginals.png", "reconstruction.png", "cards.png"}


@pytest.mark.parametrize(
    "content", ["[]", "null", "3", '{"rows": []}', '{"rows": {"snlds": []}}', '{"frame_f1_curve": 5}']
)
def test_scores_of_another_shape_are_damaged(tmp_path, content):
    (tmp_path / Part.SCORES).write_text(content)
    with pytest.raises(InputError, match=r"scores\.json is damaged"):
        reporting.load_scores(tmp_path)


def test_scores_come_back_without_those_that_were_no_numbers(fitted, tmp_path):
    assert reporting.load_scores(tmp_path) == (None, None)
    rows = {"snlds": {"frame_f1": 50.0, "nmi": math.nan}}
    write_json(tmp_path / Part.SCORES, {"rows": rows, "frame_f1_curve": [40.0, math.nan]})
    scores, curve = reporting.load_scores(tmp_path)
    assert scores == {"snlds": {"frame_f1": 50.0}}
    np.testing.assert_array_equal(curve, [40.0, np.nan])
    text = reporting.write_report(tmp_path, fitted, [], [], scores=scores, frame_f1=curve).read_text()
    assert "50.0 %" in text
