"""Unrelated parallel machine scheduling: give every job to a machine, finish as early as possible."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from . import present
from .arrays import checked_matrix, exact_numbers, reject_negative
from .base import Arrays, Family, FeatureSizes, InTorch, Problem, Size
from .bounds import scheduling_bound
from .instance import Instance
from .present import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

in_torch = partial(InTorch, "icdc.problems.pmsp_torch")

FAMILIES: dict[str, Family] = {
    "paper": Family("the paper's own: integers from 2 to 19"),
    "uniform-100": Family("integers from 1 to 100", in_torch("uniform_100")),
    "uniform-1000": Family("integers from 1 to 1000", in_torch("uniform_1000"), 10.0),
    "job-correlated": Family("a base 1–100 of every job plus 1–20 for each pair", in_torch("job_correlated")),
    "machine-correlated": Family(
        "a base 1–100 of every machine plus 1–20 for each pair", in_torch("machine_correlated")
    ),
    "speeds": Family("work 100–1000 over a speed from 1 to e², each pair up to 20 % off", in_torch("speeds"), 10.0),
    "heavy-tailed": Family(
        "log-normal, median 20, σ = 1.2: a few pairs far longer than the rest", in_torch("heavy_tailed")
    ),
    "forbidden": Family(
        "1–100 on about a third of the machines; the others are forbidden, by 1,000,000",
        in_torch("forbidden_pairs"),
        forbids=True,
    ),
}
"""By name; the draw of each is uniform where nothing else is said."""


class Pmsp(Problem):
    """Instances: `durations` (count, jobs, machines); the cost is the makespan."""

    name = "pmsp"
    arrays = ("durations",)
    size_names = ("jobs", "machines")
    feature_sizes = FeatureSizes(relations=5, raw_relations=1)
    priced_sizes = FeatureSizes(relations=8, raw_relations=1)
    rule = InTorch("icdc.problems.rules", "OneColumnPerRow")
    objective = "makespan"
    row_words = ("job", "jobs")
    column_words = ("machine", "machines")
    entries = "processing times"
    families = FAMILIES
    structure: ClassVar[str | None] = "makespan"

    sample_on_device = in_torch("sample_on_device")
    cost = in_torch("cost")
    cost_changes = in_torch("cost_changes")
    feasible = in_torch("feasible")
    violation = in_torch("violation")
    times = in_torch("times")
    permitted = in_torch("permitted")
    construct = in_torch("construct")
    features = in_torch("features")
    priced_features = in_torch("priced_features")

    def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
        jobs, machines = size
        return {"durations": rng.integers(2, 20, size=(count, jobs, machines), dtype=np.uint8)}

    def size(self, arrays: Mapping[str, Any]) -> Size:
        return int(arrays["durations"].shape[1]), int(arrays["durations"].shape[2])

    def shape(self, size: Size) -> tuple[int, int]:
        return size[0], size[1]

    def check(self, arrays: Mapping[str, Any]) -> Arrays:
        durations = checked_matrix(arrays["durations"], "the matrix of processing times")
        reject_negative(durations, "the matrix of processing times")
        return {"durations": durations}

    def density(self, size: Size) -> float:
        return 1.0 / size[1]

    def lower_bound(self, arrays: Arrays) -> NDArray[np.float64]:
        """Return the linear-programming bound on the makespan, (count,)."""
        return scheduling_bound(np.asarray(arrays["durations"]))

    def cost_matrix(self, arrays: Arrays) -> NDArray[Any]:
        """Return the processing times, (count, jobs, machines)."""
        return exact_numbers(arrays["durations"])

    @classmethod
    def recognises(cls, shape: tuple[int, ...], same_items: bool) -> bool:
        """Any matrix whose rows and columns may be different things."""
        return len(shape) == 2 and not same_items

    def describe_size(self, size: Size) -> str:
        return f"{counted(size[0], self.row_words)} on {counted(size[1], self.column_words)}"

    def describe_solution(self, instance: Instance, choice: NDArray[np.int64]) -> list[str]:
        return present.schedule_lines(instance, choice)

    def draw_solution(self, instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> Figure:
        return present.draw_schedule(instance, choice, bound)
