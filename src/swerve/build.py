"""The one place where names in a config become classes."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from swerve.baselines import compile, gumbel, kvae, rslds, svae
from swerve.baselines.shape import Shape
from swerve.collapsed import System
from swerve.config import Config, ModelConfig, PosteriorConfig
from swerve.coordconv import CoordConvDecoder
from swerve.errors import InputError
from swerve.imagecode import ImageCode
from swerve.model.dynamics import GruDynamics, LinearDynamics, MlpDynamics
from swerve.model.embedding import MlpEmbedding, RawEmbedding
from swerve.model.emission import ImageEmission, MlpEmission, starts_as_identity
from swerve.model.initial import Initial
from swerve.model.noise import DiagonalNoise, FullNoise, ScalarNoise
from swerve.model.snlds import FORBIDDEN, Snlds
from swerve.model.switching import ConstantSwitching, DrivenSwitching
from swerve.networks import Gru, Lstm
from swerve.ofimages import OfImages
from swerve.posterior import Posterior, Start
from swerve.system import AbstractSystem
from swerve.types import Key

OURS = ("snlds", "slds", "gumbel")  # gumbel has our p(x, z, s) and q(z | x)
NOISES = {"diagonal": DiagonalNoise, "full": FullNoise}
BLIND_GAIN = 0.02  # of q's first gain, where it does not know what of x belongs to what of z
CELLS = {"gru": Gru, "lstm": Lstm}


def build_system(
    config: Config,
    *,
    channels: int,
    controls: int,
    stickiness,
    allowed,
    change_scale: Float[Array, " D"] | None = None,
    key: Key,
) -> AbstractSystem:
    """The system of the config's kind, fresh; `change_scale` tells how much x moves from frame to frame."""
    if config.kind not in OURS:
        return _of_others(config, _shape(config, channels, controls, stickiness), key=key)
    own_key, key = (key, key) if config.kind != "gumbel" else jax.random.split(key)
    own = build_collapsed(
        config.model,
        config.posterior,
        channels=channels,
        controls=controls,
        stickiness=stickiness,
        allowed=allowed,
        change_scale=change_scale,
        key=own_key,
    )
    return own if config.kind != "gumbel" else gumbel.build(config.gumbel, own, controls=controls, key=key)


def _of_others(config: Config, shape: Shape, *, key: Key) -> AbstractSystem:
    match config.kind:
        case "svae":
            return svae.build(config.svae, shape, key=key)
        case "kvae":
            return kvae.build(config.kvae, shape, key=key)
        case "compile":
            return compile.build(config.compile, shape, key=key)
        case _:
            return rslds.build(config.rslds, shape, recurrent=config.kind == "rslds", key=key)


def _shape(config: Config, channels: int, controls: int, stickiness: float) -> Shape:
    model, posterior = config.model, config.posterior
    return Shape(
        regimes=model.regimes,
        state_size=model.state_size,
        channels=channels,
        controls=controls,
        dynamics_hidden=model.dynamics_hidden,
        emission_hidden=model.emission_hidden,
        embedding_hidden=posterior.embedding_hidden or model.embedding_hidden,
        encoder_size=posterior.encoder_size,
        causal_size=posterior.causal_size,
        dynamics_noise_start=model.dynamics_noise_start,
        dynamics_noise_floor=model.dynamics_noise_floor,
        emission_noise_start=model.emission_noise_start,
        emission_noise_floor=model.emission_noise_floor,
        stickiness=stickiness,
    )


def build_collapsed(
    model: ModelConfig,
    posterior: PosteriorConfig,
    *,
    channels: int,
    controls: int,
    stickiness,
    allowed,
    change_scale: Float[Array, " D"] | None = None,
    key: Key,
) -> System:
    """A model and posterior with fresh parameters."""
    model_key, posterior_key = jax.random.split(key)
    snlds = build_model(
        model, channels=channels, controls=controls, stickiness=stickiness, allowed=allowed, key=model_key
    )
    return System(
        snlds,
        build_posterior(
            posterior,
            model,
            channels=channels,
            controls=controls,
            change_scale=jnp.ones(channels) if change_scale is None else change_scale,
            key=posterior_key,
        ),
    )


def with_images(system: AbstractSystem, code: ImageCode, config: Config) -> AbstractSystem:
    """A system of codes as one of the images themselves: it reads the codes, and draws the ones that it expects."""
    if isinstance(system, System):
        return _drawing(system, code, config.model)
    return OfImages(system, code.reader, code.decoder)


def _drawing(system: System, code: ImageCode, config: ModelConfig) -> System:
    """Our own model with the decoder as its emission, so that it can be trained on images."""
    emission, (height, width) = system.model.emission, code.decoder.image
    assert isinstance(emission, MlpEmission)
    noise = ScalarNoise(
        config.regimes if config.emission_noise_per_regime else 1,
        height * width,
        scale=code.error,
        floor=config.emission_noise_floor,
    )
    decoder = CoordConvDecoder(code.decoder.network, code.decoder.image, rectified=config.emission_rectified)
    drawing = ImageEmission(networks=emission.networks, decoder=decoder, noise=noise)
    return dataclasses.replace(system, model=dataclasses.replace(system.model, emission=drawing, reader=code.reader))


