"""Exact inference over regimes, against enumeration of every path and plain automatic differentiation."""

import itertools
from functools import cache, partial

import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.nn import log_softmax, logsumexp

from swerve.inference import messages

# Compiling is what takes time here: few shapes, used again and again, and little optimisation.
quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
T, K = 5, 3
SHORT, LONG = 1, 20  # frames of padding
CONSTANT = pytest.mark.parametrize("constant", [False, True], ids=["varying", "constant"])


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def potentials(T=T, K=K, constant=False, *, seed=0, std=2.0, dtype=None):
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


@cache
def compiled_gradient(function):
    return quick_jit(jax.grad(function, (0, 1, 2)))


def gradient(function, args):
    return compiled_gradient(function)(*args)


hessian = quick_jit(jax.hessian(messages.log_normalizer, (0, 1, 2)))


def all_finite(tree):
    return all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(tree))


@quick_jit
def infer_all(args, mask=None):
    keys = jax.random.split(jax.random.key(2), 50)
    return {
        "log_normalizer": messages.log_normalizer(*args, mask),
        "filter": messages.filter(*args, mask),
        "smooth": messages.smooth(*args, mask, pairs=True),
        "expectations": messages.expectations(*args, mask),
        "viterbi": messages.viterbi(*args, mask),
        "samples": jax.vmap(lambda key: messages.sample(*args, mask, key=key), out_axes=1)(keys),
    }


def check_against_enumeration(*args):
    arrays = [np.asarray(array) for array in args]
    log_z, marginals, pairs = enumerate_posterior(*arrays)
    results = infer_all(args)
    close(results["log_normalizer"], log_z)
    smoothed = results["smooth"]
    close((smoothed.log_z, smoothed.marginals, smoothed.pair_marginals), (log_z, marginals, pairs))
    close(jnp.exp(smoothed.log_marginals), marginals)
    close(tuple(results["expectations"]), (log_z, marginals, pairs.sum(0)))
    filtered = results["filter"]
    close((filtered.log_z, jnp.exp(filtered.log_filtered)), (log_z, enumerate_filter(*arrays)))
    paths, scores = path_scores(*arrays)
    found = (paths == np.asarray(results["viterbi"])).all(1)
    close(scores[found], scores.max(keepdims=True))


@pytest.mark.parametrize(
    ("T", "K", "constant"),
    [(1, 1, False), (1, 3, True), (4, 1, True), (T, K, False), (T, K, True)],
)
def test_every_function_agrees_with_enumeration(x64, T, K, constant):
    check_against_enumeration(*potentials(T, K, constant))


