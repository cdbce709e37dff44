"""Draws from models whose moments are known in closed form, and forecasts of sequences they drew themselves."""

from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import SETTINGS

from swerve import api
from swerve.data.windows import Standardizer, to_frames
from swerve.errors import InputError
from swerve.inference.frames import Frames
from swerve.models import generation
from swerve.models.arhmm import ArHmm, smooth
from swerve.models.arhmm.model import blank, log_regimes
from swerve.models.arhmm.noise import Covariance, DiagonalNoise, FullNoise
from swerve.models.model import Shape, maker_of
from swerve.models.snlds.maker import build_collapsed, build_posterior
from swerve.models.snlds.model import Snlds
from swerve.runs import fit as run
from swerve.runs import run as fitted_runs
from swerve.runs.alignment import Alignment
from swerve.types import Recording

pytestmark = pytest.mark.usefixtures("quick_compilation")
STAY = 0.9
CHAIN = np.log([[STAY, 1 - STAY], [0.2, 0.8]])
STATIONARY = np.array([2 / 3, 1 / 3])


def arhmm(weights, std=0.1, **parts) -> ArHmm:
    """One channel, two regimes, and a chain whose stationary distribution is (2/3, 1/3)."""
    weights = jnp.asarray(weights, jnp.float32)
    return ArHmm(
        log_initial=jnp.log(jnp.asarray(STATIONARY, jnp.float32)),
        log_transition=jnp.asarray(CHAIN, jnp.float32),
        weights=weights,
        noise=DiagonalNoise(jnp.full((2, weights.shape[1]), std**2, jnp.float32)),
        start_mean=jnp.full(weights.shape[1], 2.0),
        start_noise=DiagonalNoise(jnp.full((1, weights.shape[1]), 0.25)),
        **parts,
    )


DECAY = arhmm([[[0.5, 0.0]], [[0.5, 1.0]]])  # x_t = x_{t-1} / 2 + s_t + noise


def exact_moments(model: ArHmm, regimes, mean, square, horizon):
    """E x and E x^2 of a one-channel, one-lag model, by recursion over p(s), E[x; s] and E[x^2; s] in float64."""
    transition = np.exp(np.float64(model.log_transition))
    a, b = np.float64(model.weights)[:, 0].T
    variance = np.float64(model.noise.variance)[:, 0]
    p, first, second = regimes, regimes * mean, regimes * square
    means, variances = [], []
    for _ in range(horizon):
        p, first, second = p @ transition, first @ transition, second @ transition
        first, second = a * first + b * p, a**2 * second + 2 * a * b * first + (b**2 + variance) * p
        means.append(first.sum())
        variances.append(second.sum() - first.sum() ** 2)
    return np.array(means), np.array(variances)


def frames_of(x, padding=0) -> Frames:
    x = np.asarray(x, np.float32)
    seen = np.isfinite(x)
    fill = ((0, padding), (0, 0))
    return Frames(
        jnp.asarray(np.pad(np.where(seen, x, 0.0), fill)),
        jnp.asarray(np.pad(seen, fill)),
        jnp.asarray(np.pad(np.ones(len(x), bool), fill[0])),
        jnp.zeros((len(x) + padding, 0)),
    )


def draws(model, length, count, seed=0):
    keys = jax.random.split(jax.random.key(seed), count)
    return jax.vmap(lambda key: generation.sequence(model, jnp.zeros((length, 0)), key=key))(keys)


def test_an_arhmm_draws_sequences_with_its_own_moments():
    drawn = draws(DECAY, 12, 20_000)
    means, variances = exact_moments(DECAY, STATIONARY, 2.0, 4.25, 11)
    np.testing.assert_allclose(drawn.x[:, 1:, 0].mean(axis=0), means, atol=0.02)
    np.testing.assert_allclose(drawn.x[:, 1:, 0].var(axis=0), variances, rtol=0.05)
    np.testing.assert_allclose(drawn.x[:, 0, 0].mean(), 2.0, atol=0.02)
    np.testing.assert_allclose((drawn.s == 1).mean(axis=0), STATIONARY[1], atol=0.015)
    stays = (drawn.s[:, 1:] == 0)[drawn.s[:, :-1] == 0].mean()
    np.testing.assert_allclose(stays, STAY, atol=0.01)


