"""What an answer claims is true: nothing infeasible is handed over, and nothing is called optimal that may not be."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import icdc
from icdc.errors import InfeasibleError
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems.atsp import Atsp
from icdc.problems.base import Arrays, Instances, Problem
from icdc.problems.pmsp import Pmsp
from icdc.problems.rules import OneColumnPerRow
from icdc.solving import DiffusionSolver, Found, Request, Solver

TINY = NetworkConfig(width=16, heads=2, edge_width=4, encoder_layers=1, denoiser_layers=1, identifiers=2)
DURATIONS = np.array([[[500], [300], [200]]])  # one machine: every schedule takes 1000


def untrained(problem: Problem) -> Model:
    model = Model(problem, ModelConfig(network=TINY))
    model.network.eval()
    return model


class Loose(Atsp):
    """Tours whose rule does not make tours: every city goes where it likes."""

    rule = OneColumnPerRow()  # type: ignore[assignment]


class Forbidden(Pmsp):
    """Schedules none of which passes the problem's own test, though the rule is told that all pairs are permitted."""

    def mask(self, instances: Instances) -> torch.Tensor:
        return torch.ones_like(instances["durations"], dtype=torch.bool)

    def feasible(self, instances: Instances, choice: torch.Tensor) -> torch.Tensor:
        return torch.zeros(choice.shape[:2], dtype=torch.bool)


@pytest.mark.parametrize("problem", [Loose(), Forbidden()])
@pytest.mark.parametrize("time_limit", [None, 0.2])
def test_an_infeasible_choice_is_never_an_answer(problem: Problem, time_limit: float | None) -> None:
    """Whether the rule goes wrong or a mask leaves it no way out: results say so, and one instance ends in an error."""
    size = (6,) if isinstance(problem, Atsp) else (4, 2)
    arrays = problem.sample(2, size, np.random.default_rng(0))
    solver = DiffusionSolver(untrained(problem), steps=2, device="cpu")
    results = solver.solve(problem, arrays, samples=2, time_limit=time_limit)
    assert not results.feasible.any()
    assert not results.proven.any()
    assert np.isinf(results.cost).all()
    assert [(verdict.feasible, verdict.objective) for verdict in results.verdicts()] == [(False, None)] * 2
    one = {name: array[0] for name, array in arrays.items()}
    with pytest.raises(InfeasibleError):
        icdc.solve(one, problem=problem, solver=solver, samples=2, time_limit=time_limit)
    with pytest.raises(InfeasibleError):  # whoever solved it
        icdc.solve(one, problem=problem, solver=icdc.make_solver("random"), samples=2)


def bounded(low: float) -> Problem:
    """Schedules with a lower bound that somebody proved."""

    class Bounded(Pmsp):
        def lower_bound(self, arrays: Arrays) -> Any:
            return np.full(len(arrays["durations"]), low)

    return Bounded()


@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize(("low", "optimal"), [(995.0, False), (999.0, False), (1000.0, True), (1000 - 1e-8, True)])
def test_optimal_means_that_the_bound_is_met(kind: type, low: float, optimal: bool) -> None:
    """Half a percent above the bound, or a tenth, is not proven; the rounding of a sum is no difference."""
    problem = bounded(low)
    model = untrained(problem)
    arrays = {"durations": DURATIONS.astype(kind)}
    results = DiffusionSolver(model, steps=1, device="cpu").solve(problem, arrays, time_limit=0.2)
    assert results.cost.tolist() == [1000]
    assert results.proven.tolist() == [optimal]
    answer = icdc.solve(arrays["durations"][0], solver="network", model=model, samples=1, steps=1, device="cpu")
    assert answer.verdict.objective == 1000
    assert answer.verdict.optimal == optimal
    assert answer.verdict.gap == pytest.approx(0 if optimal else 1000 / low - 1)


@dataclass(frozen=True)
class Told(Solver):
    """Finds what it is told to find."""

    name = "told"
    found: Found

    def refusal(self, problem: Problem) -> str | None:
        return None

    def search(self, request: Request) -> Found:
        return self.found


BOTH, ONE, WRONG = [0, 1], [0, 0], [9, 9]
"""Two jobs of two units on two machines: 2 on both, 4 on one, and machines that are not there."""


def two_jobs(count: int) -> Arrays:
    return {"durations": np.full((count, 2, 2), 2)}


def test_the_better_of_start_and_answer_is_kept() -> None:
    """A worse start replaces nothing, a better one does, and any is better than nothing feasible."""
    start, found = np.array([ONE, BOTH, ONE]), np.array([BOTH, ONE, WRONG])
    results = Told(Found(found, 0.5)).solve(Pmsp(), two_jobs(3), start=start)
    assert results.choice.tolist() == [BOTH, BOTH, ONE]
    assert results.exact_cost.tolist() == results.cost.tolist() == [2, 2, 4]
    assert results.feasible.all()


