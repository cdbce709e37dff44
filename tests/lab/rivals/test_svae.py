"""The structured VAE: a bound that is exact where it can be, rounds that climb, and gradients of their fixed point."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import swerve
from swerve.choosing.scores import score
from swerve.inference import messages
from swerve.inference.frames import Frames
from swerve.models.model import Knobs
from swerve_lab.rivals import kalman, svae
from swerve_lab.rivals.shape import Shape
from swerve_lab.rivals.svae import SvaeOptions, build, evidence_of, follow, settled, states_given

pytestmark = pytest.mark.usefixtures("quick_compilation")
K, T, D, L, U = 2, 5, 2, 2, 1
SHAPE = Shape(
    regimes=K,
    state_size=L,
    channels=D,
    controls=U,
    dynamics_hidden=(),
    emission_hidden=(),
    embedding_hidden=(),
    encoder_size=4,
    causal_size=4,
    dynamics_noise_start=0.4,
    dynamics_noise_floor=1e-7,
    emission_noise_start=0.3,
    emission_noise_floor=1e-4,
    stickiness=1.0,
)
DRAWS = 8000


def random_system(seed=0, *, by=0.3, options=None, **shape):
    """Every parameter moved by something, so that none is zero or the same for all regimes."""
    system = build(options or SvaeOptions(), SHAPE._replace(**shape), key=jax.random.key(seed))
    leaves, structure = jax.tree.flatten(system)
    rng = np.random.default_rng(seed)
    return jax.tree.unflatten(structure, [leaf + by * rng.standard_normal(leaf.shape) for leaf in leaves])


def random_frames(seed=0, *, length=T, channels=D, controls=U):
    rng = np.random.default_rng(seed)
    return Frames(
        x=jnp.asarray(rng.standard_normal((length, channels)), float),
        observed=jnp.ones((length, channels), bool),
        valid=jnp.ones(length, bool),
        u=jnp.asarray(rng.standard_normal((length, controls)), float),
    )


def without_frame(frames, t):
    return frames._replace(observed=frames.observed.at[t].set(False), x=frames.x.at[t].set(jnp.nan))


def padded(frames, more):
    def longer(values, fill):
        return jnp.concatenate([values, jnp.full((more, *values.shape[1:]), fill, values.dtype)])

    return Frames(
        longer(frames.x, jnp.nan), longer(frames.observed, True), longer(frames.valid, False), longer(frames.u, jnp.nan)
    )


@jax.jit
def bounds(system, frames):
    keys = jax.random.split(jax.random.key(3), DRAWS)
    return jax.lax.map(lambda key: system.terms(frames, Knobs(), key=key).elbo, keys, batch_size=2000)


def mean_bound(system, frames):
    """The bound over many draws, and how far chance may have moved it."""
    draws = np.asarray(bounds(system, frames), np.float64)
    return draws.mean(), 4 * draws.std() / np.sqrt(DRAWS)


def log_likelihood(system, frames):
    """log p(x) = log sum_s p(s) p(x | s): every path of regimes, and a Kalman filter for each."""
    frames = frames.blanked()
    chain = system.chain(frames, Knobs())
    layer = system.emission.networks.layers[0]
    length = len(frames.x)
    emission = kalman.LinearEmission(
        matrix=jnp.broadcast_to(layer.weight[0], (length, *layer.weight[0].shape)),
        offset=jnp.broadcast_to(layer.bias[0], (length, len(layer.bias[0]))),
        scale=jnp.broadcast_to(system.emission.noise.scale[0], (length, len(layer.bias[0]))),
    )

    @jax.jit
    def given(path):
        into = path[1:]
        dynamics = kalman.LinearDynamics(
            first_mean=chain.first_mean,
            first_scale=jnp.diag(jnp.sqrt(chain.first_variance)),
            matrix=chain.matrix[into],
            offset=chain.offset[jnp.arange(length - 1), into],
            scale=jax.vmap(jnp.diag)(jnp.sqrt(chain.variance[into])),
        )
        seen = kalman.filter(dynamics, emission, frames.x, frames.observed, frames.valid).log_likelihood
        return seen + chain.log_initial[path[0]] + chain.log_transition[path[:-1], into].sum()

    paths = jnp.asarray(list(itertools.product(range(system.regimes), repeat=length)))
    return logsumexp(np.asarray(jax.lax.map(given, paths), np.float64))


def seeing_exactly(system, scales, offset):
    """x = scales z + offset + noise, and a recognition network that knows it: psi_t is log p(x_t | z_t) itself."""
    noise = system.emission.noise.scale[0] / scales
    log_distance = 0.5 * jnp.log(noise**2 - system.potential_floor)
    weight = jnp.zeros((2 * L, 2 * D)).at[:L, :D].set(jnp.diag(1 / scales))
    bias = jnp.concatenate([-offset / scales, log_distance])
    return eqx.tree_at(
        lambda s: (
            *(s.emission.networks.layers[0].weight, s.emission.networks.layers[0].bias),
            *(s.recognition.layers[0].weight, s.recognition.layers[0].bias),
        ),
        system,
        (jnp.diag(scales)[None], offset[None], weight, bias),
    )


@pytest.fixture(scope="module")
def exact():
    return seeing_exactly(random_system(regimes=1), jnp.array([1.2, -0.7]), jnp.array([0.3, -0.2]))


@pytest.fixture(scope="module")
def with_a_gap():
    return without_frame(random_frames(), 2)


def test_with_one_linear_regime_and_exact_potentials_the_bound_is_the_likelihood(exact, with_a_gap):
    bound, chance = mean_bound(exact, with_a_gap)
    assert chance < 0.2
    assert abs(bound - log_likelihood(exact, with_a_gap)) < chance


def test_other_potentials_give_less_than_the_likelihood(exact, with_a_gap):
    blurred = eqx.tree_at(lambda s: s.recognition.layers[0].bias, exact, replace_fn=lambda b: b + 0.3)
    bound, chance = mean_bound(blurred, with_a_gap)
    assert bound < log_likelihood(exact, with_a_gap) - chance


@pytest.mark.parametrize("rounds", [1, 20])
def test_with_more_regimes_it_is_a_bound_however_early_the_rounds_end(with_a_gap, rounds):
    system = random_system(1, options=SvaeOptions(rounds=rounds))
    system = seeing_exactly(system, jnp.array([1.2, -0.7]), jnp.array([0.3, -0.2]))
    bound, chance = mean_bound(system, with_a_gap)
    exact = log_likelihood(system, with_a_gap)
    assert exact - 3 < bound < exact + chance


def test_no_half_of_a_round_lowers_what_the_rounds_raise(with_a_gap):
    system = random_system(2)
    with jax.enable_x64(True):
        system, frames = jax.tree.map(lambda a: a if a.dtype == bool else a.astype(float), (system, with_a_gap))
        chain = system.chain(frames.blanked(), Knobs())

        def value_of_states(marginals):
            """What belongs to q(z): its entropy, E[log p(z_1)] and E[sum_t psi_t]; and l."""
            blocks = states_given(chain, marginals)
            states = kalman.posterior_of_blocks(blocks)
            squares = states.mean**2 + jnp.diagonal(states.covariance, axis1=1, axis2=2)
            potential = jnp.sum(chain.seen_linear * states.mean - 0.5 * chain.seen_precision * squares)
            own = svae.entropy(blocks, chain.valid) + system._first(states) + potential
            return own, evidence_of(chain, states)

        @jax.jit
        def halves(marginals, regime_value):
            own, evidence = value_of_states(marginals)
            smoothed = messages.smooth(chain.log_initial, chain.log_transition, evidence, chain.valid)
            before = own + jnp.sum(marginals * evidence) + regime_value
            regime_value = smoothed.log_z - jnp.sum(smoothed.marginals * evidence)
            return smoothed.marginals, regime_value, before, own + smoothed.log_z

        # A chain without evidence is p(s), at no distance from itself.
        marginals = messages.smooth(chain.log_initial, chain.log_transition, jnp.zeros((T, K)), chain.valid).marginals
        regime_value, values = jnp.zeros(()), []
        for _ in range(15):
            marginals, regime_value, *both = halves(marginals, regime_value)
            values += map(float, both)
    assert np.diff(values).min() > -1e-9
    assert values[-1] - values[0] > 0.05


@pytest.mark.slow
def test_the_gradient_of_the_fixed_point_is_that_of_all_rounds_unrolled():
    with jax.enable_x64(True):
        system = jax.tree.map(lambda a: a.astype(float), random_system(2))
        frames = jax.tree.map(lambda a: a if a.dtype == bool else a.astype(float), random_frames(2))
        chain = system.chain(frames, Knobs())
        weights = jnp.asarray(np.random.default_rng(0).standard_normal((T, K)))
        moved = ("matrix", "offset", "variance", "seen_precision", "seen_linear", "log_transition")

        def gradient(find):
            some = {name: getattr(chain, name) for name in moved}
            return jax.jit(jax.grad(lambda some: jnp.sum(weights * find(chain._replace(**some)))))(some)

        def unrolled(chain, rounds=60):
            start = jnp.full((T, K), 1 / K)
            return jax.lax.scan(lambda gamma, _: (follow(chain, gamma), None), start, length=rounds)[0]

        end = jax.jit(unrolled)(chain)
        implicit = gradient(lambda chain: settled(chain, 200, 1e-12))
        whole, short = gradient(unrolled), gradient(lambda chain: follow(chain, end))
    for name in moved:
        np.testing.assert_allclose(implicit[name], whole[name], rtol=1e-6, atol=1e-9)
    assert np.abs(implicit["matrix"] - short["matrix"]).max() > 0.02 * np.abs(implicit["matrix"]).max()


def objective(system, frames):
    return system.terms(frames, Knobs(), key=jax.random.key(0)).elbo


value_and_gradient = jax.jit(jax.value_and_grad(objective))
infer = jax.jit(lambda system, frames: system.infer(frames, samples=2, key=jax.random.key(0)))


def test_padding_changes_neither_bound_nor_gradient_nor_labels(with_a_gap):
    system = random_system(3)
    (bound, gradient), found = value_and_gradient(system, with_a_gap), infer(system, with_a_gap)
    longer = padded(with_a_gap, 3)
    (other_bound, other_gradient), other = value_and_gradient(system, longer), infer(system, longer)
    np.testing.assert_allclose(bound, other_bound, rtol=1e-5)
    for one, two in zip(jax.tree.leaves(gradient), jax.tree.leaves(other_gradient), strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found.probabilities, other.probabilities[:T], atol=1e-5)
    np.testing.assert_array_equal(found.path, other.path[:T])
    np.testing.assert_allclose(found.expected, other.expected[:T], atol=1e-5)
    assert (found.probabilities[0] == found.probabilities[1]).all()


def test_what_a_missing_value_holds_changes_nothing():
    system, frames = random_system(3), random_frames()
    frames = frames._replace(observed=frames.observed.at[1, 0].set(False).at[3].set(False))
    one, two = (
        value_and_gradient(system, frames._replace(x=jnp.where(frames.observed, frames.x, hidden)))
        for hidden in (jnp.nan, 7.0)
    )
    jax.tree.map(np.testing.assert_array_equal, one, two)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(one))


@pytest.mark.slow
def test_two_frames_and_one_regime_will_do():
    system = build(SvaeOptions(), SHAPE._replace(regimes=1, state_size=3), key=jax.random.key(0))
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(system))
    frames = random_frames(length=2)
    _, gradient = value_and_gradient(system, frames)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    np.testing.assert_allclose(infer(system, frames).probabilities, 1.0, rtol=1e-6)


def test_regimes_move_alike_until_they_part():
    system, frames = random_system(4), random_frames()
    together, apart = (system.chain(frames, Knobs(progress=progress)) for progress in (0.19, 0.21))
    assert (together.matrix[0] == together.matrix[1]).all() and (together.variance[0] == together.variance[1]).all()
    assert (apart.matrix[0] != apart.matrix[1]).all()


def test_a_guide_leads():
    system, frames = random_system(4), random_frames()
    guide = jnp.tile(jnp.array([0.0, 1.0]), (T, 1))
    terms = jax.jit(lambda nats: system.terms(frames, Knobs(guidance=nats), guide, key=jax.random.key(0)))
    led, alone = terms(20.0), terms(0.0)
    assert led.usage[1] > 0.99 * T
    np.testing.assert_allclose(led.guidance, 20.0 * T, rtol=1e-2)
    assert alone.guidance == 0
    np.testing.assert_allclose(alone.elbo, value_and_gradient(system, frames)[0], rtol=1e-5)


def draw_turns(count, length, *, seed=0):
    """Two regimes that turn z about different points, one quickly and one slowly back, seen through a curved sheet."""
    rng = np.random.default_rng(seed)
    turns = np.array([[[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]] for a in (0.3, -0.15)])
    centres = np.array([[1.0, 0.0], [-1.0, 0.0]])
    bend, mix = rng.standard_normal((8, 2)), rng.standard_normal((6, 8)) / np.sqrt(8)
    z, s = rng.standard_normal((count, 2)), rng.integers(0, 2, count)
    x, labels = [], []
    for _ in range(length):
        s = np.where(rng.random(count) < 0.05, 1 - s, s)
        z = centres[s] + 0.98 * np.einsum("nij,nj->ni", turns[s], z - centres[s])
        z = z + 0.05 * rng.standard_normal((count, 2))
        x.append(np.tanh(0.5 * z @ bend.T) @ mix.T + 0.05 * rng.standard_normal((count, 6)))
        labels.append(s)
    return np.stack(x, axis=1), np.stack(labels, axis=1)


def recovered(steps, restarts):
    """Frames labelled rightly in recordings that were not trained on."""
    x, s = draw_turns(100, 60)
    settings = [
        *("model.state_size=2", "model.emission_hidden=[16]", "posterior.embedding_hidden=[16]"),
        *("training.window=60", "training.batch_size=16"),
    ]
    fitted = swerve.fit(list(x[:60]), 2, model="svae", steps=steps, restarts=restarts, settings=settings)
    found = swerve.segment(fitted, list(x[60:]))
    return score([one.labels for one in found], list(s[60:])).as_dict()["frame_f1"]


@pytest.mark.slow
def test_regimes_of_its_own_kind_are_found():
    assert recovered(steps=300, restarts=1) > 85


@pytest.mark.slow
@pytest.mark.slow
def test_regimes_of_its_own_kind_are_found_by_a_full_training():
    assert recovered(steps=2000, restarts=2) > 95
