"""The settings of a training run, what they mean, and which of them exclude each other."""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ..diffusion.sampler import SamplingOptions
from ..errors import UsageError
from ..models.diffusion import ModelConfig
from ..options import LARGEST_SEED
from ..settings import Settings, setting


@dataclass(frozen=True)
class OptimizerConfig(Settings):
    """AdamW with warm-up and cosine decay, clipping, and the running average of the weights.

    learning_rate : its highest value, reached after `warmup_rounds`.
    final_share : what is left of it in the end; 1 for no decay.
    clip : largest norm of a gradient; 0 for no clipping.
    average : how much of the running average stays in a round; 0 for the weights as they are.
    """

    learning_rate: float = 6e-4
    warmup_rounds: int = 50
    final_share: float = 0.02
    weight_decay: float = 1e-4
    clip: float = 1.0
    average: float = 0.998

    def rate_at(self, number: int, fraction: float) -> float:
        """Return the learning rate of round `number`, counted from 0, when `fraction` of the run is done."""
        cosine = 0.5 * (1 + math.cos(math.pi * fraction))
        warm = min(1.0, (number + 1) / max(1, self.warmup_rounds))
        return self.learning_rate * warm * (self.final_share + (1 - self.final_share) * cosine)


@dataclass(frozen=True)
class TargetConfig(Settings):
    """How targets are made in every round.

    instances : new instances of a round.
    trajectories : reverse trajectories for each of them.
    sampling : how the trajectories run; the best solution they keep is the target.
    refine_rounds, refine_level, refine_decodes : then noise it again to level · T and denoise it.
    from_improvement : make none; every sample of IMPROVEMENT is a target, as in the paper.
    best_only : of the samples of IMPROVEMENT only the best of each instance.
    examples : supervision: datasets (.npz) with solutions, one for each size. Their instances are learned, and their
        solutions are the targets; trajectories only make drafts, if those are wanted.
    """

    REMOVED: ClassVar = {"refine_steps": 2}

    instances: int = setting(512, least=1)
    trajectories: int = setting(4, least=1)
    sampling: SamplingOptions = field(default_factory=lambda: SamplingOptions(steps=8, temperature=1.0, decodes=4))
    refine_rounds: int = setting(1, least=0)
    refine_level: float = setting(0.7, above=0, most=1)
    refine_decodes: int = setting(8, least=1)
    from_improvement: bool = False
    best_only: bool = False
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class MemoryConfig(Settings):
    """The replay memory.

    rounds : how many rounds of targets it holds.
    reward_weighted : draw with probability proportional to exp(R), R in standard deviations of random solutions.
    mixture : α, the share of generated solutions; 1 − α are drawn from the prior over feasible solutions.
    saved : the state on disk holds the memory; without it a resumed run begins with an empty one.
    """

    REMOVED: ClassVar = {"scale_samples": 0}

    rounds: int = setting(16, least=1)
    reward_weighted: bool = False
    mixture: float = setting(1.0, above=0, most=1)
    saved: bool = True

    def prior_share(self, generated: int) -> int:
        """Return how many solutions of the prior join `generated` ones of an instance: (1 − α)/α as many."""
        return round(generated * (1 - self.mixture) / self.mixture)


@dataclass(frozen=True)
class CloningConfig(Settings):
    """CLONING: batch size, steps a round (growing from first to last), and the weights of its losses.

    With no steps at all nothing is cloned, and no targets are made: IMPROVEMENT learns alone.

    vb, prd, cst : weights of L_VB, L_prd (λ₁) and L_cst (λ₂), each divided by the number of elements.
    drafts : share of the batch whose X_t is a noised draft, a worse solution of the network's own, instead of the
        noised target.
    """

    REMOVED: ClassVar = {"decoder": 0.0}

    batch: int = setting(512, least=1)
    steps_first: int = setting(6, least=0)
    steps_last: int = setting(14, least=0)
    vb: float = 0.05
    prd: float = 1.0
    cst: float = 0.0
    drafts: float = setting(0.25, least=0, most=1)

    def steps_at(self, fraction: float) -> int:
        """Return how many steps a round takes when `fraction` of the run is done."""
        return round(self.steps_first + (self.steps_last - self.steps_first) * fraction)


@dataclass(frozen=True)
class ImprovementConfig(Settings):
    """IMPROVEMENT: REINFORCE on p̂, from samples of its own.

    weight : of the loss; 0 leaves the step out.
    objective : "last" is REINFORCE on p̂ at the last reverse step, as IC/DC does; "trajectory" on all reverse steps,
        Σ_t log p_θ(x_s | x_t) (DDPO), for the cost of what is decoded in the end.
    until : share of the run after which the weight has faded to zero; above 1 it never fades.
    sampling : how its trajectories run, to the last reverse step, where p̂ decodes several times.
    per_trajectory : baseline over the decodes of one trajectory instead of all samples of the instance.
    normalise : divide advantages by the spread of the instance's costs.
    """

    REMOVED: ClassVar = {"own_statistics": False}

    weight: float = setting(0.5, least=0)
    objective: Literal["last", "trajectory"] = "last"
    until: float = 0.05
    sampling: SamplingOptions = field(
        default_factory=lambda: SamplingOptions(
            steps=8, reverse="independent", order="rule", temperature=1.0, decodes=16, keep="last"
        )
    )
    per_trajectory: bool = True
    normalise: bool = True

    def weight_at(self, fraction: float) -> float:
        """Return the weight of the loss when `fraction` of the run is done."""
        if self.until <= 0:
            return 0.0
        return self.weight * (1.0 if self.until > 1 else max(0.0, 1 - fraction / self.until))