def test_full_noise_is_drawn_with_its_covariance():
    covariance = jnp.asarray([[[1.0, 0.6], [0.6, 0.5]], [[0.2, -0.1], [-0.1, 0.3]]])
    noise = FullNoise(covariance)
    for regime in range(2):
        keys = jax.random.split(jax.random.key(1), 20_000)
        drawn = jax.vmap(lambda key, regime=regime: noise.sample(jnp.asarray(regime), key=key))(keys)
        np.testing.assert_allclose(np.cov(drawn.T), covariance[regime], atol=0.03)


def test_without_lags_every_frame_is_drawn_alike():
    model = arhmm([[[-1.0]], [[1.0]]])
    drawn = draws(model, 4, 5000)
    np.testing.assert_allclose(drawn.x[:, :, 0], 2.0 * np.asarray(drawn.s) - 1, atol=0.6)
    np.testing.assert_allclose(drawn.x[:, 0, 0].mean(), -1 / 3, atol=0.05)


def test_lags_and_waves_enter_a_draw_as_they_enter_the_likelihood():
    """Almost without noise a draw is its own expectation, window by window."""
    rng = np.random.default_rng(0)
    like = blank(2, 2, 3, Covariance.DIAGONAL, features=4)
    filled = jax.tree.map(lambda leaf: jnp.asarray(0.3 * rng.normal(size=leaf.shape), jnp.float32), like)
    tiny = DiagonalNoise(jnp.full((2, 2), 1e-12))
    model = eqx.tree_at(lambda m: (m.noise, m.log_transition), filled, (tiny, jnp.asarray(CHAIN, jnp.float32)))
    model = eqx.tree_at(lambda m: m.start_noise, model, DiagonalNoise(jnp.ones((1, 2))))
    drawn = generation.sequence(model, jnp.zeros((30, 0)), key=jax.random.key(0))
    expected = jnp.einsum(
        "tkd,tk->td", jnp.einsum("kdp,tp->tkd", model.weights, model.window(drawn.x)), jax.nn.one_hot(drawn.s, 2)
    )
    np.testing.assert_allclose(drawn.x[1:], expected[1:], atol=1e-4)


@pytest.mark.parametrize("padding", [0, 3])
def test_futures_of_an_arhmm_have_the_exact_moments(padding):
    """The last frame tells its regime beyond doubt: 0 lies at x/2, 1 at x/2 + 1, and the noise is small."""
    x = np.array([[2.0], [1.0], [1.5], [0.75], [1.375]])
    found = generation.futures(DECAY, frames_of(x, padding), jnp.zeros((10, 0)), samples=20_000, key=jax.random.key(0))
    means, variances = exact_moments(DECAY, np.array([0.0, 1.0]), 1.375, 1.375**2, 10)
    np.testing.assert_allclose(found.x[..., 0].mean(axis=0), means, atol=0.02)
    np.testing.assert_allclose(found.x[..., 0].var(axis=0), variances, rtol=0.05)
    powers = [np.array([0.0, 1.0]) @ np.linalg.matrix_power(np.exp(CHAIN), h) for h in range(1, 11)]
    np.testing.assert_allclose(found.probabilities, powers, atol=1e-5)


def collapsed(seed=0, **settings) -> Snlds:
    """Our own system with random parameters, without compiling their initialisation."""
    config = api.make_config(2, settings=[*SETTINGS, *(f"model.{name}={value}" for name, value in settings.items())])
    like = jax.eval_shape(
        lambda key: build_collapsed(
            config.model, config.posterior, channels=1, controls=0, stickiness=0.0, allowed=2, key=key
        ),
        jax.random.key(0),
    )
    rng = np.random.default_rng(seed)
    system = jax.tree.map(lambda leaf: jnp.asarray(0.5 * rng.normal(size=leaf.shape), jnp.float32), like)
    return eqx.tree_at(lambda one: one.model.log_allowed, system, jnp.zeros(2))


