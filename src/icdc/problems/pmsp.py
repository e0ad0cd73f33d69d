"""Unrelated parallel machine scheduling: give every job to a machine, finish as early as possible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..later import kernels, torch
from .arrays import checked_matrix, exact_numbers, reject_negative
from .base import Arrays, FeatureSizes, Instance, Instances, Problem, Size, Structure
from .bounds import scheduling_bound
from .decoding import Starts, decode_around
from .families_schedules import SCHEDULE_FAMILIES
from .features import Features
from .permitted import neutral, permitted_mean, permitted_pairs
from .priced import SCHEDULE_CHANNELS, schedule_candidates, schedule_channels
from .rules import OneColumnPerRow
from .tensors import picked, totals_by_column
from .text import counted, number, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from ..kernels import Noise

_BAR = 24
"""Characters of the longest bar of a printed schedule."""
_VARIETY = 0.1
"""Temperature of starting schedules after the first, in units of what a job costs at balancing prices."""
_SHARE_OF_LOADS, _VARIETY_BY_LOADS = 0.01, 0.5
"""Where jobs see the loads so far: that unit's share that counts as one average job more, and the temperature in it."""


_NOWHERE = 1e3
"""The time of a forbidden pair, in mean times, where jobs spread over machines: no share of any job gets there."""


