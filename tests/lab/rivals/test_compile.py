"""CompILE: its masks, its bound against enumeration, what padding and gaps may change, and what it finds."""

import itertools
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

import swerve
from swerve.choosing.scores import score
from swerve.inference.frames import Frames
from swerve.models.model import Knobs
from swerve_lab.rivals.compile import Compile, CompileOptions, Noise
from swerve_lab.rivals.shape import Shape

quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
K, M, T, D, U = 2, 3, 5, 2, 1
LONG = T + 4  # with padding
KEY = jax.random.key(0)
OPTIONS = CompileOptions(segments=M)
SHAPE = Shape(
    regimes=K,
    state_size=2,
    channels=D,
    controls=U,
    dynamics_hidden=(4,),
    emission_hidden=(),
    embedding_hidden=(),
    encoder_size=3,
    causal_size=3,
    dynamics_noise_start=0.1,
    dynamics_noise_floor=1e-7,
    emission_noise_start=0.2,
    emission_noise_floor=1e-4,
    stickiness=0.0,
)


def random_system(options=OPTIONS, shape=SHAPE, spread=0.6):
    """Random parameters of a size that makes boundaries and codes uncertain, without compiling the initialisation."""
    rng = np.random.default_rng(0)
    like = jax.eval_shape(lambda: Compile(options, shape, key=KEY))
    return jax.tree.map(lambda leaf: jnp.asarray(spread * rng.normal(size=leaf.shape), jnp.float32), like)


def some_frames(length=T, padding=np.nan):
    rng = np.random.default_rng(1)
    x, u = np.float32(rng.normal(size=(T, D))), np.float32(rng.normal(size=(T, U)))
    x, u = (np.pad(a, ((0, length - T), (0, 0)), constant_values=padding) for a in (x, u))
    frames = Frames(x, np.ones((length, D), bool), np.arange(length) < T, u)
    return jax.tree.map(jnp.asarray, frames)


def with_gaps():
    frames = some_frames()
    observed = frames.observed.at[1].set(False).at[3, 0].set(False)
    return frames._replace(observed=observed, x=jnp.where(observed, frames.x, jnp.nan))


@quick_jit
def terms_and_gradient(system, frames, progress):
    def objective(system):
        found = system.terms(frames, Knobs(progress=progress), key=KEY)
        return found.elbo, found

    return jax.grad(objective, has_aux=True)(system)


@partial(quick_jit, static_argnums=2)
def inferred(system, frames, samples):
    return system.infer(frames, samples=samples, key=KEY)


@quick_jit
def cut(system, frames, temperature):
    """The segments of a sequence that is one window."""
    windows = system.windows(frames.blanked())
    noise = jax.tree.map(lambda a: a[0], system._noise(len(frames.x), key=KEY))
    return system.segments(*(a[0] for a in windows), noise, temperature)


# Masks


@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0])
def test_the_segments_share_every_valid_frame(temperature):
    masks = np.asarray(cut(random_system(), some_frames(LONG), jnp.asarray(temperature)).masks)
    np.testing.assert_allclose(masks.sum(axis=0), np.arange(LONG) < T, atol=1e-5)
    assert (masks >= 0).all()


def test_without_relaxation_segments_follow_one_another():
    """And a low temperature comes close to that."""
    system, frames = random_system(), some_frames(LONG)
    hard, cold = (np.asarray(cut(system, frames, jnp.asarray(t)).masks)[:, :T] for t in (0.0, 1e-3))
    assert set(np.unique(hard)) <= {0.0, 1.0}
    owners = hard.argmax(axis=0)
    assert owners[0] == 0 and set(np.diff(owners)) <= {0, 1} and owners[-1] > 0
    np.testing.assert_allclose(cold, hard, atol=1e-3)


# The bound


