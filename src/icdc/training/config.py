"""The configuration of a training run, and how a TOML file or a preset becomes one."""

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from ..errors import InputError, UsageError
from ..model import ModelConfig
from ..sampling import SamplingOptions

Config = TypeVar("Config", bound="RunConfig")


@dataclass(frozen=True)
class TargetConfig:
    """How surrogate targets are made in every round.

    instances : new instances of a round.
    trajectories : reverse trajectories for each of them.
    sampling : how the trajectories run; the best solution they keep is the target.
    ties : refine the best of every trajectory by itself, and learn from all that end as good as the best of their
        instance, not from one alone. Where many solutions are equally good, the model then keeps knowing several.
    refine_rounds, refine_level, refine_steps, refine_decodes : then noise it again to level · T and denoise it.
    from_average : generate with the averaged weights instead of the latest.
    from_improvement : make none; every sample of IMPROVEMENT is a target, as in the paper.
    examples : supervision instead of surrogate targets: datasets (.npz) with solutions, one for each size. Their
        instances are learned, and their solutions are the targets; trajectories only make drafts, if those are asked
        for.
    """

    instances: int = 512
    trajectories: int = 4
    sampling: SamplingOptions = field(default_factory=lambda: SamplingOptions(steps=8, temperature=1.0, decodes=4))
    ties: bool = False
    refine_rounds: int = 1
    refine_level: float = 0.7
    refine_steps: int = 2
    refine_decodes: int = 8
    from_average: bool = False
    from_improvement: bool = False
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class MemoryConfig:
    """The replay memory.

    rounds : how many rounds of targets it holds.
    reward_weighted : draw with probability proportional to exp(R), R standardised by the prior's costs.
    mixture : α, the share of generated solutions; 1 − α are drawn from the prior over feasible solutions.
    """

    rounds: int = 16
    reward_weighted: bool = False
    mixture: float = 1.0


@dataclass(frozen=True)
class CloningConfig:
    """CLONING: batch size, steps a round (growing from first to last), and the weights of its losses.

    With no steps at all nothing is cloned, and no targets are made: IMPROVEMENT learns alone.

    vb, prd, cst : weights of L_VB, L_prd (λ₁) and L_cst (λ₂), each divided by the number of elements.
    cst_temperature : of the Gumbel-softmax.
    decoder : weight of −log p̂ of the target, divided by the number of rows.
    drafts : share of the batch whose X_t is a noised draft of the network's own instead of the noised target.
    """

    batch: int = 512
    steps_first: int = 6
    steps_last: int = 14
    vb: float = 0.05
    prd: float = 1.0
    cst: float = 0.0
    cst_temperature: float = 1.0
    decoder: float = 0.3
    drafts: float = 0.25


