"""A code of images: it tells where a point is, is white, and pays no heed to what was not seen."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from swerve.inference.frames import Frames
from swerve.views.codes import CodeOptions, ImageCode, blurred, fit_code, read_codes

IMAGE = (6, 8)
OPTIONS = CodeOptions(size=2, steps=200, batch_size=32, learning_rate=2e-2)
RNG = np.random.default_rng(0)
PLACES = RNG.uniform((1, 1), (4, 6), (12, 10, 2))


@pytest.fixture(scope="module", autouse=True)
def quick(quick_compilation):
    pass


def spots(places):
    """A soft spot at each (down, right), in pixels."""
    rows, columns = np.arange(IMAGE[0]), np.arange(IMAGE[1])
    down, right = (np.exp(-((grid - at) ** 2)) for grid, at in ((rows, places[..., :1]), (columns, places[..., 1:])))
    images = (down[..., :, None] * right[..., None, :]).reshape(*places.shape[:-1], -1)
    return ((images - images.mean()) / images.std()).astype(np.float32)


def some_frames() -> Frames:
    x = spots(PLACES)
    return Frames(*map(jnp.asarray, (x, np.ones(x.shape, bool), np.ones(x.shape[:2], bool), np.zeros((12, 10, 0)))))


@pytest.fixture(scope="module")
def learned():
    progress = []
    code = fit_code(some_frames(), IMAGE, OPTIONS, key=jax.random.key(0), on_progress=lambda *now: progress.append(now))
    return code, progress


@pytest.fixture(scope="module")
def untaught() -> ImageCode:
    like = jax.eval_shape(lambda: ImageCode(2, IMAGE, key=jax.random.key(0)))
    rng = np.random.default_rng(3)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32) / 3, like)


@jax.jit
def errors(code, x, observed):
    return jax.vmap(code.wrong)(x, observed)


def error_of(code):
    frames = some_frames()
    flat = (leaf.reshape(-1, leaf.shape[-1]) for leaf in frames[:2])
    return float((errors(code, *flat) ** 2).mean())


def test_learning_draws_the_images_and_says_how_far_it_is(learned):
    code, progress = learned
    assert [step for step, _ in progress] == list(range(20, 201, 20))
    assert error_of(code) < 0.3  # the images have variance 1
    assert float(code.error) == pytest.approx(np.sqrt(error_of(code)), rel=1e-3)


def test_learning_can_be_stopped():
    steps = []
    options = {"on_progress": lambda step, _: steps.append(step), "should_stop": lambda: len(steps) == 2}
    assert fit_code(some_frames(), IMAGE, OPTIONS, key=jax.random.key(0), **options) is None
    assert steps == [20, 40]


def test_the_code_tells_where_the_spot_is(learned):
    codes = np.asarray(read_codes(learned[0].reader, some_frames()).x, float).reshape(-1, 2)
    inputs = np.c_[codes, codes**2, codes[:, :1] * codes[:, 1:], np.ones(len(codes))]
    places = PLACES.reshape(-1, 2)
    left = places - inputs @ np.linalg.lstsq(inputs, places, rcond=None)[0]
    assert left.std() < 0.3 * places.std()


def test_codes_are_white(learned):
    codes = np.asarray(read_codes(learned[0].reader, some_frames()).x).reshape(-1, 2)
    np.testing.assert_allclose(codes.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(np.cov(codes.T), np.eye(2), atol=1e-2)


def test_whitening_changes_no_picture():
    """Without a step, all that happens to the random code is that it is whitened."""
    key = jax.random.key(1)
    before = ImageCode(2, IMAGE, key=jax.random.split(key)[0])
    white = fit_code(some_frames(), IMAGE, CodeOptions(2, 0, 32, 1e-2), key=key)
    assert np.abs(before.reader.linear.weight - white.reader.linear.weight).max() > 0.1
    assert error_of(white) == pytest.approx(error_of(before), rel=1e-4)


def test_a_frame_without_a_pixel_is_missing_and_one_with_some_is_not(untaught):
    frames = some_frames()
    observed = np.ones(frames.x.shape, bool)
    observed[0, 3], observed[1, 4, 1:] = False, False
    x = np.where(observed, frames.x, np.nan)
    seen = read_codes(untaught.reader, frames._replace(x=jnp.asarray(x), observed=jnp.asarray(observed)))
    assert np.argwhere(~np.asarray(seen.observed).all(axis=-1)).tolist() == [[0, 3]]
    assert np.isfinite(seen.x).all() and (np.asarray(seen.x[0, 3]) == 0).all()
    assert np.asarray(seen.x[1, 4]).any()


@pytest.mark.parametrize("width", [0.3, 1.0])
def test_blur_is_a_gaussian_of_that_many_pixels(width):
    image = np.zeros((15, 17), np.float32)
    image[7, 8] = 1.0
    found = jax.jit(partial(blurred, image=image.shape))(image.reshape(1, -1), width=jnp.float32(width))
    expected = gaussian_filter(image, width, truncate=6, mode="constant")
    np.testing.assert_allclose(found.reshape(image.shape), expected, atol=1e-5)


def test_what_stands_in_missing_pixels_changes_nothing(untaught):
    x, observed = some_frames().x[0], np.ones((10, 48), bool)
    observed[:, ::5] = False
    holes = (np.where(observed, x, np.float32(hole)) for hole in (0, np.nan))
    zeros, gaps = (errors(untaught, hole, observed) for hole in holes)
    np.testing.assert_array_equal(zeros, gaps)


def test_the_code_is_a_module_without_loose_ends(untaught):
    assert untaught.reader.size == 2
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(untaught))
