import errno
import os
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from swerve.report import figures, panels
from swerve.report.palette import BLUE, regime_colors
from swerve.report.regimes import regime_spells, successor_shares
from swerve.report.training import log_relative
from swerve.report.video import overlay


def series(frames, channels, seed=0):
    return np.cumsum(np.random.default_rng(seed).normal(size=(frames, channels)), axis=0)


def marginals(labels, regimes, certainty=0.9):
    rest = (1 - certainty) / max(1, regimes - 1)
    sure = 1.0 if regimes == 1 else certainty
    return np.where(labels[:, None] == np.arange(regimes), sure, rest)


def cycling(frames, regimes, stay=7):
    return np.arange(frames) // stay % regimes


def image_with_title(figure, title):
    (axes,) = [axes for axes in figure.axes if axes.get_title(loc="left") == title]
    return np.asarray(axes.images[0].get_array())


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


@pytest.fixture(scope="module")
def history():
    rng = np.random.default_rng(3)
    bound = 1 - 50 * np.exp(-np.arange(20) / 3) + rng.normal(size=(4, 20)) * 0.1
    bound[1, 8:] = np.nan
    bound[2, :] = np.nan
    return figures.History(
        step=np.arange(1, 21) * 500,
        bound=bound,
        regimes_in_use=rng.integers(1, 4, size=(4, 20)),
        frame_f1=np.linspace(0.4, 0.98, 20),
        chosen=3,
    )


