"""Settings as frozen dataclasses."""

from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal

from swerve.errors import InputError
from swerve.settings import kinds
from swerve.settings.limits import at_least, check


@dataclass(frozen=True)
class ModelConfig:
    """Shape of p(x, z, s)."""

    regimes: int = 3
    state_size: int = at_least(1, 4)
    initial_per_regime: bool = False
    """p(z_1 | s_1) differs between regimes."""
    initial_components: int = at_least(1, 8)
    """Gaussians in the mixture p(z_1 | s_1)."""
    initial_learned: bool = False
    """p(s_1) is learned; otherwise it is uniform."""
    dynamics: Literal["linear", "mlp", "gru"] = "mlp"
    dynamics_hidden: tuple[int, ...] = at_least(1, (32,))
    dynamics_residual: bool = True
    dynamics_reads_x: bool = False
    dynamics_reads_u: bool = True
    dynamics_noise: Literal["diagonal", "full"] = "diagonal"
    dynamics_noise_per_regime: bool = False
    dynamics_noise_start: float = 0.1
    dynamics_noise_floor: float = 1e-7
    emission_hidden: tuple[int, ...] = at_least(1, ())
    emission_noise: Literal["diagonal", "full"] = "diagonal"
    emission_noise_start: float = 0.2
    emission_noise_floor: float = 1e-4
    emission_noise_per_regime: bool = False
    emission_reads_s: bool = False
    emission_rectified: bool = False
    """Images pass a final ReLU, as in the paper; it dies easily on images that are almost empty."""
    switching_reads_x: bool = True
    switching_reads_z: bool = True
    switching_reads_u: bool = True
    switching_hidden: tuple[int, ...] = at_least(1, (16,))
    switching_history: int = at_least(1, 1)
    switching_filters: int = at_least(0, 0)
    embedding_hidden: tuple[int, ...] = at_least(1, ())
    """Layers of the network through which the switches read x; empty reads x as it is."""


@dataclass(frozen=True)
class PosteriorConfig:
    """Shape of q(z | x)."""

    cell: Literal["gru", "lstm"] = "gru"
    encoder_size: int = at_least(1, 32)
    causal_size: int = at_least(1, 32)
    embedding_hidden: tuple[int, ...] = at_least(1, ())
    shares_embedding: bool = False
    """Read the features of the model's switching network instead of an embedding of its own."""
    start: Literal["dynamics", "state", "origin"] = "dynamics"
    """Where q's mean starts from: the regimes' own predictions, the last state, or nothing (the paper)."""
    initial_scale: float = 0.8
    """q's first scale, in units of the dynamics noise (start = dynamics) or of z itself."""
    initial_gain: float = 5.0
    """How strongly q first corrects what the model got wrong, in the same units. Where x is not the first coordinates
    of z to begin with, a random direction is corrected, and a fiftieth is enough."""
    reads_changes: bool = True
    """Read x_t - x_{t-1} and x_{t+1} - x_t beside x_t."""


@dataclass(frozen=True)
class Variant:
    """How one restart departs from the recipe's central values; None keeps the central value."""

    fewer_regimes: int = 0
    learning_rate: float | None = None
    stickiness: float | None = None
    guidance: float | None = None
    evidence_temperature: float | None = None
    balance: float | None = None


@dataclass(frozen=True)
class Recipe:
    """How to train. Times are shares of all steps, so that a longer run anneals more slowly."""

    name: str = "default"
    learning_rate: float = at_least(0.0, 1e-2)
    full_rate_width: int = at_least(1, 64)
    """A model with layers wider than this learns more slowly, in proportion: all steps of Adam are equally long."""
    first_learning_rate: float = 1e-4
    last_learning_rate: float = 1e-5
    warmup: float = 0.03
    cosine_end: float | None = 1.0
    """When the cosine reaches the last learning rate; without it the rate stays flat."""
    clip: float = at_least(0.0, 10.0)
    """Largest global norm of a gradient, in units of the objective: nats per sequence."""
    uniformity: float = 0.0
    uniformity_hold: float = 0.0
    temperature: float = 1.0
    temperature_hold: float = 0.0
    anneal: float = 0.1
    evidence_temperature: float = 1.0
    evidence_decay: float = 0.1
    balance: float = 0.1
    last_balance: float = 0.0
    balance_decay: float = 0.1
    guidance: float = 20.0
    guidance_hold: float = 0.4
    guidance_release: float = 0.2
    staged_hold: float = 0.8
    """In place of guidance_hold where the guides count events: a bound is no judge of stages."""
    gap_rate: float = 0.02
    stickiness: float = 3.0
    variants: tuple[Variant, ...] = (
        Variant(),
        Variant(fewer_regimes=1),
        Variant(fewer_regimes=1),
        Variant(guidance=0.0, evidence_temperature=10.0, balance=1.0),
    )
    """What the restarts try, in turn."""


@dataclass(frozen=True)
class RungConfig:
    """After the share `at` of all steps, the share `keep` of the restarts goes on."""

    at: float = 0.4
    keep: float = 0.5


@dataclass(frozen=True)
class TrainingConfig:
    """How much to train, and on what part of the data."""

    steps: int = at_least(1, 6000)
    restarts: int = at_least(1, 4)
    batch_size: int = at_least(1, 32)
    window: int = at_least(2, 200)
    """Longer recordings are cut into windows of this many frames for training."""
    validation_share: float = 0.1
    hold_out_ends: bool = False
    """Hold out the end of every recording, however many there are; otherwise only where there are fewer than five."""
    validation_limit: int = at_least(1, 256)
    """At most this many windows judge the restarts."""
    report_every: int = at_least(1, 250)
    rungs: tuple[RungConfig, ...] = (RungConfig(0.7, 0.5),)
    merging: float = at_least(0.0, 0.25)
    """Share of the steps for which a merge of two regimes is trained before it is judged; 0 merges none."""


