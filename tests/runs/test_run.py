"""Fitting, keeping, resuming and using a run.

Every SNLDS has the shapes that it has where all models are asked the same (tests/models/test_conformance.py), so that
it compiles once.
"""

import errno
import itertools
import json
import os
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import LINEAR, SETTINGS, drifts, ragged

from swerve import api
from swerve.cli import outcome
from swerve.data import folder as claim
from swerve.data.folder import Part
from swerve.data.windows import Standardizer, cut_windows, to_frames
from swerve.errors import InputError
from swerve.learning import preparation
from swerve.learning.fit import in_words
from swerve.learning.pruning import Merge
from swerve.models.snlds.maker import build_collapsed
from swerve.runs import fit as run
from swerve.runs import infer as applying
from swerve.runs import report as reporting
from swerve.runs.segment import SWITCH_PRICE, bucket_rows, infer_batch
from swerve.types import Recording
from swerve_lab.boards import bouncing_ball

CONFIG = api.make_config(2, settings=SETTINGS)

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def recordings() -> list[Recording]:
    return ragged(("position", "noise"))


@pytest.fixture(scope="module")
def kept(recordings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "kept"
    return run.fit(recordings, CONFIG, out=folder), folder


@pytest.fixture(scope="module")
def fitted(kept) -> run.Run:
    return kept[0]


@pytest.fixture(scope="module")
def two_columns() -> list[Recording]:
    walks = []
    for i, one in enumerate(bouncing_ball.generate(5, seed=4).series()):
        x = np.concatenate([one.x, 100 + np.random.default_rng(i).standard_normal((len(one), 1))], axis=1)
        walks.append(replace(one, x=x, columns=("height", "weight")))
    return walks


@pytest.fixture(scope="module")
def linear(two_columns) -> run.Run:
    return run.fit(two_columns, api.make_config(2, "arhmm", settings=SETTINGS))


def assert_same_model(one: run.Run, other: run.Run) -> None:
    leaves = jax.tree.leaves(one.model), jax.tree.leaves(other.model)
    assert len(leaves[0]) == len(leaves[1]) > 0
    for a, b in zip(*leaves, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def assert_same_segmentations(one, other) -> None:
    assert [a.name for a in one] == [b.name for b in other]
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.labels, b.labels)
        np.testing.assert_allclose(a.probabilities, b.probabilities, atol=1e-4)


def expected_right(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """How many frames, less the price of the switches."""
    right = probabilities[np.arange(len(labels)), labels].sum()
    return right - SWITCH_PRICE * np.count_nonzero(np.diff(labels))


def test_every_frame_of_ragged_recordings_with_gaps_has_a_regime(fitted, recordings):
    for one, found in zip(recordings, fitted.infer(recordings), strict=True):
        assert found.name == one.name
        assert found.labels.shape == (len(one),)
        assert set(found.labels.tolist()) <= {0, 1}
        assert found.probabilities.shape == (len(one), 2)
        np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0, atol=1e-5)
        worth = partial(expected_right, found.probabilities)
        alone = found.probabilities.argmax(axis=1)
        assert worth(found.labels) >= worth(alone) - 1e-4
        assert np.count_nonzero(np.diff(found.labels)) <= np.count_nonzero(np.diff(alone))
        assert found.expected.shape == one.x.shape
        assert np.isfinite(found.expected).all()


def test_expected_observations_are_in_the_units_of_the_data(fitted, recordings):
    shifted = replace(fitted, standardizer=Standardizer(fitted.standardizer.mean + 1000, fitted.standardizer.scale))
    moved = [replace(one, x=one.x + 1000) for one in recordings]
    for before, after in zip(fitted.infer(recordings), shifted.infer(moved), strict=True):
        np.testing.assert_allclose(after.expected, before.expected + 1000, atol=1e-2)


def test_a_loaded_run_is_the_saved_one(kept, recordings):
    saved, folder = kept
    loaded = run.load(folder)
    assert_same_model(loaded, saved)
    for before, after in zip(saved.segment(recordings), loaded.segment(recordings), strict=True):
        np.testing.assert_array_equal(after.labels, before.labels)
        np.testing.assert_array_equal(after.probabilities, before.probabilities)
    for name in ("config", "columns", "controls", "held_out", "history", "chosen", "finished", "dropped", "trust"):
        assert getattr(loaded, name) == getattr(saved, name), name


def test_a_loaded_arhmm_is_the_saved_one(linear, two_columns, tmp_path):
    linear.save(tmp_path / "run")
    loaded = run.load(tmp_path / "run")
    assert_same_model(loaded, linear)
    assert loaded.history is None
    for before, after in zip(linear.segment(two_columns), loaded.segment(two_columns), strict=True):
        np.testing.assert_array_equal(after.labels, before.labels)


def test_a_run_in_memory_is_the_one_kept_in_a_folder(fitted, recordings):
    assert_same_model(run.fit(recordings, CONFIG), fitted)


def test_another_seed_is_another_model(fitted, recordings):
    other = run.fit(recordings, replace(CONFIG, seed=1))
    leaves = zip(jax.tree.leaves(fitted.model), jax.tree.leaves(other.model), strict=True)
    assert any(not np.array_equal(a, b) for a, b in leaves)


def test_labels_do_not_depend_on_how_many_are_computed_together(fitted, recordings, monkeypatch):
    together = fitted.segment(recordings)
    monkeypatch.setattr(applying, "batch_rows", lambda length, channels: 2)
    assert_same_segmentations(fitted.segment(recordings), together)


def test_labels_do_not_depend_on_order_or_company(fitted, recordings):
    together = fitted.segment(recordings)
    assert_same_segmentations(fitted.segment(recordings[::-1]), together[::-1])
    for i in (0, 1):
        assert_same_segmentations(fitted.segment([recordings[i]]), [together[i]])


def test_labels_do_not_depend_on_the_truth(fitted, recordings):
    blind = [replace(one, s=None) for one in recordings]
    assert_same_segmentations(fitted.segment(blind), fitted.segment(recordings))


def test_labels_pay_for_their_switches(fitted, recordings, monkeypatch):
    monkeypatch.setattr(applying, "worthwhile_labels", lambda probabilities, valid: np.ones(valid.shape, int))
    assert all(one.labels.all() for one in fitted.segment(recordings))


def test_the_most_probable_path_is_an_option(fitted, recordings, monkeypatch):
    frames, path = fitted.segment(recordings), fitted.segment(recordings, viterbi=True)
    for one, other in zip(frames, path, strict=True):
        np.testing.assert_array_equal(one.probabilities, other.probabilities)
        assert set(other.labels.tolist()) <= {0, 1}

    def straight(model, batch, *, samples):
        found = infer_batch(model, batch, samples=samples)
        return found._replace(path=jnp.ones_like(found.path))

    monkeypatch.setattr(applying, "infer_batch", straight)
    assert all(one.labels.all() for one in fitted.segment(recordings, viterbi=True))
    assert_same_segmentations(fitted.segment(recordings), frames)


def test_scores_are_finite_and_tell_the_data_from_noise(fitted, recordings):
    windows = cut_windows(recordings[:1], 40)
    noise = [replace(one, x=20 * np.random.default_rng(0).standard_normal(one.x.shape)) for one in windows]
    assert np.isfinite(fitted.score(windows))
    assert fitted.score(windows) > fitted.score(noise)


def test_the_arhmm_has_a_score_too(linear, two_columns):
    assert np.isfinite(linear.score(two_columns))
    assert np.isfinite(linear.held_out)


def test_columns_go_by_name(linear, two_columns):
    swapped = [replace(one, x=one.x[:, ::-1], columns=one.columns[::-1]) for one in two_columns]
    assert_same_segmentations(linear.segment(swapped), linear.segment(two_columns))


@pytest.mark.parametrize("columns", [("height", "length"), ("height",), ("height", "weight", "age")])
def test_other_columns_are_refused(linear, columns):
    with pytest.raises(InputError, match="but the model was fitted to height, weight"):
        linear.segment([Recording(np.zeros((10, len(columns))), columns=columns, name="other")])


def test_controls_are_refused_by_a_model_without_them(linear, two_columns):
    with pytest.raises(InputError, match="must have 0 control columns"):
        linear.segment([replace(two_columns[0], u=np.zeros((100, 1)))])


def test_no_recordings_are_refused(fitted):
    with pytest.raises(InputError, match="no recordings"):
        fitted.segment([])
    with pytest.raises(InputError, match="no recordings"):
        run.fit([], CONFIG)


def test_infinite_values_are_refused(fitted, recordings):
    wild = replace(recordings[0], x=np.where(recordings[0].x > 5, np.inf, recordings[0].x))
    with pytest.raises(InputError, match="infinite"):
        fitted.segment([wild])
    with pytest.raises(InputError, match="infinite"):
        run.fit([wild, *recordings[1:]], CONFIG)


def test_what_can_be_no_measurement_is_refused(recordings):
    wild = recordings[0].x.copy()
    wild[7] = 1e300
    with pytest.raises(InputError, match=r'column "position": 1e\+300 in frame 7 is no measurement'):
        run.fit([replace(recordings[0], x=wild), *recordings[1:]], CONFIG)


def test_more_regimes_than_frames_are_refused(recordings):
    many = replace(CONFIG, model=replace(CONFIG.model, regimes=10_000))
    with pytest.raises(InputError, match="10000 regimes are more than there are frames"):
        run.fit(recordings, many)


def test_controls_reach_the_model(recordings):
    """An untrained model is enough to see that labels follow the control, in its place and no other."""
    driven = [replace(one, u=np.zeros((len(one), 1))) for one in recordings[:2]]
    driven[0].u[50:] = 30.0
    prepared = preparation.prepare(driven, CONFIG)
    assert prepared.controls == 1
    assert np.abs(np.asarray(prepared.training.u)).max() < 5  # in units of its own spread
    key = jax.random.key(1)
    system = build_collapsed(CONFIG.model, CONFIG.posterior, channels=2, controls=1, stickiness=0.0, allowed=2, key=key)
    ready = run.Run(CONFIG, system, prepared.columns, 1, prepared.standardizer, held_out=0.0)
    steered, left = ready.segment([replace(driven[0], u=100 * driven[0].u), driven[1]])
    still, same = ready.segment([replace(driven[0], u=np.zeros((100, 1))), driven[1]])
    assert np.abs(steered.probabilities[51:] - still.probabilities[51:]).max() > 0.05
    assert_same_segmentations([left], [same])
    with pytest.raises(InputError, match="must have 1 control columns"):
        ready.segment([recordings[0]])


def test_how_much_x_moves_from_frame_to_frame():
    x = np.array([[0.0, 1.0], [3.0, np.nan], [3.0, 5.0], [-1.0, 5.0]])
    windows = to_frames([Recording(x), Recording(x[:2])])
    prepared = preparation.Prepared(windows, windows, Standardizer(np.zeros(2), np.ones(2)), ("a", "b"), (), 0)
    np.testing.assert_allclose(prepared.change_scale, [np.sqrt((9 + 0 + 16 + 9) / 4), 1.0], rtol=1e-6)


def test_controls_that_are_infinite_are_refused(recordings):
    wild = [replace(one, u=np.full((len(one), 1), np.inf)) for one in recordings]
    with pytest.raises(InputError, match="controls that are missing or infinite"):
        preparation.prepare(wild, CONFIG)


@pytest.mark.parametrize(
    ("count", "length", "channels", "rows"),
    [(1, 100, 1, 1), (2, 100, 1, 4), (5, 100, 1, 16), (60, 100, 1, 64), (3, 9000, 1, 2), (60, 100, 784, 3)],
)
def test_few_recordings_are_not_computed_as_many(count, length, channels, rows):
    assert bucket_rows(count, length, channels) == rows


class StopAtFirst:
    """Asks to stop at the first report."""

    def __init__(self):
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return True


def test_a_resumed_fit_ends_like_one_that_was_never_stopped(fitted, recordings, tmp_path):
    folder = tmp_path / "stopped"
    stop = StopAtFirst()
    stopped = run.fit(recordings, CONFIG, out=folder, should_stop=stop)
    assert stop.asked == 1
    assert not stopped.finished
    assert not run.load(folder).finished
    assert stopped.history.step == [10]
    resumed = run.fit(recordings, CONFIG, out=folder, resume=True)
    assert resumed.finished
    assert run.load(folder).finished
    assert_same_model(resumed, fitted)
    unlike = {"seconds": 0.0, "elapsed": []}
    assert asdict(resumed.history) | unlike == asdict(fitted.history) | unlike


def test_a_finished_run_is_not_changed_by_resuming_it(kept, recordings):
    saved, folder = kept
    before = (folder / Part.MODEL).read_bytes()
    reports = []
    again = run.fit(recordings, CONFIG, out=folder, resume=True, on_report=reports.append)
    assert reports == []
    assert_same_model(again, saved)
    assert (folder / Part.MODEL).read_bytes() == before


def test_a_folder_belongs_to_one_run(kept, recordings, two_columns):
    _, folder = kept
    with pytest.raises(InputError, match="already holds a run"):
        run.fit(recordings, CONFIG, out=folder)
    with pytest.raises(InputError, match="its config differs"):
        run.fit(recordings, replace(CONFIG, seed=5), out=folder, resume=True)
    with pytest.raises(InputError, match="its data differs"):
        run.fit(two_columns, CONFIG, out=folder, resume=True)


def test_a_folder_of_other_things_is_left_alone(recordings, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not a run folder"):
        run.fit(recordings, CONFIG, out=tmp_path)
    with pytest.raises(InputError, match="not a run folder"):
        run.fit(recordings, CONFIG, out=tmp_path / "notes.txt")
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]


def test_a_fit_that_was_refused_leaves_the_folder_to_the_next(two_columns, tmp_path):
    video = [replace(one, columns=("pixel-0-0", "pixel-0-1"), image=(1, 2)) for one in two_columns]
    for out in (tmp_path / "new", tmp_path / "choosing-before"):
        if out.name != "new":
            (out / "choosing").mkdir(parents=True)
        with pytest.raises(InputError, match="AR-HMM reads numbers"):
            run.fit(video, replace(CONFIG, kind="arhmm"), out=out)
        assert not (out / "run.json").exists()
    assert not (tmp_path / "new").exists() and (tmp_path / "choosing-before" / "choosing").is_dir()


def test_resuming_nothing_is_refused(recordings, tmp_path):
    with pytest.raises(InputError, match="holds no run to resume"):
        run.fit(recordings, CONFIG, out=tmp_path / "new", resume=True)
    assert not (tmp_path / "new").exists()


def test_what_is_kept_of_a_run(kept):
    saved, folder = kept
    names = {one.name for one in folder.iterdir()}
    assert names == {Part.MODEL, Part.TRAINING, Part.RUN, Part.HISTORY, Part.TRUST, "seeds.npz"}
    history = json.loads((folder / Part.HISTORY).read_text())
    assert history["step"] == [10, 20]
    assert history["chosen"] == saved.chosen


def test_loading_what_is_no_run_is_refused(tmp_path, kept):
    with pytest.raises(InputError, match="no run folder"):
        run.load(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no finished model"):
        run.load(tmp_path)
    (tmp_path / Part.MODEL).write_bytes(b"something else")
    with pytest.raises(InputError, match="damaged"):
        run.load(tmp_path)
    (tmp_path / Part.MODEL).write_bytes((kept[1] / Part.TRAINING).read_bytes())
    with pytest.raises(InputError, match="not a model file"):
        run.load(tmp_path)


def test_a_refit_takes_the_numbers_and_names_of_the_older_run(linear, two_columns, tmp_path):
    named = linear.with_names({0: "fast", 1: "slow"})
    named.save(tmp_path / "old")
    settings = (*SETTINGS, "arhmm.restarts=2")
    config = api.make_config(3, "arhmm", seed=7, settings=settings)
    refit = run.fit(two_columns, config, out=tmp_path / "new", align_to=tmp_path / "old")
    assert refit.regimes == 3
    assert refit.names == ("fast", "slow", "regime 2")
    assert sorted(refit.order) == [0, 1, 2]
    ours, theirs = (np.concatenate([one.labels for one in each.segment(two_columns)]) for each in (refit, linear))
    assert refit.aligned.same == pytest.approx(np.mean(ours == theirs))
    own = np.concatenate([one.labels for one in replace(refit, aligned=None).segment(two_columns)])
    every = [np.mean(np.array(numbers)[own] == theirs) for numbers in itertools.permutations(range(3))]
    assert refit.aligned.same == pytest.approx(max(every))
    loaded = run.load(tmp_path / "new")
    assert (loaded.aligned, loaded.names) == (refit.aligned, refit.names)
    assert_same_segmentations(loaded.segment(two_columns), refit.segment(two_columns))
    shown = dict(reporting.summary(refit, refit.infer(two_columns)))
    assert shown["aligned to"].startswith(f"{tmp_path / 'old'}: ARI ")


def test_a_resumed_fit_is_aligned_as_before_and_keeps_its_names(linear, two_columns, tmp_path):
    linear.save(tmp_path / "old")
    config = api.make_config(2, "arhmm", settings=SETTINGS)
    fitted = run.fit(two_columns, config, out=tmp_path / "new", align_to=tmp_path / "old")
    assert fitted.aligned.same == 1.0
    api.name(tmp_path / "new", {1: "slow"})
    again = run.fit(two_columns, config, out=tmp_path / "new", resume=True)
    assert again.aligned == fitted.aligned
    assert run.load(tmp_path / "new").names == again.names == ("regime 0", "slow")


def test_an_older_run_on_other_columns_is_refused_before_anything_is_written(linear, recordings, tmp_path):
    linear.save(tmp_path / "old")
    with pytest.raises(InputError, match=r"can not be aligned to those of .*old: .* was fitted to height, weight"):
        run.fit(recordings, CONFIG, out=tmp_path / "new", align_to=tmp_path / "old")
    with pytest.raises(InputError, match="no run folder"):
        run.fit(recordings, CONFIG, out=tmp_path / "new", align_to=tmp_path / "nowhere")
    assert not (tmp_path / "new").exists()


def test_names_are_kept_without_touching_the_model(linear, two_columns, tmp_path):
    linear.save(tmp_path / "run")
    before = (tmp_path / "run" / Part.MODEL).stat()
    named = api.name(tmp_path / "run", {0: "<script>"})
    assert named.names == run.load(tmp_path / "run").names == ("<script>", "regime 1")
    after = (tmp_path / "run" / Part.MODEL).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    found = named.segment(two_columns[:1])[0]
    assert found.names[found.labels[0]] in named.names
    assert api.name(linear, {1: "slow"}).names == ("regime 0", "slow")
    (tmp_path / "run" / Part.REGIMES).write_text("{}")
    with pytest.raises(InputError, match=r"regimes\.json is damaged"):
        run.load(tmp_path / "run")


@pytest.mark.parametrize("name", [Part.HISTORY, Part.TRUST, Part.MODEL])
@pytest.mark.parametrize("there", [True, False])
def test_a_full_disk_leaves_no_half_of_a_run(kept, tmp_path, monkeypatch, name, there):
    saved, _ = kept
    if there:
        replace(saved, trust=replace(saved.trust, restarts=7), finished=False).save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_bytes = Path.write_bytes

    def fills_up(path, content):
        if name in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_bytes(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", fills_up)
        with pytest.raises(OSError, match="No space left") as error:
            saved.save(tmp_path)
    assert error.value.filename == str(tmp_path / Part.MODEL)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    if not there:
        with pytest.raises(InputError, match="no finished model"):
            run.load(tmp_path)
    saved.save(tmp_path)
    assert run.load(tmp_path).trust == saved.trust


def test_the_model_is_the_last_file_of_a_run(kept, tmp_path, monkeypatch):
    moved, move = [], Path.replace
    monkeypatch.setattr(Path, "replace", lambda path, target: (moved.append(Path(target)), move(path, target)))
    kept[0].save(tmp_path)
    assert moved[-1] == tmp_path / Part.MODEL


def test_two_fits_do_not_share_a_folder(recordings, tmp_path):
    folder = tmp_path / "run"
    with claim.alone_in(folder, resume=False):
        claim.write(folder, CONFIG, CONFIG, "data", None)
        with pytest.raises(InputError, match="already holds a run"):
            run.fit(recordings, CONFIG, out=folder)
        with pytest.raises(InputError, match="Another fit is at work"):
            run.fit(recordings, CONFIG, out=folder, resume=True)
    with pytest.raises(InputError, match="its data differs"):
        run.fit(recordings, CONFIG, out=folder, resume=True)


@pytest.mark.slow
def test_a_fit_with_controls(recordings, tmp_path):
    driven = [replace(one, u=np.sin(np.arange(len(one)) / 5)[:, None]) for one in recordings]
    saved = run.fit(driven, CONFIG, out=tmp_path / "run")
    assert saved.controls == 1
    assert_same_segmentations(run.load(tmp_path / "run").segment(driven), saved.segment(driven))


@pytest.mark.slow
def test_merges_are_told_and_kept_with_the_run(recordings, tmp_path):
    config = api.make_config(
        3, settings=(*SETTINGS, "training.restarts=1", "training.merging=0.5", "training.validation_share=0.6")
    )
    notes: list[str] = []
    fitted = run.fit(recordings, config, out=tmp_path / "run", on_note=notes.append)
    assert fitted.history is not None
    assert fitted.history.merges
    assert any(note.startswith("trying regimes as one") for note in notes)
    told = [in_words(Merge(**one)) for one in fitted.history.merges]
    assert [note for note in notes if note.startswith("regimes ")] == told
    again = run.load(tmp_path / "run")
    assert again.history is not None
    assert again.history.merges == fitted.history.merges
    assert_same_model(again, fitted)


def test_a_fit_infers_every_recording_once_per_model_that_it_keeps(monkeypatch, tmp_path):
    series, seen = drifts(), []
    infer = applying.Applied.infer

    def counted(applied, recordings, *arguments, **options):
        seen.extend((id(applied.model), one.name) for one in recordings)
        models.append(applied.model)
        return infer(applied, recordings, *arguments, **options)

    models = []  # kept, so that no other model gets the identity of one that is gone
    monkeypatch.setattr(applying.Applied, "infer", counted)
    older = run.fit(series, api.make_config(2, "arhmm", settings=LINEAR))
    seen.clear()
    fitted = run.fit(
        series, api.make_config(2, "arhmm", seed=1, settings=LINEAR), align_to=older, looks=applying.Looks()
    )
    outcome.keep_scores(tmp_path, fitted, [replace(one, s=None) for one in series], [])
    outcome.keep_examples(tmp_path, fitted, series)
    assert fitted.others is not None and len({model for model, _ in seen}) > 1
    assert len(seen) == len(set(seen))
    for one, again in zip(fitted.segment(series), replace(fitted, looks=None).segment(series), strict=True):
        np.testing.assert_array_equal(one.labels, again.labels)
