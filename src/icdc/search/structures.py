"""Structures: what problems promise of their solutions and costs, so that solvers need not know the problems.

register(Matching())                  # a structure of one's own
class Seating(Problem):
    structure = "matching"            # problems name it, and all of solving knows what to do
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..jit import SEARCH, in_background
from .run import Budget, Incumbent, InstanceSearch
from .schedule_bounds import knapsack_bound
from .schedule_search import DecimalScheduleSearch, ScheduleSearch, whole_units
from .tour_branching import branch, is_tour
from .tour_search import TourSearch, construct, improve, nearest_neighbours, neighbourhood

Matrix = NDArray[Any]
Choice = NDArray[np.int64]

OPENINGS = 1000
"""Openings of branch and bound on small matrices in the search for a tour without forbidden steps."""
SIZE = 60
"""Cities up to which there are as many; of larger matrices fewer, as every one takes longer."""


class Structure(ABC):
    """What a matrix of costs says about solutions.

    name : as problems write it.
    words : what its solutions are called, in the plural.
    conditions : what may be asked of a solution: "fixed", "stay", "busy", "open", "first", "last".
    diagonal : whether a row may choose the column of its own number.
    """

    name: ClassVar[str]
    words: ClassVar[str]
    conditions: ClassVar[tuple[str, ...]] = ()
    diagonal: ClassVar[bool] = True

    @abstractmethod
    def judge(self, costs: Matrix, choice: Choice) -> tuple[NDArray[np.bool_], Matrix]:
        """Return which choices (count, rows) are feasible and what they cost, (count,) each, exactly for integers.

        costs : (count, rows, columns). Costs of what is not feasible mean nothing.
        """

    @abstractmethod
    def first_choice(self, costs: Matrix) -> Choice:
        """Return a solution (count, rows) of every instance at once, by its cheapest pairs."""

    @abstractmethod
    def search(
        self, matrix: Matrix, seed: int, start: Choice | None = None, incumbent: Incumbent | None = None
    ) -> InstanceSearch:
        """Return the search for one instance (rows, columns)."""

    def repair(self, costs: Matrix, permitted: NDArray[np.bool_], choice: Choice, budget: Budget) -> Choice:
        """Return a solution (rows,) of one instance that uses fewer pairs which are not permitted, if there is a way.

        costs, permitted : (rows, columns); what is not permitted costs more than any solution without it.
        """
        return choice

    def impossible(self, permitted: NDArray[np.bool_]) -> bool:
        """Tell whether it can be shown that no solution has permitted pairs (rows, columns) alone."""
        return False

    def compile(self, kind: type[np.int64] | type[np.float64]) -> None:
        """Call everything once that is compiled for matrices of a kind of number."""
        return


class Tours(Structure):
    """Hamiltonian cycles: every row chooses its successor, and the cost is the sum of the entries along the cycle."""

    name, words = "tour", "tours"
    conditions = ("fixed", "stay", "open", "first", "last")
    diagonal = False

    def judge(self, costs: Matrix, choice: Choice) -> tuple[NDArray[np.bool_], Matrix]:
        inside, entries = _entries(costs, choice)
        return inside & is_tour(choice), entries.sum(1)

    def first_choice(self, costs: Matrix) -> Choice:
        """Return the tours from city 0 that go to the nearest city left, by successors (count, cities)."""
        return nearest_neighbours(costs)

    def search(
        self, matrix: Matrix, seed: int, start: Choice | None = None, incumbent: Incumbent | None = None
    ) -> InstanceSearch:
        return TourSearch(matrix, seed, start, incumbent)

    def repair(self, costs: Matrix, permitted: NDArray[np.bool_], choice: Choice, budget: Budget) -> Choice:
        """Descend by the costs; where forbidden steps are left, look for a tour with as few of them as can be."""
        if budget.over:
            return choice
        first = construct(costs, budget)
        improved = improve(neighbourhood(first.costs, first.prices), choice, budget)
        if permitted[np.arange(len(costs)), improved].all():
            return improved
        return np.array(self._fewest(permitted, improved, budget).choice[0])

    def impossible(self, permitted: NDArray[np.bool_]) -> bool:
        return bool(self._fewest(permitted, None, Budget()).bound[0] > 0)

    def _fewest(self, permitted: NDArray[np.bool_], start: Choice | None, budget: Budget) -> Incumbent:
        """Return a tour with few steps that are not permitted, whose cost is their number."""
        costs = (~permitted).astype(np.int64)
        incumbent = Incumbent(1, len(costs), whole=True)
        if start is not None:
            incumbent.offer(start, costs[np.arange(len(costs)), start].sum(), "start")
        openings = max(1, round(OPENINGS * min(1.0, (SIZE / len(costs)) ** 3)))
        branch(costs, incumbent, openings, budget)
        return incumbent

    def compile(self, kind: type[np.int64] | type[np.float64]) -> None:
        _run_once(TourSearch(np.random.default_rng(0).integers(1, 100, (50, 50)).astype(kind), 0))


class Schedules(Structure):
    """Any column for any row; the cost is the largest total of the entries of a column."""

    name, words = "makespan", "schedules"
    conditions = ("fixed", "stay", "busy")

    def judge(self, costs: Matrix, choice: Choice) -> tuple[NDArray[np.bool_], Matrix]:
        inside, entries = _entries(costs, choice)
        loads = np.zeros((len(costs), costs.shape[2]), costs.dtype)
        np.add.at(loads, (np.arange(len(costs))[:, None], np.clip(choice, 0, costs.shape[2] - 1)), entries)
        return inside, loads.max(1)

    def first_choice(self, costs: Matrix) -> Choice:
        """Return the machine at which each job takes least time."""
        return np.asarray(costs.argmin(2), dtype=np.int64)

    def search(
        self, matrix: Matrix, seed: int, start: Choice | None = None, incumbent: Incumbent | None = None
    ) -> InstanceSearch:
        if (units := whole_units(matrix)) is not None:
            return DecimalScheduleSearch(matrix, *units, seed, start, incumbent)
        return ScheduleSearch(matrix, seed, start, incumbent)

    def repair(self, costs: Matrix, permitted: NDArray[np.bool_], choice: Choice, budget: Budget) -> Choice:
        """Move jobs from forbidden machines to the permitted ones that are done first with them."""
        jobs = np.arange(len(choice))
        moved = ~permitted[jobs, choice]
        loads = np.zeros(costs.shape[1], dtype=costs.dtype)
        np.add.at(loads, choice[~moved], costs[jobs, choice][~moved])
        choice = choice.copy()
        for job in np.flatnonzero(moved):
            machines = np.flatnonzero(permitted[job])
            choice[job] = machines[(loads[machines] + costs[job, machines]).argmin()]
            loads[choice[job]] += costs[job, choice[job]]
        return choice

    def compile(self, kind: type[np.int64] | type[np.float64]) -> None:
        # times so long that no table over loads ends it before anything compiled is called
        trial = ScheduleSearch(np.random.default_rng(0).integers(1, 1000, (12, 4)).astype(kind), 0)
        _run_once(trial)
        knapsack_bound(trial.matrix, trial.prices, int(trial.cost), Budget())


def _entries(costs: Matrix, choice: Choice) -> tuple[NDArray[np.bool_], Matrix]:
    """Return which choices (count, rows) stay inside the matrices, and the entries they take (count, rows)."""
    inside = np.clip(choice, 0, costs.shape[2] - 1)
    return (inside == choice).all(1), np.take_along_axis(costs, inside[:, :, None], 2)[:, :, 0]


def _run_once(search: InstanceSearch) -> None:
    search.construct(Budget())
    search.search_from(search.choice, "search", Budget(steps=10))


STRUCTURES: dict[str, Structure] = {}
"""All structures by name."""


def register(structure: Structure) -> None:
    """Add a structure, so that problems can name it."""
    STRUCTURES[structure.name] = structure


def structure_of(name: str) -> Structure:
    """Return a structure by its name."""
    try:
        return STRUCTURES[name]
    except KeyError:
        names = ", ".join(f"'{name}'" for name in STRUCTURES)
        raise ValueError(f"there is no structure '{name}'; choose one of {names}") from None


register(Tours())
register(Schedules())


def compile_ahead(structure: Structure, search: InstanceSearch, wait: float = 0.0) -> None:
    """Compile in the background what a search will call, with a tiny instance of the same kind of numbers.

    wait : seconds to wait for it: from numba's cache it takes half a second, and longer beside other Python code.
    """
    kind = search.kind
    thread = in_background((SEARCH, structure.name, kind.__name__), lambda: structure.compile(kind))
    if wait > 0:
        thread.join(wait)
