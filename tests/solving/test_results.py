"""What an answer claims is true: nothing infeasible is handed over, and nothing is called optimal that may not be."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import icdc
from icdc.errors import InfeasibleError
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks.network import NetworkConfig
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
