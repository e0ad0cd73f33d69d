"""Engines for tours from other packages: LKH-3, PyVRP, and OR-Tools' routing library."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import MissingExtraError, UsageError
from ..search.run import Budget
from ..solving.solver import Abilities
from .lkh_process import LkhProcess
from .one_by_one import OneByOne, Single, SingleAnswer, as_integers, require
from .support import Matrices

if TYPE_CHECKING:
    import pyvrp

LARGEST = 3
"""Cities of tours so small that the engines do not take them."""


@dataclass(frozen=True)
class Lkh(OneByOne):
    """LKH-3 with `runs` runs for every sample.

    LKH is free for academic and non-commercial use only. It computes with integers: distances are shifted
    and scaled to at most 10⁶ (fed with reals, it returns far worse tours without a word). It keeps its
    state in global variables, so several instances at once need processes, not threads; and it cannot be
    stopped from inside, so it runs in a process of its own, which is stopped when the time is over.
    """

    name = "lkh"
    abilities = Abilities(samples=True)
    structures = ("tour",)

    runs: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        require("elkai", "lkh", self.name)

    def load(self) -> None:
        LkhProcess.shared()

    def answer(self, single: Single) -> SingleAnswer:
        if len(single.matrix) <= LARGEST:
            return SingleAnswer(tiny_tour(single.matrix))
        budget = Budget(single.limit)
        distances = as_integers(single.matrix, largest=10**6, tour=True).values
        best = single.start
        try:
            for tour in LkhProcess.tours(distances, self.runs * single.samples, budget.seconds):
                best = successors(tour)
        except KeyboardInterrupt:
            return SingleAnswer(best, interrupted=True)
        return SingleAnswer(best)


@dataclass(frozen=True)
class PyVrp(OneByOne):
    """PyVRP (MIT licence) for `iterations` iterations, or until the time limit; every sample is another seed.

    It computes with integers: distances are shifted and, where they are not integers, scaled.
    """

    name = "pyvrp"
    abilities = Abilities(samples=True)
    structures = ("tour",)

    iterations: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        require("pyvrp", "pyvrp", self.name)

    def load(self) -> None:
        import pyvrp

        if not hasattr(pyvrp, "Location"):
            raise MissingExtraError("the solver 'pyvrp' needs PyVRP 0.14 or later: pip install -U 'icdc[pyvrp]'")

    def answer(self, single: Single) -> SingleAnswer:
        from pyvrp.stop import MaxIterations, MaxRuntime, MultipleCriteria

        if len(single.matrix) <= LARGEST:
            return SingleAnswer(tiny_tour(single.matrix))
        budget = Budget(single.limit)
        distances = as_integers(single.matrix, tour=True).values
        best, best_cost = single.start, distances[np.arange(len(distances)), single.start].sum()
        if (model := _model(distances, budget)) is None:
            return SingleAnswer(best)
        for sample in range(single.samples):
            if sample and budget.over:
                break
            seconds = budget.left / (single.samples - sample)
            stop = MultipleCriteria([MaxIterations(self.iterations), MaxRuntime(seconds)])
            seed = (single.seed + sample) % 2**31
            try:
                result = model.solve(stop, seed=seed, collect_stats=False, display=False)
            except KeyboardInterrupt:
                return SingleAnswer(best, interrupted=True)
            if result.is_feasible() and result.cost() < best_cost:
                clients = [activity.idx for activity in result.best.routes()[0] if activity.is_client()]
                best, best_cost = successors([0, *(client + 1 for client in clients)]), result.cost()
        return SingleAnswer(best)


def _model(distances: NDArray[np.int64], budget: Budget) -> "pyvrp.Model | None":
    """Return the model of one vehicle that starts in city 0, visits all others and returns; None without time."""
    import pyvrp

    model = pyvrp.Model()
    places = [model.add_location(0, 0) for _ in distances]
    depot = model.add_depot(places[0])
    for place in places[1:]:
        model.add_client(place)
    model.add_vehicle_type(1, start_depot=depot, end_depot=depot)
    for i, origin in enumerate(places):
        if budget.over:
            return None
        for j, target in enumerate(places):
            if i != j:
                model.add_edge(origin, target, int(distances[i, j]))
    return model


@dataclass(frozen=True)
class Routing(OneByOne):
    """Guided local search for `seconds` an instance, or less where the time limit says so.

    It never finds out that it is done, so it always takes its time. Integers only: reals are scaled.
    """

    name = "routing"
    structures = ("tour",)

    seconds: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        require("ortools", "exact", self.name)
        if not self.seconds > 0:
            raise UsageError(f"option 'seconds' of solver 'routing' must be positive, got {self.seconds}")

    def load(self) -> None:
        from ortools.constraint_solver import pywrapcp  # noqa: F401

    def answer(self, single: Single) -> SingleAnswer:
        from ortools.constraint_solver import pywrapcp, routing_enums_pb2

        size = len(single.matrix)
        if size <= LARGEST:
            return SingleAnswer(tiny_tour(single.matrix))
        budget = Budget(single.limit)
        distances = as_integers(single.matrix, tour=True).values.tolist()
        manager = pywrapcp.RoutingIndexManager(size, 1, 0)
        model = pywrapcp.RoutingModel(manager)
        model.SetArcCostEvaluatorOfAllVehicles(model.RegisterTransitMatrix(distances))
        parameters = pywrapcp.DefaultRoutingSearchParameters()
        parameters.first_solution_strategy = routing_enums_pb2.FirstSolutionStrategy.PATH_CHEAPEST_ARC
        parameters.local_search_metaheuristic = routing_enums_pb2.LocalSearchMetaheuristic.GUIDED_LOCAL_SEARCH
        limit = min(self.seconds, budget.left)
        parameters.time_limit.FromMilliseconds(max(1, math.floor(1000 * limit)))
        assignment = model.SolveWithParameters(parameters)
        if assignment is None:
            return SingleAnswer(single.start)
        tour, index = [], model.Start(0)
        while not model.IsEnd(index):
            tour.append(manager.IndexToNode(index))
            index = assignment.Value(model.NextVar(index))
        return SingleAnswer(successors(tour))


def tiny_tour(matrix: Matrices) -> NDArray[np.int64]:
    """Return the optimal successors (n,) for two or three cities: there are at most two tours."""
    cities = np.arange(len(matrix))
    return min(
        (np.roll(cities, shift) for shift in (-1, 1)), key=lambda successor: float(matrix[cities, successor].sum())
    )


def successors(tour: list[int]) -> NDArray[np.int64]:
    """Return the successors (n,) of cities in visiting order."""
    order = np.asarray(tour, dtype=np.int64)
    successor = np.empty_like(order)
    successor[order] = np.roll(order, -1)
    return successor