def twin() -> Snlds:
    """DECAY as a system of ours: the state is what is seen, and q looks at nothing else.

    q's mean is m_t + rho_t G e_t with e_t = x_t - m_t; all its units rho are 0.1, so that with G = 10 it is x_t.
    """
    plain = {"state_size": 1, "dynamics": '"linear"', "dynamics_residual": "false", "initial_components": 1}
    plain |= {"switching_reads_x": "false", "switching_reads_z": "false"}
    system = collapsed(**plain)
    blind = jax.tree.map(jnp.zeros_like, system.posterior)
    head = blind.head.bias.at[1].set(-20.0)  # softplus of it is nothing: q is certain
    posterior = eqx.tree_at(lambda q: (q.gain, q.head.bias), blind, (jnp.full((1, 1), 10.0), head))
    values = {
        "initial.means": [[[2.0]]],
        "initial.noise.log_scale": [[np.log(0.5)]],
        "dynamics.matrix": [[[0.5]], [[0.5]]],
        "dynamics.offset": [[0.0], [1.0]],
        "dynamics.noise.log_scale": [[np.log(0.1)]],
        "switching.base": CHAIN,
        "emission.networks.layers.0.weight": [[[1.0]]],
        "emission.networks.layers.0.bias": [[0.0]],
        "emission.noise.log_scale": [[-20.0]],  # the floor remains
    }
    model = system.model
    for path, value in values.items():
        model = eqx.tree_at(partial(part, path), model, jnp.asarray(value, jnp.float32))
    return Snlds(model, posterior)


def part(path: str, module):
    for name in path.split("."):
        module = module[int(name)] if name.isdigit() else getattr(module, name)
    return module


TWIN = twin()


def run_of(model, mean=100.0, scale=7.0, **rest) -> run.Run:
    config = api.make_config(2, "arhmm" if isinstance(model, ArHmm) else "slds", settings=SETTINGS)
    standardizer = Standardizer(np.array([mean]), np.array([scale]))
    return run.Run(config, model, ("height",), 0, standardizer, 0.0, **rest)


@pytest.fixture(scope="module")
def drawn_by_the_model() -> np.ndarray:
    """In units of the model."""
    return np.asarray(draws(DECAY, 40, 300, seed=5).x)


def test_states_of_a_system_that_shows_them_are_what_is_seen(drawn_by_the_model):
    x = drawn_by_the_model[0]
    states = generation.mean_states(TWIN, frames_of(x, padding=2), samples=3, key=jax.random.key(0))
    np.testing.assert_allclose(states[: len(x)], x, atol=1e-3)


def test_a_missing_frame_has_the_state_that_the_dynamics_expect(drawn_by_the_model):
    x = drawn_by_the_model[0].copy()
    x[20] = np.nan
    states = generation.mean_states(TWIN, frames_of(x), samples=3, key=jax.random.key(0))
    # Without weights of its own q takes the mean of both regimes.
    np.testing.assert_allclose(states[20], 0.5 * x[19] + 0.5, atol=1e-3)


def test_futures_of_a_linear_system_have_the_exact_moments():
    x = np.array([[2.0], [1.0], [1.5], [0.75], [1.375]])
    found = generation.futures(TWIN, frames_of(x, padding=3), jnp.zeros((10, 0)), samples=20_000, key=jax.random.key(0))
    means, variances = exact_moments(DECAY, np.array([0.0, 1.0]), 1.375, 1.375**2, 10)
    np.testing.assert_allclose(found.x[..., 0].mean(axis=0), means, atol=0.03)
    np.testing.assert_allclose(found.x[..., 0].var(axis=0), variances, rtol=0.08)
    powers = [np.array([0.0, 1.0]) @ np.linalg.matrix_power(np.exp(CHAIN), h) for h in range(1, 11)]
    np.testing.assert_allclose(found.probabilities, powers, atol=0.02)


@pytest.mark.parametrize(
    "edges",
    [
        {"dynamics": '"gru"', "switching_reads_z": "false", "switching_history": 3},
        {"dynamics_reads_x": "true", "switching_history": 2, "switching_filters": 2, "emission_reads_s": "true"},
    ],
    ids=["memory", "context"],
)
def test_a_sequence_goes_on_from_its_middle_as_it_went_on(edges):
    """Without chance, all that the next frame depends on must be in the moment."""
    model, padding = collapsed(seed=3, emission_noise_floor=0.0, dynamics_noise_floor=0.0, **edges).model, 3
    still = jnp.full_like(model.dynamics.noise.log_scale, -20.0), jnp.full_like(model.emission.noise.log_scale, -20.0)
    model = eqx.tree_at(
        lambda m: (m.dynamics.noise.log_scale, m.emission.noise.log_scale, m.switching.base, m.switching.network),
        model,
        (*still, 40 * model.switching.base, jax.tree.map(lambda leaf: 40 * leaf, model.switching.network)),
    )
    whole = jax.jit(lambda model: model.sample(jnp.zeros((12, 0)), key=jax.random.key(1)))(model)
    early = frames_of(whole.x[:8], padding)
    z = jnp.concatenate([whole.z[:8], jnp.full((padding, 2), 9.0)])
    moment = model.moment(early, z, whole.s[7])
    history = model.switching.history
    np.testing.assert_allclose(moment.features, model.features(early)[8 - history : 8], rtol=1e-5)
    tail = model.go_on(moment, jnp.zeros((4, 0)), key=jax.random.key(2))
    assert len(set(whole.s.tolist())) == 2
    np.testing.assert_array_equal(tail.s, whole.s[8:])
    np.testing.assert_allclose(tail.x, whole.x[8:], rtol=1e-4)
    np.testing.assert_allclose(tail.z, whole.z[8:], rtol=1e-4)


