"""Algorithm 1: how IC/DC is trained, without solved examples.

A round draws new instances, makes targets for them, takes an IMPROVEMENT step while its weight lasts, and then several
CLONING steps on the targets of the latest rounds. The steps themselves are in `steps.py`.
"""

from functools import cached_property
from itertools import zip_longest
from typing import Any

from ..models.diffusion import Model
from ..problems.base import Arrays, Problem, Size
from ..problems.rules import Rule
from ..problems.tensors import to_tensors
from .batches import memory_needed
from .checkpoint import REFERENCES
from .config import TrainingConfig
from .loop import TrainingRun
from .sources import Batch, Generated, GivenSet, Mixture, Source, read_examples
from .steps import Steps
from .validation import References, Validation, mean_gap
from .weights import Weights


class Trainer(TrainingRun):
    """Trains a diffusion model of a problem.

    Parameters
    ----------
    config : the run.
    start : a model to begin with, and whose problem is learned, instead of `config.init` and `config.problem`.
    instances : learn these, leading axis count and all of one size, instead of what the problem generates.
    options : device, out, resume, capture, compile_network; see `TrainingRun`.
    """

    config: TrainingConfig
    weights: Weights[Model]
    steps: list[Steps]
    turns: list[int]
    """Which steps each round of a cycle takes, where sizes take turns as they are named."""
    mixture: Mixture
    """The shares of sizes and families, where they have any."""

    def __init__(
        self, config: TrainingConfig, *, start: Model | None = None, instances: Arrays | None = None, **options: Any
    ) -> None:
        super().__init__(config, **options)
        self.start, self.instances = start, instances
        self.now = 0  # the number of the size that the latest round was for

    def round(self, number: int, fraction: float) -> None:
        """Do round `number`, counted from 0, as far into the run as `fraction` says."""
        config, do = self.config, self.do
        by_time = config.mixture.balance == "time"
        self.now = self.mixture.next(fraction) if by_time else self.turns[number % len(self.turns)]
        steps = self.steps[self.now]
        self.weights.set_rate(config.optimizer.rate_at(number, fraction))
        do(steps.draw)
        if config.makes_targets:
            do(steps.make_targets)
        if (weight := config.improvement.weight_at(fraction)) > 0:
            steps.improvement_weight.fill_(weight)
            do(steps.improve)
        for _ in range(config.cloning.steps_at(fraction)):
            do(steps.clone)
        self.weights.update_average(number + 1, statistics=not steps.gathers_statistics)
        if steps.gathers_statistics:
            do(steps.gather_statistics)

    def memory_needed(self) -> tuple[int, str]:
        """Return about how many bytes training takes at its peak, and the settings that decide it."""
        words = "targets.instances, targets.trajectories or cloning.batch"
        return memory_needed(self.config, self.problem), words

    def find_problem(self) -> Problem:
        """Return the problem that is learned."""
        return super().find_problem() if self.start is None else self.start.problem

    def new_model(self) -> Model:
        """Return an untrained model."""
        return Model(self.problem, self.config.model).to(self.device)

    def begin(self) -> None:
        """Begin with the given model's weights, or those that the configuration names."""
        if self.start is None:
            super().begin()
            return
        for model in (self.weights.model, self.weights.average):
            model.network.load_state_dict(self.start.network.state_dict())

    def make_steps(self) -> list[Steps]:
        """Return the steps of every size; a size that is named again takes turns with the same ones."""
        turns = list(zip_longest(self.config.sizes, self.config.targets.examples))
        different = list(dict.fromkeys(turns))
        self.turns = [different.index(turn) for turn in turns]
        steps = [Steps(self.weights, self.config, size, self._source(size, path)) for size, path in different]
        self.mixture = Mixture(
            [size for size, _ in different], [self.config.sizes.count(size) for size, _ in different],
            self.config.families, [one.rows * one.width for one in steps], self.config.mixture,
        )  # fmt: skip
        return steps

    def charge(self, seconds: float) -> None:
        """Add the time of the latest round, or its work, to its size."""
        self.mixture.spend(self.now, self.steps[self.now].work if self.config.rounds else seconds)

    def validate(self, number: int, before: float, now: float, last: bool) -> dict[str, Any]:
        """Validate the sizes in use every so many seconds, or rounds, and in the end; move shares by the gaps."""
        every = self.config.validation.every
        if not every:
            return {}
        due = number % every < 1 if self.config.rounds else now // every > before // every
        if not (due or last):
            return {}
        in_use = self.mixture.open(self.fraction(number, now))
        sizes = [size for size, used in zip(self.mixture.sizes, in_use, strict=True) if used]
        gaps = self.validation.gaps(self.weights.average, sizes)
        gaps = {size: {f: self.ranks.agree(gap, self.device) for f, gap in own.items()} for size, own in gaps.items()}
        if self.config.mixture.most > 1:
            self.mixture.move(gaps)
            self._share_out()
        return {"gap": round(mean_gap(gaps), 4), "gaps": gaps, "shares": self.mixture.shares()}

    @cached_property
    def validation(self) -> Validation:
        """What validation is done on."""
        folder = self.out if self.ranks.leads else None
        return Validation(
            self.problem, self.config.sizes, self.config.families, self.config.validation.instances,
            targets=self.config.targets.sampling, references=References(folder and folder / REFERENCES),
            device=self.device.type,
        )  # fmt: skip

    def extra_state(self) -> dict[str, Any]:
        """Return what else a resumed run needs again: the mixture."""
        return {"mixture": self.mixture.state()}

    def restore_extra(self, state: dict[str, Any]) -> None:
        """Go on with the mixture of a saved state."""
        if "mixture" in state:
            self.mixture.restore(state["mixture"])
            self._share_out()

    def _share_out(self) -> None:
        """Let every source draw the families in their shares."""
        for steps, shares in zip(self.steps, self.mixture.family_shares, strict=True):
            if isinstance(steps.source, Generated) and self.config.families:
                steps.source.share_out(shares)

    def _source(self, size: Size, examples: str | None) -> Source:
        """Return where instances of a size come from, with solutions where there are examples."""
        if examples is not None:
            given = read_examples(examples, self.problem, size, self.device)
        elif self.instances is not None:
            given = Batch(to_tensors(self.instances, self.device))
        else:
            return self.generator(size, self.config.mixture.most)
        return GivenSet(given, self.weights.noise, self.host_rng(size))

    def data(self) -> str:
        """Say what the model learns from."""
        if self.config.targets.examples:
            return f"instances of {self.config.problem} with solutions, from {', '.join(self.config.targets.examples)}"
        return super().data()

    def advice(self) -> dict[str, Any]:
        """Many decodes where the problem's rule makes them cheap: nothing else improves answers at so little cost.

        Decoding that sees loads is not so cheap, and learned with: there it is what made the targets.
        """
        targets, decodes = self.config.targets.sampling, self.problem.rule.decodes
        if targets.order == "loads":
            learned = {name: getattr(targets, name) for name in ("order", "reverse", "temperature", "decodes")}
            return {"solving": [{"samples": 1, "options": learned}]}
        if decodes == Rule.decodes:
            return {}
        return {"solving": [{"samples": 1, "options": {"decodes": decodes}}]}
