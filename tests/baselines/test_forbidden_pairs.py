"""Every solver by name on tiny instances with forbidden pairs, against all solutions there are."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from icdc.api import solve
from icdc.baselines.matnet import MatNet, MatNetNetworkConfig, MatNetSolver
from icdc.cli import run
from icdc.errors import InfeasibleError
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems import Atsp, Instance, Pmsp, Problem
from icdc.problems.forbidden import with_stand_ins
from icdc.solvers import SOLVERS, make_solver
from icdc.solving.answer import Answer
from icdc.solving.jobs import solve_instances
from icdc.solving.network import DiffusionSolver
from icdc.solving.solver import Solver

QUICK = {"ga": "ga:iterations=20", "pso": "pso:iterations=20", "routing": "routing:seconds=0.02",
         "pyvrp": "pyvrp:iterations=30", "search": "search:seconds=0.05", "icdc": "icdc:device=cpu"}  # fmt: skip
EXACT = ("cpsat", "highs", "scip", "branch", "dp", "icdc", "search")
X = -1
"""A forbidden pair in the matrices below."""

SCHEDULES = {
    "one machine each": [[3, X, X], [X, X, 4], [X, 5, X], [2, X, X]],  # exactly one solution
    "free machines attract": [[9, X], [8, X], [7, X], [1, 1]],
    "some": [[3, X, 7], [X, 2, 9], [4, 4, X], [X, X, 5], [6, 1, 1]],
}
TOURS = {
    "ring": [[0, 5, X, X], [X, 0, 7, X], [X, X, 0, 1], [2, X, X, 0]],  # exactly one solution
    # whoever goes to the nearest city first cannot come home: 0 → 1 → 2 → 3 is cheap, and 3 has no way back
    "dead end": [[0, 1, 9, 9, 9], [9, 0, 1, 9, 9], [9, 9, 0, 1, 9], [X, 5, 5, 0, 2], [9, 9, 9, X, 0]],
    "nearest has no way home": [[0, 1, 8, X], [X, 0, 1, 9], [9, X, 0, 1], [X, 2, 7, 0]],
    "some": [[0, X, 3, 4, 5], [2, 0, X, 4, 9], [X, 3, 0, X, 6], [7, X, 2, 0, 1], [1, 2, 3, X, 0]],
    "three": [[0, X, 1], [4, 0, X], [X, 2, 0]],
}
NOTHING = {
    "no machine": (Pmsp(), [[3, 2], [X, X]], "job 1 has no permitted machine"),
    "nowhere to go": (Atsp(), [[0, X, X], [1, 0, 1], [1, 1, 0]], "city 0 has no permitted city to go to"),
    "no matching": (Atsp(), [[0, X, 1, X], [X, 0, 1, X], [1, 1, 0, 1], [1, X, 1, 0]], "only 1 permitted successors"),
    "two halves": (Atsp(), [[0, 1, X, X], [1, 0, X, X], [X, X, 0, 1], [X, X, 1, 0]], "there is no permitted way"),
    # two groups that meet in city 0: each city can have a successor of its own, but a tour would pass 0 twice
    "no cycle": (
        Atsp(),
        [[0, 1, 1, 1, 1], [1, 0, 1, X, X], [1, 1, 0, X, X], [1, X, X, 0, 1], [1, X, X, 1, 0]],
        None,
    ),
}  # fmt: skip


def instance_of(problem: Problem, rows: list[list[int]]) -> Instance:
    matrix = np.array(rows)
    (name,) = problem.arrays
    forbidden = matrix == X
    arrays = with_stand_ins(problem, {name: np.where(forbidden, 0, matrix)}, forbidden)
    return Instance("tiny", problem, arrays, forbidden=forbidden)


def all_solutions(problem: Problem, matrix: NDArray[Any]) -> Iterator[tuple[float, NDArray[np.int64]]]:
    """Yield every permitted solution with its cost."""
    rows, columns = matrix.shape
    if problem.structure == "makespan":
        for picked in product(range(columns), repeat=rows):
            times = matrix[np.arange(rows), picked]
            if (times != X).all():
                yield max(np.bincount(picked, times, columns)), np.array(picked)
        return
    for rest in permutations(range(1, rows)):
        order = np.array([0, *rest])
        steps = matrix[order, np.roll(order, -1)]
        if (steps != X).all():
            choice = np.empty(rows, dtype=np.int64)
            choice[order] = np.roll(order, -1)
            yield steps.sum(), choice


def learned(problem: Problem, kind: str) -> Solver:
    """Return an untrained model as a solver: what it decodes is left to chance, and to the mask."""
    torch.manual_seed(5)
    if kind == "matnet":
        small = MatNetNetworkConfig(width=16, heads=2, layers=1, mixer_width=4, feed_forward=16, one_hots=16)
        return MatNetSolver(MatNet(problem, small), device="cpu")
    network = NetworkConfig(width=16, heads=2, edge_width=4, encoder_layers=1, denoiser_layers=1, identifiers=4)
    model = Model(problem, ModelConfig(network=network))
    model.network.eval()
    return DiffusionSolver(model, device="cpu", steps=3)


def solver_of(name: str, problem: Problem) -> Solver:
    return learned(problem, name) if name in ("network", "matnet") else make_solver(QUICK.get(name, name))


def answered(name: str, instance: Instance, **options: Any) -> Answer | None:
    """Return the answer of a solver; None where it is not for this problem."""
    solver = solver_of(name, instance.problem)
    if solver.refusal(instance.problem) is not None:
        return None
    ((_, answer),) = solve_instances([instance], solver, samples=1, **options)
    return answer


@pytest.mark.parametrize("name", [name for name in SOLVERS if name != "cplex"])
def test_no_solver_uses_a_forbidden_pair(name: str) -> None:
    for problem, cases in ((Pmsp(), SCHEDULES), (Atsp(), TOURS)):
        for case, rows in cases.items():
            instance = instance_of(problem, rows)
            answer = answered(name, instance)
            if answer is None:
                continue
            every = list(all_solutions(problem, np.array(rows)))
            optimum = min(cost for cost, _ in every)
            assert answer.feasible, f"{name} on {case}"
            assert any((answer.choice == choice).all() and answer.objective == cost for cost, choice in every)
            assert answer.bound is None or answer.bound <= optimum
            assert answer.reason is None
            if len(every) == 1 or name in EXACT:
                assert answer.objective == optimum, f"{name} on {case}"
            assert not answer.optimal or answer.objective == optimum


@pytest.mark.parametrize("name", [name for name in SOLVERS if name != "cplex"])
def test_no_solution_is_said_with_its_reason(name: str) -> None:
    for problem, rows, reason in NOTHING.values():
        assert not list(all_solutions(problem, np.array(rows)))
        answer = answered(name, instance_of(problem, rows))
        if answer is not None:
            assert not answer.feasible
            assert answer.objective is None
            assert answer.reason is not None
            assert (reason or "all tours use a forbidden pair") in answer.reason
            assert "infeasible" in str(answer)
            assert answer.reason in str(answer)


def test_no_solution_ends_the_command_with_4(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rows = NOTHING["no cycle"][1]
    path = tmp_path / "cities.csv"
    path.write_text("\n".join(",".join("-" if cell == X else str(cell) for cell in row) for row in rows))
    for solver in ("icdc", "nn", "branch"):
        assert run(["solve", str(path), "--problem", "atsp", "--solver", solver]) == 4
        assert "all tours use a forbidden pair" in capsys.readouterr().out
    with pytest.raises(InfeasibleError, match="all tours use a forbidden pair"):
        solve(np.where(np.array(rows) == X, np.inf, rows), problem="atsp", solver="fi")


@pytest.mark.parametrize("name", [name for name in SOLVERS if name not in ("cplex", "routing", "scip", "highs")])
def test_random_instances_are_answered_without_forbidden_pairs(name: str) -> None:
    """Larger ones, with so many forbidden pairs that greedy rules end without a way out."""
    rng = np.random.default_rng(3)
    make: Callable[[], tuple[Problem, NDArray[Any]]]

    def schedule() -> tuple[Problem, NDArray[Any]]:
        matrix = rng.integers(1, 20, (12, 4))
        matrix[(rng.random((12, 4)) < 0.6) & (np.arange(4) != rng.integers(0, 4, 12)[:, None])] = X
        return Pmsp(), matrix

    def tour(size: int) -> tuple[Problem, NDArray[Any]]:
        matrix, order = rng.integers(1, 100, (size, size)), rng.permutation(size)
        forbidden = rng.random((size, size)) < 0.6
        forbidden[order, np.roll(order, -1)] = False
        matrix[forbidden & ~np.eye(size, dtype=bool)] = X
        np.fill_diagonal(matrix, 0)
        return Atsp(), matrix

    for make in (schedule, partial(tour, 5), partial(tour, 9), partial(tour, 16)):
        for _ in range(2):
            problem, matrix = make()
            answer = answered(name, instance_of(problem, matrix.tolist()))
            assert answer is None or answer.feasible
