"""The autoregressive HMM against enumeration, hmmlearn, known parameters and boards with known regimes."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hmmlearn.hmm import GaussianHMM
from scipy.interpolate import CubicHermiteSpline
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from swerve.inference import messages
from swerve.inference.bridges import KNOWN
from swerve.inference.frames import Frames
from swerve.models import arhmm
from swerve.models.arhmm import fitting
from swerve.models.arhmm.gaps import carried
from swerve.models.arhmm.noise import DiagonalNoise, FullNoise
from swerve.models.arhmm.waves import fit_waves
from swerve_lab.boards import bouncing_ball, dubins

DIAGONAL, FULL = arhmm.Covariance.DIAGONAL, arhmm.Covariance.FULL


def pack(sequences, dtype=np.float32) -> Frames:
    """Ragged sequences with NaN for missing values, as the model wants them."""
    length, channels = max(map(len, sequences)), sequences[0].shape[1]
    x = np.full((len(sequences), length, channels), np.nan)
    valid = np.zeros((len(sequences), length), bool)
    for i, sequence in enumerate(sequences):
        x[i, : len(sequence)], valid[i, : len(sequence)] = sequence, True
    observed = ~np.isnan(x)
    controls = np.zeros((len(sequences), length, 0))
    return Frames(
        jnp.asarray(np.where(observed, x, 0), dtype),
        jnp.asarray(observed),
        jnp.asarray(valid),
        jnp.asarray(controls, dtype),
    )


def one(frames: Frames, i: int) -> Frames:
    return jax.tree.map(lambda leaf: leaf[i], frames)


def accuracy(predicted, true) -> float:
    predicted, true = np.concatenate(predicted), np.concatenate(true)
    counts = np.zeros((predicted.max() + 1, true.max() + 1))
    np.add.at(counts, (predicted, true), 1)
    return counts[linear_sum_assignment(counts, maximize=True)].sum() / len(true)


score = jax.jit(arhmm.log_likelihood, static_argnames="partial")
score_all = jax.jit(jax.vmap(arhmm.bridged_likelihood, in_axes=(None, 0)))
smooth = jax.jit(arhmm.smooth)
smooth_all = jax.jit(jax.vmap(jax.vmap(arhmm.smooth, in_axes=(None, 0)), in_axes=(0, None)))
viterbi = jax.jit(arhmm.viterbi)


def restart_accuracies(fitted, frames, truth) -> list[float]:
    labels = np.asarray(smooth_all(fitted.models, frames)).argmax(axis=-1)
    return [accuracy([p[: len(s)] for p, s in zip(run, truth, strict=True)], truth) for run in labels]


def random_model(rng, regimes=3, channels=2, lags=2, covariance=FULL, features=0) -> arhmm.ArHmm:
    def chain(*shape):
        return jnp.asarray(np.log(rng.dirichlet(np.ones(regimes), shape)))

    def noise(count):
        root = rng.normal(size=(count, channels, channels))
        matrix = jnp.asarray(root @ np.swapaxes(root, 1, 2) + 0.3 * np.eye(channels))
        return FullNoise(matrix) if covariance == FULL else DiagonalNoise(jnp.diagonal(matrix, 0, 1, 2))

    return arhmm.ArHmm(
        log_initial=chain(),
        log_transition=chain(regimes),
        weights=jnp.asarray(0.5 * rng.normal(size=(regimes, channels, channels * lags + 1 + features))),
        noise=noise(regimes),
        start_mean=jnp.asarray(rng.normal(size=channels)),
        start_noise=noise(1),
        waves=fit_waves(rng.normal(size=(200, channels)), features) if features else None,
    )


def sample(rng, initial, transition, weights, std, length) -> tuple[np.ndarray, np.ndarray]:
    """One sequence of an AR(1) HMM with isotropic noise, begun in the standard normal."""
    channels = weights.shape[1]
    s = np.empty(length, int)
    x = np.empty((length, channels))
    s[0], x[0] = rng.choice(len(initial), p=initial), rng.normal(size=channels)
    for t in range(1, length):
        s[t] = rng.choice(len(initial), p=transition[s[t - 1]])
        x[t] = weights[s[t]] @ np.append(x[t - 1], 1.0) + std * rng.normal(size=channels)
    return x, s


def covariances(noise) -> np.ndarray:
    if isinstance(noise, FullNoise):
        return np.asarray(noise.covariance)
    return np.stack([np.diag(variance) for variance in np.asarray(noise.variance)])


def observed_log_density(x, mean, covariance) -> float:
    seen = ~np.isnan(x)
    if not seen.any():
        return 0.0
    return multivariate_normal.logpdf(x[seen], mean[seen], covariance[np.ix_(seen, seen)])


def filled_by_hand(x, start_mean, *, bridging) -> tuple[np.ndarray, np.ndarray]:
    """What lags read where values are missing, and which of it counts as known."""
    filled, known = x.copy(), ~np.isnan(x) | (not bridging)
    for channel in range(x.shape[1]):
        own, seen = filled[:, channel], np.flatnonzero(~np.isnan(x[:, channel]))
        for t in np.flatnonzero(np.isnan(x[:, channel])):
            before, after = seen[seen < t], seen[seen > t]
            own[t] = x[before[-1], channel] if len(before) else start_mean[channel]
            if bridging and len(before) and len(after):
                a, b = before[-1], after[0]
                known[t, channel] = short = b - a <= KNOWN + 1
                nodes = (
                    [n for n in around if n in seen] if short else [a, b] for around in ((a - 1, a, b), (a, b, b + 1))
                )
                slopes = [
                    np.polynomial.Polynomial.fit(own_nodes, x[own_nodes, channel], len(own_nodes) - 1).deriv()(at)
                    for at, own_nodes in zip((a, b), nodes, strict=True)
                ]
                own[t] = CubicHermiteSpline([a, b], x[[a, b], channel], slopes)(t)
    return filled, known


def log_densities(model, x, *, bridging) -> np.ndarray:
    """log p(x_t | its lags, s_t = k), written down as the model is defined; NaN is missing."""
    lags = model.lags
    start_mean, start_covariance = np.asarray(model.start_mean), covariances(model.start_noise)[0]
    weights, noise = np.asarray(model.weights), covariances(model.noise)
    filled, known = filled_by_hand(x, start_mean, bridging=bridging)
    densities = []
    for t in range(len(x)):
        read = [max(t - lag, 0) for lag in range(1, lags + 1)]
        past = [filled[one] for one in read]
        bent = [] if model.waves is None else [np.asarray(model.waves(jnp.asarray(past[0][None])))[0]]
        means = weights @ np.concatenate([*past, [1.0], *bent])
        if t == 0 and lags > 0:
            densities.append([observed_log_density(x[t], start_mean, start_covariance)] * len(weights))
        else:
            told = np.where(known[read].all(axis=0), x[t], np.nan)
            densities.append([observed_log_density(told, *one) for one in zip(means, noise, strict=True)])
    return np.array(densities)


def log_joint(initial, transition, densities, path) -> float:
    """log p(x, s) of one regime path."""
    switches = sum(transition[before, after] for before, after in itertools.pairwise(path))
    return initial[path[0]] + switches + sum(densities[t, s] for t, s in enumerate(path))


@pytest.mark.parametrize(
    ("lags", "features", "covariance"),
    [(0, 0, DIAGONAL), (2, 0, FULL), (1, 3, DIAGONAL), (2, 2, FULL)],
)
def test_inference_equals_enumeration_of_all_paths(lags, features, covariance):
    rng = np.random.default_rng(lags)
    x = rng.normal(size=(7, 2))
    x[0, 1] = x[3, 0] = x[5] = np.nan  # the first has no past to be carried from
    x[1:5, 1] = np.nan if lags < 2 else x[1:5, 1]
    with jax.enable_x64(True):
        model = random_model(rng, lags=lags, covariance=covariance, features=features)
        padded = one(pack([x, np.zeros((9, 2))], np.float64), 0)
        paths = list(itertools.product(range(3), repeat=7))
        chain = np.asarray(model.log_initial), np.asarray(model.log_transition)
        likelihood = log_densities(model, x, bridging=False)
        total = logsumexp([log_joint(*chain, likelihood, path) for path in paths])
        densities = log_densities(model, x, bridging=True)
        joint = np.array([log_joint(*chain, densities, path) for path in paths])
        posterior = np.exp(joint - logsumexp(joint))
        marginals = [[posterior @ [p[t] == k for p in paths] for k in range(3)] for t in range(7)]

        np.testing.assert_allclose(score(model, padded), total, rtol=1e-10)
        np.testing.assert_allclose(arhmm.bridged_likelihood(model, padded), logsumexp(joint), rtol=1e-10)
        np.testing.assert_allclose(smooth(model, padded)[:7], marginals, atol=1e-10)
        assert tuple(np.asarray(viterbi(model, padded))[:7]) == paths[joint.argmax()]


def test_whole_frames_need_no_factorisation_each():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 2))
    x[3] = np.nan
    with jax.enable_x64(True):
        model, frames = random_model(rng), one(pack([x], np.float64), 0)
        assert not arhmm.seen_in_part(frames)
        exact, quick = (score(model, frames, partial=partial) for partial in (True, False))
        np.testing.assert_allclose(exact, quick, rtol=1e-12)


def test_what_padding_and_missing_values_hold_changes_nothing():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(7, 2))
    x[1, 0] = x[5] = np.nan
    with jax.enable_x64(True):
        model, frames = random_model(rng), one(pack([x, np.zeros((12, 2))], np.float64), 0)
        junk = frames._replace(x=jnp.where(frames.observed, frames.x, 1e3))
        alone = one(pack([x], np.float64), 0)
        for other in (junk, alone):
            np.testing.assert_allclose(score(model, frames), score(model, other), rtol=1e-12)


def with_gaps(sequences, rng):
    """A tenth of all values and a tenth of all frames are lost."""
    gappy = [x.copy() for x in sequences]
    for x in gappy:
        x[rng.random(x.shape) < 0.1] = np.nan
        x[rng.random(len(x)) < 0.1] = np.nan
    return gappy


def known_sequences(rng, count=20):
    angle = 0.5
    turn = 0.98 * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    weights = np.stack([np.c_[turn, [0.0, 0.0]], np.c_[turn.T, [0.0, 0.0]], np.c_[0.5 * np.eye(2), [1.0, -1.0]]])
    transition = np.full((3, 3), 0.025) + 0.925 * np.eye(3)
    lengths = rng.integers(60, 120, count)
    pairs = [sample(rng, np.full(3, 1 / 3), transition, weights, 0.1, length) for length in lengths]
    x, s = zip(*pairs, strict=True)
    return list(x), list(s), weights, transition


@pytest.mark.parametrize("covariance", [DIAGONAL, FULL])
def test_em_never_decreases_the_objective(covariance):
    rng = np.random.default_rng(2)
    x, *_ = known_sequences(rng, count=6)
    options = arhmm.ArHmmOptions(
        regimes=3, covariance=covariance, restarts=2, tolerance=-1.0, max_iterations=30, ridge=0.5
    )
    with jax.enable_x64(True):
        frames = pack(with_gaps(x, rng), np.float64)
        fitted = arhmm.fit(frames, options, key=jax.random.key(0))
        trace = np.asarray(fitted.trace)
        total = score_all(fitted.model, frames).sum()
        np.testing.assert_allclose(total, fitted.log_likelihood, rtol=1e-9)
    assert np.isfinite(trace).all()
    assert (np.diff(trace, axis=1) > -1e-7).all()
    assert (trace[:, -1] > trace[:, 0] + 1).all()


@pytest.fixture(scope="module")
def known():
    x, s, weights, transition = known_sequences(np.random.default_rng(3), count=40)
    frames = pack(x)
    return frames, s, weights, transition, arhmm.fit(frames, KNOWN_OPTIONS, key=jax.random.key(0))


KNOWN_OPTIONS = arhmm.ArHmmOptions(regimes=3, stickiness=10.0, restarts=3)


def test_the_parameters_of_a_known_model_are_recovered(known):
    frames, s, weights, transition, fitted = known
    distance = np.abs(np.asarray(fitted.model.weights)[:, None] - weights[None]).max(axis=(2, 3))
    order = linear_sum_assignment(distance.T)[1]
    found = jax.tree.map(np.asarray, fitted.model)
    np.testing.assert_allclose(found.weights[order], weights, atol=0.05)
    np.testing.assert_allclose(found.noise.variance, 0.01, rtol=0.15)
    np.testing.assert_allclose(np.exp(found.log_transition[np.ix_(order, order)]), transition, atol=0.03)
    assert restart_accuracies(fitted, frames, s)[fitted.best] > 0.97


def test_a_padded_sequence_counts_like_a_short_one(known):
    frames, *_, fitted = known
    shortest = int(frames.valid.sum(axis=1).argmin())
    padded = one(frames, shortest)
    alone = Frames(*(leaf[: int(padded.valid.sum())] for leaf in padded))
    assert len(alone.x) < len(padded.x)
    np.testing.assert_allclose(score(fitted.model, padded), score(fitted.model, alone), rtol=1e-5)


def test_the_same_key_gives_the_same_fit_and_compiles_nothing(known):
    frames, *_, fitted = known
    compilations = []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            compilations.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        again = arhmm.fit(frames, KNOWN_OPTIONS, key=jax.random.key(0))
        other = arhmm.fit(frames, replace(KNOWN_OPTIONS, stickiness=20.0), key=jax.random.key(1))
        assert not compilations
        jax.jit(lambda x: x * 3.25)(1.0)
        assert compilations  # the listener does hear
    finally:
        jax.monitoring.clear_event_listeners()
    for first, second in zip(jax.tree.leaves(fitted), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(first, second)
    assert not np.array_equal(fitted.models.weights, other.models.weights)


def test_chunks_and_restarts_together_as_on_a_gpu_change_nothing(known, monkeypatch):
    frames, *_, fitted = known
    monkeypatch.setattr(fitting, "CHUNK_NUMBERS", frames.x.shape[1] * 3 * 7 * 11)
    monkeypatch.setattr(fitting, "_one_restart_at_a_time", lambda: False)
    chunked = arhmm.fit(frames, KNOWN_OPTIONS, key=jax.random.key(0))
    np.testing.assert_allclose(chunked.log_likelihoods, fitted.log_likelihoods, rtol=1e-4)
    np.testing.assert_array_equal(chunked.iterations, fitted.iterations)


def test_regimes_are_found_through_gaps(known):
    frames, s, *_ = known
    rng = np.random.default_rng(4)
    x = [np.asarray(one(frames, i).x[: len(labels)]) for i, labels in enumerate(s)]
    gappy = pack(with_gaps(x, rng))
    options = replace(KNOWN_OPTIONS, covariance=FULL)
    fitted = arhmm.fit(gappy, options, key=jax.random.key(0))
    assert restart_accuracies(fitted, gappy, s)[fitted.best] > 0.85


def test_without_lags_it_is_the_gaussian_hmm_of_hmmlearn():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(50, 2))
    with jax.enable_x64(True):
        model = random_model(rng, lags=0)
        peer = GaussianHMM(3, covariance_type="full")
        peer.startprob_ = np.exp(model.log_initial)
        peer.transmat_ = np.exp(model.log_transition)
        peer.means_ = np.asarray(model.weights[..., 0])
        peer.covars_ = np.asarray(model.noise.covariance)
        frames = one(pack([x], np.float64), 0)
        np.testing.assert_allclose(score(model, frames), peer.score(x), rtol=1e-9)
        np.testing.assert_allclose(smooth(model, frames), peer.predict_proba(x), atol=1e-8)


def test_without_lags_levels_are_found():
    rng = np.random.default_rng(6)
    s = [np.repeat(rng.permutation(3), 20) for _ in range(10)]
    x = [labels[:, None] - 1.0 + 0.2 * rng.normal(size=(60, 1)) for labels in s]
    frames = pack(x)
    fitted = arhmm.fit(frames, arhmm.ArHmmOptions(regimes=3, lags=0, restarts=2), key=jax.random.key(0))
    assert restart_accuracies(fitted, frames, s)[fitted.best] > 0.99


@pytest.mark.parametrize("x", [np.zeros((4, 8, 2)), np.ones((4, 1, 2)), np.full((4, 8, 2), np.nan)])
def test_data_without_information_give_a_finite_model(x):
    options = arhmm.ArHmmOptions(regimes=2, restarts=2, max_iterations=3)
    fitted = arhmm.fit(pack(list(x)), options, key=jax.random.key(0))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(fitted.models))
    assert np.isfinite(fitted.log_likelihoods).all()


def test_channels_that_are_copies_of_each_other_give_finite_models():
    """Joints of a rigid body: far more channels than there are ways to move."""
    rng = np.random.default_rng(0)
    ways = np.cumsum(rng.normal(size=(20, 100, 2)), axis=1)
    joints = standardised(ways @ rng.normal(size=(2, 40)))
    fitted = arhmm.fit(pack(joints), arhmm.ArHmmOptions(regimes=2, restarts=3, max_iterations=8), key=jax.random.key(0))
    assert np.isfinite(fitted.objectives).all()


def standardised(x) -> list[np.ndarray]:
    """With one mean and one scale for all channels, so that directions keep their meaning."""
    return list((x - x.mean()) / x.std())


@pytest.mark.slow
def test_dubins_paths():
    board = dubins.positions(100, seed=0, noise=0.01)
    frames = pack(standardised(board.x))
    fitted = arhmm.fit(frames, arhmm.ArHmmOptions(regimes=3, lags=2), key=jax.random.key(0))
    assert restart_accuracies(fitted, frames, list(board.s))[fitted.best] > 0.98


@pytest.mark.slow
def test_bouncing_ball():
    board = bouncing_ball.generate(100, seed=2)  # few of these are too slow to tell up from down
    frames = pack(standardised(board.x))
    fitted = arhmm.fit(frames, arhmm.ArHmmOptions(regimes=2), key=jax.random.key(0))
    assert restart_accuracies(fitted, frames, list(board.s))[fitted.best] > 0.97


def test_honeybees(shared_data):
    path = shared_data / "honeybee" / "honeybee.npz"
    if not path.is_file():
        pytest.skip("honeybee/honeybee.npz is not beside this checkout")
    with np.load(path) as recordings:
        x = [recordings[f"seq{i}_obs"].astype(float) for i in (4, 5, 6)]
        s = [recordings[f"seq{i}_label"].astype(int) for i in (4, 5, 6)]
    everything = np.concatenate(x)
    frames = pack([(part - everything.mean(axis=0)) / everything.std(axis=0) for part in x])
    options = arhmm.ArHmmOptions(regimes=3, lags=2, stickiness=1000.0)
    fitted = arhmm.fit(frames, options, key=jax.random.key(0))
    accuracies = restart_accuracies(fitted, frames, s)
    print("honeybees, frames of every restart:", np.round(accuracies, 3))
    assert accuracies[fitted.best] > 0.85


def test_where_no_restart_stays_finite_the_fit_says_so_by_its_likelihood(monkeypatch):
    run = fitting.em.run

    def fails(*arguments, **options):
        return jax.tree.map(lambda leaf: leaf * jnp.nan, run(*arguments, **options))

    monkeypatch.setattr(fitting.em, "run", fails)
    x = np.random.default_rng(0).normal(size=(21, 2))  # a length of its own: nothing compiled before serves it
    fitted = arhmm.fit(pack([x]), arhmm.ArHmmOptions(regimes=2, restarts=1), key=jax.random.key(0))
    assert not np.isfinite(fitted.log_likelihood)


def test_a_temperature_divides_the_evidence_when_regimes_are_inferred_and_leaves_the_likelihood():
    rng = np.random.default_rng(0)
    cold = random_model(rng, covariance=DIAGONAL)
    warm = replace(cold, temperature=3.0)
    frames = jax.tree.map(lambda leaf: leaf[0], pack(rng.normal(size=(1, 20, 2))))
    assert arhmm.log_likelihood(warm, frames) == arhmm.log_likelihood(cold, frames)
    evidence = arhmm.log_evidence(cold, carried(frames, cold.start_mean, cold.lags)) / 3
    expected = messages.smooth(cold.log_initial, cold.log_transition, evidence, frames.valid).marginals
    np.testing.assert_allclose(arhmm.smooth(warm, frames), expected, rtol=1e-6)
