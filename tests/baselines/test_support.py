"""What baselines take for granted: the declared structure of a problem, and its matrix of costs."""

import numpy as np
from torch import Tensor

from icdc.baselines.support import cost_matrices
from icdc.problems import Atsp, Navigation, Pmsp
from icdc.problems.contract import Instances
from icdc.solving.registry import make_solver
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