def enumerated(system, frames):
    """log p(x), and the expected ELBO: all boundaries and codes, with networks read through forced noise."""
    log_prob = np.asarray(quick_jit(lambda f: system.log_prob(f.blanked()))(frames), float)
    features, valid = (a[0] for a in system.windows(frames.blanked()))
    length = len(valid)

    @quick_jit
    def forced(ends):
        gumbel = jnp.where(jnp.arange(length)[None] == ends[:, None], 1e6, 0.0)
        return system.segments(features, valid, Noise(gumbel, jnp.zeros((M, K))), jnp.zeros(()))

    @quick_jit
    def boundary_probabilities(left):
        """q(b_i | what is left)."""
        seen = jnp.concatenate([features * left[:, None], left[:, None]], axis=1)
        return jax.vmap(system.boundary_head)(system.encoder(seen, valid))[:, 0]

    mean_length, last = length / M, length - 1
    log_px, elbo, total = [], 0.0, 0.0
    for ends in itertools.product(range(length), repeat=M - 1):
        starts = np.array([-1, *ends])
        if any(b <= a and not a == b == last for a, b in itertools.pairwise(starts)):
            continue
        log_p, log_q = 0.0, 0.0
        for before, end in itertools.pairwise(starts):
            allowed = np.arange(before + 1, length) if before < last else np.array([last])
            poisson = (allowed - before) * np.log(mean_length) - gammaln(allowed - before + 1)
            logits = np.asarray(boundary_probabilities(jnp.asarray(np.arange(length) > before, jnp.float32)), float)
            log_p += (poisson - logsumexp(poisson))[allowed == end][0]
            log_q += (logits[allowed] - logsumexp(logits[allowed]))[allowed == end][0]
        found = jax.tree.map(lambda a: np.asarray(a, float), forced(jnp.array([*ends, last])))
        per_segment = found.masks @ log_prob
        alive = found.masks.sum(axis=1) > 0
        log_px.append(log_p + (logsumexp(per_segment, axis=1) - np.log(K))[alive].sum())
        code_terms = (found.codes * (per_segment - np.log(found.codes) - np.log(K))).sum(axis=1)[alive].sum()
        elbo += np.exp(log_q) * (code_terms + log_p - log_q)
        total += np.exp(log_q)
    np.testing.assert_allclose(total, 1.0, rtol=1e-5)  # q is a distribution over what was listed
    return logsumexp(log_px), elbo


@pytest.mark.parametrize("frames", [some_frames(), with_gaps()], ids=["all seen", "with gaps"])
def test_the_mean_of_the_elbo_is_the_enumerated_bound(frames):
    system = random_system()
    exact, expected = enumerated(system, frames)
    elbo = quick_jit(jax.vmap(lambda key: system.terms(frames, Knobs(), key=key).elbo))(jax.random.split(KEY, 2000))
    error = elbo.std() / np.sqrt(len(elbo))
    assert 0 < error < 0.1
    assert abs(elbo.mean() - expected) < 5 * error
    assert expected < exact - 0.1


def test_frames_are_predicted_from_the_frame_before():
    system, frames = random_system(), with_gaps()
    found = quick_jit(lambda f: system.log_prob(f.blanked()))(frames)
    predicted = np.asarray(quick_jit(lambda f: system.predicted(f.blanked()))(frames))
    moving, first = (np.sqrt(1e-4 + np.exp(2.0 * n.log_scale[0])) for n in (system.noise, system.first_noise))
    known = np.concatenate([np.zeros((1, D), bool), frames.observed[:-1]])
    expected = norm.logpdf(frames.x[:, None], predicted, np.where(known, moving, first)[:, None])
    np.testing.assert_allclose(found, np.nansum(expected, axis=2), rtol=1e-3, atol=1e-3)
    moved = frames._replace(x=frames.x.at[2].add(1.0))
    changed = quick_jit(lambda f: system.predicted(f.blanked()))(moved) != predicted
    assert changed.any(axis=(1, 2)).tolist() == [False, False, False, True, False]


# Padding, gaps, lengths


@pytest.mark.parametrize("progress", [0.5, 1.0], ids=["relaxed", "exact"])
def test_padding_changes_no_value_and_no_gradient(progress):
    system = random_system(spread=0.4)
    bare = terms_and_gradient(system, some_frames(), progress)
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(bare[0])) > 0.1
    for content in (np.nan, 1e3):
        padded = terms_and_gradient(system, some_frames(LONG, content), progress)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-3), padded, bare)


def test_padding_changes_no_label():
    system = random_system()
    bare, padded = (inferred(system, some_frames(n), 3) for n in (T, LONG))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b[:T], atol=1e-5), bare, padded)
    np.testing.assert_allclose(bare.probabilities.sum(axis=1), 1.0, rtol=1e-5)