@dataclass(frozen=True)
class ImprovementConfig:
    """IMPROVEMENT: REINFORCE on p̂, from samples of its own.

    weight : of the loss; 0 leaves the step out.
    objective : "last" is REINFORCE on p̂ at the last reverse step, as IC/DC does; "chain" on all reverse steps,
        Σ_t log p_θ(x_s | x_t) (DDPO), for the cost of what is decoded in the end.
    until : share of the run after which the weight has faded to zero; above 1 it never fades.
    sampling : how its trajectories run, to the last step, where p̂ decodes several times.
    per_trajectory : baseline over the decodes of one trajectory instead of all samples of the instance.
    normalise : divide advantages by the spread of the instance's costs.
    """

    weight: float = 0.5
    objective: Literal["last", "chain"] = "last"
    until: float = 0.05
    sampling: SamplingOptions = field(
        default_factory=lambda: SamplingOptions(
            steps=8, reverse="independent", order="rule", temperature=1.0, decodes=16, keep="last"
        )
    )
    per_trajectory: bool = True
    normalise: bool = True


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with warm-up and cosine decay, clipping, and the running average of the weights."""

    learning_rate: float = 6e-4
    warmup_rounds: int = 50
    final_share: float = 0.02
    weight_decay: float = 1e-4
    clip: float = 1.0
    average: float = 0.998


@dataclass(frozen=True)
class RunConfig:
    """What every run has, whatever its method: what is learned, on which sizes, and for how long.

    sizes : one a round, in turn; a size that is named several times gets that many turns.
    init : a model, shipped or a file, whose weights training begins with.

    Either `time_limit` (seconds; the schedules follow the clock) or `rounds` (the schedules follow the count,
    and a run with the same seed repeats itself on the same machine) ends it; `rounds` = 0 means no such limit.
    """

    method: str = "icdc"
    problem: str = "atsp"
    sizes: tuple[tuple[int, ...], ...] = ((20,),)
    init: str = ""
    seed: int = 0
    time_limit: float = 300.0
    rounds: int = 0
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)

    def __post_init__(self) -> None:
        if not self.sizes or not all(self.sizes):
            raise UsageError("sizes must name at least one size, for example [[20]]")
        if self.rounds <= 0 and not self.time_limit > 0:
            raise UsageError("give a positive time_limit or a number of rounds")


@dataclass(frozen=True)
class TrainingConfig(RunConfig):
    """A run of Algorithm 1: how the diffusion model is learned.

    most_cells : most entries of the matrices of a batch, in making targets and in cloning: larger instances come in
        smaller batches, so that rounds of all sizes take about as long; 0 for no such limit.
    """

    method: Literal["icdc"] = "icdc"
    most_cells: int = 0
    model: ModelConfig = field(default_factory=ModelConfig)
    targets: TargetConfig = field(default_factory=TargetConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    cloning: CloningConfig = field(default_factory=CloningConfig)
    improvement: ImprovementConfig = field(default_factory=ImprovementConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.targets.from_improvement and not self.improvement.weight > 0:
            raise UsageError("targets.from_improvement needs a positive improvement.weight")
        if self.improvement.weight > 0 and self.improvement.sampling.order != "rule":
            raise UsageError('improvement.sampling.order must be "rule": only there is log p̂ exact')
        self._check_sources()
        if self.most_cells < 0:
            raise UsageError(f"most_cells must not be negative, got {self.most_cells}")
        if not 0 < self.memory.mixture <= 1:
            raise UsageError(f"memory.mixture must be in (0, 1], got {self.memory.mixture}")

    def batch_of(self, wanted: int, rows: int, columns: int) -> int:
        """Return how many matrices of so many rows and columns go together where `wanted` are asked for."""
        return max(1, min(wanted, self.most_cells // (rows * columns))) if self.most_cells else wanted

    @property
    def clones(self) -> bool:
        """Tell whether there are any CLONING steps."""
        return max(self.cloning.steps_first, self.cloning.steps_last) > 0

    def _check_sources(self) -> None:
        """Refuse combinations of sources of learning that mean nothing."""
        targets, improvement = self.targets, self.improvement
        if not self.clones and not improvement.weight > 0:
            raise UsageError("nothing to learn from: give cloning.steps_last or improvement.weight")
        if targets.examples and len(targets.examples) != len(self.sizes):
            raise UsageError(f"targets.examples must name one dataset for each of {len(self.sizes)} sizes")
        if targets.ties and (targets.examples or targets.from_improvement):
            raise UsageError("targets.ties is for targets of the model's own: not with examples or from_improvement")
        if targets.from_improvement and (targets.examples or not self.clones or improvement.objective == "chain"):
            raise UsageError("targets.from_improvement needs cloning, no examples and improvement.objective last")
        if improvement.weight > 0 and improvement.objective == "chain" and improvement.sampling.decodes != 1:
            raise UsageError("improvement.objective chain needs sampling.decodes = 1: the best of several has no log p")


def presets() -> list[str]:
    """Return the names of the presets."""
    return sorted(Path(str(p)).stem for p in (files("icdc") / "presets").iterdir() if str(p).endswith(".toml"))


def load_config(source: str, overrides: Mapping[str, Any] | None = None) -> TrainingConfig:
    """Read a preset or a TOML file of our own method; see `read_settings`."""
    return config_from(read_settings(source, overrides))


def read_settings(source: str, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Read a preset by its name or a TOML file by its path, then apply overrides like {"cloning.batch": 256}."""
    path = Path(source)
    if source in presets():
        text = (files("icdc") / "presets" / f"{source}.toml").read_text()
    elif path.suffix == ".toml":
        try:
            text = path.read_text()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
    else:
        raise UsageError(f"unknown preset '{source}'; choose {', '.join(presets())}, or give a .toml file")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source} is not valid TOML: {error}") from error
    for key, value in (overrides or {}).items():
        _assign(values, key.split("."), value)
    return values


def config_from(values: Mapping[str, Any]) -> TrainingConfig:
    """Build a configuration from nested dictionaries; unknown keys and wrong types are errors."""
    return build_config(TrainingConfig, values)


def build_config(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """Build the configuration of a method from nested dictionaries."""
    config: Config = _build(kind, values, "")
    return config


def parse_override(text: str) -> tuple[str, Any]:
    """Read `key=value`, the value as TOML writes it; a bare word is a string."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UsageError(f"'{text}' is not of the form key=value")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value


def _assign(values: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        values = values.setdefault(name, {})
        if not isinstance(values, dict):
            raise UsageError(f"'{'.'.join(path)}' is not a setting")
    values[path[-1]] = value


def _build(cls: Any, values: Mapping[str, Any], where: str) -> Any:
    """Build a (nested) dataclass from a mapping, checking names and types on the way."""
    known = {f.name: f for f in dataclasses.fields(cls)}
    hints = get_type_hints(cls)
    default = cls()
    built = {}
    for name, value in values.items():
        full = f"{where}{name}"
        if name not in known:
            raise UsageError(f"unknown setting '{full}'; there are {', '.join(known)}")
        kind = hints[name]
        if dataclasses.is_dataclass(kind):
            if not isinstance(value, Mapping):
                raise UsageError(f"'{full}' must be a table of settings")
            # a partial table changes only what it names, on top of this place's own defaults
            merged = {**_shallow(getattr(default, name)), **value}
            built[name] = _build(kind, merged, f"{full}.")
        else:
            built[name] = _converted(kind, value, full)
    return dataclasses.replace(default, **built)


def _shallow(value: Any) -> dict[str, Any]:
    return {
        f.name: _shallow(v) if dataclasses.is_dataclass(v := getattr(value, f.name)) else v
        for f in dataclasses.fields(value)
    }


def _converted(kind: Any, value: Any, name: str) -> Any:
    """Return a value as the type of its setting, or raise with a clear sentence."""
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise UsageError(f"'{name}' must be a list, for example [[20]]")
        inner = get_args(kind)[0]
        return tuple(_converted(inner, item, name) for item in value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind in (bool, int, float, str):
        if type(value) is not kind:
            raise UsageError(f"'{name}' must be of type {kind.__name__}, got {value!r}")
        return value
    if value not in get_args(kind):
        raise UsageError(f"'{name}' must be one of {', '.join(map(str, get_args(kind)))}, got {value!r}")
    return value
