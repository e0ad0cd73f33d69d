"""The paper's mixed-integer programs: HiGHS and SCIP through OR-Tools MathOpt, or the user's CPLEX."""

import datetime
import importlib.util
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import MissingExtraError, UsageError
from .formulations import LinearModel, mtz_model, read_schedule, read_tour, sequencing_model
from .one_by_one import OneByOne, Single, SingleAnswer
from .support import Abandoned, Deadline, OutOfTime, interruptible, require, silent_stdout

MOST_VARIABLES = 500_000
"""A model of more takes minutes to build and more memory than most machines have."""
_SCALE = 1000.0
"""What the greatest number of an instance becomes: absolute tolerances then mean the same for all."""
_TRUST = 1e-7
"""Relative slack taken off a bound that an engine states in floating-point numbers."""


class Point(NamedTuple):
    """What an engine found: values (variables,) or None, its bound, whether it finished, and whether by Ctrl-C."""

    values: NDArray[np.float64] | None
    bound: float
    optimal: bool
    interrupted: bool = False


@dataclass(frozen=True)
class MixedInteger(OneByOne):
    """Model an instance as the paper does and hand it to an engine, with one thread and a heuristic's start.

    Engines compute in floating-point numbers: bounds are lowered by a relative 10⁻⁷, and 'proven' is the
    engine's word.
    """

    structures = ("tour", "makespan")

    @abstractmethod
    def run(self, model: LinearModel, single: Single, deadline: Deadline) -> Point:
        """Solve a model within the limit of the single."""

    def answer(self, single: Single) -> SingleAnswer:
        matrix = single.matrix.astype(np.float64)
        if single.tour:
            np.fill_diagonal(matrix, 0.0)
        top = float(np.abs(matrix).max(initial=0.0))
        unit = top / _SCALE if top > 0 else 1.0
        rows, columns = matrix.shape
        variables = rows * rows if single.tour else columns * (rows + 1) ** 2
        if variables > MOST_VARIABLES:
            raise UsageError(
                f"the solver '{self.name}' cannot take a matrix of {rows} × {columns}: its model would have "
                f"{variables} variables, more than {MOST_VARIABLES}; try 'cpsat' or 'search'"
            )
        build = mtz_model if single.tour else sequencing_model
        deadline = single.deadline()
        try:
            point = self.run(build(matrix / unit, single.start, deadline.check), single, deadline)
        except OutOfTime:
            return SingleAnswer(single.start)
        except Abandoned as engine:
            return SingleAnswer(single.start, interrupted=engine.interrupted)
        bound = point.bound * unit
        bound -= _TRUST * max(abs(bound), unit)
        if np.issubdtype(single.matrix.dtype, np.integer) and np.isfinite(bound):
            bound = float(np.ceil(bound))
        if point.values is None:
            return SingleAnswer(single.start, bound, interrupted=point.interrupted)
        choice = read_tour(point.values, rows) if single.tour else read_schedule(point.values, rows, columns)
        return SingleAnswer(choice, bound, point.optimal, point.interrupted)