@dataclass(frozen=True)
class ArHmmConfig:
    """The autoregressive HMM: as a model of its own, and as the seed of restarts."""

    lags: tuple[int, ...] = at_least(0, (1, 2, 4, 8), filled=True)
    """Tried in turn; the held-out likelihood chooses among those whose regimes outlast their lags. All but the fewest
    are left out where they would read more than 128 numbers."""
    features: tuple[int, ...] = at_least(0, (0, 20), filled=True)
    """Nonlinear features of the last frame that the regimes read, tried in turn; 0 is the plain AR-HMM."""
    restarts: int = at_least(1, 5)
    stickiness: float = at_least(0.0, 300.0)
    covariance: Literal["diagonal", "full"] = "diagonal"
    channels_as_one: bool = False
    """All channels of a frame together tell as much about its regime as one would. For recordings of the world, whose
    channels err together: regimes last longer, and first guesses come from merging stretches (docs/decisions/0026)."""
    as_one_from: float = at_least(0.0, 2.5)
    """Where channels are found to err together so much (1: each errs on its own), they count as one, and what is at its
    default is set as in the recipe many-channels (docs/decisions/0028). 0 never looks, nor is it done with more than 30
    channels."""
    consensus: bool = False
    """The model is fitted, to all recordings, from what all restarts with all lags say together; it reads the lags
    whose restarts agree most (docs/decisions/0027)."""
    max_iterations: int = at_least(1, 200)
    seed_windows: int = at_least(1, 400)
    """A seed is fitted to at most this many training windows."""

    stages: bool = True
    """Where single frames break the law that holds otherwise, seeds count these events (docs/decisions/0016)."""

    def temperature(self, channels: int) -> float:
        """What the evidence of a frame is divided by."""
        return float(channels) if self.channels_as_one else 1.0

    def for_joint_errors(self) -> "ArHmmConfig":
        """The settings for channels that err together, in place of those that are as they always are."""
        usual = ArHmmConfig()
        changed = {name: one for name, one in JOINT_ERRORS.items() if getattr(self, name) == getattr(usual, name)}
        return replace(self, **changed)


JOINT_ERRORS: dict[str, Any] = {
    "lags": (0, 1, 2),
    "features": (0,),
    "channels_as_one": True,
    "consensus": True,
}


@dataclass(frozen=True)
class CodeConfig:
    """The code of single images: what a model of video is a model of, until it sees the images themselves."""

    size: int | None = at_least(1, None)
    """Numbers that stand for an image; half as many as the state has unless told."""
    steps: int = at_least(0, 2000)
    batch_size: int = at_least(1, 64)
    learning_rate: float = at_least(0.0, 5e-3)
    images_from: float = at_least(0.0, 0.98)
    """Share of the steps after which the chosen restart is trained on the images; with 1 it reads and draws them as the
    code does."""


@dataclass(frozen=True)
class Config:
    """Everything that decides a fit, apart from the data."""

    kind: str = "snlds"
    """One that the registry knows, or "auto"."""
    seed: int = 0
    model: ModelConfig = field(default_factory=ModelConfig)
    posterior: PosteriorConfig = field(default_factory=PosteriorConfig)
    recipe: Recipe = field(default_factory=Recipe)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    arhmm: ArHmmConfig = field(default_factory=ArHmmConfig)
    code: CodeConfig = field(default_factory=CodeConfig)
    own: Any = None
    """Settings that this kind of model alone has; under its own name in a file of settings."""

    def __post_init__(self):
        if self.model.regimes < 1:
            raise InputError(f"The number of regimes must be at least 1, not {self.model.regimes}.")
        if self.seed < 0:
            raise InputError(f"The seed must be at least 0, not {self.seed}.")
        for one in fields(self):
            if is_dataclass(section := getattr(self, one.name)) and one.name != "own":
                check(section, one.name)
        if self.kind != kinds.AUTO and (kind := kinds.find(self.kind)).options is not None and self.own is not None:
            check(self.own, kind.section)
        if not self.recipe.variants:
            raise InputError("recipe.variants must not be empty.")
        if self.code_size > self.model.state_size:
            raise InputError(
                f"code.size must be at most model.state_size, {self.model.state_size}, not {self.code.size}."
            )
        if self.code.images_from > 1:
            raise InputError(f"code.images_from is a share of the steps: at most 1, not {self.code.images_from}.")
        if min(self.arhmm.features) > 0 and max(self.arhmm.lags) == 0:
            raise InputError("arhmm.features are read from the last frame: arhmm.lags must hold at least one lag.")

    @property
    def code_size(self) -> int:
        """How many numbers stand for an image: what shows of the state; the rest is for how it moves."""
        return self.code.size or max(1, self.model.state_size // 2)

    @property
    def widest_layer(self) -> int:
        """Units of the widest layer of the networks whose shape is a setting."""
        model, posterior = self.model, self.posterior
        hidden = (model.dynamics_hidden, model.emission_hidden, model.switching_hidden)
        hidden = (*hidden, model.embedding_hidden, posterior.embedding_hidden)
        return max(posterior.encoder_size, posterior.causal_size, *(size for layers in hidden for size in layers))

    @property
    def steps_on_codes(self) -> int:
        """Of all steps on video, those before the images themselves."""
        return max(1, round(self.code.images_from * self.training.steps))
