"""What every solver does alike."""

import pytest

import icdc
from icdc.errors import UsageError
from icdc.problems.pmsp import Pmsp
from tests.solving.recording import Recording

JOBS = [[2, 2], [2, 2]]


def test_a_refusal_is_heard_before_anything_is_solved() -> None:
    solver = Recording(reason="not today")
    assert not solver.supports(Pmsp())
    with pytest.raises(UsageError, match="not today"):
        solver.solve(Pmsp(), Pmsp().check({"durations": [JOBS]}))
    with pytest.raises(UsageError, match="not today"):
        icdc.solve(JOBS, problem="pmsp", solver=solver)
    assert not solver.asked
