"""The assembled model: every factor by hand, all paths summed by enumeration, and draws that fit them."""

import itertools
from functools import partial

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp
from scipy.stats import multivariate_normal

from swerve.inference import messages
from swerve.inference.frames import Frames
from swerve.models.snlds.generative import FORBIDDEN
from swerve.models.snlds.maker import build_model
from swerve.settings.sections import ModelConfig

quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
K, T, D, L, U = 2, 5, 3, 2, 2
DRAWS = 2000
PLAIN = {
    "initial_per_regime": True,
    "initial_components": 1,
    "initial_learned": True,
    "dynamics": "linear",
    "dynamics_residual": True,
    "dynamics_reads_x": False,
    "dynamics_reads_u": False,
    "dynamics_noise_per_regime": True,
    "switching_reads_x": False,
    "switching_reads_z": False,
    "switching_reads_u": False,
    "switching_hidden": (4,),
    "emission_reads_s": False,
}
CASES = {
    "plain": {},
    "initial-shared": {"initial_per_regime": False},
    "initial-uniform": {"initial_learned": False},
    "dynamics-not-residual": {"dynamics_residual": False},
    "dynamics-read-x": {"dynamics_reads_x": True},
    "dynamics-read-u": {"dynamics_reads_u": True},
    "dynamics-read-x-and-u": {"dynamics_reads_x": True, "dynamics_reads_u": True},
    "switching-reads-x": {"switching_reads_x": True},
    "switching-reads-z": {"switching_reads_z": True},
    "switching-reads-u": {"switching_reads_u": True},
    "switching-reads-all": {"switching_reads_x": True, "switching_reads_z": True, "switching_reads_u": True},
    "switching-reads-history": {"switching_reads_x": True, "switching_history": 3},
    "emission-reads-s": {"emission_reads_s": True},
    "emission-noise-per-regime": {"emission_noise_per_regime": True},
    "full-emission-noise-per-regime": {"emission_noise": "full", "emission_noise_per_regime": True},
    "shared-full-noise": {
        "emission_noise": "full",
        "dynamics_noise": "full",
        "dynamics_noise_per_regime": False,
    },
}


def filled(regimes=K, seed=0, scale=0.5, **edges):
    """A model with random parameters, without compiling its initialisation."""
    rng = np.random.default_rng(seed)
    config = ModelConfig(regimes=regimes, state_size=L, **PLAIN | edges)
    like = jax.eval_shape(
        lambda: build_model(config, channels=D, controls=U, stickiness=0.0, allowed=regimes, key=jax.random.key(0))
    )
    model = jax.tree.map(lambda leaf: np.float32(scale * rng.normal(size=leaf.shape)), like)
    return allowing(model, regimes)


def allowing(model, allowed):
    log_allowed = np.where(np.arange(model.regimes) < allowed, 0.0, FORBIDDEN)
    return eqx.tree_at(lambda m: m.log_allowed, model, np.float32(log_allowed))


def some_frames(seed=1):
    """One frame is missing altogether, another lacks one channel."""
    rng = np.random.default_rng(seed)
    x, u = np.float32(rng.normal(size=(T, D))), np.float32(rng.normal(size=(T, U)))
    observed = np.ones((T, D), bool)
    observed[1], observed[3, 0] = False, False
    return Frames(np.where(observed, x, np.nan), observed, np.ones(T, bool), u)


@quick_jit
def scored(model, frames, z, temperature):
    frames = frames.blanked()
    predicted = model.predicted_states(frames, z)
    found = model.potentials(frames, model.features(frames), z, predicted, temperature=temperature)
    evidence = found.log_dynamics + found.log_emission
    return found, messages.log_normalizer(found.log_initial, found.log_transition, evidence)


