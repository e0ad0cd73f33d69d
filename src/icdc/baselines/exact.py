"""Solvers that can prove their answers: search, assignments branched on, dynamic programming, CP-SAT.

On random asymmetric matrices the cheapest assignment costs nearly what the best tour does, so that a handful of
branchings (Carpaneto, Toth) prove the optimum; on symmetric ones the bound is weak and a limit is soon met.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..problems.base import Problem
from ..problems.bounds import assignment_bound
from ..search.run import SAME, Budget, Incumbent
from ..search.schedule_exact import load_tables, read_schedule
from ..search.structures import STRUCTURES
from ..search.tour_bounds import sum_error
from ..search.tour_branching import branch
from ..solving.anytime import AnytimeSearch
from ..solving.solver import Abilities, Request, Solver
from .one_by_one import LARGEST_EXACT, Abandoned, OneByOne, Single, SingleAnswer, as_integers, interruptible, require
from .support import Matrices

Choice = NDArray[np.int64]
MOST_VARIABLES = 2_000_000
"""A model of CP-SAT with more takes minutes to build and more memory than most machines have."""


@dataclass(frozen=True)
class ClassicalSearch(Solver):
    """Prices, constructions, local search and proofs: the default solver without its network.

    For `seconds` an instance, or as long as the time limit says; with neither (seconds=none) for as many steps as the
    default solver makes without a limit, and then a seed repeats itself. It ends early where an answer is proven. Inner
    loops are compiled, and use all cores.
    """

    name = "search"
    abilities = Abilities(bound=True)

    seconds: float | None = 1.0

    def __post_init__(self) -> None:
        if self.seconds is not None and not self.seconds > 0:
            raise UsageError(f"option 'seconds' of solver 'search' must be positive, got {self.seconds}")

    def refusal(self, problem: Problem) -> str | None:
        if problem.structure is not None:
            return None
        words = " and ".join(structure.words for structure in STRUCTURES.values())
        return f"the solver 'search' is for {words}: it cannot answer '{problem.name}'"

    def search(self, request: Request) -> None:
        if request.time_limit is None and self.seconds is not None:
            request.time_limit = self.seconds * request.count
            request.start_clock()
        AnytimeSearch(request, None).run()


@dataclass(frozen=True)
class AssignmentPatching(OneByOne):
    """Join the two longest cycles of the cheapest assignment where that costs least, until one is left.

    The assignment is a lower bound as well, so an assignment that is a tour at once is proven optimal.
    """

    name = "patching"
    structures = ("tour",)

    def load(self) -> None:
        from scipy.optimize import linear_sum_assignment  # noqa: F401

    def answer(self, single: Single) -> SingleAnswer:
        from scipy.optimize import linear_sum_assignment

        costs = single.matrix.astype(np.float64)
        np.fill_diagonal(costs, np.inf)
        successor = linear_sum_assignment(costs)[1].astype(np.int64)
        bound = float(assignment_bound(single.matrix[None])[0])
        cycles = _cycles_of(successor)
        while len(cycles) > 1:
            cycles.sort(key=len)
            one, other = cycles.pop(), cycles.pop()
            _join(costs, successor, one, other)
            cycles.append(np.concatenate([one, other]))
        return SingleAnswer(successor, bound)


@dataclass(frozen=True)
class BranchAndBound(OneByOne):
    """Open the node of the lowest bound, and break the cycle of its assignment that has the fewest free arcs.

    At least one arc of the cycle is missing in a tour: child h misses the h-th and takes those before it, so
    that no two children share a tour. Patching and a quick heuristic give the tour to beat. After `nodes`
    openings, or at the end of its time, the answer is the best tour so far with the lowest open bound.
    Integers are exact; for reals 'proven' means to within the rounding of sums, by which the bound is lowered.
    """

    name = "branch"
    structures = ("tour",)

    nodes: int = 1_000_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nodes < 1:
            raise UsageError(f"option 'nodes' of solver '{self.name}' must be at least 1, got {self.nodes}")

    def load(self) -> None:
        from scipy.optimize import linear_sum_assignment  # noqa: F401

    def answer(self, single: Single) -> SingleAnswer:
        cities = len(single.matrix)
        incumbent = Incumbent(1, cities, single.whole)
        for tour in (single.start, AssignmentPatching().answer(single).choice):
            incumbent.offer(tour, single.matrix[np.arange(cities), tour].sum(), "start")
        branch(single.matrix, incumbent, self.nodes, Budget(single.limit))
        proven = bool(incumbent.proven[0])
        bound = incumbent.bound[0] - (sum_error(single.matrix) if proven else 0.0)
        return SingleAnswer(incumbent.choice[0], float(bound), proven)


def _cycles_of(successor: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the cities of each cycle of a permutation (n,)."""
    visited = np.zeros(len(successor), dtype=bool)
    cycles = []
    for start in range(len(successor)):
        cycle, city = [], start
        while not visited[city]:
            visited[city] = True
            cycle.append(city)
            city = int(successor[city])
        if cycle:
            cycles.append(np.array(cycle, dtype=np.int64))
    return cycles


