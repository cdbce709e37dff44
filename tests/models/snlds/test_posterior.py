"""q(z | x): where it starts, what it may not read, and that its noise belongs to the frame."""

import dataclasses
from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from swerve.inference.bridges import BRIDGED
from swerve.inference.frames import Frames
from swerve.models.model import Knobs
from swerve.models.snlds.bound import regime_chain
from swerve.models.snlds.maker import build_collapsed, build_posterior
from swerve.models.snlds.posterior import AROUND, Draw, Start, changes, frame_noise
from swerve.settings.sections import ModelConfig, PosteriorConfig

quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
T, D, L, U, K = 5, 2, 2, 1, 2
NOISE = 0.1


def make(start, **settings):
    model = ModelConfig(
        regimes=K,
        state_size=L,
        initial_per_regime=True,
        dynamics="linear",
        dynamics_noise_start=NOISE,
        embedding_hidden=settings.get("embedding_hidden", ()),
    )
    posterior = PosteriorConfig(encoder_size=3, causal_size=4, start=start.value, **settings)
    return build_collapsed(model, posterior, channels=D, controls=U, stickiness=1.0, allowed=K, key=jax.random.key(0))


def filled(start=Start.DYNAMICS, scale=0.3, **settings):
    """Random parameters, without compiling the initialisation."""
    rng = np.random.default_rng(0)
    like = jax.eval_shape(lambda: make(start, **settings))
    return jax.tree.map(lambda leaf: np.float32(scale * rng.normal(size=leaf.shape)), like)


def some_frames(length=T, padding=np.nan):
    rng = np.random.default_rng(1)
    x, u = np.float32(rng.normal(size=(T, D))), np.float32(rng.normal(size=(T, U)))
    extra = ((0, length - T), (0, 0))
    x, u = (np.pad(a, extra, constant_values=padding) for a in (x, u))
    return Frames(x, np.ones((length, D), bool), np.arange(length) < T, u)


@quick_jit
def path(system, frames):
    return regime_chain(system.model, system.posterior, frames, Knobs(), key=jax.random.key(0))[0]


def changed(system, where, value):
    return replace(system, posterior=eqx.tree_at(where, system.posterior, np.float32(value)))


def uncorrected(system):
    """The network's shift and the gain switched off: what remains is where q starts."""
    posterior = system.posterior
    system = changed(system, lambda p: p.head.weight, np.zeros_like(posterior.head.weight))
    system = changed(system, lambda p: p.head.bias, np.zeros_like(posterior.head.bias))
    return changed(system, lambda p: p.gain, np.zeros_like(posterior.gain))


def same_valid_frames(one, other):
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(ours[:T], theirs[:T], atol=1e-5)


def test_entropy_is_that_of_the_gaussians():
    scale = np.float32([[0.1, 2.0], [1.0, 0.5]])
    entropy = Draw(z=None, mean=None, scale=scale, expected=None).entropy
    np.testing.assert_allclose(entropy, norm.entropy(scale=scale).sum(axis=1), rtol=1e-5)


def test_noise_is_keyed_by_frame():
    short, long = (np.asarray(frame_noise(jax.random.key(3), n, L)) for n in (T, T + 4))
    np.testing.assert_array_equal(short, long[:T])
    assert len(np.unique(long)) == long.size


def test_draws_have_the_mean_and_scale_they_report():
    keys = jax.random.split(jax.random.key(1), 2000)
    one = lambda system, frames, key: regime_chain(system.model, system.posterior, frames, Knobs(), key=key)[0]  # noqa: E731
    draws = quick_jit(jax.vmap(one, in_axes=(None, None, 0)))(filled(), some_frames(), keys)
    white = np.asarray((draws.z - draws.mean) / draws.scale).reshape(2000, -1)
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=0.12)
    np.testing.assert_allclose(np.cov(white.T), np.eye(T * L), atol=0.15)


@pytest.mark.parametrize("start", [Start.DYNAMICS, Start.ORIGIN])
def test_padding_of_any_length_and_content_changes_no_valid_frame(start):
    system = filled(start)
    bare = path(system, some_frames())
    for frames in (some_frames(T + 4), some_frames(T + 4, 1e3)):
        same_valid_frames(path(system, frames), bare)


