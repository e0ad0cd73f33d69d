"""CP-SAT: assignment with a makespan for machines, a circuit for tours. Exact."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..solving.solver import Abilities
from .one_by_one import OneByOne, Single, SingleAnswer
from .support import IntegerMatrix, as_integers, require


@dataclass(frozen=True)
class CpSat(OneByOne):
    """OR-Tools' CP-SAT with one search worker per instance, started from a heuristic's solution.

    CP-SAT knows integers only: reals are scaled, their bound is lowered by what the rounding may hide, and
    'proven' then means to within that rounding (a relative 10⁻⁹ or better).
    """

    name = "cpsat"
    structures = ("tour", "makespan")
    abilities = Abilities(proof=True, start=True)

    workers: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require("ortools", "exact", self.name)

    def load(self) -> None:
        from ortools.sat.python import cp_model  # noqa: F401

    def answer(self, single: Single) -> SingleAnswer:
        largest = 10**12 if np.issubdtype(single.matrix.dtype, np.integer) else 10**9
        integers = as_integers(single.matrix, largest, tour=single.tour)
        if single.tour:
            return self._tour(single, integers)
        return self._schedule(single, integers)

    def _schedule(self, single: Single, integers: IntegerMatrix) -> SingleAnswer:
        from ortools.sat.python import cp_model

        model = cp_model.CpModel()
        times = integers.values
        jobs, machines = times.shape
        makespan = model.new_int_var(0, int(times.min(1).sum()) if jobs else 0, "makespan")
        takes = [[model.new_bool_var(f"{job}_{machine}") for machine in range(machines)] for job in range(jobs)]
        for job in range(jobs):
            model.add_exactly_one(takes[job])
            for machine in range(machines):
                model.add_hint(takes[job][machine], int(single.start[job]) == machine)
        for machine in range(machines):
            model.add(sum(int(times[job, machine]) * takes[job][machine] for job in range(jobs)) <= makespan)
        model.minimize(makespan)
        solver, found = self._run(model, single)
        if not found:
            return SingleAnswer(single.start, integers.bound(float(solver.best_objective_bound)))
        values = np.array([[solver.boolean_value(cell) for cell in row] for row in takes])
        return self._answer(solver, integers, values.argmax(1))

    def _tour(self, single: Single, integers: IntegerMatrix) -> SingleAnswer:
        from ortools.sat.python import cp_model

        model = cp_model.CpModel()
        steps = integers.values
        size = len(steps)
        arcs = []
        for i in range(size):
            for j in range(size):
                if i != j:
                    arc = model.new_bool_var(f"{i}_{j}")
                    model.add_hint(arc, int(single.start[i]) == j)
                    arcs.append((i, j, arc))
        model.add_circuit(arcs)
        model.minimize(sum(int(steps[i, j]) * arc for i, j, arc in arcs))
        solver, found = self._run(model, single)
        if not found:
            return SingleAnswer(single.start, integers.bound(float(solver.best_objective_bound)))
        choice = np.zeros(size, dtype=np.int64)
        for i, j, arc in arcs:
            if solver.boolean_value(arc):
                choice[i] = j
        return self._answer(solver, integers, choice)

    def _run(self, model: Any, single: Single) -> tuple[Any, bool]:
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.num_workers = self.workers
        solver.parameters.random_seed = single.seed
        if single.limit is not None:
            solver.parameters.max_time_in_seconds = single.limit
        status = solver.solve(model)
        return solver, status in (cp_model.OPTIMAL, cp_model.FEASIBLE)

    def _answer(self, solver: Any, integers: IntegerMatrix, choice: NDArray[np.int64]) -> SingleAnswer:
        bound, value = float(solver.best_objective_bound), float(solver.objective_value)
        return SingleAnswer(choice.astype(np.int64), integers.bound(min(bound, value)), bool(bound >= value))