def log_normal(residual, noise, k):
    """log N(residual; 0, C_k), by scipy."""
    if hasattr(noise, "log_scale"):
        row = noise.log_scale[min(k, len(noise.log_scale) - 1)]
        covariance = np.diag(noise.floor + np.exp(2.0 * row))
    else:
        row = min(k, len(noise.log_diagonal) - 1)
        factor = np.tril(noise.below_diagonal[row], -1) + np.diag(np.exp(noise.log_diagonal[row]))
        covariance = factor @ factor.T + noise.floor * np.eye(len(factor))
    seen = ~np.isnan(residual)
    if not seen.any():
        return 0.0
    return multivariate_normal.logpdf(residual[seen], cov=covariance[np.ix_(seen, seen)])


def linear_mean(model, k, z, x_before, observed_before, u):
    context = [x_before, observed_before] if model.dynamics_reads_x else []
    context += [u] if model.dynamics_reads_u else []
    mean = model.dynamics.matrix[k] @ np.concatenate([z, *context]) + model.dynamics.offset[k]
    return mean + z if model.dynamics.residual else mean


def emission_mean(model, k, z):
    (layer,) = model.emission.networks.layers
    head = min(k, len(layer.weight) - 1)
    return layer.weight[head] @ z + layer.bias[head]


def switch_logits(model, features, z, u, t):
    """What decides s_t, from the features of frames t - history .. t - 1 (zeros before the first)."""
    part = model.switching
    if not hasattr(part, "network"):
        return part.base
    window = [features[i] if i >= 0 else np.zeros(2 * D) for i in range(t - part.history, t)]
    drivers = [*window] if part.reads_x else []
    drivers += [z[t - 1]] if part.reads_z else []
    drivers += [u[t]] if part.reads_u else []
    first, second = part.network.layers
    hidden = np.maximum(first.weight @ np.concatenate(drivers) + first.bias, 0)
    return part.base + (second.weight @ hidden + second.bias).reshape(K, K)


def by_hand(model, frames, z, temperature):
    x, seen, u = np.nan_to_num(frames.x), frames.observed, frames.u
    features = np.concatenate([x, seen], axis=1)
    log_transition = [log_softmax(switch_logits(model, features, z, u, t) / temperature, axis=1) for t in range(1, T)]
    log_dynamics, log_emission = np.zeros((T, K)), np.zeros((T, K))
    for t, k in itertools.product(range(T), range(K)):
        if t == 0:
            log_dynamics[t, k] = log_normal(z[0] - model.initial.mean[k], model.initial.noise, k)
        else:
            mean = linear_mean(model, k, z[t - 1], x[t - 1], seen[t - 1], u[t])
            log_dynamics[t, k] = log_normal(z[t] - mean, model.dynamics.noise, k)
        log_emission[t, k] = log_normal(frames.x[t] - emission_mean(model, k, z[t]), model.emission.noise, k)
    return log_softmax(model.initial.regime_logits), np.stack(log_transition), log_dynamics, log_emission


@pytest.fixture(scope="module", params=[*CASES], ids=[*CASES])
def case(request):
    model, frames = filled(**CASES[request.param]), some_frames()
    z = np.float32(np.random.default_rng(2).normal(size=(T, L)))
    found, log_z = scored(model, frames, z, 1.5)
    return found, log_z, by_hand(model, frames, z, 1.5)


def test_potentials_equal_densities_by_hand(case):
    found, _, expected = case
    for ours, theirs in zip(found, expected, strict=True):
        same_shape = np.broadcast_to(ours, theirs.shape)  # a constant matrix and a shared emission are not repeated
        np.testing.assert_allclose(same_shape, theirs, rtol=1e-4, atol=1e-4)


def test_log_z_is_the_sum_over_all_paths(case):
    _, log_z, (log_initial, log_transition, log_dynamics, log_emission) = case
    evidence, frames = log_dynamics + log_emission, np.arange(T)
    paths = np.array(list(itertools.product(range(K), repeat=T)))
    joint = log_initial[paths[:, 0]] + evidence[frames, paths].sum(axis=1)
    joint += log_transition[frames[:-1], paths[:, :-1], paths[:, 1:]].sum(axis=1)
    np.testing.assert_allclose(log_z, logsumexp(joint), rtol=1e-5)


