"""A recording in chunks has the regimes, the expectations and the bound that it has in one go."""

import sys
from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swerve import api
from swerve.data.windows import Standardizer, frames_between
from swerve.errors import InputError
from swerve.inference import chunks
from swerve.models import arhmm
from swerve.models.arhmm import Covariance
from swerve.models.arhmm.model import ArHmmWalk, blank
from swerve.models.arhmm.waves import fit_waves
from swerve.models.model import Knobs, Shape, maker_of
from swerve.models.snlds.maker import build_collapsed
from swerve.models.snlds.model import CollapsedWalk
from swerve.runs import fit as run
from swerve.runs import infer as applying
from swerve.runs.segment import draw_keys, infer_batch, worthwhile_labels_of_one
from swerve.settings.sections import ModelConfig, PosteriorConfig
from swerve.types import Recording
from swerve.views.codes import ImageCode

segment = sys.modules[infer_batch.__module__]  # `swerve.runs.segment` itself is the verb
K, T, D, U, SAMPLES = 3, 203, 3, 2, 3
MODELS = {
    "default": ({}, {}),
    "rich": (
        {
            "dynamics": "gru",
            "dynamics_reads_x": True,
            "emission_reads_s": True,
            "emission_hidden": (4,),
            "switching_history": 3,
            "switching_filters": 2,
            "embedding_hidden": (4,),
            "initial_learned": True,
            "initial_per_regime": True,
        },
        {"start": "state", "cell": "lstm", "shares_embedding": True},
    ),
    "constant switches": (
        {
            "dynamics": "gru",
            "dynamics_noise": "full",
            "switching_reads_x": False,
            "switching_reads_z": False,
            "switching_reads_u": False,
        },
        {"start": "origin", "reads_changes": False},
    ),
    "memory that q follows": ({"dynamics": "gru", "switching_history": 2}, {"embedding_hidden": (4,)}),
}
STANDARDIZER = Standardizer(np.full(D, 0.1), np.full(D, 2.0), np.zeros(U), np.ones(U))

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def recording() -> Recording:
    """With missing values, a gap of whole frames that crosses borders of chunks, missing ends, and controls."""
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.normal(size=(T, D)), axis=0)
    x[rng.random((T, D)) < 0.1] = np.nan
    x[40:60], x[:1], x[-2:] = np.nan, np.nan, np.nan
    return Recording(x, u=rng.normal(size=(T, U)), name="long")


@pytest.fixture(scope="module")
def between(recording):
    return partial(frames_between, recording, STANDARDIZER)


def jittered(system, amount: float = 0.1):
    """Away from the quiet start, so that every part has a say."""
    leaves, shape = jax.tree.flatten(system)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    moved = [leaf + amount * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    system_moved = jax.tree.unflatten(shape, moved)
    return eqx.tree_at(lambda s: s.model.log_allowed, system_moved, jnp.zeros(K))


def built(name: str):
    of_model, of_posterior = MODELS[name]
    sizes = {"regimes": K, "state_size": 3, "dynamics_hidden": (4,), "switching_hidden": (4,)}
    return jittered(
        build_collapsed(
            ModelConfig(**(sizes | of_model)),
            PosteriorConfig(**({"encoder_size": 4, "causal_size": 4} | of_posterior)),
            channels=D,
            controls=U,
            stickiness=2.0,
            allowed=K,
            key=jax.random.key(0),
        )
    )


def walked(walk, between, chunk: int):
    expected = np.full((T, D), np.nan)

    def keep(first, rows):
        expected[first : first + len(rows)] = rows

    shares = []
    found = chunks.infer(walk, between, T, draw_keys(SAMPLES), chunk=chunk, on_expected=keep, on_progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    return *found, expected


def assert_same(whole, found) -> None:
    (probabilities, path, expected), (theirs, their_path, their_expected) = whole, found
    np.testing.assert_array_equal(path, their_path)
    np.testing.assert_allclose(probabilities, theirs, atol=2e-5)
    np.testing.assert_allclose(expected, their_expected, atol=1e-4)
    labels = [worthwhile_labels_of_one(np.asarray(one, np.float32)) for one in (probabilities, theirs)]
    np.testing.assert_array_equal(*labels)
    assert len(np.unique(labels[0])) > 1, "a recording of one regime tells nothing"


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("default", (7, 16, 50)),
        ("constant switches", (7,)),
        ("memory that q follows", (50,)),
        ("rich", (7, 16, 50, 256)),
    ],
)
@pytest.mark.slow
def test_a_system_finds_the_same_in_chunks_of_any_size(name, sizes, between):
    system = built(name)
    frames = between(0, T)
    whole = [np.asarray(a[0]) for a in infer_batch(system, jax.tree.map(lambda a: a[None], frames), samples=SAMPLES)]
    keys = draw_keys(SAMPLES)
    elbos = jax.jit(jax.vmap(lambda key: system.terms(jax.tree.map(jnp.asarray, frames), Knobs(), key=key).elbo))(keys)
    for chunk in sizes:
        assert_same(whole, walked(CollapsedWalk(system), between, chunk))
        bound = chunks.bound(CollapsedWalk(system), between, T, keys, chunk=chunk)
        assert bound == pytest.approx(float(elbos.mean()), rel=1e-5)


