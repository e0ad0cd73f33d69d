"""Jobs: what can be stacked is, integers stay integers."""

from typing import Any

import numpy as np

from icdc.problems.atsp import Atsp
from icdc.problems.instance import Instance
from icdc.problems.pmsp import Pmsp
from icdc.solving.jobs import Observer, alike, plan_jobs, stacked
from icdc.solving.registry import make_solver


def shop(jobs: int, machines: int, kind: type = np.int64) -> Instance:
    return Instance("x", Pmsp(), {"durations": np.ones((jobs, machines), dtype=kind)})


def test_only_one_problem_shape_and_kind_goes_together() -> None:
    tour = Instance("x", Atsp(), {"distances": np.ones((3, 3), dtype=np.int64)})
    instances = [shop(3, 3), tour, shop(3, 3, np.float64), shop(3, 2), shop(3, 3, np.uint8), tour]
    assert alike(instances) == [[0, 4], [1, 5], [2], [3]]
    together = stacked([instances[0], instances[4]])["durations"]
    assert (together.dtype, together.shape) == (np.int64, (2, 3, 3))


def test_jobs_are_as_large_as_the_solver_says() -> None:
    class Small(type(make_solver("ect"))):  # type: ignore[misc]
        def together(self, *_: Any) -> int:
            return 2

    starts = [np.array([place, 0]) for place in range(5)]
    jobs = plan_jobs([shop(2, 2)] * 5, Small(), None, 7, starts, Observer())
    assert [job.places for job in jobs] == [[0, 1], [2, 3], [4]]
    assert [job.start.tolist() for job in jobs if job.start is not None] == [
        [[0, 0], [1, 0]],
        [[2, 0], [3, 0]],
        [[4, 0]],
    ]
    assert {(job.plan.samples, job.plan.seed) for job in jobs} == {(1, 7)}
