"""Exact inference over regimes, against enumeration of every path and against plain automatic differentiation."""

import itertools

import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.nn import log_softmax, logsumexp

from swerve import messages

SHAPES = [(1, 1), (1, 3), (5, 1), (6, 2), (5, 3), (4, 4)]
CONSTANT = pytest.mark.parametrize("constant", [False, True], ids=["varying", "constant"])


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def potentials(T, K, constant=False, *, seed=0, std=2.0, dtype=None):
    rng = np.random.default_rng(seed)
    shape = (K, K) if constant else (T - 1, K, K)
    arrays = rng.normal(size=K), rng.normal(size=shape), std * rng.normal(size=(T, K))
    initial, transition, evidence = (jnp.asarray(array, dtype) for array in arrays)
    return log_softmax(initial), log_softmax(transition), evidence


def path_scores(initial, transition, evidence):
    """Every path (N, T), and the log of its weight (N,)."""
    T, K = evidence.shape
    transition = np.broadcast_to(transition, (T - 1, K, K))
    paths = np.array(list(itertools.product(range(K), repeat=T)))
    frames = np.arange(T)
    scores = initial[paths[:, 0]] + evidence[frames, paths].sum(1)
    return paths, scores + transition[frames[:-1], paths[:, :-1], paths[:, 1:]].sum(1)


def log_sum(scores):
    return np.logaddexp.reduce(scores, axis=0)


def enumerate_posterior(initial, transition, evidence):
    """log Z, marginals (T, K) and pair marginals (T-1, K, K) by summing over all paths."""
    paths, scores = path_scores(initial, transition, evidence)
    weights = np.exp(scores - log_sum(scores))
    one_hot = np.eye(evidence.shape[1])[paths]
    marginals = np.einsum("n,ntk->tk", weights, one_hot)
    pairs = np.einsum("n,ntj,ntk->tjk", weights, one_hot[:, :-1], one_hot[:, 1:])
    return log_sum(scores), marginals, pairs


def enumerate_filter(initial, transition, evidence):
    rows = []
    for t in range(len(evidence)):
        steps = transition if transition.ndim == 2 else transition[:t]
        rows.append(enumerate_posterior(initial, steps, evidence[: t + 1])[1][-1])
    return np.array(rows)


def plain_log_z(initial, transition, evidence):
    """The forward recursion as a textbook has it, for automatic differentiation."""
    T, K = evidence.shape
    tiled = jnp.broadcast_to(transition, (T - 1, K, K))

    def step(alpha, frame):
        log_a, log_b = frame
        return logsumexp(alpha[:, None] + log_a, axis=0) + log_b, None

    alpha, _ = jax.lax.scan(step, initial + evidence[0], (tiled, evidence[1:]))
    return logsumexp(alpha)


def close(actual, expected, atol=1e-9):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=atol), actual, expected)


def all_finite(tree):
    return all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(tree))


def check_against_enumeration(initial, transition, evidence):
    arrays = [np.asarray(array) for array in (initial, transition, evidence)]
    log_z, marginals, pairs = enumerate_posterior(*arrays)
    smoothed = messages.smooth(initial, transition, evidence, pairs=True)
    close(messages.log_normalizer(initial, transition, evidence), log_z)
    close((smoothed.log_z, smoothed.marginals, smoothed.pair_marginals), (log_z, marginals, pairs))
    close(jnp.exp(smoothed.log_marginals), marginals)
    expected = messages.expectations(initial, transition, evidence)
    close((expected.log_z, expected.marginals, expected.transitions), (log_z, marginals, pairs.sum(0)))
    filtered = messages.filter(initial, transition, evidence)
    close((filtered.log_z, jnp.exp(filtered.log_filtered)), (log_z, enumerate_filter(*arrays)))
    paths, scores = path_scores(*arrays)
    found = (paths == np.asarray(messages.viterbi(initial, transition, evidence))).all(1)
    np.testing.assert_allclose(scores[found], [scores.max()])