def test_a_start_that_came_back_was_not_found() -> None:
    """Another solution of the same cost was."""
    start, found = np.array([BOTH, BOTH, ONE]), np.array([BOTH, BOTH[::-1], BOTH])
    results = Told(Found(found, 0.5)).solve(Pmsp(), two_jobs(3), start=start)
    assert results.found_by == ("start", "told", "told")
    assert results.choice.tolist() == found.tolist()


def test_the_highest_bound_and_every_proof_count() -> None:
    """Those of whoever asks and of whoever solves; what is infeasible is proven by nobody."""
    low = -np.inf
    found = Found(
        np.array([ONE, ONE, ONE, WRONG]),
        0.5,
        bound=np.array([low, 1.0, 4.0, 3.0]),
        proven=np.array([True, False, False, True]),
    )
    results = Told(found).solve(Pmsp(), two_jobs(4), bound=np.array([1.0, 3.0, 1.0, low]))
    assert results.bound.tolist() == [1, 3, 4, 3]
    assert results.proven.tolist() == [True, False, True, False]
    verdicts = results.verdicts()
    assert [verdict.bound for verdict in verdicts] == [4, 3, 4, 3]
    assert [verdict.optimal for verdict in verdicts] == [True, False, True, False]


NEEDED = [[0, 0, 5], [2, 0, 0], [5, 0, 0]]
"""Both tours take a step of 5, which no tour without it would be as long as; one is 5 long, the other 7."""
ROADS = [
    [0, 80, 9999, 9999, 9999],
    [9999, 0, 75, 78, 18],
    [9999, 10, 0, 9999, 72],
    [9999, 9999, 9999, 0, 75],
    [41, 9999, 59, 85, 0],
]  # fmt: skip
"""Every tour takes a step of 9999, and the cheapest ones take more of them than others."""


@pytest.mark.parametrize(("matrix", "shortest"), [(NEEDED, 5), (ROADS, 10203)])
@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize("solver", ["icdc", "search", "branch", "cpsat"])
def test_an_optimum_is_not_repaired(matrix: list[list[int]], shortest: int, kind: type, solver: str) -> None:
    """Numbers that look forbidden may be needed; the second answer is the first, whatever has been imported by then."""
    for _ in range(2):
        answer = icdc.solve(np.array(matrix, dtype=kind), problem="atsp", solver=solver)
        assert (answer.objective, answer.optimal) == (shortest, True)


@pytest.mark.parametrize("claimed", [False, True])
def test_a_repair_is_never_dearer_and_leaves_proofs_alone(claimed: bool) -> None:
    """Another tour with as few large steps may cost more; a proof of the first says nothing about it."""
    cheap, dear = Atsp().choice([0, 1, 2]), Atsp().choice([0, 2, 1])
    arrays = {"distances": np.array([NEEDED, NEEDED])}
    results = Told(Found(np.stack([cheap, dear]), 0.1, proven=np.array([claimed] * 2))).solve(Atsp(), arrays)
    assert results.exact_cost.tolist() == [5, 7]
    assert (results.choice == [cheap, dear]).all()
    assert results.proven.tolist() == [claimed] * 2


def test_what_is_cheaper_than_a_proof_or_below_a_bound_refutes_it() -> None:
    """A start of 2 where 4 was called optimal, and a bound of 3 on what costs 2; those of others still count."""
    found = Found(np.array([ONE, BOTH, BOTH]), 0.5, np.array([-np.inf, 3.0, 3.0]), np.array([True, False, False]))
    start, known = np.array([BOTH] * 3), np.array([1.0, 1.0, 2.0])
    results = Told(found).solve(Pmsp(), two_jobs(3), start=start, bound=known)
    assert results.exact_cost.tolist() == [2, 2, 2]
    assert results.proven.tolist() == [False, False, True]
    assert results.bound.tolist() == [1, 1, 2]


def test_large_whole_numbers_are_not_compared_like_reals() -> None:
    """A billionth is rounding of reals; among integers it is a better solution."""
    arrays = {"durations": np.array([[[5 * 10**9 + 3]]])}
    for low, optimal in ((5e9, False), (5e9 + 2, False), (5e9 + 3, True)):
        (verdict,) = Told(Found(np.array([[0]]), 0.1, np.array([low]))).solve(Pmsp(), arrays).verdicts()
        assert verdict.optimal == optimal
        assert (verdict.gap == 0) == optimal