@dataclass(frozen=True)
class MixtureConfig(Settings):
    """How a run is shared out among its sizes, and each round among its families.

    balance : "turns" takes sizes in the order in which they are named; "time" gives every size its share of the time,
        by how often it is named (of the work, where a count of rounds ends the run).
    curriculum : with "time", share of the run after which all sizes take part, the smaller ones before the larger; 0
        for all of them at once.
    first_share : share of the sizes that take part from the first round on.
    most : by how much the share of a family or size grows at most where validation measures a large gap, and falls
        where it measures a small one; 1 leaves shares as they are.
    """

    REMOVED: ClassVar = {"move": 0.5}

    balance: Literal["turns", "time"] = "turns"
    curriculum: float = setting(0.0, least=0, most=1)
    first_share: float = setting(0.25, above=0, most=1)
    most: float = setting(1.0, least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.curriculum and self.balance == "turns":
            raise UsageError('mixture.curriculum needs mixture.balance = "time"')


@dataclass(frozen=True)
class ValidationConfig(Settings):
    """Validation on every family and size while a run goes on.

    every : seconds of training between two of them (rounds, where a count of rounds ends the run); 0 for none.
    instances : of each family and size, fewer of large ones.
    """

    REMOVED: ClassVar = {"samples": 4, "steps": 10, "references": ""}

    every: float = setting(0.0, least=0)
    instances: int = setting(8, least=1)


@dataclass(frozen=True)
class TrainingConfig(Settings):
    """A run of Algorithm 1: what is learned, on which sizes, for how long, and how.

    sizes : one a round, in turn; a size that is named several times gets that many turns.
    families : families of instances that share every round equally, one that is named twice with two shares; none means
        the problem's own draw.
    init : a model, shipped or a file, whose weights training begins with.
    init_where_it_fits : start layers whose shapes differ from scratch.
    most_cells : most entries of the matrices of a batch, in making targets and in cloning: larger instances come in
        smaller batches, so that rounds of all sizes take about as long; 0 for no such limit.
    most_memory : target for GiB per step, met by smaller batches where possible; 0 for none.

    Either `time_limit` (seconds; the schedules follow the clock) or `rounds` (the schedules follow the count,
    and a run with the same seed repeats itself on the same machine) ends it; `rounds` = 0 means no such limit.
    """

    method: Literal["icdc"] = "icdc"
    problem: str = "atsp"
    sizes: tuple[tuple[int, ...], ...] = ((20,),)
    families: tuple[str, ...] = ()
    init: str = ""
    init_where_it_fits: bool = False
    seed: int = setting(0, least=0, most=LARGEST_SEED)
    time_limit: float = 300.0
    rounds: int = 0
    most_cells: int = setting(0, least=0)
    most_memory: float = setting(0.0, least=0)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    targets: TargetConfig = field(default_factory=TargetConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    cloning: CloningConfig = field(default_factory=CloningConfig)
    improvement: ImprovementConfig = field(default_factory=ImprovementConfig)
    mixture: MixtureConfig = field(default_factory=MixtureConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.sizes or not all(self.sizes) or min(map(min, self.sizes)) < 1:
            raise UsageError("sizes must name at least one size of positive numbers, for example [[20]]")
        if self.rounds <= 0 and not self.time_limit > 0:
            raise UsageError("give a positive time_limit or a number of rounds")
        targets, improvement = self.targets, self.improvement
        if self.mixture.most > 1 and not self.validation.every:
            raise UsageError("mixture.most needs validation.every: shares move by the gaps that validation measures")
        if targets.best_only and not targets.from_improvement:
            raise UsageError("targets.best_only needs targets.from_improvement: other targets are the best already")
        if not self.clones and not improvement.weight > 0:
            raise UsageError("nothing to learn from: give cloning.steps_last or improvement.weight")
        if targets.examples and len(targets.examples) != len(self.sizes):
            raise UsageError(f"targets.examples must name one dataset for each of {len(self.sizes)} sizes")
        if targets.examples and self.families:
            raise UsageError("targets.examples bring their own instances; leave out families")
        if targets.examples and (self.mixture != MixtureConfig() or self.validation.every):
            raise UsageError("targets.examples take turns as they are named; leave out mixture and validation")
        if targets.from_improvement and not improvement.weight > 0:
            raise UsageError("targets.from_improvement needs a positive improvement.weight")
        if targets.from_improvement and (targets.examples or not self.clones or improvement.objective != "last"):
            raise UsageError("targets.from_improvement needs cloning, no examples and improvement.objective last")
        if improvement.weight > 0 and improvement.sampling.order != "rule":
            raise UsageError('improvement.sampling.order must be "rule": log p̂ is known for that order alone')
        if improvement.weight > 0 and improvement.objective == "trajectory" and improvement.sampling.decodes != 1:
            raise UsageError(
                "improvement.objective trajectory needs sampling.decodes = 1: the best of several has no log p"
            )

    @property
    def clones(self) -> bool:
        """Tell whether there are any CLONING steps."""
        return max(self.cloning.steps_first, self.cloning.steps_last) > 0

    @property
    def makes_targets(self) -> bool:
        """Tell whether a round makes targets of its own for CLONING, apart from what IMPROVEMENT samples."""
        return self.clones and not self.targets.from_improvement

    def batch_of(self, wanted: int, rows: int, columns: int) -> int:
        """Return how many matrices of so many rows and columns go together where `wanted` are asked for."""
        return max(1, min(wanted, self.most_cells // (rows * columns))) if self.most_cells else wanted
