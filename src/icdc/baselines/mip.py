"""The paper's mixed-integer programs, as plain matrices: for HiGHS and SCIP through OR-Tools MathOpt, or your CPLEX.

Scheduling: the sequencing model after Avalos-Rosales et al. (2013); tours: Miller, Tucker and Zemlin (1960).
"""

import ctypes
import datetime
import importlib.util
import os
import sys
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from ..errors import MissingExtraError, UsageError
from ..search.run import Budget
from .one_by_one import Abandoned, OneByOne, Single, SingleAnswer, interruptible, require

Choice = NDArray[np.int64]
Vector = NDArray[np.float64]
MOST_VARIABLES = 500_000
"""A model of more takes minutes to build and more memory than most machines have."""
_SCALE = 1000.0
"""What the greatest number of an instance becomes: absolute tolerances then mean the same for all."""
_TRUST = 1e-7
"""Relative slack taken off a bound that an engine states in floating-point numbers."""
_FRACTION = 1e-6
"""By how much variables that must be whole may miss it: entries far above the cost then hide differences of it."""
_WIDEST = 1e3
"""How many times the cost of a solution the greatest entry may be where an engine is believed that it is the best."""
_GAP = 1e-9
"""Relative gap at which engines call a solution optimal: of integers up to its inverse that is a proof."""


@dataclass(frozen=True)
class LinearModel:
    """min objective·v, row_lower ≤ rows·v ≤ row_upper, lower ≤ v ≤ upper, some v integer.

    objective, lower, upper, start : (variables,); start is a feasible point.
    integer : (variables,) bool.
    rows : (constraints, variables) sparse; row_lower, row_upper : (constraints,), equal or one of them
        infinite.
    """

    objective: Vector
    lower: Vector
    upper: Vector
    integer: NDArray[np.bool_]
    rows: sparse.csr_array
    row_lower: Vector
    row_upper: Vector
    start: Vector


class _Rows:
    """Collects constraints one after another."""

    def __init__(self) -> None:
        self.column: list[int] = []
        self.value: list[float] = []
        self.begin: list[int] = [0]
        self.lower: list[float] = []
        self.upper: list[float] = []

    def add(self, terms: list[tuple[int, float]], lower: float, upper: float) -> None:
        self.column.extend(column for column, _ in terms)
        self.value.extend(value for _, value in terms)
        self.begin.append(len(self.column))
        self.lower.append(lower)
        self.upper.append(upper)

    def matrix(self, variables: int) -> sparse.csr_array:
        return sparse.csr_array((self.value, self.column, self.begin), shape=(len(self.lower), variables))


def sequencing_model(times: Vector, start: Choice, budget: Budget) -> LinearModel | None:
    """Return the sequencing model of processing times (jobs, machines), started from a choice (jobs,).

    Variables: x_ijk = 1 if job k directly follows job j on machine i (jobs count from 1, 0 is the dummy
    that opens and closes every machine), at [(i·(n+1) + j)·(n+1) + k]; then the completion times C_0 … C_n;
    last the makespan. None where the time is over before it is built.
    """
    jobs, machines = times.shape
    nodes = jobs + 1
    pairs = machines * nodes * nodes
    variables = pairs + nodes + 1
    makespan = variables - 1
    big = float(times.max(1).sum()) if jobs else 0.0

    def x(i: int, j: int, k: int) -> int:
        return int((i * nodes + j) * nodes + k)

    rows = _Rows()
    on_machine, every, real = range(machines), range(nodes), range(1, nodes)
    for i in on_machine:
        rows.add([(x(i, 0, j), 1.0) for j in real], -np.inf, 1.0)
        load = [(x(i, j, k), float(times[k - 1, i])) for k in real for j in every if j != k]
        rows.add([*load, (makespan, -1.0)], -np.inf, 0.0)
    for k in real:
        if budget.over:
            return None
        rows.add([(x(i, j, k), 1.0) for i in on_machine for j in every if j != k], 1.0, 1.0)
        rows.add([(x(i, k, j), 1.0) for i in on_machine for j in every if j != k], 1.0, 1.0)
        for i in on_machine:
            leaving = [(x(i, k, j), 1.0) for j in every if j != k]
            arriving = [(x(i, j, k), -1.0) for j in every if j != k]
            rows.add(leaving + arriving, 0.0, 0.0)
            for j in every:
                if j != k:
                    terms = [(pairs + k, 1.0), (pairs + j, -1.0), (x(i, j, k), -big)]
                    rows.add(terms, float(times[k - 1, i]) - big, np.inf)
    upper = np.ones(variables)
    for i in on_machine:
        for j in every:
            upper[x(i, j, j)] = 0.0  # no job follows itself
    upper[pairs:] = big
    upper[pairs] = 0.0  # C_0 = 0
    point = np.zeros(variables)
    for i in on_machine:
        previous, clock = 0, 0.0
        for k in real:
            if start[k - 1] == i:
                clock += float(times[k - 1, i])
                point[x(i, previous, k)], point[pairs + k] = 1.0, clock
                previous = k
        point[x(i, previous, 0)] = 1.0 if previous else 0.0
        point[makespan] = max(point[makespan], clock)
    objective = np.zeros(variables)
    objective[makespan] = 1.0
    integer = np.arange(variables) < pairs
    return LinearModel(
        objective, np.zeros(variables), upper, integer,
        rows.matrix(variables), np.array(rows.lower), np.array(rows.upper), point,
    )  # fmt: skip