@CONSTANT
@pytest.mark.parametrize(("T", "K"), SHAPES)
def test_every_function_agrees_with_enumeration(x64, T, K, constant):
    check_against_enumeration(*potentials(T, K, constant))


finite = st.floats(-40, 40)
possible_or_not = st.one_of(finite, st.just(-np.inf))


@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(
    hnp.arrays(float, 3, elements=finite),
    hnp.arrays(float, (3, 3, 3), elements=possible_or_not),
    hnp.arrays(float, (4, 3), elements=finite),
)
def test_any_potentials_agree_with_enumeration(initial, transition, evidence):
    transition[:, :, 0] = np.maximum(transition[:, :, 0], -40)  # at least one path is possible
    with jax.enable_x64(True):
        check_against_enumeration(jnp.asarray(initial), jnp.asarray(transition), jnp.asarray(evidence))


@CONSTANT
def test_samples_come_as_often_as_their_path_is_probable(constant):
    draws, (T, K) = 20_000, (3, 3)
    args = potentials(T, K, constant, std=1.0)
    keys = jax.random.split(jax.random.key(0), draws)
    samples = np.asarray(jax.jit(jax.vmap(lambda key: messages.sample(*args, key=key)))(keys))
    paths, scores = path_scores(*[np.asarray(array, float) for array in args])
    probability = np.exp(scores - log_sum(scores))
    frequency = np.bincount(samples @ (K ** np.arange(T)[::-1]), minlength=K**T) / draws
    sigma = np.sqrt(probability * (1 - probability) / draws)
    assert np.all(np.abs(frequency - probability) < 5 * sigma + 1e-4)
    assert np.array_equal(paths[5], [0, 1, 2])  # the order of bincount is the order of the paths


@CONSTANT
def test_the_gradient_of_log_z_is_the_posterior(x64, constant):
    args = potentials(6, 3, constant)
    smoothed = messages.smooth(*args, pairs=True)
    pairs = smoothed.pair_marginals.sum(0) if constant else smoothed.pair_marginals
    posterior = (smoothed.marginals[0], pairs, smoothed.marginals)
    gradient = jax.grad(messages.log_normalizer, (0, 1, 2))(*args)
    close(gradient, posterior)
    close(gradient, jax.grad(plain_log_z, (0, 1, 2))(*args))
    close(gradient, jax.grad(lambda *a: messages.smooth(*a).log_z, (0, 1, 2))(*args))
    close(gradient, jax.grad(lambda *a: messages.filter(*a).log_z, (0, 1, 2))(*args))


@CONSTANT
def test_second_derivatives_agree_with_plain_differentiation(x64, constant):
    args = potentials(4, 3, constant)
    expected = jax.hessian(plain_log_z, (0, 1, 2))(*args)
    close(jax.hessian(messages.log_normalizer, (0, 1, 2))(*args), expected)
    close(jax.jacrev(jax.grad(messages.log_normalizer, (0, 1, 2)), (0, 1, 2))(*args), expected)


def regulariser(marginals, transitions):
    """Anything nonlinear in the posterior."""
    return jnp.sum(jnp.sin(3 * marginals) - jnp.log(marginals)) + jnp.sum(jnp.cos(2 * transitions))


@CONSTANT
def test_the_gradient_of_marginals_agrees_with_plain_differentiation(x64, constant):
    args = potentials(5, 3, constant)

    def plain(*args):
        transitions, marginals = jax.grad(plain_log_z, (1, 2))(*args)
        return regulariser(marginals, transitions if constant else transitions.sum(0))

    def from_smooth(*args):
        smoothed = messages.smooth(*args, pairs=True)
        return regulariser(jnp.exp(smoothed.log_marginals), smoothed.pair_marginals.sum(0))

    def from_expectations(*args):
        expected = messages.expectations(*args)
        return regulariser(expected.marginals, expected.transitions)

    expected = jax.grad(plain, (0, 1, 2))(*args)
    close(jax.grad(from_smooth, (0, 1, 2))(*args), expected)
    close(jax.grad(from_expectations, (0, 1, 2))(*args), expected)


