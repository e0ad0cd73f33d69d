"""CP-SAT: assignment with a makespan for machines, a circuit for tours. Exact."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .each import Answer, EachInstance, Task
from .extras import require
from .integers import IntegerMatrix, as_integers


@dataclass(frozen=True)
class CpSat(EachInstance):
    """OR-Tools' CP-SAT with one search worker per instance, started from a heuristic's solution.

    CP-SAT knows integers only: reals are scaled, their bound is lowered by what the rounding may hide, and
    'proven' then means to within that rounding (a relative 10⁻⁹ or better).
    """

    name = "cpsat"
    scheduling = True
    takes_samples = False

    workers: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require("ortools", "exact", self.name)

    def load(self) -> None:
        from ortools.sat.python import cp_model  # noqa: F401

    def answer(self, task: Task) -> Answer:
        largest = 10**12 if np.issubdtype(task.matrix.dtype, np.integer) else 10**9
        integers = as_integers(task.matrix, largest, tour=task.tour)
        if task.tour:
            return self._tour(task, integers)
        return self._schedule(task, integers)

    def _schedule(self, task: Task, integers: IntegerMatrix) -> Answer:
        from ortools.sat.python import cp_model

        model = cp_model.CpModel()
        times = integers.values
        jobs, machines = times.shape
        makespan = model.new_int_var(0, int(times.min(1).sum()) if jobs else 0, "makespan")
        takes = [[model.new_bool_var(f"{job}_{machine}") for machine in range(machines)] for job in range(jobs)]
        for job in range(jobs):
            model.add_exactly_one(takes[job])
            for machine in range(machines):
                model.add_hint(takes[job][machine], int(task.start[job]) == machine)
        for machine in range(machines):
            model.add(sum(int(times[job, machine]) * takes[job][machine] for job in range(jobs)) <= makespan)
        model.minimize(makespan)
        solver, found = self._run(model, task)
        if not found:
            return Answer(task.start, integers.bound(float(solver.best_objective_bound)))
        values = np.array([[solver.boolean_value(cell) for cell in row] for row in takes])
        return self._answer(solver, integers, values.argmax(1))

    def _tour(self, task: Task, integers: IntegerMatrix) -> Answer:
        from ortools.sat.python import cp_model

        model = cp_model.CpModel()
        steps = integers.values
        size = len(steps)
        arcs = []
        for i in range(size):
            for j in range(size):
                if i != j:
                    arc = model.new_bool_var(f"{i}_{j}")
                    model.add_hint(arc, int(task.start[i]) == j)
                    arcs.append((i, j, arc))
        model.add_circuit(arcs)
        model.minimize(sum(int(steps[i, j]) * arc for i, j, arc in arcs))
        solver, found = self._run(model, task)
        if not found:
            return Answer(task.start, integers.bound(float(solver.best_objective_bound)))
        choice = np.zeros(size, dtype=np.int64)
        for i, j, arc in arcs:
            if solver.boolean_value(arc):
                choice[i] = j
        return self._answer(solver, integers, choice)

    def _run(self, model: Any, task: Task) -> tuple[Any, bool]:
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.num_workers = self.workers
        solver.parameters.random_seed = task.seed
        if task.limit is not None:
            solver.parameters.max_time_in_seconds = task.limit
        status = solver.solve(model)
        return solver, status in (cp_model.OPTIMAL, cp_model.FEASIBLE)

    def _answer(self, solver: Any, integers: IntegerMatrix, choice: NDArray[np.int64]) -> Answer:
        bound, value = float(solver.best_objective_bound), float(solver.objective_value)
        return Answer(choice.astype(np.int64), integers.bound(min(bound, value)), bool(bound >= value))
