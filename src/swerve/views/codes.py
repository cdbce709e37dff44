"""A code of single images, learned before any dynamics: an encoder to a few numbers and a decoder back."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from swerve.inference.frames import Frames, Key
from swerve.views.coordconv import CodeReader, CoordConvDecoder, Image

FIRST_BLUR, LAST_BLUR = 4.0, 0.3  # pixels; without blur a point that is drawn next to its place has no gradient
SHARP_AFTER = 0.6  # share of the steps
WARMUP_STEPS = 200
LAST_RATE = 1e-4
FLATTEST = 1e-3  # of the longest axis of the codes: a shorter one is not stretched any further
STRETCHES = 10  # compiled calls, with a report after each
FRAMES_AT_ONCE = 4096
IMAGES_AT_ONCE = 256  # drawn ones: they take more memory


class ImageCode(eqx.Module):
    """y = reader(x), and the image decoder(y) drawn from it."""

    reader: CodeReader
    decoder: CoordConvDecoder
    error: Float[Array, ""]
    """Root mean square of what the drawings get wrong; that of standardised images without a drawing is 1."""

    def __init__(self, size: int, image: Image, *, key: Key):
        reader_key, decoder_key = jax.random.split(key)
        self.reader = CodeReader(size, image, key=reader_key)
        self.decoder = CoordConvDecoder.fresh(size, image, key=decoder_key)
        self.error = jnp.ones(())

    def wrong(self, x: Float[Array, " D"], observed: Bool[Array, " D"]) -> Float[Array, " D"]:
        """x - decoder(reader(x)), zero where x was not observed."""
        return jnp.where(observed, x - self.decoder(self.reader(x, observed)), 0.0)


@dataclass(frozen=True)
class CodeOptions:
    """How a code is learned."""

    size: int
    steps: int
    batch_size: int
    learning_rate: float


def fit_code(
    frames: Frames,
    image: Image,
    options: CodeOptions,
    *,
    key: Key,
    on_progress: Callable[[int, float], None] = lambda step, error: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> ImageCode | None:
    """Learns to draw the frames of a batch of sequences (N, T) from their codes, which end up white over them.

    The target is blurred at first and sharp later. `on_progress` gets the step and the mean square error. None if
    `should_stop` said so.
    """
    make_key, draw_key = jax.random.split(key)
    code = ImageCode(options.size, image, key=make_key)
    places = jnp.argwhere(_drawn(frames))
    if options.steps:
        optimiser = _optimiser(options)
        moments = optimiser.init(eqx.filter(code, eqx.is_array))
        stops = [round(i * options.steps / STRETCHES) for i in range(STRETCHES + 1)]
        for begin, end in itertools.pairwise(stops):
            if end > begin:
                steps = jnp.arange(begin, end)
                code, moments, error = _learn(code, moments, frames, places, steps, draw_key, options=options)
                on_progress(end, float(error))
            if should_stop():
                return None
    some = places[:: max(1, len(places) // FRAMES_AT_ONCE)]
    error = _drawing_error(code, *(leaf[some[:, 0], some[:, 1]] for leaf in (frames.x, frames.observed)))
    return _whitened(eqx.tree_at(lambda c: c.error, code, error), read_codes(code.reader, frames))


@jax.jit
def read_codes(reader: CodeReader, frames: Frames) -> Frames:
    """The codes of a batch of sequences in place of their pixels."""
    frames = frames.blanked()
    rows = min(len(frames.x), max(1, FRAMES_AT_ONCE // frames.x.shape[1]))
    codes, seen = jax.lax.map(lambda one: reader.read(*one), (frames.x, frames.observed), batch_size=rows)
    return frames._replace(x=codes, observed=seen)


def blurred(images: Float[Array, "N D"], image: Image, width: Float[Array, ""]) -> Float[Array, "N D"]:
    """Every image under a Gaussian of this standard deviation in pixels."""
    down, right = (_blur_matrix(pixels, width) for pixels in image)
    maps = images.reshape(-1, *image)
    return jnp.einsum("ij,njk,lk->nil", down, maps, right).reshape(images.shape)


def _blur_matrix(pixels: int, width: Float[Array, ""]) -> Float[Array, "P P"]:
    places = jnp.arange(pixels, dtype=jnp.float32)
    weights = jnp.exp(-0.5 * ((places[:, None] - places[None]) / width) ** 2)
    return weights / weights.sum(axis=0, keepdims=True)


def _targets(x: Float[Array, "N D"], observed: Bool[Array, "N D"], image: Image, progress) -> Float[Array, "N D"]:
    """Blurred less and less, at mean 0 and scale 1 all the while so that the loss keeps its size; then sharp."""
    share = jnp.minimum(progress / SHARP_AFTER, 1.0)
    soft = blurred(x, image, FIRST_BLUR * (LAST_BLUR / FIRST_BLUR) ** share)
    mean = jnp.mean(soft, where=observed)
    scale = jnp.sqrt(jnp.mean((soft - mean) ** 2, where=observed))
    return jnp.where(share < 1, (soft - mean) / jnp.maximum(scale, 1e-6), x)


def _optimiser(options: CodeOptions) -> optax.GradientTransformation:
    warmup = min(WARMUP_STEPS, options.steps // 2)
    rate = optax.warmup_cosine_decay_schedule(
        0.0, options.learning_rate, warmup, options.steps, min(LAST_RATE, options.learning_rate)
    )
    return optax.adam(rate)


@partial(jax.jit, static_argnames="options")
def _learn(
    code: ImageCode,
    moments,
    frames: Frames,
    places: Int[Array, "F 2"],
    steps: Int[Array, " S"],
    key: Key,
    *,
    options: CodeOptions,
):
    """These steps of Adam, each on a batch of frames drawn at random, and the last batch's mean square error."""
    optimiser = _optimiser(options)

    def loss(code, x, observed, step):
        target = _targets(x, observed, code.decoder.image, step / options.steps)
        drawn = jax.vmap(lambda frame, seen: code.decoder(code.reader(frame, seen)))(x, observed)
        return jnp.mean((drawn - target) ** 2, where=observed)

    def update(carry, step):
        code, moments = carry
        picked = jax.random.randint(jax.random.fold_in(key, step), (options.batch_size,), 0, len(places))
        sequence, frame = places[picked].T
        x, observed = frames.x[sequence, frame], frames.observed[sequence, frame]
        error, gradient = jax.value_and_grad(loss)(code, jnp.where(observed, x, 0.0), observed, step)
        direction, moments = optimiser.update(gradient, moments)
        return (jax.tree.map(jnp.add, code, direction), moments), error

    (code, moments), errors = jax.lax.scan(update, (code, moments), steps)
    return code, moments, errors[-1]


