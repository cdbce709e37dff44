"""A code of single images, learned before any dynamics: an encoder to a few numbers and a decoder back."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from swerve.data.windows import Standardizer, to_frames
from swerve.errors import InputError
from swerve.inference.frames import Frames, Key
from swerve.types import Recording
from swerve.views.coordconv import CodeReader, CoordConvDecoder, Image
from swerve.views.view import View

FIRST_BLUR, LAST_BLUR = 4.0, 0.3  # pixels; without blur a point that is drawn next to its place has no gradient
SHARP_AFTER = 0.6  # share of the steps
WARMUP_STEPS = 200
LAST_RATE = 1e-4
FLATTEST = 1e-3  # of the longest axis of the codes: a shorter one is not stretched any further
STRETCHES = 10  # compiled calls, with a report after each
FRAMES_AT_ONCE = 4096
IMAGES_AT_ONCE = 256  # drawn ones: they take more memory
ATTEMPTS = 3  # at most, one after the other, until one code draws something
AGAIN = 1000  # keys of later codes; the first ones are those that a code splits its own into
DRAWS_NOTHING = (
    0.95  # root mean square error, 1 for an empty picture: 0.97 of codes that failed, 0.1 of the others (dubins)
)


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

    size: int = 2
    steps: int = 2000
    batch_size: int = 64
    learning_rate: float = 5e-3


class Codes(View):
    """The few numbers that stand for each image, white over the images that they were learned from."""

    name: ClassVar[str] = "codes"
    options: CodeOptions = eqx.field(static=True, default=CodeOptions())
    image: Image | None = eqx.field(static=True, default=None)
    mean: float = eqx.field(static=True, default=0.0)
    scale: float = eqx.field(static=True, default=1.0)
    """Of all pixels together: the networks read and draw images of mean 0 and scale 1."""
    code: ImageCode | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the numbers."""
        return code_names(self.options.size)

    @property
    def pixels(self) -> Standardizer:
        """To the scale of the networks and back."""
        count = math.prod(self.image or ())
        return Standardizer(np.full(count, self.mean), np.full(count, self.scale))

    def learn(self, recordings, **hears):
        of_all = Standardizer.fit(recordings)
        of_these = replace(self, image=recordings[0].image, mean=float(of_all.mean[0]), scale=float(of_all.scale[0]))
        return of_these.learn_frames(of_these._frames(recordings), **hears)

    def learn_frames(
        self,
        frames: Frames,
        *,
        key: Key,
        on_note: Callable[[str], None] = lambda note: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> "Codes":
        """The same from windows on the scale of the networks.

        Learns the first code that draws something; if none does, the best of all, and `on_note` hears a warning.
        """
        options = self.options
        assert self.image is not None

        def tell(step: int, error: float) -> None:
            on_note(f"learning a code of the images: step {step} of {options.steps}, mean square error {error:.3f}")

        codes: list[ImageCode] = []
        for attempt in range(ATTEMPTS if options.steps else 1):
            if attempt:
                again = f"beginning again, {attempt} of {ATTEMPTS - 1}"
                on_note(f"the code of the images has not learned to draw them: {again}")
            own_key = jax.random.fold_in(key, AGAIN + attempt) if attempt else key
            code = fit_code(frames, self.image, options, key=own_key, on_progress=tell, should_stop=should_stop)
            if code is None:
                raise InputError("Stopped while a code of the images was learned: there is no model yet.")
            if all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(code)):
                codes.append(code)
                if code.error < DRAWS_NOTHING:
                    return replace(self, code=code)
        if not codes:
            raise InputError("The code of the images diverged: try --set code.learning_rate=1e-3.")
        if options.steps:
            on_note("no code draws the images, so that regimes may mean little: try --set code.steps=10000")
        return replace(self, code=min(codes, key=lambda code: float(code.error)))

    def read(self, recording):
        seen = self.read_frames(self._frames([recording]))
        x = np.where(seen.observed[0], seen.x[0], np.nan)
        return replace(recording, x=x, columns=self.columns, image=None)

    def read_frames(self, frames: Frames) -> Frames:
        """The codes of windows on the scale of the networks, in place of their pixels."""
        assert self.code is not None
        return read_codes(self.code.reader, frames)

    def write(self, x):
        assert self.code is not None
        return self.pixels.invert(np.asarray(_drawings(self.code.decoder, x), float))

    def settings(self):
        return {"options": asdict(self.options), "image": self.image, "mean": self.mean, "scale": self.scale}

    @classmethod
    def blank(cls, settings: dict[str, Any]):
        options, image = CodeOptions(**settings["options"]), tuple(settings["image"])
        code = jax.eval_shape(lambda: ImageCode(options.size, image, key=jax.random.key(0)))
        return cls(options, image, settings["mean"], settings["scale"], code)

    def _frames(self, recordings: Sequence[Recording]) -> Frames:
        for one in recordings:
            if self.image is None or one.image != self.image:
                raise InputError(f'"{one.name}" has no images, or of another size than those with a code.')
        standardised = self.pixels.apply_to([replace(one, u=None) for one in recordings])
        return jax.tree.map(jnp.asarray, to_frames(standardised))


def code_names(size: int) -> tuple[str, ...]:
    """The columns of recordings that are codes."""
    return tuple(f"code {i}" for i in range(size))


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


@jax.jit
def _drawings(decoder: CoordConvDecoder, codes: Float[Array, "T C"]) -> Float[Array, "T D"]:
    return jax.lax.map(decoder, codes, batch_size=min(IMAGES_AT_ONCE, len(codes)))


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