class Pmsp(Problem):
    """Instances: `durations` (count, jobs, machines); the cost is the makespan."""

    name = "pmsp"
    arrays = ("durations",)
    size_names = ("jobs", "machines")
    feature_sizes = FeatureSizes(relations=5, raw_relations=1)
    priced_sizes = FeatureSizes(relations=SCHEDULE_CHANNELS, raw_relations=1)
    rule = OneColumnPerRow()
    objective = "makespan"
    row_words = ("job", "jobs")
    column_words = ("machine", "machines")
    entries = "processing times"
    families = SCHEDULE_FAMILIES
    structure: ClassVar[Structure | None] = "makespan"

    def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
        jobs, machines = size
        return {"durations": rng.integers(2, 20, size=(count, jobs, machines), dtype=np.uint8)}

    def sample_on_device(self, size: Size, noise: Noise) -> dict[str, Tensor]:
        jobs, machines = size
        return {"durations": (2 + noise.integers(18, jobs, machines)).float()}

    def size(self, arrays: Mapping[str, Any]) -> Size:
        return int(arrays["durations"].shape[1]), int(arrays["durations"].shape[2])

    def shape(self, size: Size) -> tuple[int, int]:
        return size[0], size[1]

    def check(self, arrays: Mapping[str, Any]) -> Arrays:
        durations = checked_matrix(arrays["durations"], "the matrix of processing times")
        reject_negative(durations, "the matrix of processing times")
        return {"durations": durations}

    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        return totals_by_column(instances["durations"], choice).amax(-1)

    def cost_changes(self, instances: Instances, choice: Tensor) -> Tensor:
        """Return by how much the makespan rises if one job takes another machine, (batch, samples, jobs, machines)."""
        durations = instances["durations"]
        loads = totals_by_column(durations, choice)
        top, machine = loads.topk(min(2, loads.shape[-1]), -1)
        # the fullest machine besides the job's own, which is left without the job; where the job arrives counts anyway
        other = torch.where(choice == machine[..., :1], top[..., -1:], top[..., :1])
        left = loads.gather(-1, choice) - picked(durations, choice)
        arrived = loads[:, :, None] + durations[:, None]
        return torch.maximum(arrived, torch.maximum(left, other)[..., None]) - top[..., :1, None]

    def construct(self, instances: Instances, count: int = 1) -> Starts:
        """Give jobs to machines by prices that balance the loads, and improve the schedules.

        Half of them, the first among them, give every job to the machine at which it costs least; the others decide
        longest first, and see the loads so far.
        """
        if self.structure != "makespan":  # a subclass with another cost, or with schedules that it refuses
            return super().construct(instances, count)
        durations, permitted = instances["durations"], permitted_pairs(instances["durations"])
        prices, bound = kernels.schedule_prices(durations, permitted)
        priced = (durations * prices[:, None]).masked_fill(~permitted, torch.inf)
        least = priced.amin(2)
        scores, unit = least[..., None] - priced, least.mean(1)[:, None, None]
        free = decode_around(self.rule, scores, unit, count - count // 2, "rule", _VARIETY)
        by_loads = decode_around(
            self.rule, scores, _SHARE_OF_LOADS * unit, count // 2, "loads", _VARIETY_BY_LOADS,
            neutral(durations, permitted),
        )  # fmt: skip
        choice = self.improve(instances, torch.cat([free, by_loads], 1), rounds=durations.shape[1])
        return Starts(choice, least, prices, bound)

    def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
        return ((choice >= 0) & (choice < instances["durations"].shape[2])).all(-1)

    def permitted(self, instances: Instances) -> Tensor | None:
        """Return the pairs that are in some schedule worth having; see `permitted_pairs`."""
        return permitted_pairs(instances["durations"]) if self.structure == "makespan" else self.mask(instances)

    def density(self, size: Size) -> float:
        return 1.0 / size[1]

    def violation(self, x: Tensor) -> Tensor:
        """C_PMSP: squared excess over one of the number of machines each job has."""
        return (x.sum(2) - 1).square().sum(1)

    def lower_bound(self, arrays: Arrays) -> NDArray[np.float64]:
        """Return the linear-programming bound on the makespan, (count,)."""
        return scheduling_bound(np.asarray(arrays["durations"]))

    def cost_matrix(self, arrays: Arrays) -> NDArray[Any]:
        """Return the processing times, (count, jobs, machines)."""
        return exact_numbers(arrays["durations"])

    def times(self, instances: Instances) -> Tensor:
        """Return the processing times, (batch, jobs, machines)."""
        return instances["durations"]

    @classmethod
    def recognises(cls, shape: tuple[int, ...], same_items: bool) -> bool:
        """Any matrix whose rows and columns may be different things."""
        return len(shape) == 2 and not same_items

    def describe_size(self, size: Size) -> str:
        return f"{counted(size[0], self.row_words)} on {counted(size[1], self.column_words)}"

    def describe_solution(self, instance: Instance, choice: NDArray[np.int64]) -> list[str]:
        """Return a line for each machine: its load, as a number and a bar, and its jobs.

        The time for which a machine is busy with something else counts, and is shown as such: a light bar.
        """
        durations = instance.arrays["durations"]
        busy = _busy(instance)
        machines = instance.column_labels(range(durations.shape[1]))
        jobs = [np.flatnonzero(choice == machine) for machine in range(len(machines))]
        # Python's own integers: sums of narrow dtypes must not wrap
        loads = [sum(durations[mine, machine].tolist()) + busy[machine] for machine, mine in enumerate(jobs)]
        longest = max(loads)
        width = max(map(len, machines))
        load_width = max(len(number(load)) for load in loads)
        lines = []
        for name, load, taken, mine in zip(machines, loads, busy, jobs, strict=True):
            full = round(_BAR * load / longest) if longest else 0
            light = round(_BAR * taken / longest) if longest else 0
            bar = "░" * light + "█" * (full - light)
            prefix = f"  {self.column_words[0]} {name:<{width}}  {number(load):>{load_width}}  {bar:<{_BAR}}  "
            words = [f"(busy until {number(taken)})"] if taken else []
            lines += wrapped(prefix, " ".join([*words, *(instance.row_labels(mine.tolist()) or ["–"])]))
        return lines

    def draw_solution(self, instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> Figure:
        """Draw a Gantt chart, with the bound where it is one on the makespan."""
        from matplotlib.figure import Figure

        from ..plots import plot_gantt

        durations = instance.arrays["durations"]
        figure = Figure(figsize=(11.0, 1.4 + 0.55 * durations.shape[1]), layout="constrained")
        ax = figure.subplots()
        busy = _busy(instance)
        bound = None if instance.weighs_changes else bound
        plot_gantt(durations, choice, jobs=instance.rows, machines=instance.columns, busy=busy, bound=bound, ax=ax)
        return figure

    def features(self, instances: Instances) -> Features:
        """P, P above its row's minimum and mean, and balanced fractional assignments at two temperatures.

        Forbidden pairs look somewhat longer than all others, and no job is spread over them.
        """
        permitted = permitted_pairs(instances["durations"])
        durations = neutral(instances["durations"], permitted).float()
        mean = permitted_mean(durations, permitted, (1, 2))
        scaled = durations / mean.clamp_min(torch.finfo(torch.float32).tiny)
        chosen = scaled.masked_fill(~permitted, _NOWHERE)
        channels = [
            scaled - 1.0,
            scaled - scaled.amin(2, keepdim=True),
            scaled - permitted_mean(scaled, permitted, 2),
            balanced_assignment(chosen, 0.2).clamp_min(-12.0) / 4.0,
            balanced_assignment(chosen, 0.06).clamp_min(-12.0) / 4.0,
        ]
        return Features(torch.stack(channels, -1))

    def priced_features(self, instances: Instances, candidates: int = 0) -> Features:
        """What pairs give away beyond the prices of a balanced schedule; see `schedule_channels`."""
        if not candidates:
            return Features(schedule_channels(instances["durations"]))
        relations, chosen = schedule_candidates(instances["durations"], candidates)
        return Features(relations, candidates=chosen)


def _busy(instance: Instance) -> tuple[int | float, ...]:
    """Return until when each machine is busy with something else."""
    asked = None if instance.conditions is None else instance.conditions.busy
    return (0,) * instance.arrays["durations"].shape[1] if asked is None else asked


def balanced_assignment(durations: Tensor, temperature: float, rounds: int = 30) -> Tensor:
    """Return log-weights (batch, jobs, machines) of a fractional assignment with nearly equal loads.

    Machines have prices; a job spreads over machines by softmax of −price × duration. Prices of machines
    loaded above the mean rise and the others fall, by multiplicative updates that shrink: at a low
    temperature steady ones would overshoot for ever, and amplify rounding.
    """
    price = torch.ones_like(durations[:, :1])
    for turn in range(rounds):
        load = ((-durations * price / temperature).softmax(-1) * durations).sum(1, keepdim=True)
        ratio = load / load.mean(2, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
        price = price * ratio.clamp(0.5, 2.0) ** (0.4 * 0.9**turn)
        price = price / price.mean(2, keepdim=True)
    return (-durations * price / temperature).log_softmax(-1)
