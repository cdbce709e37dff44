"""Video from recordings to regimes: one small fit, and everything that is asked of it."""

from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import SETTINGS

from swerve import api
from swerve.data.columns import pixel_names
from swerve.errors import InputError
from swerve.learning import images as video
from swerve.learning import preparation
from swerve.learning.fit import make_schedule
from swerve.learning.loop import Report
from swerve.learning.restarts import pick
from swerve.learning.step import Restart, evaluate
from swerve.models.model import Knobs
from swerve.models.snlds.bound import regime_chain
from swerve.runs import fit as run
from swerve.settings.sections import Variant
from swerve.types import Recording
from swerve.views import codes as views

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_compilation")]

IMAGE = (6, 8)
CONFIG = api.make_config(
    2, settings=(*SETTINGS, "model.state_size=4", "training.steps=40", "code.steps=100", "code.images_from=0.5")
)


def recording(seed: int, frames: int = 40) -> Recording:
    """A soft spot that wanders over the image, to the right in one regime and back in the other."""
    rng = np.random.default_rng(seed)
    s = (np.arange(frames) + rng.integers(20)) // 10 % 2
    right = 3.5 + np.cumsum(np.where(s, 0.3, -0.3)) - 1.5
    down = 2.5 + np.cumsum(0.1 * rng.standard_normal(frames))
    grids = np.arange(IMAGE[0])[None], np.arange(IMAGE[1])[None]
    rows, columns = (np.exp(-((g - at[:, None]) ** 2)) for g, at in zip(grids, (down, right), strict=True))
    x = (rows[:, :, None] * columns[:, None, :]).reshape(frames, -1).astype(np.float32)
    return Recording(x, s=s, name=f"spot-{seed}", columns=pixel_names(IMAGE), image=IMAGE)


@pytest.fixture(scope="module")
def videos() -> list[Recording]:
    made = [recording(seed) for seed in range(8)]
    made[0].x[5] = np.nan
    made[1].x[7, :9] = np.nan
    return made


