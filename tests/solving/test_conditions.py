"""Every solver answers what was asked: what it finds keeps to it, and exact ones find the best there is."""

from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import pytest

import icdc
from icdc.errors import InfeasibleError, MissingExtraError
from icdc.solvers import SOLVERS

RNG = np.random.default_rng(5)
DISTANCES = RNG.integers(1, 40, (6, 6))
DURATIONS = RNG.integers(1, 20, (6, 3))
EXACT = {"icdc", "cpsat", "highs", "scip", "cplex", "branch", "dp", "search"}
GREEDY = {"nn", "ni", "fi", "ect", "lpt", "sjf", "random", "patching", "ga", "pso", "network"}
"""Those that may take a step too many and then find nothing, which they say."""


def solvers(problem: str) -> list[str]:
    """Return those that know a problem and need no model of their own."""
    return [name for name, entry in SOLVERS.items() if entry.problems == "any" or problem in entry.problems] + [
        "network"
    ]


def solved(solver: str, instance: Any, **asked: Any) -> icdc.Answer | None:
    """Return an answer; None where the solver is not installed, or found nothing and said so."""
    try:
        return icdc.solve(instance, solver=solver, samples=4, **asked)
    except MissingExtraError:
        pytest.skip("not installed")
    except InfeasibleError:
        assert solver in GREEDY
        return None


@pytest.mark.filterwarnings("ignore::icdc.UnfamiliarWarning")
@pytest.mark.parametrize("solver", solvers("tours"))
def test_paths(solver: str) -> None:
    fixed = {1: 4}
    lengths = {
        order: sum(int(DISTANCES[step]) for step in pairwise(order))
        for order in permutations(range(6))
        if order[-1] == 2 and (1, 4) in pairwise(order)
    }
    answer = solved(solver, DISTANCES, problem="atsp", open=True, last=2, fixed=fixed)
    if answer is None:
        return
    assert answer.objective == lengths[tuple(answer.solution)]
    assert answer.bound is None or answer.bound <= min(lengths.values())
    if solver in EXACT:
        assert answer.objective == min(lengths.values())


@pytest.mark.filterwarnings("ignore::icdc.UnfamiliarWarning")
@pytest.mark.parametrize("solver", solvers("pmsp"))
def test_busy_machines(solver: str) -> None:
    busy, before = (0, 9, 4), (0, 1, 2, 0, 1, 2)
    ends = {}
    for chosen in product(range(3), repeat=6):
        loads = list(busy)
        for job, machine in enumerate(chosen):
            loads[machine] += int(DURATIONS[job, machine]) + 2 * (before[job] != machine)
        ends[chosen] = max(loads)
    # one that breaks a condition is compared with, and not begun from
    answer = solved(solver, DURATIONS, busy=busy, start=before, stay=2, fixed=[(0, 1)])
    if answer is None:
        return
    best = min(end for chosen, end in ends.items() if chosen[0] == 1)
    assert answer.solution[0] == 1
    assert answer.objective == ends[tuple(answer.solution)]
    assert answer.bound is None or answer.bound <= best
    if solver in EXACT:
        assert answer.objective == best


@pytest.mark.parametrize(
    ("asked", "best"),
    [
        ({}, 3.5),
        ({"busy": [0.5, 0]}, 4.0),
        ({"start": [1, 1, 0], "stay": 0.25}, 3.75),
        ({"fixed": {0: 1}, "busy": [0, 1.75]}, 9.2),
    ],
)
def test_decimals_are_proven_like_whole_numbers(asked: dict[str, Any], best: float) -> None:
    """Busy times, changes and forbidden pairs leave them decimals."""
    answer = icdc.solve([[3.5, 5.25], [None, 2.2], [1.1, 1.3]], time_limit=20.0, **asked)
    assert answer.optimal
    assert answer.objective == pytest.approx(best)
    assert answer.seconds < 10.0