@jax.jit
def _drawing_error(code: ImageCode, x: Float[Array, "N D"], observed: Bool[Array, "N D"]) -> Float[Array, ""]:
    wrong = jax.lax.map(lambda frame: code.wrong(*frame), (x, observed), batch_size=min(IMAGES_AT_ONCE, len(x)))
    return jnp.sqrt(jnp.mean(wrong**2, where=observed))


def _whitened(code: ImageCode, codes: Frames) -> ImageCode:
    """The same pictures from codes of mean 0 and covariance 1 over these frames: y' = M (y - mean)."""
    seen = codes.x[codes.observed[..., 0]]
    mean = seen.mean(axis=0)
    spread, axes = jnp.linalg.eigh(jnp.atleast_2d(jnp.cov(seen.T)))
    spread = jnp.sqrt(jnp.maximum(spread, jnp.maximum(FLATTEST**2 * spread.max(), 1e-12)))
    whiten, unwhiten = (axes / spread[None]) @ axes.T, (axes * spread[None]) @ axes.T
    first = code.decoder.network.layers[0]
    into, places = first.weight[:, : code.reader.size], first.weight[:, code.reader.size :]
    read = code.reader.linear
    assert read.bias is not None and first.bias is not None
    return eqx.tree_at(
        lambda c: (
            c.reader.linear.weight,
            c.reader.linear.bias,
            c.decoder.network.layers[0].weight,
            c.decoder.network.layers[0].bias,
        ),
        code,
        (
            whiten @ read.weight,
            whiten @ (read.bias - mean),
            jnp.concatenate([into @ unwhiten, places], axis=1),
            first.bias + into @ mean,
        ),
    )


def _drawn(frames: Frames) -> Bool[Array, "N T"]:
    """Frames of which at least one pixel was seen."""
    return frames.valid & frames.observed.any(axis=-1)
