"""What every solver does alike: nothing infeasible is handed over, and nothing is called optimal that may not be."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import icdc
from icdc.errors import InfeasibleError, UsageError
from icdc.models.diffusion import Model, ModelConfig
from icdc.networks import NetworkConfig
from icdc.problems import get_problem
from icdc.problems.atsp import Atsp
from icdc.problems.base import Arrays, Instances, Problem
from icdc.problems.pmsp import Pmsp
from icdc.problems.rules import OneColumnPerRow
from icdc.problems.tensors import to_tensors
from icdc.solving import Improvement, Request, Solver
from icdc.solving.network import DiffusionSolver
from icdc.solving.solver import first_choice
from tests.solving.recording import Recording

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
    assert (results.choice == -1).all()
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
    assert answer.objective == 1000
    assert answer.optimal == optimal
    assert answer.gap == pytest.approx(0 if optimal else 1000 / low - 1)


@dataclass(frozen=True)
class Told(Solver):
    """Offers the solutions that it is told, at a cost that may be wrong, with bounds."""

    name = "told"
    choice: Any
    bound: Any = -np.inf
    cost: Any = 0

    def refusal(self, problem: Problem) -> str | None:
        return None

    def search(self, request: Request) -> None:
        request.offer(self.choice, np.broadcast_to(self.cost, request.count))
        request.result.raise_bound(self.bound)


BOTH, ONE, WRONG = [0, 1], [0, 0], [9, 9]
"""Two jobs of two units on two machines: 2 on both, 4 on one, and machines that are not there."""


def two_jobs(count: int) -> Arrays:
    return {"durations": np.full((count, 2, 2), 2)}


def test_the_better_of_start_and_answer_is_kept() -> None:
    """A worse start replaces nothing, a better one does, and any is better than nothing feasible."""
    start, found = np.array([ONE, BOTH, ONE]), np.array([BOTH, ONE, WRONG])
    results = Told(found, cost=np.array([2, 4, 0])).solve(Pmsp(), two_jobs(3), start=start)
    assert results.choice.tolist() == [BOTH, BOTH, ONE]
    assert results.exact_cost.tolist() == results.cost.tolist() == [2, 2, 4]
    assert results.feasible.all()


def test_a_start_is_kept_though_a_solver_claims_a_better_one() -> None:
    results = Told(np.array([ONE, WRONG]), cost=1).solve(Pmsp(), two_jobs(2), start=np.array([BOTH, ONE]))
    assert results.choice.tolist() == [BOTH, ONE]
    assert results.found_by.tolist() == ["start", "start"]


def test_only_what_is_better_than_a_start_was_found() -> None:
    """Not the start itself, nor another solution of the same cost."""
    start, found = np.array([BOTH, BOTH, ONE]), np.array([BOTH, BOTH[::-1], BOTH])
    results = Told(found, cost=2).solve(Pmsp(), two_jobs(3), start=start)
    assert results.found_by.tolist() == ["start", "start", "told"]
    assert results.choice.tolist() == [BOTH, BOTH, BOTH]


def test_the_highest_bound_counts_and_what_meets_it_is_proven() -> None:
    """Those that were given and those of the solver; what is infeasible is never proven."""
    low = -np.inf
    found = Told(np.array([ONE, ONE, ONE, WRONG]), np.array([low, 1.0, 4.0, 3.0]))
    results = found.solve(Pmsp(), two_jobs(4), bound=np.array([1.0, 3.0, 1.0, low]))
    assert results.bound.tolist() == [1, 3, 4, 3]
    assert results.proven.tolist() == [False, False, True, False]


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
    bound = np.array([5.0, 7.0]) if claimed else -np.inf
    results = Told(np.stack([cheap, dear]), bound, np.array([5, 7])).solve(Atsp(), arrays)
    assert results.exact_cost[0] == 5
    assert results.exact_cost[1] == 7 if claimed else results.exact_cost[1] <= 7
    assert (results.choice[0] == cheap).all()
    assert results.proven.tolist() == [claimed] * 2


def test_what_is_cheaper_than_a_proof_or_below_a_bound_refutes_it() -> None:
    """A start of 2 where 4 was called optimal, and a bound of 3 on what costs 2; those of others still count."""
    found = Told(np.array([ONE, BOTH, BOTH]), np.array([4.0, 3.0, 3.0]), np.array([4, 2, 2]))
    start, known = np.array([BOTH] * 3), np.array([1.0, 1.0, 2.0])
    results = found.solve(Pmsp(), two_jobs(3), start=start, bound=known)
    assert results.exact_cost.tolist() == [2, 2, 2]
    assert results.proven.tolist() == [False, False, True]
    assert results.bound.tolist() == [1, 1, 2]


def test_large_whole_numbers_are_not_compared_like_reals() -> None:
    """A billionth is rounding of reals; among integers it is a better solution."""
    arrays = {"durations": np.array([[[5 * 10**9 + 3]]])}
    for low, optimal in ((5e9, False), (5e9 + 2, False), (5e9 + 3, True)):
        assert Told(np.array([[0]]), low, 5 * 10**9 + 3).solve(Pmsp(), arrays).proven.tolist() == [optimal]


def test_a_callback_may_end_the_search() -> None:
    """Once every instance has a solution."""
    for wish, ends in ((True, True), (False, False), (None, False)):
        request = Request(Pmsp(), two_jobs(2), callback=lambda _, wish=wish: wish)  # type: ignore[misc]
        request.offer([ONE], places=[1])
        assert not request.stopped()
        request.offer([ONE, ONE])
        assert request.stopped() is ends


def test_improvements_say_what_is_known_at_the_moment() -> None:
    told: list[Improvement] = []
    request = Request(Pmsp(), two_jobs(2), bound=np.array([1.0, 2.0]), callback=told.append, solver="mine")
    request.offer([ONE], places=[1])
    request.offer([BOTH, BOTH], None, "search")
    request.offer([ONE, ONE])  # no better, so it is not told
    first, second = told
    assert (first.cost.tolist(), list(first.found_by)) == ([np.inf, 4.0], ["", "mine"])
    assert (second.cost.tolist(), list(second.found_by)) == ([2.0, 2.0], ["search"] * 2)
    assert second.bound.tolist() == [1, 2]
    assert second.choice.tolist() == [BOTH, BOTH]


JOBS = [[2, 2], [2, 2]]


def test_a_refusal_is_heard_before_anything_is_solved() -> None:
    solver = Recording(reason="not today")
    assert not solver.supports(Pmsp())
    with pytest.raises(UsageError, match="not today"):
        solver.solve(Pmsp(), Pmsp().check({"durations": [JOBS]}))
    with pytest.raises(UsageError, match="not today"):
        icdc.solve(JOBS, problem="pmsp", solver=solver)
    assert not solver.asked


WITHOUT_TORCH = """
import sys
import numpy as np
from icdc.problems import get_problem
from icdc.solving.solver import Request
for name, size in (("atsp", (6,)), ("pmsp", (6, 3))):
    problem = get_problem(name)
    request = Request(problem, problem.sample(2, size, np.random.default_rng(0)))
    request.answer_at_once()
    assert request.check().feasible.all()
