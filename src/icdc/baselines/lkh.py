"""LKH-3, the Lin-Kernighan-Helsgaun heuristic, through elkai."""

from dataclasses import dataclass

from .each import Answer, EachInstance, Task
from .extras import require
from .integers import as_integers
from .tiny import LARGEST, successors, tiny_tour


@dataclass(frozen=True)
class Lkh(EachInstance):
    """LKH-3 with `runs` runs for every sample.

    LKH is free for academic and non-commercial use only. It computes with integers: distances are shifted
    and scaled to at most 10⁶ (fed with reals, it returns far worse tours without a word). It keeps its
    state in global variables, so several instances at once need processes, not threads; and it cannot be
    stopped within an instance, so a time limit is looked at between instances.
    """

    name = "lkh"

    runs: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        require("elkai", "lkh", self.name)

    def load(self) -> None:
        import elkai  # noqa: F401

    def answer(self, task: Task) -> Answer:
        import elkai

        if len(task.matrix) <= LARGEST:
            return Answer(tiny_tour(task.matrix))
        distances = as_integers(task.matrix, largest=10**6, tour=True).values
        tour = elkai.DistanceMatrix(distances.tolist()).solve_tsp(runs=self.runs * task.samples)
        return Answer(successors(tour[:-1]))
