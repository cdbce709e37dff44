"""A model that Swerve has never heard of: one file and one line make it one of its own."""

import jax
import numpy as np
import pytest
from models import toy
from shell import Refuse, swerve

from swerve import api
from swerve.cli import main as cli
from swerve.data import tables
from swerve.errors import InputError
from swerve.runs import fit as runs
from swerve.runs import segment
from swerve.settings import kinds
from swerve.types import Recording

SETTINGS = (
    "training.steps=300",
    "training.report_every=100",
    "training.restarts=2",
    "training.window=60",
    "training.validation_share=0.4",
    "recipe.learning_rate=0.05",
    "levels.noise_floor=0.1",
)
OPTIONS = [word for setting in SETTINGS for word in ("--set", setting)]

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def recordings() -> list[Recording]:
    """Two levels of two channels, with a gap of whole frames and single values that are missing."""
    rng, made = np.random.default_rng(0), []
    for i in range(10):
        s = np.repeat(rng.permutation([0, 1, 0, 1]), 15)
        x = np.stack([3.0 * s, -1.0 * s], axis=1) + 0.3 * rng.standard_normal((60, 2))
        x[20:23], x[::9, 0] = np.nan, np.nan
        made.append(Recording(x, s=s, name=str(i), columns=("height", "weight")))
    return made


@pytest.fixture(scope="module")
def data(recordings, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "levels.npz"
    tables.write_npz(path, recordings)
    return path


@pytest.fixture(scope="module")
def kept(recordings, tmp_path_factory):
    """Fitted by Python."""
    folder = tmp_path_factory.mktemp("runs") / "levels"
    return api.fit(recordings, 2, model="levels", settings=SETTINGS, out=folder), folder


def labels_of(found) -> list[np.ndarray]:
    return [one.labels for one in found]


def test_it_finds_the_levels(kept, recordings):
    fitted, _ = kept
    found, true = np.concatenate(labels_of(fitted.segment(recordings))), np.concatenate([one.s for one in recordings])
    same = np.mean(found == true)
    assert max(same, 1 - same) > 0.95


def test_its_bound_is_the_likelihood(kept, recordings):
    """By hand for one frame: log sum_k N(x; mean_k, scale_k) / 2, in standardised units."""
    fitted, _ = kept
    one = Recording(recordings[0].x[:1], name="one", columns=recordings[0].columns)
    (standardised,) = fitted.standardizer.apply_to([one])
    scales = np.exp(fitted.model.log_scales) + 0.1
    distance = (standardised.x - np.asarray(fitted.model.means)) / scales
    each = -0.5 * distance**2 - np.log(scales) - 0.5 * np.log(2 * np.pi)
    expected = np.logaddexp.reduce(np.nansum(each, axis=1)) - np.log(2)
    assert fitted.score([one]) == pytest.approx(expected, rel=1e-5)


def test_the_command_line_fits_the_same_and_draws_it(kept, data, tmp_path):
    _, theirs = kept
    run, labels = tmp_path / "run", tmp_path / "labels"
    assert "model levels" in swerve("fit", data, "--out", run, "--model", "levels", "-k", 2, *OPTIONS)
    assert_same_models(runs.load(run).model, runs.load(theirs).model)
    swerve("segment", run, data, "--out", labels)
    assert {file.stem for file in labels.glob("*.csv")} == {"segments", *map(str, range(10))}
    swerve("report", run)
    assert (run / "report.html").read_text().lstrip().lower().startswith("<!doctype html")


def assert_same_models(ours, theirs) -> None:
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(one, other)


def test_loaded_it_gives_the_same_labels(kept, recordings):
    fitted, folder = kept
    loaded = api.load(folder)
    assert loaded.config.own == toy.LevelsOptions(noise_floor=0.1)
    for ours, theirs in zip(fitted.segment(recordings), loaded.segment(recordings), strict=True):
        np.testing.assert_array_equal(ours.labels, theirs.labels)
        np.testing.assert_array_equal(ours.probabilities, theirs.probabilities)


def test_a_stopped_fit_goes_on_to_the_same_model(kept, recordings, tmp_path):
    fitted, _ = kept
    asked = {"model": "levels", "settings": SETTINGS, "out": tmp_path / "run"}
    stopped = api.fit(recordings, 2, **asked, should_stop=lambda: True)
    assert not stopped.finished
    resumed = api.fit(recordings, 2, **asked, resume=True)
    assert resumed.finished
    assert_same_models(resumed.model, fitted.model)


def test_one_regime_is_fewer_than_its_two_levels(data, tmp_path):
    """It can not do without a regime, so every number is trained alone."""
    regimes = ["--from", 1, "--to", 2]
    shown = swerve("choose-regimes", data, "--out", tmp_path / "chosen", "--model", "levels", *regimes, *OPTIONS)
    assert "--regimes 2 --model levels" in shown
    assert {folder.name for folder in (tmp_path / "chosen").iterdir() if folder.is_dir()} == {"1", "2"}


def test_what_it_does_not_offer_is_refused_in_a_sentence(kept, recordings, data, tmp_path, monkeypatch, capsys):
    fitted, folder = kept
    with pytest.raises(InputError, match=r"'levels' has no hidden states to give: fit .*snlds.*\.$"):
        fitted.transform(recordings)
    for ask in (lambda: fitted.sample(10), lambda: fitted.forecast(recordings, 5)):
        with pytest.raises(InputError, match=r"'levels' makes up no series: .* fit .*snlds.*\.$"):
            ask()
    endless = Recording(np.zeros((segment.MOST_FRAMES + 1, 2)), name="endless", columns=recordings[0].columns)
    for ask in (fitted.segment, fitted.score):
        with pytest.raises(InputError, match=f'the model "levels" needs .* at most {segment.MOST_FRAMES} frames'):
            ask([endless])
    refuse = Refuse(cli.main, monkeypatch, capsys)
    assert "makes up no series" in refuse("forecast", folder, data, "--horizon", 5, "--out", tmp_path / "next")


def test_its_settings_are_its_own():
    with pytest.raises(InputError, match="'levels' belongs to other models than 'snlds'"):
        api.make_config(2, "snlds", settings=("levels.noise_floor=0.1",))
    with pytest.raises(InputError, match="noise_floor"):
        api.make_config(2, "levels", settings=("levels.noise_floor=-1.0",))
    assert "levels" in {kind.name for kind in kinds.every()}