finite = st.floats(-40, 40)
possible_or_not = st.one_of(finite, st.just(-np.inf))


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(
    hnp.arrays(float, K, elements=finite),
    hnp.arrays(float, (T - 1, K, K), elements=possible_or_not),
    hnp.arrays(float, (T, K), elements=finite),
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
    args = potentials(constant=constant)
    smoothed = infer_all(args)["smooth"]
    pairs = smoothed.pair_marginals.sum(0) if constant else smoothed.pair_marginals
    posterior = (smoothed.marginals[0], pairs, smoothed.marginals)
    close(gradient(messages.log_normalizer, args), posterior)
    close(gradient(plain_log_z, args), posterior)
    close(gradient(lambda *a: messages.smooth(*a).log_z, args), posterior)
    close(gradient(lambda *a: messages.filter(*a).log_z, args), posterior)


@CONSTANT
def test_second_derivatives_agree_with_plain_differentiation(x64, constant):
    args = potentials(constant=constant)
    expected = quick_jit(jax.hessian(plain_log_z, (0, 1, 2)))(*args)
    close(hessian(*args), expected)
    close(quick_jit(jax.jacrev(jax.grad(messages.log_normalizer, (0, 1, 2)), (0, 1, 2)))(*args), expected)


def regulariser(marginals, transitions):
    """Anything nonlinear in the posterior."""
    return jnp.sum(jnp.sin(3 * marginals) - jnp.log(marginals)) + jnp.sum(jnp.cos(2 * transitions))


@CONSTANT
def test_the_gradient_of_marginals_agrees_with_plain_differentiation(x64, constant):
    args = potentials(constant=constant)

    def plain(*args):
        transitions, marginals = jax.grad(plain_log_z, (1, 2))(*args)
        return regulariser(marginals, transitions if constant else transitions.sum(0))

    def from_smooth(*args):
        smoothed = messages.smooth(*args, pairs=True)
        return regulariser(jnp.exp(smoothed.log_marginals), smoothed.pair_marginals.sum(0))

    def from_expectations(*args):
        expected = messages.expectations(*args)
        return regulariser(expected.marginals, expected.transitions)

    expected = gradient(plain, args)
    close(gradient(from_smooth, args), expected)
    close(gradient(from_expectations, args), expected)


def test_a_constant_transition_equals_a_repeated_one(x64):
    initial, transition, evidence = constant = potentials(T + LONG, K, constant=True)
    tiled = initial, jnp.tile(transition, (T + LONG - 1, 1, 1)), evidence
    mask = jnp.arange(T + LONG) < T + LONG - 3
    close(infer_all(constant, mask), infer_all(tiled, mask))
    for once, repeated in zip(gradients_under(constant, mask), gradients_under(tiled, mask), strict=True):
        close(once, (repeated[0], repeated[1].sum(0), repeated[2]))


@pytest.mark.parametrize("stickiness", [0.0, 5.0, 100.0])
@pytest.mark.parametrize("std", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("offset", [0.0, -1e5])
def test_single_precision_survives_peaked_evidence(std, stickiness, offset):
    initial, transition, evidence = potentials(300, 3, constant=True, std=std, dtype=jnp.float32)
    args = initial, log_softmax(transition + stickiness * jnp.eye(3)), evidence + offset
    single = infer_all(args)
    with jax.enable_x64(True):
        exact = infer_all(tuple(jnp.asarray(np.asarray(array), jnp.float64) for array in args))
    smoothed, truth = single["smooth"], exact["smooth"]
    assert (smoothed.marginals.dtype, truth.marginals.dtype) == (jnp.float32, jnp.float64)
    np.testing.assert_allclose(smoothed.log_z, truth.log_z, rtol=1e-6)
    np.testing.assert_allclose(smoothed.marginals, truth.marginals, atol=2e-4)
    np.testing.assert_allclose(smoothed.log_marginals, truth.log_marginals, rtol=1e-6, atol=1e-3)
    counts, true_counts = single["expectations"].transitions, exact["expectations"].transitions
    np.testing.assert_allclose(counts, true_counts, atol=5e-3)


def forbidding(constant):
    """Regime 2 can not be entered and is not there at the start; 0 to 1 is forbidden as well."""
    initial, transition, evidence = potentials(constant=constant)
    transition = transition.at[..., 0, 1].set(-jnp.inf).at[..., :, 2].set(-jnp.inf)
    return initial.at[2].set(-jnp.inf), transition, evidence


def posterior_loss(*args):
    smoothed = messages.smooth(*args, pairs=True)
    possible = smoothed.marginals > 1e-100
    score = (
        jnp.sum(jnp.where(possible, smoothed.log_marginals, 0.0))
        + jnp.sum(smoothed.marginals**2)
        + jnp.sum(smoothed.pair_marginals**3)
    )
    return score + smoothed.log_z + messages.log_normalizer(*args)


@CONSTANT
def test_forbidden_transitions_are_the_limit_of_rare_ones(x64, constant):
    args = forbidding(constant)
    check_against_enumeration(*args)
    rare = [jnp.maximum(array, -300.0) for array in args]
    limit = gradient(posterior_loss, args)
    assert all_finite(limit)
    close(limit, gradient(posterior_loss, rare), atol=1e-8)


@CONSTANT
def test_second_derivatives_are_finite_where_regimes_are_impossible(x64, constant):
    args = forbidding(constant)
    assert all_finite(hessian(*args))
    # Even through a log-marginal that is -inf.
    assert all_finite(gradient(lambda *a: messages.smooth(*a).log_marginals.sum(), args))


def test_impossible_evidence_has_no_posterior_and_no_nan(x64):
    initial, transition, evidence = potentials(constant=True)
    args = initial, transition, evidence.at[2].set(-jnp.inf)
    results = infer_all(args)
    assert results["log_normalizer"] == -jnp.inf
    assert not jnp.any(results["smooth"].marginals)
    assert not any(jnp.isnan(leaf).any() for leaf in jax.tree.leaves(results))
    assert not any(leaf.any() for leaf in gradient(messages.log_normalizer, args))
    assert all_finite(gradient(lambda *a: messages.smooth(*a).marginals.sum() + messages.smooth(*a).log_z, args))


def test_a_nan_in_a_valid_frame_is_not_hidden(x64):
    initial, transition, evidence = potentials(constant=True)
    results = infer_all((initial, transition, evidence.at[1, 0].set(jnp.nan)))
    assert jnp.isnan(results["log_normalizer"])
    assert jnp.isnan(results["smooth"].marginals).all()


def pad(args, frames, content):
    initial, transition, evidence = args
    evidence = jnp.pad(evidence, ((0, frames), (0, 0)), constant_values=content)
    if transition.ndim == 3:
        transition = jnp.pad(transition, ((0, frames), (0, 0), (0, 0)), constant_values=content)
    return initial, transition, evidence


@quick_jit
def gradients_under(args, mask):
    def loss(args):
        smoothed = messages.smooth(*args, mask, pairs=True)
        # log_marginals + log K is 0 in padding, where nothing is masked by hand.
        score = jnp.sum((smoothed.log_marginals + jnp.log(3.0)) ** 2) + jnp.sum(smoothed.marginals**2)
        return score + jnp.sum(smoothed.pair_marginals**3) + smoothed.log_z

    return jax.grad(lambda a: messages.log_normalizer(*a, mask))(args), jax.grad(loss)(args)


@CONSTANT
@pytest.mark.parametrize("frames", [SHORT, LONG])
def test_padding_changes_nothing(x64, constant, frames):
    args = potentials(constant=constant)
    mask = jnp.arange(T + frames) < T

    def unpad(tree):
        lengths = {T + frames: T, T + frames - 1: T - 1}
        return jax.tree.map(lambda x: x[: lengths.get(x.shape[0])] if x.ndim else x, tree)

    expected = infer_all(args), gradients_under(args, None)
    for content in (np.nan, np.inf, -np.inf, 1e30, 0.0):
        padded = pad(args, frames, content)
        results, gradients = infer_all(padded, mask), gradients_under(padded, mask)
        close((unpad(results), unpad(gradients)), expected)
        for _, by_transition, by_evidence in gradients:
            assert not by_evidence[T:].any()
            assert constant or not by_transition[T - 1 :].any()
        smoothed, log_filtered = results["smooth"], results["filter"].log_filtered
        assert not smoothed.marginals[T:].any()
        assert not smoothed.pair_marginals[T - 1 :].any()
        close(smoothed.log_marginals[T:], np.full((frames, K), -np.log(K)))
        close(log_filtered[T:], np.tile(log_filtered[T - 1], (frames, 1)))
        assert (results["viterbi"][T:] == results["viterbi"][T - 1]).all()
        assert (results["samples"][T:] == results["samples"][T - 1 : T]).all()


@CONSTANT
def test_a_sequence_of_padding_alone_counts_for_nothing(x64, constant):
    initial, transition, evidence = potentials(T + SHORT, K, constant)
    args, mask = (initial, transition, evidence * jnp.nan), jnp.zeros(T + SHORT, bool)
    results = infer_all(args, mask)
    assert all_finite((results, gradients_under(args, mask)))
    assert abs(results["log_normalizer"]) < 1e-6
    assert not results["smooth"].marginals.any()
    assert not results["expectations"].transitions.any()


def test_a_batch_is_its_sequences_one_by_one(x64):
    batch = [potentials(T + SHORT, K, seed=seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *batch)
    masks = jnp.arange(T + SHORT)[None, :] < jnp.array([T + SHORT, 4, 1])[:, None]
    together = (
        jax.vmap(infer_all)(stacked, masks),
        jax.vmap(gradients_under)(stacked, masks),
    )
    for n, args in enumerate(batch):
        alone = infer_all(args, masks[n]), gradients_under(args, masks[n])
        nth = jax.tree.map(lambda leaf: leaf[n], together)  # noqa: B023
        close(nth, alone)


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


gradient_of_log_z = jax.value_and_grad(messages.log_normalizer, (0, 1, 2))
WITHOUT_PAIRS = {
    "log_normalizer": messages.log_normalizer,
    "filter": messages.filter,
    "gradient": gradient_of_log_z,
    "Hessian-vector product": lambda *args: jax.jvp(gradient_of_log_z, args, args),
    "smooth": messages.smooth,
    "gradient of smooth": jax.grad(lambda *a: jnp.sum(messages.smooth(*a).marginals ** 2), (0, 1, 2)),
    "expectations": messages.expectations,
}


@pytest.mark.parametrize("name", WITHOUT_PAIRS)
def test_a_constant_transition_is_never_spread_over_time(name):
    T, K = 200, 9
    assert largest_array(WITHOUT_PAIRS[name], *potentials(T, K, constant=True)) < (T - 1) * K * K


def test_an_array_of_all_pairs_would_be_noticed():
    T, K = 200, 9
    args = potentials(T, K, constant=True)
    assert largest_array(jax.grad(plain_log_z), *args) >= (T - 1) * K * K
    assert largest_array(lambda *a: messages.smooth(*a, pairs=True), *args) == (T - 1) * K * K


@CONSTANT
def test_a_value_runs_the_forward_recursion_only(constant):
    args = potentials(20, 3, constant)

    def carries(function):
        scans = [e for e in equations(jax.make_jaxpr(function)(*args).jaxpr) if e.primitive.name == "scan"]
        return [v.aval.shape for e in scans for v in e.outvars[: e.params["num_carry"]]]

    assert carries(messages.log_normalizer) == [(3,)]
    both_directions = [(2, 3), (3, 3)] if constant else [(2, 3)]
    assert carries(gradient_of_log_z) == both_directions


def test_long_sequences_of_many_regimes():
    T, K = 100_000, 64
    args = potentials(T, K, constant=True, dtype=jnp.float32)
    smoothed = jax.jit(messages.smooth)(*args)
    assert all_finite(smoothed)
    np.testing.assert_allclose(smoothed.marginals.sum(1), 1.0, atol=1e-5)


@pytest.mark.parametrize("unlikely", [-1e4, -1e9])
def test_an_almost_impossible_regime_spoils_no_gradient_in_padding(unlikely):
    rng = np.random.default_rng(0)
    logits, evidence = jnp.asarray(rng.normal(size=(7, 3, 3))), jnp.asarray(rng.normal(size=(8, 3)))
    allowed = jnp.array([0.0, 0.0, unlikely])

    def first_regime(logits, evidence, frames):
        initial, transition = jax.nn.log_softmax(allowed), jax.nn.log_softmax(logits + allowed[None, None])
        mask = None if frames == len(evidence) else jnp.arange(len(evidence)) < frames
        return messages.smooth(initial, transition, evidence, mask).marginals[:, 0].sum()

    gradient = jax.grad(first_regime, (0, 1))
    padded = gradient(logits, evidence, 5)
    cut = gradient(logits[:4], evidence[:5], 5)
    np.testing.assert_allclose(padded[0][:4], cut[0], atol=1e-5)
    np.testing.assert_allclose(padded[1][:5], cut[1], atol=1e-5)


@CONSTANT
def test_stretches_take_the_steps_of_the_whole(constant):
    initial, transition, evidence = args = potentials(T=12, constant=constant)
    valid = jnp.arange(12) < 10
    borders = [1, 4, 8, 12]  # the last stretch ends in padding
    stretches = [
        (transition if constant else transition[begin - 1 : end - 1], evidence[begin:end], valid[begin:end])
        for begin, end in itertools.pairwise(borders)
    ]
    lost, log_joint = messages.begin(initial, evidence[0])
    joints, bests, origins = [log_joint], [log_joint], []
    for stretch in stretches:
        more, log_joint = messages.onward(log_joint, *stretch)
        best, origin = messages.best_onward(bests[-1], *stretch)
        lost += more
        joints.append(log_joint)
        bests.append(best)
        origins.append(origin)
    future, label = jnp.zeros(K), jnp.argmax(bests[-1])
    marginals, labels = np.zeros((12, K)), [int(label)]
    for joint, stretch, origin, begin in reversed(list(zip(joints, stretches, origins, borders, strict=False))):
        found, future = messages.smooth_between(joint, *stretch[:2], future, stretch[2])
        marginals[begin - 1 : begin - 1 + len(found)] = found
        labels = messages.trace_back(label, origin).tolist() + labels
        label = jnp.asarray(labels[0])
    whole = messages.smooth(*args, valid)
    np.testing.assert_allclose(lost + logsumexp(log_joint), whole.log_z, rtol=1e-6)
    np.testing.assert_allclose(marginals, whole.marginals, atol=1e-6)
    assert labels == messages.viterbi(*args, valid).tolist()