def schedule_of(values: Vector, jobs: int, machines: int) -> Choice:
    """Return the choice (jobs,) that a point of the sequencing model stands for."""
    nodes = jobs + 1
    follows = values[: machines * nodes * nodes].reshape(machines, nodes, nodes)
    return np.asarray(follows[:, :, 1:].sum(1).argmax(0), dtype=np.int64)


def mtz_model(costs: Vector, start: Choice, budget: Budget) -> LinearModel | None:
    """Return Miller, Tucker and Zemlin's model of tours through costs (n, n), started from successors (n,).

    Variables: x_ij = 1 if j directly follows i, at [i·n + j]; then the positions u_1 … u_{n−1} of all
    cities but the first. None where the time is over before it is built.
    """
    size = len(costs)
    pairs = size * size
    variables = pairs + size - 1
    rows = _Rows()
    for i in range(size):
        others = [j for j in range(size) if j != i]
        rows.add([(i * size + j, 1.0) for j in others], 1.0, 1.0)
        rows.add([(j * size + i, 1.0) for j in others], 1.0, 1.0)
    for i in range(1, size):
        if budget.over:
            return None
        for j in range(1, size):
            if i != j:
                terms = [(pairs + i - 1, 1.0), (pairs + j - 1, -1.0), (i * size + j, float(size - 1))]
                rows.add(terms, -np.inf, float(size - 2))
    objective = np.zeros(variables)
    objective[:pairs] = np.where(np.eye(size, dtype=bool), 0.0, costs).ravel()
    lower, upper = np.zeros(variables), np.ones(variables)
    upper[: pairs : size + 1] = 0.0  # no city follows itself
    lower[pairs:], upper[pairs:] = 1.0, float(size - 1)
    point = np.zeros(variables)
    city, position = 0, 0
    for position in range(1, size + 1):
        point[city * size + start[city]] = 1.0
        city = int(start[city])
        if city:
            point[pairs + city - 1] = float(position)
    integer = np.arange(variables) < pairs
    return LinearModel(
        objective, lower, upper, integer,
        rows.matrix(variables), np.array(rows.lower), np.array(rows.upper), point,
    )  # fmt: skip


