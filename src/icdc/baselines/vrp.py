"""PyVRP: iterated local search for vehicle routing, here with one vehicle and no demands."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import MissingExtraError
from .each import Answer, EachInstance, Task
from .extras import require
from .integers import as_integers
from .tiny import LARGEST, successors, tiny_tour

if TYPE_CHECKING:
    import pyvrp


@dataclass(frozen=True)
class PyVrp(EachInstance):
    """PyVRP (MIT licence) for `iterations` iterations, or until the time limit; every sample is another seed.

    It computes with integers: distances are shifted and, where they are not integers, scaled.
    """

    name = "pyvrp"

    iterations: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        require("pyvrp", "pyvrp", self.name)

    def load(self) -> None:
        import pyvrp

        if not hasattr(pyvrp, "Location"):
            raise MissingExtraError("the solver 'pyvrp' needs PyVRP 0.14 or later: pip install -U 'icdc[pyvrp]'")

    def answer(self, task: Task) -> Answer:
        from pyvrp.stop import MaxIterations, MaxRuntime, MultipleCriteria

        if len(task.matrix) <= LARGEST:
            return Answer(tiny_tour(task.matrix))
        distances = as_integers(task.matrix, tour=True).values
        model = _model(distances)
        best, best_cost = task.start, distances[np.arange(len(distances)), task.start].sum()
        for sample in range(task.samples):
            seconds = np.inf if task.limit is None else task.limit / task.samples
            stop = MultipleCriteria([MaxIterations(self.iterations), MaxRuntime(seconds)])
            seed = (task.seed + sample) % 2**31
            result = model.solve(stop, seed=seed, collect_stats=False, display=False)
            if result.is_feasible() and result.cost() < best_cost:
                clients = [activity.idx for activity in result.best.routes()[0] if activity.is_client()]
                best, best_cost = successors([0, *(client + 1 for client in clients)]), result.cost()
        return Answer(best)


def _model(distances: NDArray[np.int64]) -> "pyvrp.Model":
    """Return the model of one vehicle that starts in city 0, visits all others and returns."""
    import pyvrp

    model = pyvrp.Model()
    places = [model.add_location(0, 0) for _ in distances]
    depot = model.add_depot(places[0])
    for place in places[1:]:
        model.add_client(place)
    model.add_vehicle_type(1, start_depot=depot, end_depot=depot)
    for i, origin in enumerate(places):
        for j, target in enumerate(places):
            if i != j:
                model.add_edge(origin, target, int(distances[i, j]))
    return model
