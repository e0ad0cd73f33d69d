"""OR-Tools' routing library: a first tour by cheapest arcs, then guided local search."""

import math
from dataclasses import dataclass

from ..errors import UsageError
from .each import Answer, EachInstance, Task
from .extras import require
from .integers import as_integers
from .tiny import LARGEST, successors, tiny_tour


@dataclass(frozen=True)
class Routing(EachInstance):
    """Guided local search for `seconds` an instance, or less where the time limit says so.

    It never finds out that it is done, so it always takes its time. Integers only: reals are scaled.
    """

    name = "routing"
    takes_samples = False

    seconds: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        require("ortools", "exact", self.name)
        if not self.seconds > 0:
            raise UsageError(f"option 'seconds' of solver 'routing' must be positive, got {self.seconds}")

    def load(self) -> None:
        from ortools.constraint_solver import pywrapcp  # noqa: F401

    def answer(self, task: Task) -> Answer:
        from ortools.constraint_solver import pywrapcp, routing_enums_pb2

        size = len(task.matrix)
        if size <= LARGEST:
            return Answer(tiny_tour(task.matrix))
        distances = as_integers(task.matrix, tour=True).values.tolist()
        manager = pywrapcp.RoutingIndexManager(size, 1, 0)
        model = pywrapcp.RoutingModel(manager)
        model.SetArcCostEvaluatorOfAllVehicles(model.RegisterTransitMatrix(distances))
        parameters = pywrapcp.DefaultRoutingSearchParameters()
        parameters.first_solution_strategy = routing_enums_pb2.FirstSolutionStrategy.PATH_CHEAPEST_ARC
        parameters.local_search_metaheuristic = routing_enums_pb2.LocalSearchMetaheuristic.GUIDED_LOCAL_SEARCH
        limit = self.seconds if task.limit is None else min(self.seconds, task.limit)
        parameters.time_limit.FromMilliseconds(max(1, math.floor(1000 * limit)))
        assignment = model.SolveWithParameters(parameters)
        if assignment is None:
            return Answer(task.start)
        tour, index = [], model.Start(0)
        while not model.IsEnd(index):
            tour.append(manager.IndexToNode(index))
            index = assignment.Value(model.NextVar(index))
        return Answer(successors(tour))
