"""One update and many: they learn, survive what is not finite, and are compiled once.

The toy made here is shared by the other tests of training, so that its functions are compiled once for all.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swerve.inference.frames import Frames
from swerve.learning.restarts import pick, stack
from swerve.learning.schedule import Schedule
from swerve.learning.step import (
    Restart,
    TrainingData,
    advance,
    advance_together,
    batch_loss,
    evaluate,
    evaluate_together,
    hide,
    start,
)
from swerve.models.model import Knobs, usage_entropy
from swerve.models.snlds.maker import build_collapsed
from swerve.settings.sections import ModelConfig, PosteriorConfig

quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
N, T, D, K = 8, 4, 1, 2
STEPS, BATCH = 5, 4
CALM, POISON = 0, 1  # guides: silence, and NaN everywhere


@pytest.fixture(autouse=True, scope="module")
def quick_compiles():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


MODEL = ModelConfig(
    regimes=K,
    state_size=1,
    dynamics="linear",
    switching_reads_x=False,
    switching_reads_z=False,
    switching_reads_u=False,
)
POSTERIOR = PosteriorConfig(encoder_size=3, causal_size=3, start="state")


@quick_jit
def toy_system(key):
    return build_collapsed(MODEL, POSTERIOR, channels=D, controls=0, stickiness=1.0, allowed=K, key=key)


def toy_state(seed):
    return start(toy_system(jax.random.key(seed)))


def toy_restart(seed=0, guide=CALM, source=0, **settings):
    schedule = jax.tree.map(jnp.float32, Schedule(0.02, 0.02, warmup_steps=1.0)._replace(**settings))
    return Restart(schedule, jax.random.key(seed), jnp.asarray(guide), jnp.asarray(source))


def toy_frames(seed=0):
    """Random walks that drift up or down, the last frame of every other one padded."""
    rng = np.random.default_rng(seed)
    drift = np.repeat(rng.choice([-0.5, 0.5], size=(N, 1, 1)), T, axis=1)
    x = np.cumsum(drift + 0.05 * rng.normal(size=(N, T, D)), axis=1)
    valid = (np.arange(T) < T - 1) | (np.arange(N)[:, None] % 2 == 0)
    return Frames(jnp.float32(x), jnp.ones((N, T, D), bool), jnp.asarray(valid), jnp.zeros((N, T, 0)))


def toy_data(seeds=(0, 2)):
    """Two sources of frames, a guide that is silent and one that is not finite."""
    guides = jnp.stack([jnp.zeros((N, T, K)), jnp.full((N, T, K), jnp.nan)])
    return TrainingData(stack([toy_frames(seed) for seed in seeds]), guides)


def held_out():
    """What both sources are judged on."""
    return toy_data((1, 3)).frames


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True))


def go(state, restart, times=1):
    data = toy_data()
    for _ in range(times):
        state, _ = advance(state, data, restart, steps=STEPS, batch_size=BATCH)
    return state


def test_batches_begin_anywhere_where_a_recording_goes_on():
    """Two recordings, of three windows and of one; frames and guides hold the number of the frame."""
    number = jnp.arange(4 * T, dtype=float).reshape(4, T)
    x = jnp.stack([number, -number])[..., None]  # two sources
    frames = Frames(x, jnp.ones(x.shape, bool), jnp.ones(x.shape[:3], bool), jnp.zeros((*x.shape[:3], 0)))
    guides = jnp.tile(number[None, :, :, None], (1, 1, 1, K))
    data = TrainingData(frames, guides, jnp.asarray([True, True, False, False]))
    picked = jnp.asarray(np.random.default_rng(0).integers(0, 4, 200))
    batch, guide = data.batch(toy_restart(source=1), picked, key=jax.random.key(1))
    begins = -np.asarray(batch.x[:, 0, 0], int)
    np.testing.assert_array_equal(batch.x[..., 0], -(begins[:, None] + np.arange(T)))
    np.testing.assert_array_equal(guide[..., 0], begins[:, None] + np.arange(T))
    assert set(begins.tolist()) == {*range(2 * T + 1), 3 * T}, "nothing lies across the two recordings"
    np.testing.assert_array_equal(begins // T, picked)
    batch, _ = data._replace(goes_on=None).batch(toy_restart(), picked, key=jax.random.key(1))
    np.testing.assert_array_equal(batch.x[:, 0, 0], T * picked)


def test_the_held_out_bound_rises():
    before = evaluate(toy_system(jax.random.key(0)), toy_frames(1))
    trained = go(toy_state(0), toy_restart(), times=20)
    after = evaluate(trained.system, toy_frames(1))
    assert (int(trained.step), int(trained.skipped)) == (20 * STEPS, 0)
    assert after.bound > before.bound + 0.2
    assert 1 <= after.regimes_in_use <= K
    assert 1 / K <= after.confidence <= 1


def test_a_gradient_that_is_not_finite_is_skipped_and_counted():
    before = go(toy_state(0), toy_restart())
    kept = jax.device_get((before.system, before.adam))
    poisoned = go(before, toy_restart(guide=POISON))
    assert same((poisoned.system, poisoned.adam), kept)
    assert (int(poisoned.skipped), int(poisoned.skipped_in_a_row), int(poisoned.step)) == (STEPS, STEPS, 2 * STEPS)
    recovered = go(poisoned, toy_restart())
    assert (int(recovered.skipped), int(recovered.skipped_in_a_row)) == (STEPS, 0)
    assert not same(recovered.system, kept[0])


def test_an_absurd_learning_rate_leaves_finite_parameters():
    state = go(toy_state(0), toy_restart(learning_rate=1e30, first_learning_rate=1e30), times=2)
    assert int(state.skipped) > 0
    assert all(np.isfinite(leaf).all() for leaf in leaves(state))


def test_a_regimes_permission_is_never_trained():
    assert (np.asarray(go(toy_state(0), toy_restart()).system.model.log_allowed) == 0).all()


def test_the_same_shapes_compile_once():
    state = go(toy_state(0), toy_restart())
    compiled = advance._cache_size()
    go(state, toy_restart(7, learning_rate=0.5))
    go(toy_state(1), toy_restart(8))
    assert advance._cache_size() == compiled


def that_matters(state):
    """Of a single expectation the weight is 1: what its network learns is rounding, which Adam makes large."""
    return eqx.tree_at(lambda s: s.system.posterior.weights_from_state, state, None)


@pytest.mark.slow
def test_restarts_together_equal_restarts_one_by_one():
    seeds = (0, 1)
    settings = [{}, {"learning_rate": 0.05, "gap_rate": 0.3, "balance": 0.5}]
    restarts = [toy_restart(seed, source=seed, **setting) for seed, setting in zip(seeds, settings, strict=True)]
    one_by_one = [go(toy_state(seed), restart) for seed, restart in zip(seeds, restarts, strict=True)]
    states = stack([toy_state(seed) for seed in seeds])
    together, _ = advance_together(states, toy_data(), stack(restarts), steps=STEPS, batch_size=BATCH)
    bounds = evaluate_together(together.system, held_out(), jnp.asarray(seeds))
    for r, alone in enumerate(one_by_one):
        close = partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4)
        jax.tree.map(close, *(that_matters(state) for state in (pick(together, r), alone)))
        jax.tree.map(close, pick(bounds, r), evaluate(alone.system, pick(held_out(), r)))


def test_a_restart_reads_the_frames_of_its_source_alone():
    second = go(toy_state(0), toy_restart(source=1))
    swapped, _ = advance(toy_state(0), toy_data((2, 0)), toy_restart(), steps=STEPS, batch_size=BATCH)
    assert same(second, swapped)
    assert not same(second.system, go(toy_state(0), toy_restart()).system)


@quick_jit
def loss_and_terms(system, data, knobs):
    keys = jax.random.split(jax.random.key(0), N)
    frames, guide = pick(data.frames, 0), data.guides[CALM]
    terms = jax.vmap(lambda f, g, k: system.terms(f, knobs, g, key=k))(frames, guide, keys)
    return batch_loss(system, frames, guide, knobs, keys), terms


@pytest.mark.parametrize(("uniformity", "balance"), [(0.0, 0.0), (2.0, 0.0), (0.0, 3.0), (2.0, 3.0)])
def test_the_loss_is_the_bound_less_uniformity_plus_balance(uniformity, balance):
    knobs = jax.tree.map(jnp.float32, Knobs(uniformity=uniformity, balance=balance))
    (loss, log), terms = loss_and_terms(toy_system(jax.random.key(0)), toy_data(), knobs)
    terms = jax.tree.map(np.asarray, terms)
    used = float(usage_entropy(jnp.asarray(terms.usage.sum(axis=0))))
    expected = terms.elbo.mean() - uniformity * terms.uniform_kl.mean() + balance * terms.frames.mean() * used
    np.testing.assert_allclose(loss, -expected, rtol=1e-5)
    length = terms.frames.mean()
    parts = (expected, terms.elbo.mean(), -uniformity * terms.uniform_kl.mean(), balance * length * used)
    logged = (log.objective, log.elbo, log.uniformity, log.balance)
    np.testing.assert_allclose(logged, np.array(parts) / length, rtol=1e-5)


def test_the_log_tells_what_tempering_and_the_guide_add():
    system, data = toy_system(jax.random.key(0)), toy_data()
    (_, plain), _ = loss_and_terms(system, data, jax.tree.map(jnp.float32, Knobs()))
    assert (float(plain.tempering), float(plain.guidance)) == (0.0, 0.0)
    (_, tempered), _ = loss_and_terms(system, data, jax.tree.map(jnp.float32, Knobs(evidence_temperature=5.0)))
    assert float(tempered.tempering) < 0  # the regimes that are preferred lose some of what they were better by
    guided = data._replace(guides=jnp.ones_like(data.guides))
    (_, pushed), _ = loss_and_terms(system, guided, jax.tree.map(jnp.float32, Knobs(guidance=3.0)))
    np.testing.assert_allclose(pushed.guidance, 3.0, rtol=1e-5)  # of every frame, whatever its regime
    np.testing.assert_allclose(pushed.elbo - plain.elbo, 3.0, rtol=1e-4)


def test_what_is_hidden_are_stretches_of_frames_and_of_channels_as_frequent_as_asked():
    frames = all_seen(60, 3)
    hidden = hide(frames, 0.05, 0.05, key=jax.random.key(0))
    gone = ~np.asarray(hidden.observed)
    frames_gone = gone.all(axis=2)
    assert abs(frames_gone.mean() - 0.05) < 0.015
    assert abs(gone.mean() - 0.1) < 0.015
    alone = gone[:, :, 0] & ~frames_gone
    assert alone.mean() > 0.03
    begins = np.diff(frames_gone[:, 20:80].astype(int), axis=1, prepend=0).clip(0).sum()
    assert 3 < frames_gone[:, 20:80].sum() / begins < 9  # the mean stretch is 6.2; some join
    assert same(hidden._replace(observed=frames.observed), frames)
    assert same(hide(frames, 0.0, 0.0, key=jax.random.key(0)), frames)


def test_as_many_are_hidden_at_the_beginning_as_at_the_end():
    gone = ~np.asarray(hide(all_seen(2000, 1), 0.1, 0.0, key=jax.random.key(0)).observed)
    assert np.abs(gone[:, :5].mean() - gone[:, -5:].mean()) < 0.02


def test_channels_are_hidden_only_where_that_is_asked_for():
    gone = ~np.asarray(hide(all_seen(60, 3), 0.1, 0.0, key=jax.random.key(0)).observed)
    np.testing.assert_array_equal(gone.any(axis=2), gone.all(axis=2))


def all_seen(sequences, channels, length=100):
    shape = (sequences, length)
    seen = jnp.ones((*shape, channels), bool)
    return Frames(jnp.ones((*shape, channels)), seen, jnp.ones(shape, bool), jnp.ones((*shape, 2)))