@pytest.mark.slow
def test_the_code_of_an_image_sees_the_one_before_it_across_borders():
    image, frames = (6, 5), 40
    config = api.make_config(K, settings=("model.state_size=2", "posterior.encoder_size=4", "posterior.causal_size=4"))
    keys = jax.random.split(jax.random.key(3), 2)
    system = maker_of(config).build(config, Shape(1, 0), stickiness=1.0, allowed=K, key=keys[0])
    system = jittered(system.on_pixels(ImageCode(1, image, key=keys[1]), config.model), 0.3)
    scale = Standardizer(np.zeros(30), np.ones(30))
    pictures = partial(
        frames_between, Recording(np.random.default_rng(4).normal(size=(frames, 30)), image=image), scale
    )
    whole = infer_batch(system, jax.tree.map(lambda a: a[None], pictures(0, frames)), samples=SAMPLES)
    found = chunks.infer(CollapsedWalk(system), pictures, frames, draw_keys(SAMPLES), chunk=7)
    np.testing.assert_allclose(whole.probabilities[0], found.probabilities, atol=2e-5)
    np.testing.assert_array_equal(whole.path[0], found.path)


@pytest.mark.parametrize(
    ("lags", "features", "covariance", "sizes"),
    [
        (3, 4, Covariance.FULL, (16,)),
        pytest.param(3, 4, Covariance.FULL, (7, 50), marks=pytest.mark.slow),
        pytest.param(1, 0, Covariance.DIAGONAL, (7, 16, 50), marks=pytest.mark.slow),
        pytest.param(0, 0, Covariance.FULL, (7, 16, 50), marks=pytest.mark.slow),
    ],
)
def test_an_arhmm_finds_the_same_in_chunks_of_any_size(lags, features, covariance, sizes, between):
    rng = np.random.default_rng(2)
    model = blank(K, D, lags, covariance, features=features, temperature=3.0)
    waves = fit_waves(np.float32(rng.normal(size=(200, D))), features) if features else None
    chain = jax.nn.log_softmax(3 * jnp.eye(K) + jnp.asarray(rng.normal(size=(K, K)), jnp.float32), axis=-1)
    weights = jnp.asarray(0.4 * rng.normal(size=model.weights.shape), jnp.float32)
    start = jnp.asarray(rng.normal(size=D), jnp.float32)
    model = replace(model, log_transition=chain, log_initial=chain[0], weights=weights, waves=waves, start_mean=start)
    frames = jax.tree.map(lambda a: jnp.asarray(a)[None], between(0, T))
    whole = [np.asarray(a[0]) for a in infer_batch(model, frames, samples=1)]
    likelihood = float(arhmm.log_likelihood(model, jax.tree.map(lambda a: a[0], frames)))
    for chunk in sizes:
        assert_same(whole, walked(ArHmmWalk(model), between, chunk))
        found = chunks.bound(ArHmmWalk(model, looks_ahead=False), between, T, draw_keys(1), chunk=chunk)
        assert found == pytest.approx(likelihood, rel=1e-6)