@pytest.mark.parametrize("model", [DECAY, TWIN], ids=["arhmm", "slds"])
def test_four_of_five_futures_lie_in_the_band_of_eighty_percent(model, drawn_by_the_model):
    fitted, horizon = run_of(model), 8
    x = 100 + 7 * drawn_by_the_model.astype(float)
    past = [Recording(one[:-horizon], name=str(i)) for i, one in enumerate(x)]
    found = fitted.forecast([replace(one, columns=("height",)) for one in past], horizon, samples=400)
    low, _, high = np.moveaxis(np.stack([one.quantiles for one in found]), 2, 0)
    inside = (low <= x[:, -horizon:]) & (x[:, -horizon:] <= high)
    # 300 recordings; frames of one recording are not independent
    assert inside.mean() == pytest.approx(0.8, abs=0.03)
    assert inside[:, 0].mean() == pytest.approx(0.8, abs=0.07)
    assert found[0].levels == (0.1, 0.5, 0.9)
    np.testing.assert_allclose(found[0].probabilities.sum(axis=1), 1.0, atol=1e-4)


def test_samples_are_in_the_units_of_the_data():
    made = run_of(DECAY).sample(30, 2000, seed=1)
    x = np.stack([one.x for one in made])
    means, _ = exact_moments(DECAY, STATIONARY, 2.0, 4.25, 29)
    np.testing.assert_allclose(x[:, 1:, 0].mean(axis=0), 100 + 7 * means, atol=0.5)
    assert made[0].columns == ("height",)
    assert made[0].s is not None and made[0].s.shape == (30,)


def test_a_forecast_begins_with_the_regimes_that_the_labels_have():
    """A temperature divides the evidence for both."""
    model = replace(arhmm([[[0.0, 1.0]], [[0.0, 1.2]]]), temperature=3.0)
    frames = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), to_frames([Recording(np.linspace(1.0, 1.3, 8)[:, None])]))
    last = jnp.exp(log_regimes(model, frames))
    np.testing.assert_allclose(last, smooth(model, frames)[-1], rtol=1e-5)
    cold = jnp.exp(log_regimes(replace(model, temperature=1.0), frames))
    assert np.abs(last - cold).max() > 0.01