def _join(
    costs: NDArray[np.float64],
    successor: NDArray[np.int64],
    one: NDArray[np.int64],
    other: NDArray[np.int64],
) -> None:
    """Let a city of each cycle swap successors, in place, where the two new steps cost least extra."""
    leaving_one, leaving_other = costs[one, successor[one]], costs[other, successor[other]]
    crossing = costs[one[:, None], successor[other][None, :]] + costs[other[:, None], successor[one][None, :]].T
    extra = crossing - leaving_one[:, None] - leaving_other[None, :]
    row, column = np.unravel_index(int(extra.argmin()), extra.shape)
    i, j = one[row], other[column]
    successor[i], successor[j] = successor[j], successor[i]


@dataclass(frozen=True)
class DynamicProgram(OneByOne):
    """Tabulate, job by job, the least load of the last machine for every combination of loads of the others.

    Only loads below the makespan of a quick heuristic are kept, since only such schedules are better: the
    table has makespan^(machines − 1) entries, and one is kept for every job to read the schedule back.
    `cells` is how many entries there may be in all; durations are counted in their greatest common divisor.
    """

    name = "dp"
    structures = ("makespan",)

    cells: int = 2**27

    def answer(self, single: Single) -> SingleAnswer:
        budget = Budget(single.limit)
        times, unit = self._in_units(single.matrix)
        jobs, machines = times.shape
        makespan = _makespan(times, single.start)
        # the linear-programming bound would cost more time than the tables do
        shortest = times.min(1)
        least = max(int(shortest.max()), -(-int(shortest.sum()) // machines))
        if makespan <= least:
            return SingleAnswer(single.start, float(least * unit), True)
        self._check_size(jobs, machines, makespan)
        tables = load_tables(times, makespan, budget)
        if tables is None:
            return SingleAnswer(single.start, float(least * unit))
        choice = read_schedule(times, tables, makespan)
        if choice is None:
            return SingleAnswer(single.start, float(makespan * unit), True)
        return SingleAnswer(choice, float(_makespan(times, choice) * unit), True)

    def _in_units(self, durations: Matrices) -> tuple[NDArray[np.int64], int]:
        """Return durations (jobs, machines) as multiples of their greatest common divisor, and that."""
        times = np.rint(durations).astype(np.int64)
        if not np.array_equal(times, durations):
            raise UsageError(f"the solver '{self.name}' needs durations that are whole numbers; try 'cpsat'")
        unit = max(1, int(np.gcd.reduce(times, axis=None)))
        return times // unit, unit

    def _check_size(self, jobs: int, machines: int, makespan: int) -> None:
        needed = jobs * makespan ** (machines - 1)
        if needed > self.cells:
            raise UsageError(
                f"the solver '{self.name}' would need {jobs} × {makespan}^{machines - 1} = {needed:,} table entries "
                f"for {jobs} jobs on {machines} machines, more than its limit cells={self.cells}; try 'cpsat'"
            )


def _makespan(times: NDArray[np.int64], choice: NDArray[np.int64]) -> int:
    loads = np.zeros(times.shape[1], dtype=np.int64)
    np.add.at(loads, choice, times[np.arange(len(times)), choice])
    return int(loads.max())


@dataclass(frozen=True)
class CpSat(OneByOne):
    """OR-Tools' CP-SAT (assignment with a makespan, or a circuit), one search worker an instance, with a start.

    CP-SAT knows integers only: reals are scaled, their bound is lowered by what the rounding may hide, and
    'proven' then means to within that rounding (a relative 10⁻⁹ or better).
    """

    name = "cpsat"
    structures = ("tour", "makespan")

    workers: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require("ortools", "exact", self.name)

    def load(self) -> None:
        from ortools.sat.python import cp_model  # noqa: F401

    def answer(self, single: Single) -> SingleAnswer:
        from ortools.sat.python import cp_model

        cells, budget = single.matrix.size, Budget(single.limit)
        if cells > MOST_VARIABLES:
            raise UsageError(
                f"the solver 'cpsat' cannot take a matrix of {' × '.join(map(str, single.matrix.shape))}: its model "
                f"would have {cells} variables, more than {MOST_VARIABLES}; try 'search'"
            )
        integers = as_integers(single.matrix, LARGEST_EXACT // cells if single.whole else 10**12, tour=single.tour)
        built = (_circuit if single.tour else _assignment)(integers.values, single.start, budget)
        if built is None:
            return SingleAnswer(single.start)
        model, read = built
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = self.workers
        solver.parameters.random_seed = single.seed
        solver.parameters.catch_sigint_signal = False  # Ctrl-C is for the command that is running
        if budget.timed:
            solver.parameters.max_time_in_seconds = max(0.001, budget.left)
        try:
            status, interrupted = interruptible(lambda: solver.solve(model), solver.stop_search, budget)
        except Abandoned as engine:
            return SingleAnswer(single.start, interrupted=engine.interrupted)
        bound, value = float(solver.best_objective_bound), float(solver.objective_value)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return SingleAnswer(single.start, integers.bound(bound), interrupted=interrupted)
        # numbers that had to be rounded prove nothing of the last digits
        rounding = 0.0 if single.whole else SAME * abs(integers.cost(value))
        proven = bound >= value and integers.error <= rounding
        return SingleAnswer(read(solver), integers.bound(min(bound, value)), proven, interrupted)


def _assignment(times: Choice, start: Choice, budget: Budget) -> tuple[Any, Callable[[Any], Choice]] | None:
    """Return CP-SAT's model of a schedule, and what reads one from a solver; None where the time is over before."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    jobs, machines = times.shape
    makespan = model.new_int_var(0, int(times.min(1).sum()) if jobs else 0, "makespan")
    takes = [[model.new_bool_var(f"{job}_{machine}") for machine in range(machines)] for job in range(jobs)]
    for job in range(jobs):
        if budget.over:
            return None
        model.add_exactly_one(takes[job])
        for machine in range(machines):
            model.add_hint(takes[job][machine], int(start[job]) == machine)
    for machine in range(machines):
        if budget.over:
            return None
        model.add(sum(int(times[job, machine]) * takes[job][machine] for job in range(jobs)) <= makespan)
    model.minimize(makespan)
    return model, lambda solver: np.array([[solver.boolean_value(cell) for cell in row] for row in takes]).argmax(1)


def _circuit(steps: Choice, start: Choice, budget: Budget) -> tuple[Any, Callable[[Any], Choice]] | None:
    """Return CP-SAT's model of a tour, and what reads one from a solver; None where the time is over before."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    arcs = []
    for i in range(len(steps)):
        if budget.over:
            return None
        for j in range(len(steps)):
            if i != j:
                arc = model.new_bool_var(f"{i}_{j}")
                model.add_hint(arc, int(start[i]) == j)
                arcs.append((i, j, arc))
    model.add_circuit(arcs)
    model.minimize(sum(int(steps[i, j]) * arc for i, j, arc in arcs))

    def read(solver: Any) -> Choice:
        choice = np.zeros(len(steps), dtype=np.int64)
        for i, j, arc in arcs:
            if solver.boolean_value(arc):
                choice[i] = j
        return choice

    return model, read