def test_what_stands_in_a_missing_frame_is_never_read():
    system, frames = filled(), some_frames()
    whole, gaps = path(system, frames), []
    for content in (0.0, 1e3, np.nan):
        gap = frames._replace(x=frames.x.copy(), observed=frames.observed.copy())
        gap.x[2], gap.observed[2] = content, False
        gaps.append(path(system, gap))
    same_valid_frames(gaps[0], gaps[1])
    same_valid_frames(gaps[0], gaps[2])
    assert (np.abs(gaps[0].mean - whole.mean).max(axis=1) > 1e-4).all()  # every frame hears of it


def test_a_start_at_the_dynamics_weighs_the_regimes_predictions():
    system, frames = uncorrected(filled(scale=1.0)), some_frames()
    draw = path(system, frames)
    predicted = quick_jit(lambda model, f, z: model.predicted_states(f, z))(system.model, frames, draw.z)
    np.testing.assert_allclose(draw.expected[0], system.model.initial.mean, rtol=1e-5)
    np.testing.assert_allclose(draw.expected[1:], predicted, rtol=1e-4)
    share = (draw.mean - draw.expected[:, 1]) / (draw.expected[:, 0] - draw.expected[:, 1])
    assert ((share > 0) & (share < 1)).all()
    np.testing.assert_allclose(share[:, 0], share[:, 1], atol=1e-3)


def test_a_start_at_the_state_is_a_residual_on_it():
    draw = path(uncorrected(filled(Start.STATE)), some_frames())
    np.testing.assert_allclose(draw.mean, np.concatenate([np.zeros((1, L)), draw.z[:-1]]), atol=1e-6)


def test_a_start_at_the_origin_is_the_network_alone():
    draw = path(uncorrected(filled(Start.ORIGIN)), some_frames())
    np.testing.assert_allclose(draw.mean, np.zeros((T, L)), atol=1e-6)
    np.testing.assert_array_less(1e-3, np.abs(path(filled(Start.ORIGIN), some_frames()).mean))


def test_the_gain_corrects_by_what_was_observed_and_only_by_that():
    start, frames = uncorrected(filled()), some_frames()
    frames.observed[0] = [True, False]
    once, twice = (changed(start, lambda p: p.gain, np.full((L, D), size)) for size in (1.0, 2.0))
    begin, moved, moved_twice = (np.asarray(path(s, frames).mean[0]) for s in (start, once, twice))
    (layer,) = start.model.emission.networks.layers
    error = frames.x[0, 0] - (layer.weight[0] @ begin + layer.bias[0])[0]
    assert (np.sign(moved - begin) == np.sign(error)).all()
    np.testing.assert_allclose(moved_twice - begin, 2 * (moved - begin), rtol=1e-3)
    frames.x[0, 1] += 5.0
    np.testing.assert_array_equal(path(once, frames).mean[0], moved)


@pytest.mark.parametrize(("start", "cell"), [(Start.DYNAMICS, "gru"), (Start.ORIGIN, "lstm")])
def test_the_first_scale_is_the_one_asked_for(start, cell):
    """In units of the dynamics noise where q starts from the dynamics, and of z elsewhere."""
    system = quick_jit(lambda: make(start, cell=cell, initial_scale=0.5))()
    unit = NOISE if start is Start.DYNAMICS else 1.0
    np.testing.assert_allclose(path(system, some_frames()).scale[1:], 0.5 * unit, rtol=1e-3)


@pytest.mark.parametrize("shares", [True, False])
def test_a_shared_embedding_reads_what_the_switches_read(shares):
    system = filled(Start.STATE, shares_embedding=shares, embedding_hidden=(3,))
    other = replace(system, model=jax.tree.map(lambda leaf: leaf + np.float32(0.5), system.model))
    one, two = (np.asarray(path(s, some_frames()).mean) for s in (system, other))
    assert np.allclose(one, two) != shares