def test_a_constant_transition_equals_a_repeated_one(x64):
    T, K = 40, 3
    initial, transition, evidence = potentials(T, K, constant=True)
    mask = jnp.arange(T) < 37
    key = jax.random.key(1)

    def everything(transition):
        args = (initial, transition, evidence, mask)
        labels = messages.viterbi(*args), messages.sample(*args, key=key)
        return (
            messages.filter(*args),
            messages.smooth(*args, pairs=True),
            messages.expectations(*args),
            labels,
        )

    def loss(transition):
        smoothed = messages.smooth(initial, transition, evidence, mask)
        return messages.log_normalizer(initial, transition, evidence, mask) + jnp.sum(smoothed.marginals**2)

    tiled = jnp.broadcast_to(transition, (T - 1, K, K))
    close(everything(transition), everything(tiled))
    close(jax.grad(loss)(transition), jax.grad(loss)(tiled).sum(0))


@pytest.mark.parametrize("stickiness", [0.0, 5.0, 100.0])
@pytest.mark.parametrize("std", [1.0, 30.0, 1000.0])
def test_single_precision_survives_peaked_evidence(std, stickiness):
    initial, transition, evidence = potentials(300, 3, constant=True, std=std, dtype=jnp.float32)
    args = initial, log_softmax(transition + stickiness * jnp.eye(3)), evidence
    single = jax.jit(messages.smooth)(*args), jax.jit(messages.expectations)(*args)
    with jax.enable_x64(True):
        double = [jnp.asarray(np.asarray(array), jnp.float64) for array in args]
        exact = jax.jit(messages.smooth)(*double), jax.jit(messages.expectations)(*double)
    assert single[0].marginals.dtype == jnp.float32
    assert exact[0].marginals.dtype == jnp.float64
    np.testing.assert_allclose(single[0].log_z, exact[0].log_z, rtol=1e-6)
    np.testing.assert_allclose(single[0].marginals, exact[0].marginals, atol=2e-4)
    np.testing.assert_allclose(single[0].log_marginals, exact[0].log_marginals, rtol=1e-6, atol=1e-3)
    np.testing.assert_allclose(single[1].transitions, exact[1].transitions, atol=300 * 2e-5)


def forbidding(constant):
    """Regime 2 can not be entered and is not there at the start; 0 to 1 is forbidden as well."""
    initial, transition, evidence = potentials(5, 3, constant)
    transition = transition.at[..., 0, 1].set(-jnp.inf).at[..., :, 2].set(-jnp.inf)
    return initial.at[2].set(-jnp.inf), transition, evidence


def posterior_loss(*args):
    smoothed = messages.smooth(*args, pairs=True)
    log_marginals = jnp.where(smoothed.marginals > 0, smoothed.log_marginals, 0.0)
    score = jnp.sum(log_marginals) + jnp.sum(smoothed.marginals**2) + jnp.sum(smoothed.pair_marginals**3)
    return score + smoothed.log_z + messages.log_normalizer(*args)


@CONSTANT
def test_forbidden_transitions_are_the_limit_of_rare_ones(x64, constant):
    args = forbidding(constant)
    check_against_enumeration(*args)
    rare = [jnp.maximum(array, -300.0) for array in args]
    value, gradient = jax.value_and_grad(posterior_loss, (0, 1, 2))(*args)
    # In the rare case the log-marginals of regime 2 count too: they are finite there.
    by_hand = lambda *a: posterior_loss(*a) - messages.smooth(*a).log_marginals[:, 2].sum()  # noqa: E731
    expected_value, expected = jax.value_and_grad(by_hand, (0, 1, 2))(*rare)
    assert all_finite((value, gradient))
    close((value, gradient), (expected_value, expected), atol=1e-8)


