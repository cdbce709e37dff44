"""What every model owes its users, ours and those of others: the same checks for all of them.

All recordings here have the same shapes, so that a model compiles once.
"""

from dataclasses import replace
from typing import get_args, get_type_hints

import numpy as np
import pytest
from tiny import SETTINGS
from typer.testing import CliRunner

import swerve
from swerve import api
from swerve.cli.main import app
from swerve.data import tables
from swerve.errors import InputError
from swerve.runs import fit as run
from swerve.runs.alignment import Alignment
from swerve.settings.sections import Config
from swerve.types import Recording
from swerve_lab.boards import bouncing_ball

NOW = ("arhmm",)  # all others have quick tests of their own, and come here in `make test-all`
KINDS = [
    pytest.param(kind, marks=[pytest.mark.slow] if kind not in NOW else [])
    for kind in get_args(get_type_hints(Config)["kind"])
]
LENGTHS = (100, 98, 97, 100, 99)
COLUMNS = ("height", "weight")

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def recordings() -> list[Recording]:
    """Five recordings of two channels and different lengths, with missing cells and a gap of whole frames."""
    made = [one.x[:length] for one, length in zip(whole(), LENGTHS, strict=True)]
    made[1][20:26] = np.nan
    made[2][::7, 0] = np.nan
    return [Recording(x, name=str(i), columns=COLUMNS) for i, x in enumerate(made)]


def whole() -> list[Recording]:
    """The height of a ball, and noise beside it."""
    noise = np.random.default_rng(0)
    balls = [one.x for one in bouncing_ball.generate(5, seed=3).series()]
    both = [np.concatenate([x, noise.standard_normal(x.shape)], axis=1) for x in balls]
    return [Recording(x, name=str(i), columns=COLUMNS) for i, x in enumerate(both)]


@pytest.fixture(scope="module", params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def config(kind) -> Config:
    return api.make_config(2, kind, settings=SETTINGS)


@pytest.fixture(scope="module")
def kept(config, recordings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept") / "run"
    return run.fit(recordings, config, out=folder), folder


def test_every_frame_has_a_regime_whatever_is_missing(kept, recordings):
    fitted, _ = kept
    assert np.isfinite(fitted.held_out)
    for one, found in zip(recordings, fitted.infer(recordings), strict=True):
        assert found.labels.shape == (len(one),)
        assert set(found.labels.tolist()) <= {0, 1}
        np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0, atol=1e-4)
        assert found.expected.shape == one.x.shape
        assert np.isfinite(found.expected).all()


def test_a_fit_that_was_stopped_goes_on_to_the_same_model(kept, config, recordings, tmp_path):
    fitted, _ = kept
    reports = []
    stopped = run.fit(recordings, config, out=tmp_path / "run", on_report=reports.append, should_stop=lambda: True)
    assert stopped.finished == (config.kind == "arhmm")
    resumed = run.fit(recordings, config, out=tmp_path / "run", resume=True)
    assert resumed.finished
    assert resumed.held_out == fitted.held_out
    for ours, theirs in zip(fitted.segment(recordings), resumed.segment(recordings), strict=True):
        np.testing.assert_array_equal(ours.probabilities, theirs.probabilities)


def test_a_loaded_model_gives_the_same_labels(kept, recordings):
    fitted, folder = kept
    loaded = run.load(folder)
    assert loaded.config == fitted.config
    for ours, theirs in zip(fitted.segment(recordings), loaded.segment(recordings), strict=True):
        np.testing.assert_array_equal(ours.labels, theirs.labels)
        np.testing.assert_array_equal(ours.probabilities, theirs.probabilities)


def test_labels_of_new_recordings_depend_on_nothing_but_themselves(kept):
    fitted, _ = kept
    new = whole()
    together = fitted.segment(new[::-1])[::-1]
    (alone,) = fitted.segment(new[:1])
    np.testing.assert_array_equal(alone.labels, together[0].labels)
    np.testing.assert_allclose(alone.probabilities, together[0].probabilities, atol=1e-4)


def test_a_recording_may_begin_and_end_with_missing_frames(kept, recordings):
    fitted, _ = kept
    x = recordings[0].x.copy()
    x[:5], x[-5:] = np.nan, np.nan
    found = fitted.infer([replace(recordings[0], x=x), *recordings[1:]])[0]
    assert np.isfinite(found.probabilities).all()
    assert np.isfinite(found.expected).all()


def test_bad_input_is_refused_in_a_sentence(kept, config, recordings):
    fitted, _ = kept
    wide = np.zeros((50, 3))
    with pytest.raises(InputError, match="columns"):
        fitted.segment([Recording(wide, name="wide", columns=("a", "b", "c"))])
    infinite = replace(recordings[0], x=np.where(np.arange(100)[:, None] == 3, np.inf, recordings[0].x))
    with pytest.raises(InputError, match="infinite"):
        run.fit([infinite, *recordings[1:]], config)
    with pytest.raises(InputError, match="at least 4"):
        run.fit([replace(one, x=one.x[:3]) for one in recordings], config)


def test_the_command_line_fits_and_segments(kind, recordings, tmp_path):
    tables.write_npz(tmp_path / "data.npz", recordings)
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    data, fitted = str(tmp_path / "data.npz"), str(tmp_path / "run")
    runner = CliRunner()
    done = runner.invoke(app, ["fit", data, "--model", kind, "-k", "2", "--out", fitted, *settings])
    assert done.exit_code == 0, done.output
    done = runner.invoke(app, ["segment", fitted, data, "--out", str(tmp_path / "labels")])
    assert done.exit_code == 0, done.output
    written = {file.stem for file in (tmp_path / "labels").glob("*.csv")}
    assert written == {"segments", *(one.name for one in recordings)}


def test_python_fits_arrays(kind):
    x = [one.x for one in whole()]
    fitted = swerve.fit(x, 2, model=kind, settings=SETTINGS)
    assert len(swerve.segment(fitted, x)) == len(x)


def test_segmenting_new_data_never_renames_regimes(kept, recordings, tmp_path):
    """A saved model's labels are the same today and tomorrow, also under the numbers of an older run."""
    fitted, folder = kept
    new = whole()
    before = run.load(folder).segment(new[:1])[0]
    run.load(folder).segment(new[1:])
    after = run.load(folder).segment(new[:1])[0]
    np.testing.assert_array_equal(before.labels, after.labels)
    np.testing.assert_array_equal(before.probabilities, after.probabilities)

    swapped = replace(
        fitted, aligned=Alignment((1, 0), "another model", 1.0, 1.0, (1.0, 1.0)), given_names=("up", None)
    )
    swapped.save(tmp_path / "run")
    for ours, theirs in zip(fitted.segment(recordings), run.load(tmp_path / "run").segment(recordings), strict=True):
        np.testing.assert_array_equal(1 - ours.labels, theirs.labels)
        np.testing.assert_array_equal(ours.probabilities[:, ::-1], theirs.probabilities)
        assert theirs.names == ("up", "regime 1")
    aligned = run.aligned_to(swapped, fitted, recordings)
    assert aligned.aligned.same == aligned.aligned.ari == 1.0
    for ours, theirs in zip(fitted.segment(recordings), aligned.segment(recordings), strict=True):
        np.testing.assert_array_equal(ours.labels, theirs.labels)
