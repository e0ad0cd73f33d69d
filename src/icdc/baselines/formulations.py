"""The paper's mixed-integer programs, as plain matrices that any engine can take.

Scheduling: the sequencing model after Avalos-Rosales et al. (2013); tours: Miller, Tucker and Zemlin (1960).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

Vector = NDArray[np.float64]


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
    """Collects constraints one after another; `check` may break it off."""

    def __init__(self, check: Callable[[], None]) -> None:
        self.check = check
        self.column: list[int] = []
        self.value: list[float] = []
        self.begin: list[int] = [0]
        self.lower: list[float] = []
        self.upper: list[float] = []

    def add(self, terms: list[tuple[int, float]], lower: float, upper: float) -> None:
        self.check()
        self.column.extend(column for column, _ in terms)
        self.value.extend(value for _, value in terms)
        self.begin.append(len(self.column))
        self.lower.append(lower)
        self.upper.append(upper)

    def matrix(self, variables: int) -> sparse.csr_array:
        return sparse.csr_array((self.value, self.column, self.begin), shape=(len(self.lower), variables))


def sequencing_model(times: Vector, start: NDArray[np.int64], check: Callable[[], None] = lambda: None) -> LinearModel:
    """Return the sequencing model of processing times (jobs, machines), started from a choice (jobs,).

    Variables: x_ijk = 1 if job k directly follows job j on machine i (jobs count from 1, 0 is the dummy
    that opens and closes every machine), at [(i·(n+1) + j)·(n+1) + k]; then the completion times C_0 … C_n;
    last the makespan. `check` is called for every constraint, and may break it off.
    """
    jobs, machines = times.shape
    nodes = jobs + 1
    pairs = machines * nodes * nodes
    variables = pairs + nodes + 1
    makespan = variables - 1
    big = float(times.max(1).sum()) if jobs else 0.0

    def x(i: int, j: int, k: int) -> int:
        return int((i * nodes + j) * nodes + k)

    rows = _Rows(check)
    on_machine, everyone, real = range(machines), range(nodes), range(1, nodes)
    for i in on_machine:
        rows.add([(x(i, 0, j), 1.0) for j in real], -np.inf, 1.0)
        load = [(x(i, j, k), float(times[k - 1, i])) for k in real for j in everyone if j != k]
        rows.add([*load, (makespan, -1.0)], -np.inf, 0.0)
    for k in real:
        rows.add([(x(i, j, k), 1.0) for i in on_machine for j in everyone if j != k], 1.0, 1.0)
        rows.add([(x(i, k, j), 1.0) for i in on_machine for j in everyone if j != k], 1.0, 1.0)
        for i in on_machine:
            leaving = [(x(i, k, j), 1.0) for j in everyone if j != k]
            arriving = [(x(i, j, k), -1.0) for j in everyone if j != k]
            rows.add(leaving + arriving, 0.0, 0.0)
            for j in everyone:
                if j != k:
                    terms = [(pairs + k, 1.0), (pairs + j, -1.0), (x(i, j, k), -big)]
                    rows.add(terms, float(times[k - 1, i]) - big, np.inf)
    upper = np.ones(variables)
    for i in on_machine:
        for j in everyone:
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


def read_schedule(values: Vector, jobs: int, machines: int) -> NDArray[np.int64]:
    """Return the choice (jobs,) that a point of the sequencing model stands for."""
    nodes = jobs + 1
    follows = values[: machines * nodes * nodes].reshape(machines, nodes, nodes)
    return np.asarray(follows[:, :, 1:].sum(1).argmax(0), dtype=np.int64)


def mtz_model(costs: Vector, start: NDArray[np.int64], check: Callable[[], None] = lambda: None) -> LinearModel:
    """Return Miller, Tucker and Zemlin's model of tours through costs (n, n), started from successors (n,).

    Variables: x_ij = 1 if j directly follows i, at [i·n + j]; then the positions u_1 … u_{n−1} of all
    cities but the first. `check` is called for every constraint, and may break it off.
    """
    size = len(costs)
    pairs = size * size
    variables = pairs + size - 1
    rows = _Rows(check)
    for i in range(size):
        others = [j for j in range(size) if j != i]
        rows.add([(i * size + j, 1.0) for j in others], 1.0, 1.0)
        rows.add([(j * size + i, 1.0) for j in others], 1.0, 1.0)
    for i in range(1, size):
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


def read_tour(values: Vector, size: int) -> NDArray[np.int64]:
    """Return the successors (n,) that a point of the tour model stands for."""
    return np.asarray(values[: size * size].reshape(size, size).argmax(1), dtype=np.int64)