@pytest.fixture(scope="module")
def kept(videos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "kept"
    notes: list[str] = []
    reports: list[Report] = []
    fitted = run.fit(videos, CONFIG, out=folder, on_note=notes.append, on_report=reports.append)
    return fitted, folder, notes, reports


@pytest.fixture(scope="module")
def prepared(videos):
    return preparation.prepare(videos, CONFIG)


@pytest.fixture(scope="module")
def codes(kept, prepared):
    return video.learned_codes(kept[1] / "code.safetensors", prepared, CONFIG, key=jax.random.key(CONFIG.seed))


@pytest.fixture(scope="module")
def code(codes):
    return codes.code


def test_a_fit_tells_of_its_code_its_restarts_and_its_images(kept):
    _, folder, notes, reports = kept
    assert any(note.startswith("learning a code of the images: step 100 of 100") for note in notes)
    assert (folder / "code.safetensors").is_file()
    assert [report.step for report in reports] == [10, 20]
    assert [note for note in notes if "training on" in note] == [
        "training on the images: step 20 of 40",
        "training on the images: step 30 of 40",
    ]


def test_restarts_are_models_of_codes_and_the_best_is_shown_as_one_of_images(kept):
    report = kept[3][-1]
    assert pick(report.systems, 0).model.reader is None
    assert report.system.model.reader is not None


def test_the_steps_on_images_raise_their_bound(kept, prepared):
    fitted, _, _, reports = kept
    before, after = (float(evaluate(one, prepared.validation).bound) for one in (reports[-1].system, fitted.model))
    assert fitted.held_out == pytest.approx(after)
    assert after > before


def test_steps_on_images_that_do_harm_are_undone(kept, prepared):
    system, first, notes = kept[3][-1].system, jnp.asarray(0), []
    far_too_fast = make_schedule(CONFIG.recipe, Variant(learning_rate=1e3), CONFIG.training.steps)
    restart = Restart(far_too_fast, jax.random.key(0), guide=first, source=first)
    left = video.train_on_images(system, prepared.training, prepared.validation, restart, CONFIG, on_note=notes.append)
    assert left is system
    assert notes[-1].endswith("undone")


def test_what_the_model_expects_looks_like_the_video(kept, videos):
    fitted = kept[0]
    one = videos[2]
    left = one.x - fitted.infer([one])[0].expected
    assert (left**2).mean() < 0.5 * one.x.var()


def test_a_loaded_run_gives_the_same_labels(kept, videos):
    fitted, folder, *_ = kept
    loaded = run.load(folder)
    assert loaded.image == IMAGE
    for ours, theirs in zip(fitted.segment(videos[:2]), loaded.segment(videos[:2]), strict=True):
        np.testing.assert_array_equal(ours.probabilities, theirs.probabilities)


def with_error(code, error):
    return eqx.tree_at(lambda c: c.error, code, jnp.asarray(error))


@pytest.mark.parametrize(
    ("errors", "learned", "expected", "last_note"),
    [
        ([0.1, 0.05], 1, 0.1, None),
        ([0.97, np.nan, 0.1], 3, 0.1, "beginning again, 2 of 2"),
        ([0.99, 0.97, 0.98], 3, 0.97, "no code draws the images"),
    ],
    ids=["draws at once", "draws at last", "never draws"],
)
def test_a_code_that_draws_nothing_is_learned_again(errors, learned, expected, last_note, code, prepared, monkeypatch):
    keys, notes = [], []

    def fit_code(*_, key, **__):
        keys.append(jax.random.key_data(key).tolist())
        return with_error(code, errors[len(keys) - 1])

    monkeypatch.setattr(views, "fit_code", fit_code)
    found = video.learned_codes(None, prepared, CONFIG, key=jax.random.key(0), on_note=notes.append)
    assert float(found.code.error) == pytest.approx(expected)
    assert len({tuple(key) for key in keys}) == len(keys) == learned
    assert len(notes) >= learned - 1
    assert last_note is None if not notes else last_note in notes[-1]


def test_codes_that_all_diverge_are_an_error(code, prepared, monkeypatch):
    monkeypatch.setattr(views, "fit_code", lambda *_, **__: with_error(code, np.nan))
    with pytest.raises(InputError, match="diverged"):
        video.learned_codes(None, prepared, CONFIG, key=jax.random.key(0))


def test_the_code_is_learned_once(kept, prepared, monkeypatch):
    """A run that is taken up again finds its code in the folder."""
    monkeypatch.setattr(views, "fit_code", lambda *_, **__: pytest.fail("learned again"))
    kept_code = kept[1] / "code.safetensors"
    codes = video.learned_codes(kept_code, prepared, CONFIG, key=jax.random.key(0))
    assert codes.code.error < 0.95
    numbers = prepared.seen_as(codes).training
    assert numbers.x.shape == (*prepared.training.valid.shape, 2)


def test_a_stop_while_the_code_is_learned_leaves_nothing_but_a_run_to_resume(videos, tmp_path):
    with pytest.raises(InputError, match="Stopped while a code of the images was learned"):
        run.fit(videos, CONFIG, out=tmp_path / "run", should_stop=lambda: True)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]


@jax.jit
def read_and_embedded(model, frames):
    readings = model.readings(frames.blanked())
    return readings, model.features(readings)


def test_a_model_of_codes_and_the_same_of_images_read_the_same(kept, prepared, codes):
    of_codes = pick(kept[3][-1].systems, 0)
    of_images = of_codes.on_pixels(codes.code, CONFIG.model)
    images, numbers = (pick(part.training, 0) for part in (prepared, prepared.seen_as(codes)))
    jax.tree.map(
        partial(np.testing.assert_allclose, atol=1e-4),
        read_and_embedded(of_codes.model, numbers),
        read_and_embedded(of_images.model, images),
    )


def test_a_model_of_images_draws_what_the_code_draws(kept, code):
    of_codes = pick(kept[3][-1].systems, 0).model.emission
    of_images = pick(kept[3][-1].systems, 0).on_pixels(code, CONFIG.model).model.emission
    z = jnp.asarray([0.5, -1.0, 0.2, 0.1])
    np.testing.assert_allclose(of_images.mean(z)[0], code.decoder(of_codes.mean(z)[0]), atol=1e-5)
    np.testing.assert_allclose(of_images.noise.scale, np.full((1, 48), float(code.error)), rtol=1e-2)