@dataclass(frozen=True)
class MathOpt(MixedInteger):
    """An engine that comes with OR-Tools."""

    engine: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        require("ortools", "exact", self.name)

    def load(self) -> None:
        from ortools.math_opt.python import mathopt  # noqa: F401

    def run(self, model: LinearModel, single: Single, deadline: Deadline) -> Point:
        from ortools.math_opt.python import mathopt
        from ortools.util.python.solve_interrupter import SolveInterrupter

        built = mathopt.Model()
        variables = [
            built.add_variable(lb=low, ub=high, is_integer=bool(whole))
            for low, high, whole in zip(model.lower, model.upper, model.integer, strict=True)
        ]
        begin, column, value = model.rows.indptr, model.rows.indices, model.rows.data
        for row, (low, high) in enumerate(zip(model.row_lower, model.row_upper, strict=True)):
            deadline.check()
            constraint = built.add_linear_constraint(lb=low, ub=high)
            for entry in range(begin[row], begin[row + 1]):
                constraint.set_coefficient(variables[column[entry]], float(value[entry]))
        for index in np.flatnonzero(model.objective):
            built.objective.set_linear_coefficient(variables[index], float(model.objective[index]))
        left = deadline.left()
        parameters = mathopt.SolveParameters(
            # MathOpt cannot tell HiGHS how many threads to use; its search for integers runs in one anyway
            threads=None if self.engine == "HIGHS" else 1,
            random_seed=single.seed,
            relative_gap_tolerance=1e-9,
            absolute_gap_tolerance=1e-6,
            time_limit=None if left is None else datetime.timedelta(seconds=max(0.001, left)),
        )
        start = mathopt.SolutionHint(variable_values=dict(zip(variables, model.start, strict=True)))
        engine = getattr(mathopt.SolverType, self.engine)
        interrupter = SolveInterrupter()
        with silent_stdout():
            result, interrupted = interruptible(
                lambda: mathopt.solve(
                    built,
                    engine,
                    params=parameters,
                    model_params=mathopt.ModelSolveParameters(solution_hints=[start]),
                    interrupter=interrupter,
                ),
                interrupter.interrupt,
                deadline,
            )
        bound = float(result.best_objective_bound())
        if not result.has_primal_feasible_solution():
            return Point(None, bound, False, interrupted)
        values = np.array(result.variable_values(variables))
        optimal = result.termination.reason == mathopt.TerminationReason.OPTIMAL
        return Point(values, bound, optimal, interrupted)


@dataclass(frozen=True)
class Highs(MathOpt):
    """HiGHS."""

    name = "highs"
    engine = "HIGHS"


@dataclass(frozen=True)
class Scip(MathOpt):
    """SCIP."""

    name = "scip"
    engine = "GSCIP"


@dataclass(frozen=True)
class Cplex(MixedInteger):
    """IBM's CPLEX, through the Python package that comes with it; it is commercial, and no extra adds it."""

    name = "cplex"

    def __post_init__(self) -> None:
        super().__post_init__()
        if importlib.util.find_spec("cplex") is None:
            raise MissingExtraError(
                "the solver 'cplex' needs IBM's CPLEX, which is commercial, and its Python package: "
                "pip install cplex; 'highs' and 'scip' take the same model: pip install 'icdc[exact]'"
            )

    def load(self) -> None:
        import cplex  # noqa: F401

    def run(self, model: LinearModel, single: Single, deadline: Deadline) -> Point:
        import cplex

        problem: Any = cplex.Cplex()
        for stream in (problem.set_log_stream, problem.set_results_stream, problem.set_warning_stream):
            stream(None)
        problem.variables.add(
            obj=model.objective.tolist(),
            lb=model.lower.tolist(),
            ub=model.upper.tolist(),
            types="".join("I" if whole else "C" for whole in model.integer),
        )
        begin, column, value = model.rows.indptr, model.rows.indices, model.rows.data
        expressions, senses, right = [], "", []
        for row, (low, high) in enumerate(zip(model.row_lower, model.row_upper, strict=True)):
            part = slice(begin[row], begin[row + 1])
            expressions.append(cplex.SparsePair(column[part].tolist(), value[part].tolist()))
            senses += "E" if low == high else ("L" if np.isfinite(high) else "G")
            right.append(float(high if np.isfinite(high) else low))
        problem.linear_constraints.add(lin_expr=expressions, senses=senses, rhs=right)
        point = cplex.SparsePair(list(range(len(model.start))), model.start.tolist())
        problem.MIP_starts.add(point, problem.MIP_starts.effort_level.auto)
        problem.parameters.threads.set(1)
        problem.parameters.randomseed.set(single.seed)
        problem.parameters.mip.tolerances.mipgap.set(1e-9)
        if (left := deadline.left()) is not None:
            problem.parameters.timelimit.set(max(0.001, left))
        problem.solve()
        solution = problem.solution
        if not solution.is_primal_feasible():
            return Point(None, -np.inf, False)
        status = solution.get_status()
        optimal = status in (solution.status.MIP_optimal, solution.status.optimal_tolerance)
        return Point(np.array(solution.get_values()), float(solution.MIP.get_best_objective()), optimal)
