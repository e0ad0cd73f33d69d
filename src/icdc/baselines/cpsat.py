"""CP-SAT: assignment with a makespan for machines, a circuit for tours. Exact."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .one_by_one import OneByOne, Single, SingleAnswer
from .support import Abandoned, Deadline, IntegerMatrix, OutOfTime, as_integers, interruptible, require

MOST_VARIABLES = 2_000_000
"""A model of more takes minutes to build and more memory than most machines have."""


@dataclass(frozen=True)
class CpSat(OneByOne):
    """OR-Tools' CP-SAT with one search worker per instance, started from a heuristic's solution.

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
        cells = single.matrix.size
        if cells > MOST_VARIABLES:
            raise UsageError(
                f"the solver 'cpsat' cannot take a matrix of {' × '.join(map(str, single.matrix.shape))}: its model "
                f"would have {cells} variables, more than {MOST_VARIABLES}; try 'search'"
            )
        deadline = single.deadline()
        largest = 10**12 if np.issubdtype(single.matrix.dtype, np.integer) else 10**9
        integers = as_integers(single.matrix, largest, tour=single.tour)
        build = self._tour if single.tour else self._schedule
        try:
            return build(single, integers, deadline)
        except OutOfTime:
            return SingleAnswer(single.start)
        except Abandoned as engine:
            return SingleAnswer(single.start, interrupted=engine.interrupted)

    def _schedule(self, single: Single, integers: IntegerMatrix, deadline: Deadline) -> SingleAnswer:
        from ortools.sat.python import cp_model

        model = cp_model.CpModel()
        times = integers.values
        jobs, machines = times.shape
        makespan = model.new_int_var(0, int(times.min(1).sum()) if jobs else 0, "makespan")
        takes = [[model.new_bool_var(f"{job}_{machine}") for machine in range(machines)] for job in range(jobs)]
        for job in range(jobs):
            deadline.check()
            model.add_exactly_one(takes[job])
            for machine in range(machines):
                model.add_hint(takes[job][machine], int(single.start[job]) == machine)
        for machine in range(machines):
            deadline.check()
            model.add(sum(int(times[job, machine]) * takes[job][machine] for job in range(jobs)) <= makespan)
        model.minimize(makespan)
        deadline.check()
        solver, found, interrupted = self._run(model, single, deadline)
        if not found:
            bound = integers.bound(float(solver.best_objective_bound))
            return SingleAnswer(single.start, bound, interrupted=interrupted)
        values = np.array([[solver.boolean_value(cell) for cell in row] for row in takes])
        return self._answer(solver, integers, values.argmax(1), interrupted)

    def _tour(self, single: Single, integers: IntegerMatrix, deadline: Deadline) -> SingleAnswer:
        from ortools.sat.python import cp_model

        model = cp_model.CpModel()
        steps = integers.values
        size = len(steps)
        arcs = []
        for i in range(size):
            deadline.check()
            for j in range(size):
                if i != j:
                    arc = model.new_bool_var(f"{i}_{j}")
                    model.add_hint(arc, int(single.start[i]) == j)
                    arcs.append((i, j, arc))
        model.add_circuit(arcs)
        model.minimize(sum(int(steps[i, j]) * arc for i, j, arc in arcs))
        deadline.check()
        solver, found, interrupted = self._run(model, single, deadline)
        if not found:
            bound = integers.bound(float(solver.best_objective_bound))
            return SingleAnswer(single.start, bound, interrupted=interrupted)
        choice = np.zeros(size, dtype=np.int64)
        for i, j, arc in arcs:
            if solver.boolean_value(arc):
                choice[i] = j
        return self._answer(solver, integers, choice, interrupted)

    def _run(self, model: Any, single: Single, deadline: Deadline) -> tuple[Any, bool, bool]:
        """Return the solver after its search, whether it found a solution, and whether Ctrl-C ended it."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.num_workers = self.workers
        solver.parameters.random_seed = single.seed
        solver.parameters.catch_sigint_signal = False  # Ctrl-C is ours: whoever asked must hear of it
        if (left := deadline.left()) is not None:
            solver.parameters.max_time_in_seconds = max(0.001, left)
        status, interrupted = interruptible(lambda: solver.solve(model), solver.stop_search, deadline)
        return solver, status in (cp_model.OPTIMAL, cp_model.FEASIBLE), interrupted

    def _answer(
        self, solver: Any, integers: IntegerMatrix, choice: NDArray[np.int64], interrupted: bool
    ) -> SingleAnswer:
        bound, value = float(solver.best_objective_bound), float(solver.objective_value)
        proven = bool(bound >= value)
        return SingleAnswer(choice.astype(np.int64), integers.bound(min(bound, value)), proven, interrupted)