def build_model(config: ModelConfig, *, channels: int, controls: int, stickiness, allowed, key: Key) -> Snlds:
    """p(x, z, s) with fresh parameters."""
    embedding_key, dynamics_key, emission_key, switching_key, initial_key = jax.random.split(key, 5)
    K, L = config.regimes, config.state_size
    reads_u = config.dynamics_reads_u and controls > 0
    feature_size = _feature_size(channels, config.embedding_hidden)
    return Snlds(
        initial=Initial(
            K,
            L,
            learned=config.initial_learned,
            per_regime=config.initial_per_regime,
            components=config.initial_components,
            floor=config.dynamics_noise_floor,
            key=initial_key,
        ),
        dynamics=_build_dynamics(config, config.dynamics_reads_x * 2 * channels + reads_u * controls, dynamics_key),
        switching=_build_switching(config, feature_size, controls, stickiness, switching_key),
        emission=_build_emission(config, channels, emission_key),
        embedding=_build_embedding(channels, config.embedding_hidden, embedding_key),
        log_allowed=jnp.where(jnp.arange(K) < allowed, 0.0, FORBIDDEN),
        dynamics_reads_x=config.dynamics_reads_x,
        dynamics_reads_u=reads_u,
    )


def build_posterior(
    config: PosteriorConfig,
    model: ModelConfig,
    *,
    channels: int,
    controls: int,
    change_scale: Float[Array, " D"],
    key: Key,
) -> Posterior:
    """q(z | x) with fresh parameters."""
    embedding_key, rest_key = jax.random.split(key)
    hidden = model.embedding_hidden if config.shares_embedding else config.embedding_hidden
    straight = starts_as_identity(model.state_size, channels, model.emission_hidden)
    return Posterior(
        CELLS[config.cell],
        embedding=None if config.shares_embedding else _build_embedding(channels, hidden, embedding_key),
        feature_size=_feature_size(channels, hidden),
        channels=channels,
        control_size=controls,
        state_size=model.state_size,
        encoder_size=config.encoder_size,
        causal_size=config.causal_size,
        regimes=model.regimes,
        start=Start(config.start),
        initial_scale=config.initial_scale,
        initial_gain=config.initial_gain if straight else BLIND_GAIN * config.initial_gain,
        change_gain=1 / change_scale if config.reads_changes else None,
        key=rest_key,
    )


def _build_embedding(channels: int, hidden: tuple[int, ...], key: Key):
    return MlpEmbedding(channels, hidden, key=key) if hidden else RawEmbedding()


def _feature_size(channels: int, hidden: tuple[int, ...]) -> int:
    return hidden[-1] if hidden else 2 * channels


def _build_emission(config: ModelConfig, channels: int, key: Key) -> MlpEmission:
    noise = NOISES[config.emission_noise](
        config.regimes if config.emission_noise_per_regime else 1,
        channels,
        scale=config.emission_noise_start,
        floor=config.emission_noise_floor,
    )
    heads = config.regimes if config.emission_reads_s else 1
    return MlpEmission(heads, config.state_size, channels, config.emission_hidden, noise=noise, key=key)


def _build_dynamics(config: ModelConfig, context_size: int, key: Key):
    K, L = config.regimes, config.state_size
    noise = NOISES[config.dynamics_noise](
        K if config.dynamics_noise_per_regime else 1,
        L,
        scale=config.dynamics_noise_start,
        floor=config.dynamics_noise_floor,
    )
    shared = {"noise": noise, "residual": config.dynamics_residual, "key": key}
    if config.dynamics == "linear":
        return LinearDynamics(K, L, context_size, **shared)
    if config.dynamics == "mlp":
        return MlpDynamics(K, L, context_size, config.dynamics_hidden, **shared)
    if len(config.dynamics_hidden) != 1:
        raise InputError(f"model.dynamics_hidden must hold one size for a GRU, not {list(config.dynamics_hidden)}.")
    return GruDynamics(K, L, context_size, config.dynamics_hidden[0], **shared)


def _build_switching(config: ModelConfig, feature_size: int, controls: int, stickiness, key: Key):
    reads_u = config.switching_reads_u and controls > 0
    if not (config.switching_reads_x or config.switching_reads_z or reads_u):
        return ConstantSwitching(config.regimes, stickiness=stickiness)
    return DrivenSwitching(
        config.regimes,
        feature_size=feature_size,
        state_size=config.state_size,
        control_size=controls,
        hidden=config.switching_hidden,
        stickiness=stickiness,
        history=config.switching_history,
        filters=config.switching_filters,
        reads_x=config.switching_reads_x,
        reads_z=config.switching_reads_z,
        reads_u=reads_u,
        key=key,
    )