@CONSTANT
def test_second_derivatives_are_finite_where_regimes_are_impossible(constant):
    args = forbidding(constant)
    assert all_finite(jax.hessian(messages.log_normalizer, (0, 1, 2))(*args))
    # Even through a log-marginal that is -inf.
    through = jax.grad(lambda *a: messages.smooth(*a).log_marginals.sum(), (0, 1, 2))(*args)
    assert all_finite(through)


def test_impossible_evidence_has_no_posterior_and_no_nan():
    initial, transition, evidence = potentials(4, 3, constant=True)
    args = initial, transition, evidence.at[2].set(-jnp.inf)
    value, gradient = jax.value_and_grad(messages.log_normalizer, (0, 1, 2))(*args)
    assert value == -jnp.inf
    assert not any(jnp.any(leaf) for leaf in jax.tree.leaves(gradient))
    assert not jnp.any(messages.smooth(*args).marginals)
    assert messages.viterbi(*args).shape == messages.sample(*args, key=jax.random.key(0)).shape == (4,)


def test_a_nan_in_a_valid_frame_is_not_hidden():
    initial, transition, evidence = potentials(4, 3, constant=True)
    broken = evidence.at[1, 0].set(jnp.nan)
    assert jnp.isnan(messages.log_normalizer(initial, transition, broken))
    assert jnp.isnan(messages.smooth(initial, transition, broken).marginals).all()


def pad(args, frames, content):
    initial, transition, evidence = args
    evidence = jnp.pad(evidence, ((0, frames), (0, 0)), constant_values=content)
    if transition.ndim == 3:
        transition = jnp.pad(transition, ((0, frames), (0, 0), (0, 0)), constant_values=content)
    return initial, transition, evidence


@CONSTANT
@pytest.mark.parametrize("frames", [1, 20])
def test_padding_changes_nothing(x64, constant, frames):
    T, K = 6, 3
    args = potentials(T, K, constant)
    mask = jnp.arange(T + frames) < T
    key = jax.random.key(2)

    @jax.jit
    def infer(args, mask):
        smoothed = messages.smooth(*args, mask, pairs=True)
        results = messages.log_normalizer(*args, mask), messages.filter(*args, mask), smoothed
        labels = messages.viterbi(*args, mask), messages.sample(*args, mask, key=key)
        return results, messages.expectations(*args, mask), labels

    @jax.jit
    def gradients(args, mask):
        of_posterior = jax.grad(lambda a: posterior_loss_without_padding(*a, mask))(args)
        return jax.grad(lambda a: messages.log_normalizer(*a, mask))(args), of_posterior

    def posterior_loss_without_padding(*args):
        smoothed = messages.smooth(*args, pairs=True)
        score = jnp.sum((smoothed.log_marginals + jnp.log(3.0)) ** 2) + jnp.sum(smoothed.marginals**2)
        return score + jnp.sum(smoothed.pair_marginals**3) + smoothed.log_z

    def unpad(tree):
        lengths = {T + frames: T, T + frames - 1: T - 1}
        return jax.tree.map(lambda x: x[: lengths.get(x.shape[0])] if x.ndim else x, tree)

    expected = infer(args, None), gradients(args, None)
    for content in (np.nan, np.inf, -np.inf, 1e30, 0.0):
        padded = pad(args, frames, content)
        results, gradient = infer(padded, mask), gradients(padded, mask)
        close((unpad(results), unpad(gradient)), expected)
        beyond = [leaf[T:] for leaf in (gradient[0][2], gradient[1][2])]
        beyond += [] if constant else [leaf[T - 1 :] for leaf in (gradient[0][1], gradient[1][1])]
        assert not any(jnp.any(leaf) for leaf in beyond)
        (_, filtered, smoothed), _, labels = results
        assert not jnp.any(smoothed.marginals[T:])
        assert not jnp.any(smoothed.pair_marginals[T - 1 :])
        close(smoothed.log_marginals[T:], jnp.full((frames, K), -np.log(K)))
        close(filtered.log_filtered[T:], jnp.tile(filtered.log_filtered[T - 1], (frames, 1)))
        assert all(bool((path[T:] == path[T - 1]).all()) for path in labels)


