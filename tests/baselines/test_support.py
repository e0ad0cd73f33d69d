"""What baselines take for granted: the declared structure of a problem, and its matrix of costs."""

import time

import numpy as np
import pytest
import torch
from torch import Tensor

from icdc.baselines.one_by_one import Abandoned, interruptible
from icdc.baselines.support import cost_matrices, sample_noise
from icdc.kernels import Noise
from icdc.problems import Atsp, Navigation, Pmsp
from icdc.problems.base import Instances
from icdc.search.run import Budget
from icdc.solvers import make_solver
from icdc.solving.solver import Request


class OneMachineEach(Pmsp):
    """Says in `feasible`, and nowhere else, that not every schedule will do."""

    def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
        return super().feasible(instances, choice) & (choice[..., 0] != choice[..., 1])


def test_a_problem_that_asks_something_else_is_refused() -> None:
    """A schedule of the problem it inherits from may not be a solution at all."""
    assert make_solver("ect").supports(Pmsp())
    refusal = make_solver("ect").refusal(OneMachineEach())
    assert refusal == "the solver 'ect' is for schedules: it cannot answer 'pmsp'"


def test_structures_of_the_problems_that_ship() -> None:
    for solver, knows in (("ect", {Pmsp}), ("nn", {Atsp, Navigation}), ("cpsat", {Pmsp, Atsp, Navigation})):
        assert {kind for kind in (Pmsp, Atsp, Navigation) if make_solver(solver).supports(kind())} == knows


def test_cost_matrices_keep_integers_and_widen_them() -> None:
    durations = np.array([[[200, 3], [4, 5]]], dtype=np.uint8)
    found = cost_matrices(Request(Pmsp(), {"durations": durations}))
    assert found.dtype == np.int64
    assert np.array_equal(found, durations)


def test_samples_are_the_same_in_whatever_parts() -> None:
    keys = torch.tensor([3, 4], dtype=torch.int64)
    whole = Noise(keys).spawn(5).keys.view(2, 5)
    parts = [sample_noise(keys, range(begin, end)).keys.view(2, -1) for begin, end in ((0, 2), (2, 3), (3, 5))]
    assert torch.equal(torch.cat(parts, 1), whole)


@pytest.mark.parametrize("solver", ["random", "ga:iterations=5", "pso:iterations=5"])
def test_answers_do_not_depend_on_the_parts(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shops = Pmsp().sample(4, (8, 3), np.random.default_rng(0))
    whole = make_solver(solver).solve(Pmsp(), shops, samples=7)
    monkeypatch.setattr("icdc.baselines.heuristics._CELLS", 50)
    monkeypatch.setattr("icdc.baselines.heuristics._GENES_IN_CACHE", 500)
    parts = make_solver(solver).solve(Pmsp(), shops, samples=7)
    assert np.array_equal(whole.cost, parts.cost)
    assert whole.samples == parts.samples == 7


def test_an_engine_that_does_not_end_is_abandoned() -> None:
    asked: list[float] = []
    began = time.perf_counter()
    with pytest.raises(Abandoned) as left:
        interruptible(lambda: time.sleep(5), lambda: asked.append(time.perf_counter() - began), Budget(0.1))
    assert time.perf_counter() - began < 3
    assert not left.value.interrupted
    assert len(asked) == 1
    assert asked[0] >= 0.1
    assert interruptible(lambda: 3, lambda: None, Budget()) == (3, False)
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0, lambda: None, Budget())