@pytest.mark.parametrize(
    ("frames", "channels", "regimes", "with_truth"),
    [
        (60, 1, 2, True),
        (60, 2, 3, True),
        (200, 30, 25, True),
        (1, 1, 1, False),
        (1, 2, 3, True),
        (40, 8, 1, False),
    ],
)
def test_ribbon_renders_awkward_series(frames, channels, regimes, with_truth):
    x, labels = series(frames, channels), cycling(frames, regimes)
    x[frames // 4 : frames // 2] = np.nan
    x[frames // 3] = 1.0
    x[:, -1] = np.nan if channels > 2 else x[:, -1]
    truth = labels if with_truth else None
    figure = figures.ribbon(
        x, marginals(labels, regimes), labels, truth=truth, columns=("$a_{$", "$\\b$"), title="$5_ & $10^"
    )
    figure.canvas.draw()
    assert ("true regimes" in titles(figure)) == with_truth
    assert ("path, coloured by regime" in titles(figure)) == (channels == 2)


def test_ribbon_shows_each_frame_in_its_regimes_colour_and_pales_with_doubt():
    labels = cycling(50, 3)
    probabilities = marginals(labels, 3, certainty=1.0)
    probabilities[10] = 1 / 3
    truth = np.roll(labels, 2)
    figure = figures.ribbon(series(50, 1), probabilities, labels, truth=truth)
    found, true = image_with_title(figure, "regimes found")[0], image_with_title(figure, "true regimes")[0]
    sure = np.arange(50) != 10
    np.testing.assert_allclose(found[sure], regime_colors(labels)[sure])
    np.testing.assert_allclose(1 - found[10], panels.FAINTEST * (1 - regime_colors(labels)[10]))
    np.testing.assert_allclose(true, regime_colors(truth))


def test_ribbon_of_a_long_recording_keeps_short_regimes_visible():
    labels = np.zeros(10_000, int)
    labels[5003] = 1
    figure = figures.ribbon(series(10_000, 1), marginals(labels, 2, 1.0), labels)
    cells = image_with_title(figure, "regimes found")[0]
    assert len(cells) <= panels.MOST_COLUMNS
    assert np.flatnonzero(np.abs(cells - cells[0]).sum(axis=1) > 1e-6).tolist() == [5003 // 13]


def test_change_points_are_lines_between_the_frames_they_part():
    labels = cycling(21, 2)
    axes = figures.ribbon(series(21, 1), marginals(labels, 2), labels).axes[0]
    (lines,) = [c for c in axes.collections if c.get_gid() == "change points"]
    assert [segment[0, 0] for segment in lines.get_segments()] == [6.5, 13.5]


def test_missing_values_are_shaded_and_never_joined():
    x = series(30, 1)
    x[10:15] = np.nan
    axes = figures.ribbon(x, np.ones((30, 1)), np.zeros(30, int)).axes[0]
    (gap,) = axes.collections[0].get_paths()
    assert (gap.vertices[:, 0].min(), gap.vertices[:, 0].max()) == (9.5, 14.5)
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), x[:, 0])


def test_path_step_has_the_colour_of_the_regime_that_made_it():
    labels = cycling(20, 2)
    figure = figures.ribbon(series(20, 2), marginals(labels, 2), labels)
    colors = figure.axes[-1].collections[0].get_colors()[:, :3]
    np.testing.assert_allclose(colors, regime_colors(labels[1:]))


@pytest.mark.parametrize("regimes", [1, 25])
def test_marginals_are_drawn_beside_the_truth(regimes):
    labels = cycling(80, regimes)
    probabilities = marginals(labels, regimes, 0.6)
    figure = figures.marginals_beside_truth({"ours": probabilities, "theirs": np.ones((80, 1))}, labels)
    figure.canvas.draw()
    np.testing.assert_allclose(image_with_title(figure, "ours"), probabilities.T)
    np.testing.assert_array_equal(image_with_title(figure, "truth").argmax(axis=0), labels)


def test_marginals_are_lighter_where_more_probable():
    axes = figures.marginals_beside_truth({"ours": marginals(cycling(9, 2), 2)}).axes[0]
    brightness = axes.images[0].cmap(np.linspace(0, 1, 9))[:, :3].sum(axis=1)
    assert (np.diff(brightness) > 0).all()


@pytest.mark.parametrize("channels", [1, 30])
def test_reconstruction_renders_with_and_without_spread(channels):
    x = series(50, channels)
    x[5:9, 0] = np.nan
    for std in (None, np.ones_like(x)):
        figures.reconstruction(x, np.zeros_like(x), std, columns=("a",)).canvas.draw()


def test_reconstruction_names_channels_and_their_error():
    x = np.zeros((4, 2))
    x[:, 1] = np.nan
    names = titles(figures.reconstruction(x, x * 0 + 2.0, columns=("east", "")))
    assert names == ["east (rms error 2)", "channel 1 (nothing observed)"]


def test_training_curves_show_the_chosen_restart_and_mark_the_dropped_one(history):
    figure = figures.training_curves(history)
    figure.canvas.draw()
    top = figure.axes[0]
    (chosen,) = [line for line in top.lines if line.get_gid() == "chosen"]
    np.testing.assert_array_equal(chosen.get_ydata(), history["bound"][3])
    assert to_rgb(chosen.get_color()) == to_rgb(BLUE)
    (dropped,) = top.collections
    assert dropped.get_offsets()[0, 0] == history["step"][7]
    np.testing.assert_array_equal(figure.axes[3].lines[0].get_ydata(), history["frame_f1"])


def test_training_curves_without_truth_and_with_one_evaluation(history):
    first = {name: history[name][:, :1] for name in ("bound", "regimes_in_use")}
    short = figures.History(**first, step=history["step"][:1], frame_f1=None, chosen=0)
    figure = figures.training_curves(short)
    figure.canvas.draw()
    assert len(figure.axes) == 3


def test_training_curves_survive_a_run_where_everything_diverged(history):
    lost = figures.History(**{**history, "bound": np.full((4, 20), np.nan)})
    figures.training_curves(lost).canvas.draw()


def test_log_relative_is_the_papers_scale():
    assert log_relative(np.array([-3.0, np.inf, np.e - 4.0]))[[0, 2]].tolist() == pytest.approx([0.0, 1.0])


def test_learning_story_orders_the_steps_and_draws_both_curves(history):
    x, truth = series(60, 1), cycling(60, 2)
    by_step = {step: marginals(truth, 3, 0.4 + step / 20_000) for step in (10_000, 100, 2000, 1000)}
    nll = -history["bound"][3]
    figure = figures.learning_story(x, x, truth, by_step, history["step"], nll, history["frame_f1"])
    figure.canvas.draw()
    steps = [title for title in titles(figure) if title.startswith("marginals")]
    assert steps == [f"marginals at step {step}" for step in ("100", "1,000", "2,000", "10,000")]
    progress, scored = figure.axes[-2:]
    np.testing.assert_allclose(progress.lines[0].get_ydata(), np.log(nll - nll.min() + 1))
    np.testing.assert_array_equal(scored.lines[0].get_ydata(), history["frame_f1"])


def test_score_bars_are_as_long_as_the_scores_and_say_what_is_missing():
    rows = {"oracle": {"frame F1": 0.99, "switch F1": 0.9}, "ours": {"frame F1": (0.8, 0.1)}}
    figure = figures.score_bars(rows)
    figure.canvas.draw()
    frame, switch = figure.axes
    assert [bar.get_width() for bar in frame.patches] == [0.99, 0.8]
    assert [text.get_text() for text in switch.texts] == ["90.0", "not scored"]


@pytest.mark.parametrize(("frames", "regimes"), [(1, 1), (50, 1), (700, 25), (90, 4)])
def test_regime_cards_render(frames, regimes):
    figures.regime_cards([cycling(frames, max(1, regimes - 1)), np.zeros(3, int)], regimes).canvas.draw()


def test_regime_cards_count_stays_and_successors():
    labels = [np.array([0, 0, 1, 0, 2]), np.array([2, 2])]
    assert {k: sorted(v.tolist()) for k, v in regime_spells(labels).items()} == {0: [1, 2], 1: [1], 2: [1, 2]}
    nan = np.nan
    expected = [[nan, 0.5, 0.5, 0], [1, nan, 0, 0], [nan] * 4, [nan] * 4]
    np.testing.assert_array_equal(successor_shares(labels, 4), expected)


def test_save_writes_a_png_at_150_dots_per_inch_and_leaves_matplotlib_alone(tmp_path):
    before = dict(matplotlib.rcParams)
    figure = figures.score_bars({"ours": {"frame F1": 0.5}})
    path = figures.save(figure, tmp_path / "new" / "bars.png")
    width = int.from_bytes(path.read_bytes()[16:20], "big")
    assert width == round(150 * figure.get_size_inches()[0])
    assert dict(matplotlib.rcParams) == before


def test_a_figure_that_can_not_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "bars.png"
    path.write_bytes(b"old")
    monkeypatch.setattr(Path, "write_bytes", half_of_it)
    with pytest.raises(OSError, match="No space left") as error:
        figures.save(figures.score_bars({"ours": {"frame F1": 0.5}}), path)
    assert error.value.filename == str(path)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def half_of_it(path, content):
    """What a full disk leaves."""
    with path.open("wb") as file:
        file.write(content[: len(content) // 2])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_overlay_shows_late_frames_brighter():
    frames = np.zeros((5, 3, 4))
    frames[0, 0, 0] = frames[4, 2, 3] = 1.0
    shown = overlay(frames)
    assert shown.shape == (3, 4) and shown[2, 3] == 1.0 and 0 < shown[0, 0] < 1 and np.count_nonzero(shown) == 2


def test_overlays_have_a_row_of_panels_each():
    figure = figures.overlays({"truth": np.ones((3, 5, 4, 4)), "model": np.ones((2, 5, 4, 4))})
    assert [len(axes.images) for axes in figure.axes] == [1, 1, 1, 1, 1, 0]
    assert [title for title in titles(figure) if title] == ["truth", "model"]
    assert figures.png_bytes(figure)


@pytest.mark.parametrize(("channels", "levels"), [(1, (0.1, 0.5, 0.9)), (2, (0.25,)), (12, (0.05, 0.25, 0.75, 0.95))])
def test_a_forecast_goes_on_where_the_past_ends(channels, levels):
    labels, horizon = cycling(30, 3), 8
    spread = np.array(levels)[None, :, None]
    quantiles = np.broadcast_to(spread, (horizon, len(levels), channels))
    probabilities = np.full((horizon, 3), [0.2, 0.7, 0.1])
    figure = figures.forecast(
        series(30, channels), labels, marginals(labels, 3), probabilities, quantiles, levels, first_frame=500
    )
    panels_of_channels = figure.axes[:-1]
    assert len(panels_of_channels) == min(channels, 8)
    for axes in panels_of_channels:
        assert len(axes.collections) >= len(levels) // 2
        assert axes.lines[0].get_xdata()[-1] == 29
        if len(levels) % 2:
            np.testing.assert_array_equal(axes.lines[2].get_xdata(), np.arange(30, 38))
    ribbon = image_with_title(figure, "regimes found, then expected")[0]
    assert len(ribbon) == 38
    faint = 1 - panels.opacity(np.array([0.7]), 3)[:, None] * (1 - regime_colors(np.array([1])))
    np.testing.assert_allclose(ribbon[-1], faint[0], atol=1e-6)
    assert figure.axes[-1].xaxis.get_major_formatter()(30, 0) == "530"