@pytest.mark.parametrize("model", [DECAY, TWIN], ids=["arhmm", "slds"])
def test_a_seed_decides_samples_and_forecasts(model):
    fitted = run_of(model)
    one, again, other = (fitted.sample(20, 2, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one[1].x, again[1].x)
    assert not np.array_equal(one[0].x, other[0].x)
    assert not np.array_equal(one[0].x, one[1].x)
    np.testing.assert_array_equal(fitted.sample(20, 1, seed=0)[0].x, one[0].x)
    futures = [fitted.forecast(one, 5, samples=50, seed=seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(futures[0][1].quantiles, futures[1][1].quantiles)
    assert not np.array_equal(futures[0][1].quantiles, futures[2][1].quantiles)
    (alone,) = fitted.forecast(one[1:], 5, samples=50, seed=0)
    np.testing.assert_array_equal(alone.quantiles, futures[0][1].quantiles)


def test_aligned_regimes_keep_their_numbers():
    plain, order = run_of(DECAY), (1, None, 0)
    aligned = replace(plain, aligned=Alignment(order=order, to="old", ari=1.0, same=1.0, kept=(1.0, None, 1.0)))
    (one,), (other,) = plain.sample(20), aligned.sample(20)
    np.testing.assert_array_equal(other.s, np.where(one.s == 0, 2, 0))
    (before,), (after,) = (fitted.forecast([one], 5, samples=50) for fitted in (plain, aligned))
    np.testing.assert_array_equal(after.probabilities[:, [2, 0]], before.probabilities)
    np.testing.assert_array_equal(after.probabilities[:, 1], 0.0)
    np.testing.assert_array_equal(after.quantiles, before.quantiles)


def test_a_forecast_looks_back_on_the_end_of_a_long_recording(monkeypatch):
    fitted = run_of(DECAY)
    (made,) = fitted.sample(120)
    whole = fitted.forecast([made], 3, samples=50)
    monkeypatch.setattr(fitted_runs, "LONGEST_PAST", 50)
    (short,) = fitted.forecast([made], 3, samples=50)
    np.testing.assert_allclose(short.quantiles, whole[0].quantiles, rtol=1e-4)


def test_controls_of_the_future_move_the_future():
    system = eqx.tree_at(lambda one: one.model.dynamics.matrix, TWIN, jnp.asarray([[[0.5, 1.0]], [[0.5, 1.0]]]))
    system = eqx.tree_at(
        lambda one: one.posterior.encoder,
        system,
        jax.tree.map(jnp.zeros_like, collapsed_encoder(controls=1)),
    )
    model = replace(system.model, dynamics_reads_u=True)
    driven = replace(
        run_of(Snlds(model, system.posterior)),
        controls=1,
        standardizer=Standardizer(np.zeros(1), np.ones(1), np.full(1, 5.0), np.full(1, 2.0)),
    )
    past = Recording(np.full((20, 1), 1.0), u=np.full((20, 1), 5.0), columns=("height",))
    rest, moved = (driven.forecast([past], 3, controls=np.full((3, 1), u), samples=50)[0] for u in (5.0, 7.0))
    np.testing.assert_allclose(
        moved.quantiles - rest.quantiles, np.array([1, 1.5, 1.75])[:, None, None] * np.ones((1, 3, 1)), atol=1e-3
    )
    with pytest.raises(InputError, match="reads 1 control columns: give their values for these 3 frames"):
        driven.forecast([past], 3)
    with pytest.raises(InputError, match="give their values"):
        driven.sample(3)
    with pytest.raises(InputError, match=r"= \(3, 1\), not \(2, 1\)"):
        driven.forecast([past], 3, controls=np.zeros((2, 1)))
    with pytest.raises(InputError, match="controls for 2 recordings, but 1"):
        driven.forecast([past], 3, controls=[np.zeros((3, 1))] * 2)
    (made,) = driven.sample(3, controls=np.full((3, 1), 5.0))
    np.testing.assert_array_equal(made.u, np.full((3, 1), 5.0))


def collapsed_encoder(controls):
    config = api.make_config(2, settings=SETTINGS)
    posterior = build_posterior(
        config.posterior, config.model, channels=1, controls=controls, change_scale=jnp.ones(1), key=jax.random.key(0)
    )
    return posterior.encoder


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"horizon": 0}, "horizon must be at least 1"),
        ({"horizon": 3, "samples": 0}, "samples must be at least 1"),
        ({"horizon": 3, "quantiles": [0.5, 1.0]}, "Quantiles lie between 0 and 1"),
        ({"horizon": 3, "quantiles": []}, "Quantiles lie between 0 and 1"),
    ],
)
def test_wrong_choices_are_refused(choices, message):
    with pytest.raises(InputError, match=message):
        run_of(DECAY).forecast([Recording(np.zeros((9, 1)), columns=("height",))], **choices)


def test_a_model_that_runs_away_is_refused():
    wild = eqx.tree_at(lambda m: m.weights, DECAY, jnp.asarray([[[1e9, 0.0]], [[1e9, 0.0]]]))
    with pytest.raises(InputError, match="not stable"):
        run_of(wild).sample(50)


def test_an_arhmm_has_no_hidden_states():
    with pytest.raises(InputError, match="'arhmm' has no hidden states"):
        run_of(DECAY).transform([Recording(np.zeros((9, 1)), columns=("height",))])


def test_systems_of_others_make_up_nothing():
    config = api.make_config(2, "kvae", settings=SETTINGS)
    other = jax.eval_shape(
        lambda key: maker_of(config).build(config, Shape(1, 0), stickiness=0.0, allowed=2, key=key), jax.random.key(0)
    )
    fitted = replace(run_of(other), config=config)
    series = [Recording(np.zeros((9, 1)), columns=("height",))]
    for refused in (lambda: fitted.sample(5), lambda: fitted.forecast(series, 5), lambda: fitted.transform(series)):
        with pytest.raises(InputError, match="'kvae'"):
            refused()