def test_a_long_sequence_is_many_windows():
    """Each as if alone, but for the frame before it; a window of padding adds nothing."""
    system = random_system(replace(OPTIONS, window=3))

    @quick_jit
    def both(system, frames):
        windows, noise = system.windows(frames.blanked()), system._noise(len(frames.x), key=KEY)
        found = jax.vmap(system.segments, in_axes=(0, 0, 0, None))(*windows, noise, jnp.zeros(()))
        return windows[1], found, system.log_prob(frames.blanked()), system.terms(frames, Knobs(), key=KEY)

    valid, found, log_prob, terms = jax.tree.map(np.asarray, both(system, some_frames(LONG)))
    assert valid.tolist() == [[True] * 3, [True, True, False], [False] * 3]
    assert (found.divergence[:2] > 0).any(axis=1).all() and not found.divergence[2].any()
    evidence = np.einsum("wit,wtk->wik", found.masks, log_prob.reshape(3, 3, K))
    np.testing.assert_allclose(terms.elbo, (found.codes * evidence).sum() - found.divergence.sum(), rtol=1e-4)
    np.testing.assert_allclose(found.masks.sum(axis=1), valid, atol=1e-5)


@pytest.mark.parametrize(("regimes", "length"), [(1, T), (K, 2)], ids=["one regime", "two frames"])
def test_small_cases(regimes, length):
    system = random_system(shape=SHAPE._replace(regimes=regimes, controls=0))
    whole = some_frames()
    frames = Frames(whole.x[:length], whole.observed[:length], whole.valid[:length], jnp.zeros((length, 0)))
    for progress in (0.5, 1.0):
        gradient, terms = terms_and_gradient(system, frames, progress)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((gradient, terms)))
    found = inferred(system, frames, 2)
    assert found.path.shape == (length,) and found.path.max() < regimes and np.isfinite(found.expected).all()


def test_gradients_are_finite_with_everything_missing():
    frames = some_frames()
    frames = frames._replace(observed=jnp.zeros_like(frames.observed), x=jnp.full_like(frames.x, jnp.nan))
    for progress in (0.0, 0.5, 1.0):
        gradient, terms = terms_and_gradient(random_system(), frames, progress)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((gradient, terms)))
        assert terms.elbo <= 0  # only divergences are left


# What it finds


DRIFTS = np.array([[0.15, 0.0], [-0.1, 0.12], [-0.05, -0.15]])
SMALL = ("posterior.encoder_size=16", "model.dynamics_hidden=[16]", "training.batch_size=16")


def primitives(count, *, segments, regimes, seed):
    """Movements of different drift, 5 to 15 frames each; neighbours differ."""
    rng = np.random.default_rng(seed)
    recordings, truth = [], []
    for _ in range(count):
        turns = [rng.integers(regimes), *rng.integers(1, regimes, size=segments - 1)]
        s = np.repeat(np.cumsum(turns) % regimes, rng.integers(5, 16, size=segments))
        steps = DRIFTS[s] + 0.03 * rng.normal(size=(len(s), 2))
        recordings.append(np.cumsum(steps, axis=0) + 0.5 * rng.normal(size=2))
        truth.append(s)
    return recordings, truth


def found_in(task, *, steps, restarts):
    """F1 of switches to the frame, and of frames, in percent: of labels, and of paths."""
    recordings, _ = primitives(300, **task, seed=1)
    unseen, truth = primitives(64, **task, seed=2)
    settings = (*SMALL, f"compile.segments={task['segments']}", f"training.report_every={steps}")
    fitted = swerve.fit(recordings, task["regimes"], model="compile", steps=steps, restarts=restarts, settings=settings)
    labels = [[one.labels for one in swerve.segment(fitted, unseen, viterbi=v)] for v in (False, True)]
    return [score(some, truth).as_dict() for some in labels]


@pytest.mark.slow
def test_one_switch_is_found_to_the_frame():
    for scores in found_in({"segments": 2, "regimes": 2}, steps=400, restarts=1):
        assert scores["switch_f1_tol0"] > 85
        assert scores["frame_f1"] > 90


@pytest.mark.slow
def test_segments_of_three_codes_are_found_to_the_frame():
    """Every second restart gives two movements one code; the bound tells."""
    for scores in found_in({"segments": 3, "regimes": 3}, steps=1000, restarts=8):
        assert scores["switch_f1_tol0"] > 90
        assert scores["frame_f1"] > 90