def tour_of(values: Vector, size: int) -> Choice:
    """Return the successors (n,) that a point of the tour model stands for."""
    return np.asarray(values[: size * size].reshape(size, size).argmax(1), dtype=np.int64)


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
    engine's word, but for integers beyond its tolerances.
    """

    structures = ("tour", "makespan")

    @abstractmethod
    def run(self, model: LinearModel, single: Single, budget: Budget) -> Point | None:
        """Solve a model within its time; None where that is over before it is handed over."""

    def answer(self, single: Single) -> SingleAnswer:
        matrix, budget = single.matrix.astype(np.float64), Budget(single.limit)
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
        model = (mtz_model if single.tour else sequencing_model)(matrix / unit, single.start, budget)
        try:
            point = None if model is None else self.run(model, single, budget)
        except Abandoned as engine:
            return SingleAnswer(single.start, interrupted=engine.interrupted)
        if point is None:
            return SingleAnswer(single.start)
        bound = point.bound * unit
        bound -= _TRUST * max(abs(bound), unit)
        if single.whole and np.isfinite(bound):
            bound = float(np.ceil(bound))
        if point.values is None:
            return SingleAnswer(single.start, bound, interrupted=point.interrupted)
        choice = tour_of(point.values, rows) if single.tour else schedule_of(point.values, rows, columns)
        # of integers too large for an engine's tolerances only the bound proves anything, of others far apart nothing
        sure = _GAP * top * rows <= 1 if single.whole else True
        taken = matrix[np.arange(rows), choice]
        cost = taken.sum() if single.tour else np.bincount(choice, taken).max()
        if not single.whole and top > _WIDEST * cost:
            sure, bound = False, bound - _FRACTION * top * rows
        return SingleAnswer(choice, bound, point.optimal and sure, point.interrupted)


@dataclass(frozen=True)
class MathOpt(MixedInteger):
    """An engine that comes with OR-Tools."""

    engine: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        require("ortools", "exact", self.name)

    def load(self) -> None:
        from ortools.math_opt.python import mathopt  # noqa: F401

    def run(self, model: LinearModel, single: Single, budget: Budget) -> Point | None:
        from ortools.math_opt.python import mathopt
        from ortools.util.python.solve_interrupter import SolveInterrupter

        built = mathopt.Model()
        variables = [
            built.add_variable(lb=low, ub=high, is_integer=bool(whole))
            for low, high, whole in zip(model.lower, model.upper, model.integer, strict=True)
        ]
        begin, column, value = model.rows.indptr, model.rows.indices, model.rows.data
        for row, (low, high) in enumerate(zip(model.row_lower, model.row_upper, strict=True)):
            if budget.over:
                return None
            constraint = built.add_linear_constraint(lb=low, ub=high)
            for entry in range(begin[row], begin[row + 1]):
                constraint.set_coefficient(variables[column[entry]], float(value[entry]))
        for index in np.flatnonzero(model.objective):
            built.objective.set_linear_coefficient(variables[index], float(model.objective[index]))
        parameters = mathopt.SolveParameters(
            # MathOpt cannot tell HiGHS how many threads to use; its search for integers runs in one anyway
            threads=None if self.engine == "HIGHS" else 1,
            random_seed=single.seed,
            relative_gap_tolerance=_GAP,
            absolute_gap_tolerance=1e-6,
            time_limit=datetime.timedelta(seconds=max(0.001, budget.left)) if budget.timed else None,
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
                budget,
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

    def run(self, model: LinearModel, single: Single, budget: Budget) -> Point | None:
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
        problem.parameters.mip.tolerances.mipgap.set(_GAP)
        if budget.timed:
            problem.parameters.timelimit.set(max(0.001, budget.left))
        problem.solve()
        solution = problem.solution
        if not solution.is_primal_feasible():
            return Point(None, -np.inf, False)
        status = solution.get_status()
        optimal = status in (solution.status.MIP_optimal, solution.status.optimal_tolerance)
        return Point(np.array(solution.get_values()), float(solution.MIP.get_best_objective()), optimal)


@contextmanager
def silent_stdout() -> Iterator[None]:
    """Send what native code writes to standard output while the block runs to nowhere: stdout belongs to the data.

    HiGHS prints lines of its own there that no option turns off. The descriptor itself is redirected, since
    such output does not pass through Python; C's buffers are emptied on both sides, lest they spill later.
    """
    sys.stdout.flush()
    _flush_c_buffers()
    stdout = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    try:
        yield
    finally:
        _flush_c_buffers()
        os.dup2(stdout, 1)
        os.close(stdout)


def _flush_c_buffers() -> None:
    """Call C's fflush(NULL), where there is a C library to be found."""
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)
