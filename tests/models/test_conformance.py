"""What every model owes its users, ours, those of others and a toy: the same checks for all that the registry knows.

All recordings here have the same shapes, so that a model compiles once.
"""

import json
from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import forget_what_is_too_much
from models import toy
from shell import swerve as shell
from tiny import SETTINGS, balls_beside_noise, ragged

import swerve
from swerve import api
from swerve.data import tables
from swerve.data.windows import cut, to_frames
from swerve.errors import InputError
from swerve.inference.frames import Frames
from swerve.learning.regimes import choose_regimes
from swerve.models.model import Model, Shape, maker_of
from swerve.runs import fit as run
from swerve.runs import segment
from swerve.runs.alignment import Alignment
from swerve.settings import kinds
from swerve.settings.sections import Config
from swerve.types import Recording

KINDS = [kind.name for kind in kinds.every()]
NOW = ("arhmm", toy.NAME)  # of those that say how many regimes there are; the others do so in `make test-all`
COLUMNS = ("height", "weight")
BATCH = 4  # two, three or four recordings are computed as so many
OPTIONS = [word for setting in SETTINGS for word in ("--set", setting)]

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_all_models_are_asked():
    assert {"snlds", "slds", "arhmm", *kinds.IN_THE_LABORATORY, toy.NAME} <= set(KINDS)


@pytest.fixture(scope="module")
def recordings() -> list[Recording]:
    """With a gap of whole frames, and cells that are missing."""
    series = ragged(COLUMNS)
    series[2].x[::7, 0] = np.nan
    return series


IN_EVERY_RUN = [kinds.AUTO, *(kind for kind in KINDS if kind not in kinds.IN_THE_LABORATORY or kind == "kvae")]
LATER = [pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind not in IN_EVERY_RUN]
"""Compiling all systems of others takes four CPU minutes where nothing is cached."""


@pytest.fixture(scope="module", params=[*IN_EVERY_RUN, *LATER])
def kind(request):
    yield request.param
    forget_what_is_too_much()


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
    assert stopped.finished == (config.kind != kinds.AUTO and not kinds.find(config.kind).by_steps)
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
    new = balls_beside_noise(COLUMNS)
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
        run.fit([cut(one, 0, 3) for one in recordings], config)


def test_segmenting_new_data_never_renames_regimes(kept, recordings, tmp_path):
    """A saved model's labels are the same today and tomorrow, also under the numbers of an older run."""
    fitted, folder = kept
    new = balls_beside_noise(COLUMNS)
    before = run.load(folder).segment(new[:1])[0]
    run.load(folder).segment(new[::-1])
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


def test_it_offers_what_its_kind_says(kept, recordings):
    fitted, _ = kept
    offers, key = kinds.find(fitted.config.kind).offers, jax.random.key(0)
    one, u = jax.tree.map(lambda leaf: leaf[0], as_frames(fitted, recordings[:1], 16)), jnp.zeros((16, 0))

    def gives(ask: Callable[[Model], object]) -> bool:
        return jax.eval_shape(ask, fitted.model) is not None

    for ahead in (True, False):
        assert (fitted.model.walk(ahead=ahead) is not None) == (kinds.LONG in offers)
    assert gives(lambda model: model.states(one, samples=1, key=key)) == (kinds.STATES in offers)
    assert gives(lambda model: model.draw(u, key=key)) == (kinds.SERIES in offers)
    assert gives(lambda model: model.futures(one, u, samples=1, key=key)) == (kinds.SERIES in offers)
    assert gives(lambda model: model.weigh(one, key=key)) == (kinds.FEWER in offers)
    assert gives(lambda model: model.forbid(0)) == (kinds.FEWER in offers)


def test_what_is_kept_of_it_is_enough_for_its_shapes(kept):
    fitted, _ = kept
    leaves = jax.tree.leaves(fitted.model)
    assert all(isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves)
    facts = json.loads(json.dumps(fitted.model.facts()))
    assert facts == fitted.model.facts()
    blank = maker_of(fitted.config).blank(fitted.config, Shape(len(COLUMNS), 0), facts)
    assert shapes_of(blank) == shapes_of(fitted.model)


def shapes_of(model: Model) -> dict[str, tuple]:
    leaves = jax.tree_util.tree_leaves_with_path(model)
    return {jax.tree_util.keystr(path): (leaf.shape, leaf.dtype) for path, leaf in leaves}


def test_what_padding_and_missing_frames_hold_changes_no_bound(kept, recordings):
    fitted, _ = kept
    gaps, length = recordings[1], len(recordings[1])
    plain = as_frames(fitted, [gaps], length)
    padded = as_frames(fitted, [gaps] * BATCH, segment.bucket_length(length))
    spoilt = padded._replace(x=jnp.where(padded.observed, padded.x, jnp.nan))
    assert jnp.isnan(spoilt.x[:, :length]).any()
    assert jnp.isnan(spoilt.x[:, length:]).all()
    (expected,) = segment.bound_batch(fitted.model, plain)
    np.testing.assert_allclose(segment.bound_batch(fitted.model, spoilt), BATCH * [expected], rtol=1e-4)
    np.testing.assert_allclose(fitted.score([gaps, gaps]) * length, expected, rtol=1e-4)


def as_frames(fitted: run.Run, series: list[Recording], length: int) -> Frames:
    begun = [cut(one, 0, min(len(one), length)) for one in fitted.standardizer.apply_to(series)]
    return jax.tree.map(jnp.asarray, to_frames(begun, length=length))


def test_a_score_depends_on_no_company(kept, recordings):
    fitted, _ = kept
    first, second, third, fourth = recordings[:BATCH]

    def score(*some: Recording) -> float:
        return fitted.score(some) * sum(map(len, some))

    alone, other = (score(one, one) / 2 for one in (first, second))
    assert score(first, second) == pytest.approx(alone + other, rel=1e-4)
    assert score(third, first) - score(third, second) == pytest.approx(alone - other, rel=1e-2)
    assert score(first, second) + score(third, fourth) == pytest.approx(score(*recordings[:BATCH]), rel=1e-4)


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[] if k in NOW else [pytest.mark.slow]) for k in KINDS], indirect=True
)
def test_held_out_windows_choose_the_number_of_regimes(kind, config, recordings):
    choice = choose_regimes(recordings, config, first=1, last=2)
    assert choice.model == kind
    assert choice.regimes in (1, 2)


@pytest.mark.parametrize("kind", ["arhmm", "snlds"], indirect=True)
def test_python_and_the_command_line_fit_the_same_as_one(kind, kept, recordings, tmp_path):
    """One model by a search and one by steps: neither face knows more of a kind than that."""
    fitted, _ = kept
    expected = [one.labels for one in fitted.segment(recordings)]
    x = [one.x for one in recordings]
    found = swerve.segment(swerve.fit(x, 2, model=kind, settings=SETTINGS), x)
    np.testing.assert_array_equal(np.concatenate([one.labels for one in found]), np.concatenate(expected))

    data, folder, labels = (tmp_path / name for name in ("data.npz", "run", "labels"))
    tables.write_npz(data, recordings)
    shell("fit", data, "--model", kind, "-k", 2, "--out", folder, *OPTIONS)
    shell("segment", folder, data, "--out", labels)
    assert {file.stem for file in labels.glob("*.csv")} == {"segments", *(one.name for one in recordings)}
    for one, regimes in zip(recordings, expected, strict=True):
        written = np.genfromtxt(labels / f"{one.name}.csv", delimiter=",", names=True)
        np.testing.assert_array_equal(written["regime"], regimes)