@CONSTANT
def test_a_sequence_of_padding_alone_counts_for_nothing(constant):
    initial, transition, _ = potentials(4, 3, constant)
    args = initial, transition, jnp.full((4, 3), jnp.nan), jnp.zeros(4, bool)
    assert abs(messages.log_normalizer(*args)) < 1e-6
    smoothed = messages.smooth(*args)
    assert all_finite(smoothed)
    assert not jnp.any(smoothed.marginals)
    assert not jnp.any(messages.expectations(*args).transitions)
    assert all_finite(jax.grad(lambda *a: messages.log_normalizer(*a, args[3]), (0, 1, 2))(*args[:3]))


def test_a_batch_is_its_sequences_one_by_one():
    batch = [potentials(7, 3, seed=seed, dtype=jnp.float32) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *batch)
    masks = jnp.arange(7)[None, :] < jnp.array([7, 4, 1])[:, None]
    keys = jax.random.split(jax.random.key(3), 3)

    def infer(args, mask, key):
        value, gradient = jax.value_and_grad(lambda a: messages.log_normalizer(*a, mask))(args)
        labels = messages.viterbi(*args, mask), messages.sample(*args, mask, key=key)
        return value, gradient, messages.smooth(*args, mask), messages.expectations(*args, mask), labels

    together = jax.jit(jax.vmap(infer))(stacked, masks, keys)
    single = jax.jit(infer)
    for n, args in enumerate(batch):
        alone = single(args, masks[n], keys[n])
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a[n], b, atol=1e-5), together, alone)  # noqa: B023


def equations(jaxpr):
    for equation in jaxpr.eqns:
        yield equation
        for parameter in jax.tree.leaves(equation.params, is_leaf=lambda p: hasattr(p, "eqns")):
            inner = getattr(parameter, "jaxpr", parameter)
            if hasattr(inner, "eqns"):
                yield from equations(inner)


def largest_array(function, *args):
    jaxpr = jax.make_jaxpr(function)(*args).jaxpr
    return max(v.aval.size for e in equations(jaxpr) for v in e.outvars)


GRADIENTS = {
    "log_normalizer": messages.log_normalizer,
    "gradient": jax.value_and_grad(messages.log_normalizer, (0, 1, 2)),
    "smooth": messages.smooth,
    "gradient of smooth": jax.grad(lambda *a: jnp.sum(messages.smooth(*a).marginals ** 2), (0, 1, 2)),
    "expectations": messages.expectations,
    "second derivative": jax.grad(
        lambda *a: sum(jnp.sum(g**2) for g in jax.grad(messages.log_normalizer, (0, 1, 2))(*a)), (0, 1, 2)
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_constant_transition_is_never_spread_over_time(name):
    T, K = 200, 9
    spread = (T - 1) * K * K
    assert largest_array(GRADIENTS[name], *potentials(T, K, constant=True)) < spread
    assert largest_array(GRADIENTS[name], *potentials(T, K)) >= spread - K * K * (name == "log_normalizer")


@CONSTANT
def test_a_value_runs_the_forward_recursion_only(constant):
    args = potentials(20, 3, constant)

    def carries(function):
        scans = [e for e in equations(jax.make_jaxpr(function)(*args).jaxpr) if e.primitive.name == "scan"]
        return [v.aval.shape for e in scans for v in e.outvars[: e.params["num_carry"]]]

    assert carries(messages.log_normalizer) == [(3,)]
    both_directions = [(2, 3), (3, 3)] if constant else [(2, 3)]
    assert carries(jax.value_and_grad(messages.log_normalizer, (0, 1, 2))) == both_directions


def test_long_sequences_of_many_regimes():
    T, K = 100_000, 64
    args = potentials(T, K, constant=True, dtype=jnp.float32)
    smoothed = jax.jit(messages.smooth)(*args)
    assert all_finite(smoothed)
    np.testing.assert_allclose(smoothed.marginals.sum(1), 1.0, atol=1e-5)