def test_changes_are_those_to_the_neighbours_that_were_seen():
    x = np.float32([[1.0, 0.0], [3.0, 0.0], [2.0, 5.0], [7.0, 5.5]])
    seen = np.array([[True, True], [True, False], [True, True], [True, True]])
    before = [[0.0, 0.0], [2.0, 0.0], [-1.0, 0.0], [5.0, 5.0]]
    after = [[2.0, 0.0], [-1.0, 0.0], [5.0, 5.0], [0.0, 0.0]]
    found = quick_jit(changes)(x, seen, np.float32([1.0, 10.0]))
    np.testing.assert_allclose(found, np.concatenate([before, after], axis=1))


def test_q_reads_a_gap_as_if_the_channel_had_gone_straight_on_and_is_told_that_nobody_looked():
    length = 12
    line = np.float32(np.arange(length)[:, None] * [1.0, -2.0])
    observed = np.ones((length, D), bool)
    observed[3:7, 0] = observed[:2, 1] = False
    shown = line.copy()
    shown[:2, 1] = 0.0  # nothing is bridged before the first value
    posterior = jax.tree.map(jnp.asarray, filled(reads_changes=True).posterior)
    embedding = lambda x, observed: jnp.concatenate([x, observed.astype(x.dtype)], axis=1)  # noqa: E731
    posterior = eqx.tree_at(lambda q: q.embedding, posterior, embedding)
    frames = Frames(np.where(observed, line, 0.0), observed, np.ones(length, bool), np.zeros((length, U), np.float32))
    seen = np.asarray(quick_jit(lambda frames: posterior.look(frames, jnp.zeros((length, 0))))(frames))
    np.testing.assert_allclose(seen[:, :D], shown, atol=1e-5)
    np.testing.assert_array_equal(seen[:, D : 2 * D], observed)
    steps = posterior.change_gain * np.float32([1.0, -2.0])
    np.testing.assert_allclose(seen[1:, 2 * D], np.full(length - 1, steps[0]), rtol=1e-4)
    np.testing.assert_allclose(seen[3:, 2 * D + 1], np.full(length - 3, steps[1]), rtol=1e-4)
    assert (seen[:3, 2 * D + 1] == 0).all()


@pytest.mark.parametrize("missing", [1, 3, 4, BRIDGED - 1, BRIDGED, BRIDGED + 1])
def test_a_chunk_and_the_frames_around_it_are_read_as_in_the_whole(missing):
    """Wherever the gap lies: inside, at the chunk's border, or just out of reach."""
    rng, chunk = np.random.default_rng(missing), 6
    length = chunk + 2 * AROUND
    x, posterior = np.float32(rng.normal(size=(length + 80, D))), jax.tree.map(jnp.asarray, filled().posterior)
    frames = Frames(x, np.ones(x.shape, bool), np.ones(len(x), bool), np.zeros((len(x), U), np.float32))
    look = quick_jit(lambda frames: posterior.look(frames, jnp.zeros((len(frames.x), 0))))
    for begin in range(40 - missing, 40 + AROUND + chunk + 1):
        frames.observed[:] = True
        frames.observed[begin : begin + missing] = False
        blanked = frames.blanked()
        whole = look(blanked)[40 + AROUND :][:chunk]
        some = look(jax.tree.map(lambda leaf: leaf[40 : 40 + length], blanked))[AROUND:][:chunk]
        np.testing.assert_array_equal(some, whole)


def test_q_first_corrects_little_where_x_is_not_part_of_z():
    def first_gain(**shape):
        model = dataclasses.replace(ModelConfig(), state_size=2, **shape)
        made = build_posterior(
            PosteriorConfig(), model, channels=2, controls=0, change_scale=jnp.ones(2), key=jax.random.key(0)
        )
        return made.gain

    straight, blind = first_gain(), first_gain(emission_hidden=(8,))
    np.testing.assert_allclose(blind, 0.02 * straight, rtol=1e-5)


def test_a_regime_that_may_not_be_used_moves_nothing():
    system, frames = uncorrected(filled(scale=1.0)), some_frames()
    allowed = np.float32([0.0, -1e9])
    system = replace(system, model=eqx.tree_at(lambda m: m.log_allowed, system.model, allowed))
    draw = path(system, frames)
    np.testing.assert_allclose(draw.mean, draw.expected[:, 0], rtol=1e-5)