print("torch" in sys.modules)
"""


@pytest.mark.parametrize(("name", "size"), [("atsp", (7,)), ("pmsp", (6, 3))])
def test_an_answer_at_once_is_what_the_rule_makes_of_the_cheapest_pairs(name: str, size: tuple[int, ...]) -> None:
    problem = get_problem(name)
    arrays = problem.sample(5, size, np.random.default_rng(1))
    costs = problem.cost_matrix(arrays)
    assert costs is not None
    scores = -torch.from_numpy(np.array(costs, dtype=np.float32))
    wanted = problem.rule.follow(scores, torch.zeros(5, dtype=torch.long), problem.mask(to_tensors(arrays)))
    np.testing.assert_array_equal(first_choice(problem, arrays), wanted.numpy())


def test_nearest_neighbours_of_a_line() -> None:
    problem = get_problem("atsp")
    places = np.array([0, 10, 2, 5])
    arrays = {"distances": np.abs(places[:, None] - places[None])[None]}
    np.testing.assert_array_equal(first_choice(problem, arrays), [[2, 0, 3, 1]])


def test_infinitely_far_cities_are_visited_too() -> None:
    distances = np.full((1, 4, 4), np.inf)
    distances[0, 0, 2] = 1.0
    choice = first_choice(get_problem("atsp"), {"distances": distances})
    np.testing.assert_array_equal(choice, [[2, 3, 1, 0]])


def test_an_answer_at_once_says_what_it_is() -> None:
    problem = get_problem("pmsp")
    arrays, start = problem.sample(2, (4, 2), np.random.default_rng(0)), np.zeros((2, 4), dtype=np.int64)
    for given, found_by in ((None, "construction"), (start, "start")):
        request = Request(problem, arrays, start=given)
        request.answer_at_once()
        assert request.result.feasible.all()
        assert request.result.found_by.tolist() == [found_by] * 2


def test_an_answer_at_once_does_not_wait_for_torch() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
