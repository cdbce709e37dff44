"""Builds SNLDS from settings: the one place where names in a config become parts of one."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from swerve.errors import InputError
from swerve.inference.frames import Key
from swerve.inference.networks import Gru, Lstm
from swerve.models.model import Maker, Shape
from swerve.models.snlds.dynamics import GruDynamics, LinearDynamics, MlpDynamics
from swerve.models.snlds.embedding import MlpEmbedding, RawEmbedding
from swerve.models.snlds.emission import MlpEmission, starts_as_identity
from swerve.models.snlds.generative import FORBIDDEN, Generative
from swerve.models.snlds.initial import Initial
from swerve.models.snlds.model import Snlds
from swerve.models.snlds.noise import DiagonalNoise, FullNoise
from swerve.models.snlds.posterior import Posterior, Start
from swerve.models.snlds.switching import ConstantSwitching, DrivenSwitching
from swerve.settings.sections import Config, ModelConfig, PosteriorConfig

NOISES = {"diagonal": DiagonalNoise, "full": FullNoise}
BLIND_GAIN = 0.02  # of q's first gain, where it does not know what of x belongs to what of z
CELLS = {"gru": Gru, "lstm": Lstm}


class SnldsMaker(Maker):
    """Builds SNLDS and, with linear parts, SLDS."""

    def build(self, config: Config, shape: Shape, *, stickiness, allowed, key: Key) -> Snlds:
        return build_collapsed(
            config.model,
            config.posterior,
            channels=shape.channels,
            controls=shape.controls,
            stickiness=stickiness,
            allowed=allowed,
            change_scale=shape.change_scale,
            key=key,
        )


MAKER = SnldsMaker()


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
) -> Snlds:
    """A model and posterior with fresh parameters."""
    model_key, posterior_key = jax.random.split(key)
    snlds = build_model(
        model, channels=channels, controls=controls, stickiness=stickiness, allowed=allowed, key=model_key
    )
    return Snlds(
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


def build_model(config: ModelConfig, *, channels: int, controls: int, stickiness, allowed, key: Key) -> Generative:
    """p(x, z, s) with fresh parameters."""
    embedding_key, dynamics_key, emission_key, switching_key, initial_key = jax.random.split(key, 5)
    K, L = config.regimes, config.state_size
    reads_u = config.dynamics_reads_u and controls > 0
    feature_size = _feature_size(channels, config.embedding_hidden)
    return Generative(
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