def test_missing_pixels_and_padding_may_hold_anything(kept, videos):
    system = kept[0].model
    frames = jax.tree.map(lambda leaf: leaf[:1], preparation.prepare(videos, CONFIG).training)
    hidden = np.random.default_rng(0).random(frames.x.shape) < 0.2
    hidden[0, 10] = True
    valid = np.arange(40)[None] < 33
    holes = (
        frames._replace(
            x=jnp.where(hidden | ~valid[..., None], hole, frames.x),
            observed=~jnp.asarray(hidden),
            valid=jnp.asarray(valid),
        )
        for hole in (0.0, np.nan)
    )
    zeros, gaps = (evaluate(system, one) for one in holes)
    np.testing.assert_array_equal(zeros.bound, gaps.bound)
    assert np.isfinite(zeros.bound)


def test_a_missing_pixel_loses_only_its_own_term(kept, videos):
    system = kept[0].model
    frames = jax.tree.map(lambda leaf: leaf[2], preparation.prepare(videos, CONFIG).training)
    model = system.model
    z = jnp.zeros((40, 4))
    features, predicted = model.features(model.readings(frames)), jnp.zeros((39, 2, 4))
    whole = model.potentials(frames, features, z, predicted).log_emission
    fewer = frames._replace(observed=frames.observed.at[4, 5].set(False))
    lost = whole - model.potentials(fewer, features, z, predicted).log_emission
    residual = frames.x[4, 5] - model.emission.mean(z[4])[0, 5]
    scale = float(model.emission.noise.scale[0, 0])
    expected = -0.5 * (residual / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(lost[4, 0], expected, rtol=1e-3)
    np.testing.assert_array_equal(np.delete(np.asarray(lost), 4), 0)


def test_the_posterior_reads_codes_not_pixels(kept, videos):
    system = kept[0].model
    frames = jax.tree.map(lambda leaf: leaf[0], preparation.prepare(videos, CONFIG).training)
    assert system.posterior.gain.shape == (4, 2)
    draw, chain, _ = jax.jit(
        lambda system: regime_chain(system.model, system.posterior, frames, Knobs(), key=jax.random.key(0))
    )(system)
    assert draw.z.shape == (40, 4) and chain.log_evidence.shape == (40, 2)


def test_a_model_of_images_can_be_sampled(kept):
    sampled = jax.jit(lambda model: model.sample(jnp.zeros((6, 0)), key=jax.random.key(0)))(kept[0].model.model)
    assert sampled.x.shape == (6, 48) and np.isfinite(sampled.x).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.zeros((40, 64), np.float32), "columns": pixel_names((8, 8)), "image": (8, 8)}, "8 x 8 pixels"),
        ({"x": np.zeros((40, 48), np.float32), "columns": pixel_names((8, 6)), "image": (8, 6)}, "8 x 6 pixels"),
        ({"x": np.zeros((40, 2), np.float32), "columns": (), "image": None}, "holds numbers"),
    ],
)
def test_other_images_and_numbers_are_refused(kept, videos, change, message):
    with pytest.raises(InputError, match=message) as told:
        kept[0].segment([replace(videos[2], **change)])
    assert "the model was fitted to images of 6 x 8 pixels" in str(told.value)


def test_recordings_of_two_kinds_are_refused(videos):
    other = Recording(np.zeros((40, 48)), name="table", columns=pixel_names(IMAGE))
    with pytest.raises(InputError, match="one is video, the other is not"):
        preparation.prepare([videos[0], other], CONFIG)
    larger = replace(videos[1], x=np.zeros((40, 64)), columns=pixel_names((8, 8)), image=(8, 8))
    with pytest.raises(InputError, match="has images of another size"):
        preparation.prepare([videos[0], larger], CONFIG)


def test_an_ar_hmm_refuses_video(videos):
    with pytest.raises(InputError, match="An AR-HMM reads numbers"):
        run.fit(videos, api.make_config(2, "arhmm", settings=SETTINGS))