@pytest.fixture
def fitted() -> run.Run:
    settings = (
        "model.state_size=2",
        "model.dynamics_hidden=[4]",
        "posterior.encoder_size=4",
        "posterior.causal_size=4",
    )
    config = api.make_config(K, settings=settings)
    system = maker_of(config).build(config, Shape(D, U), stickiness=2.0, allowed=K, key=jax.random.key(0))
    return run.Run(config, jittered(system), ("x0", "x1", "x2"), U, STANDARDIZER, held_out=0.0)


def test_long_and_short_recordings_side_by_side(fitted, recording, monkeypatch):
    short = replace(recording, x=recording.x[:60], u=recording.u[:60], name="short")
    both = [recording, short]
    whole, score = fitted.infer(both), fitted.score(both)
    monkeypatch.setattr(segment, "FRAMES_AT_ONCE", 100)
    monkeypatch.setattr(segment, "LARGEST_CHUNK", 64)
    heard = []
    found = fitted.infer(both, on_progress=heard.append)
    assert heard == sorted(heard)
    assert heard[0] == 60
    assert heard[-1] == pytest.approx(T + 60)
    for ours, theirs in zip(whole, found, strict=True):
        np.testing.assert_array_equal(ours.labels, theirs.labels)
        np.testing.assert_allclose(ours.probabilities, theirs.probabilities, atol=2e-5)
        np.testing.assert_allclose(ours.expected, theirs.expected, rtol=1e-5, atol=1e-4)
        assert ours.name == theirs.name
    only_labels = fitted.segment(both, viterbi=True)
    for ours, theirs in zip(fitted.infer(both, viterbi=True), only_labels, strict=True):
        np.testing.assert_array_equal(ours.labels, theirs.labels)
    assert fitted.score([recording]) == pytest.approx(_whole_score(fitted, recording, monkeypatch), rel=1e-5)
    assert np.isfinite(score)


def _whole_score(fitted, recording, monkeypatch) -> float:
    monkeypatch.setattr(segment, "FRAMES_AT_ONCE", 1000)
    return fitted.score([recording])


@pytest.mark.slow
def test_labels_of_many_frames_are_those_of_the_whole(fitted, monkeypatch):
    """With the sizes that users get: eight chunks of 4096 frames against one of 32,768."""
    rng = np.random.default_rng(3)
    x = np.cumsum(rng.normal(size=(30_000, D)), axis=0) % 10
    x[rng.random(x.shape) < 0.05] = np.nan
    long = Recording(x, u=rng.normal(size=(30_000, U)), name="long")
    (found,) = fitted.segment([long])
    monkeypatch.setattr(segment, "FRAMES_AT_ONCE", 40_000)
    (whole,) = fitted.segment([long])
    np.testing.assert_array_equal(found.labels, whole.labels)
    np.testing.assert_allclose(found.probabilities, whole.probabilities, atol=2e-5)


def test_a_system_that_needs_the_whole_recording_names_its_limit(recording, monkeypatch):
    config = api.make_config(K, "kvae")
    system = maker_of(config).build(config, Shape(D, U), stickiness=2.0, allowed=K, key=jax.random.key(0))
    fitted = run.Run(config, system, ("x0", "x1", "x2"), U, STANDARDIZER, held_out=0.0)
    monkeypatch.setattr(applying, "MOST_VALUES", 300)
    with pytest.raises(InputError, match='"kvae" needs a recording as a whole, here of at most 100 frames'):
        fitted.segment([recording])


def test_frames_outside_a_recording_are_padding(recording):
    frames = frames_between(recording, STANDARDIZER, -2, 3)
    assert frames.valid.tolist() == [False, False, True, True, True]
    inside = frames_between(recording, STANDARDIZER, 0, 3)
    for wide, own in zip(frames, inside, strict=True):
        np.testing.assert_array_equal(wide[2:], own)
        assert not wide[:2].any()
    ending = frames_between(recording, STANDARDIZER, T - 1, T + 4)
    assert ending.valid.tolist() == [True, False, False, False, False]