def test_transitions_are_normalised_from_row_to_column(case):
    found, _, _ = case
    np.testing.assert_allclose(np.exp(found.log_transition).sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.parametrize("edges", [{}, {"switching_reads_x": True}], ids=["constant", "driven"])
@pytest.mark.parametrize("allowed", [2, 3])
def test_a_high_temperature_makes_the_allowed_regimes_equal(edges, allowed):
    model, z = allowing(filled(3, scale=2.0, **edges), allowed), np.zeros((T, L), np.float32)
    fair = np.where(np.arange(3) < allowed, 1 / allowed, 0.0)
    for temperature, close in ((1e6, True), (1.0, False)):
        found, _ = scored(model, some_frames(), z, temperature)
        probabilities = np.exp(found.log_transition)
        assert np.allclose(probabilities, np.broadcast_to(fair, probabilities.shape), atol=1e-4) == close
        assert (probabilities[..., allowed:] == 0).all()
        assert (np.exp(found.log_initial)[allowed:] == 0).all()


def test_a_missing_frame_loses_only_its_emission_term():
    model, z = filled(), np.zeros((T, L), np.float32)
    whole = some_frames()._replace(x=np.ones((T, D), np.float32), observed=np.ones((T, D), bool))
    gap = whole._replace(x=whole.x.copy(), observed=whole.observed.copy())
    gap.x[2], gap.observed[2] = np.nan, False
    (full, _), (partly, _) = (scored(model, frames, z, 1.0) for frames in (whole, gap))
    assert np.asarray(full.log_emission)[2, 0] != 0
    expected = full._replace(log_emission=np.where(np.arange(T)[:, None] == 2, 0.0, full.log_emission))
    jax.tree.map(np.testing.assert_array_equal, partly, expected)


@pytest.mark.parametrize("dynamics", ["linear", "mlp", "gru"])
def test_predicted_states_are_the_steps_of_the_dynamics(dynamics):
    model = filled(dynamics=dynamics, dynamics_hidden=(4,), dynamics_reads_x=True, dynamics_reads_u=True)
    frames, z = some_frames(), np.float32(np.random.default_rng(3).normal(size=(T, L)))
    step = quick_jit(lambda model, *now: model.dynamics.step(*now))
    memory, x = quick_jit(lambda model: model.dynamics.initial_memory())(model), np.nan_to_num(frames.x)
    expected = []
    for t in range(1, T):
        context = np.float32(np.concatenate([x[t - 1], frames.observed[t - 1], frames.u[t]]))
        memory, means = step(model, memory, z[t - 1], context)
        expected.append(means)
    predicted = quick_jit(lambda model, f, z: model.predicted_states(f.blanked(), z))(model, frames, z)
    np.testing.assert_allclose(predicted, np.stack(expected), atol=1e-5)


# Draws


@quick_jit
def drawn(model, u):
    keys = jax.random.split(jax.random.key(4), DRAWS)
    return jax.vmap(lambda key: model.sample(u, key=key))(keys)


@quick_jit
def expected_of(model, x, z, u):
    """What the model says of every draw: predicted states, emission means, log-transitions."""

    def one(x, z):
        frames = Frames(x, jax.numpy.ones(x.shape, bool), jax.numpy.ones(len(x), bool), u)
        predicted, features = model.predicted_states(frames, z), model.features(frames)
        log_transition = model.potentials(frames, features, z, predicted).log_transition
        return predicted, jax.vmap(model.emission.mean)(z), log_transition

    return jax.vmap(one)(x, z)


def chosen(options, s):
    """options[n, t, s[n, t]], with one shared option standing for all."""
    s = np.minimum(s, options.shape[2] - 1)
    return np.take_along_axis(np.asarray(options), s[:, :, None, None], axis=2)[:, :, 0]


def deviations(noise, s):
    variances = noise.floor + np.exp(2.0 * noise.log_scale)
    return np.sqrt(variances)[np.minimum(s, len(variances) - 1)]


def assert_standard(white):
    count = white.size
    assert abs(white.mean()) < 5 / np.sqrt(count)
    assert abs(white.var() - 1) < 5 * np.sqrt(2 / count)


CONTROLS = np.float32(np.random.default_rng(5).normal(size=(T, U)))


def test_the_first_frame_has_the_moments_of_the_parameters():
    model = filled(seed=6)
    x, z, s = (np.asarray(a)[:, 0] for a in drawn(model, CONTROLS))
    probable = np.exp(log_softmax(model.initial.logits))
    assert abs(s.mean() - probable[1]) < 5 * np.sqrt(probable[0] * probable[1] / DRAWS)
    assert_standard((z - model.initial.mean[s]) / deviations(model.initial.noise, s))
    means = np.stack([emission_mean(model, 0, one) for one in z])
    assert_standard((x - means) / deviations(model.emission.noise, 0 * s))


def test_switches_are_as_frequent_as_the_matrix_says():
    model = filled(seed=7, scale=1.0)
    s = np.asarray(drawn(model, CONTROLS).s)
    probable = np.exp(log_softmax(model.switching.base, axis=1))
    for j in range(K):
        after = s[:, 1:][s[:, :-1] == j]
        assert abs((after == 1).mean() - probable[j, 1]) < 5 * np.sqrt(0.25 / len(after))


def test_without_noise_a_path_follows_the_dynamics_of_its_regime():
    model = filled(seed=8)
    quiet = np.full((K, L), -6.0, np.float32)
    model = eqx.tree_at(lambda m: m.dynamics.noise.log_scale, model, quiet)
    _, z, s = (np.asarray(a)[:50] for a in drawn(model, CONTROLS))
    for n, t in itertools.product(range(50), range(1, T)):
        mean = linear_mean(model, s[n, t], z[n, t - 1], None, None, None)
        np.testing.assert_allclose(z[n, t], mean, atol=0.02)


@pytest.mark.parametrize(
    "edges",
    [
        {"dynamics_reads_x": True, "switching_reads_z": True},
        {
            "dynamics": "mlp",
            "dynamics_reads_u": True,
            "switching_reads_u": True,
            "switching_reads_x": True,
            "switching_history": 3,
            "switching_filters": 2,
        },
        {
            "dynamics": "gru",
            "dynamics_reads_x": True,
            "dynamics_reads_u": True,
            "emission_reads_s": True,
            "switching_reads_x": True,
        },
    ],
    ids=["linear", "mlp", "gru"],
)
def test_draws_fit_the_factors_that_score_them(edges):
    model = filled(seed=9, scale=0.8, dynamics_hidden=(4,), **edges)
    quiet = np.float32(np.log([[0.1, 0.2], [0.3, 0.1]]))
    model = eqx.tree_at(lambda m: m.dynamics.noise.log_scale, model, quiet)
    x, z, s = (np.asarray(a) for a in drawn(model, CONTROLS))
    predicted, emitted, log_transition = expected_of(model, x, z, CONTROLS)
    later = s[:, 1:]
    assert_standard((z[:, 1:] - chosen(predicted, later)) / deviations(model.dynamics.noise, later))
    assert_standard((x - chosen(emitted, s)) / deviations(model.emission.noise, 0 * s))
    probable = np.exp(chosen(log_transition, s[:, :-1]))[..., 1]
    surprise = (later == 1) - probable
    spread = np.sqrt(np.mean(probable * (1 - probable)))
    for driver in (np.ones_like(probable), x[:, :-1, 0], z[:, :-1, 0], x[:, :-1, 2]):
        driver = driver / np.sqrt(np.mean(driver**2))
        assert abs(np.mean(surprise * driver)) < 6 * spread / np.sqrt(surprise.size)


@pytest.mark.parametrize("edges", [{}, {"switching_reads_x": True}], ids=["constant", "driven"])
def test_a_forbidden_regime_is_never_entered(edges):
    s = np.asarray(drawn(allowing(filled(3, seed=10, **edges), 2), CONTROLS).s)
    assert set(np.unique(s)) == {0, 1}
