"""Curves over training: what is written down, that a stop loses nothing, and the picture."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swerve.models.snlds.maker import build_collapsed
from swerve.models.snlds.model import Snlds
from swerve.settings.sections import ModelConfig, PosteriorConfig
from swerve_lab.experiments import curves

REGIMES = 3


def system(allowed: int = REGIMES, **settings) -> Snlds:
    return build_collapsed(
        ModelConfig(regimes=REGIMES, state_size=2, dynamics_hidden=(4,), **settings),
        PosteriorConfig(encoder_size=3, causal_size=3),
        channels=1,
        controls=0,
        stickiness=0.0,
        allowed=allowed,
        key=jax.random.key(0),
    )


def with_regimes(made: Snlds, change) -> Snlds:
    """All arrays of the dynamics but the noise, changed."""
    dynamics = made.model.dynamics
    changed = eqx.tree_at(lambda d: d.noise, jax.tree.map(change, dynamics), dynamics.noise)
    return eqx.tree_at(lambda m: m.model.dynamics, made, changed)


@pytest.mark.parametrize("settings", [{"dynamics": "linear"}, {"dynamics": "mlp"}, {"dynamics": "gru"}])
def test_equal_regimes_are_correlated_and_fresh_ones_are_not(settings):
    fresh = system(**settings)
    assert abs(curves.weight_correlation(fresh)) < 0.6
    equal = with_regimes(fresh, lambda leaf: jnp.broadcast_to(leaf[:1], leaf.shape))
    assert curves.weight_correlation(equal) == pytest.approx(1.0)


def test_the_mean_is_over_pairs_of_regimes():
    signs = jnp.array([1.0, -1.0, 1.0])

    def change(leaf):
        centred = leaf[0] - leaf[0].mean()
        return signs.reshape(-1, *[1] * centred.ndim) * centred[None]

    made = with_regimes(system(dynamics="linear"), change)
    assert curves.weight_correlation(made) == pytest.approx(-1 / 3)


def test_only_regimes_that_may_be_used_count():
    made = system(allowed=2)
    third = with_regimes(made, lambda leaf: leaf.at[2].set(7.0))
    assert curves.weight_correlation(third) == curves.weight_correlation(made)
    assert curves.weight_correlation(system(allowed=1)) is None


def test_an_unused_matrix_does_not_count():
    made = system(dynamics="mlp", dynamics_residual=False)
    assert not np.asarray(made.model.dynamics.matrix).any()
    weights = [np.asarray(leaf).reshape(REGIMES, -1) for leaf in jax.tree.leaves(made.model.dynamics.networks)]
    expected = np.corrcoef(np.concatenate(weights, axis=1))[np.triu_indices(REGIMES, 1)].mean()
    assert curves.weight_correlation(made) == pytest.approx(expected)


def test_a_stopped_curve_goes_on_and_looks_at_no_step_twice(tmp_path):
    looks = []

    def numbers_of(restart, system, bound, step):
        looks.append((restart, int(system), step))
        return {"step": step, "bound": bound, "frame_f1": 50.0, "weight_correlation": 0.5, "nmi": 1.0}

    def curve_file():
        return curves.CurveFile(tmp_path / "curve.json", numbers_of)

    curve_file().add(10, [0, 1], [1.0, 2.0], np.array([100, 101]))
    later = curve_file()
    later.add(10, [0, 1], [1.0, 2.0], np.array([100, 101]))
    later.add(20, [1], [3.0], np.array([201]))
    assert looks == [(0, 100, 10), (1, 101, 10), (1, 201, 20)]
    assert [[point["step"] for point in curve] for curve in curve_file().curves.values()] == [[10], [10, 20]]
    assert set(curve_file().curves["0"][0]) == set(curves.KEPT)


def test_the_picture_shows_every_run_against_the_best_of_all(tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(curves.figures, "save", lambda figure, path: drawn.update(figure=figure, path=path))

    def curve(*bounds):
        return [
            {"step": 10 * (i + 1), "bound": bound, "frame_f1": 40.0 + i, "weight_correlation": 0.1 * i}
            for i, bound in enumerate(bounds)
        ]

    rows = {"slow": [curve(1.0, 2.0), curve(0.5, 1.5)], "fast": [curve(2.0, 4.0)]}
    curves.draw(rows, tmp_path / "curves.png", title="annealing")
    bound, f1, correlation = drawn["figure"].axes
    assert [len(axes.lines) for axes in (bound, f1, correlation)] == [3, 3, 3]
    np.testing.assert_allclose(bound.lines[0].get_ydata(), [3.0, 2.0])
    np.testing.assert_allclose(bound.lines[2].get_ydata(), [2.0, np.nan])
    assert bound.get_yscale() == "log"
    np.testing.assert_allclose(f1.lines[1].get_ydata(), [0.40, 0.41])
    colors = [tuple(line.get_color()) for line in bound.lines]
    assert colors[0] == colors[1] != colors[2]
    [legend] = drawn["figure"].legends
    assert [text.get_text() for text in legend.get_texts()] == ["slow", "fast"]
