"""Grouping and order: what can be stacked is, integers stay integers, answers come in order."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from icdc.cli.batch import Plan, grouped, in_order, jobs_of
from icdc.data import Instance
from icdc.problems import Atsp, Pmsp
from icdc.solvers import make_solver


def shop(jobs: int, machines: int, kind: type = np.int64) -> Instance:
    return Instance("x", Pmsp(), {"durations": np.ones((jobs, machines), dtype=kind)})


def test_groups_have_one_problem_shape_and_kind() -> None:
    tour = Instance("x", Atsp(), {"distances": np.ones((3, 3), dtype=np.int64)})
    instances = [shop(3, 3), tour, shop(3, 3, np.float64), shop(3, 2), shop(3, 3, np.uint8), tour]
    groups = grouped(instances)
    assert [group.places for group in groups] == [[0, 4], [1, 5], [2], [3]]
    assert groups[0].arrays["durations"].dtype == np.int64
    assert groups[0].arrays["durations"].shape == (2, 3, 3)
    assert groups[2].arrays["durations"].dtype == np.float64


def test_groups_are_cut_into_jobs() -> None:
    (group,) = grouped([shop(2, 2)] * 5)
    plan = Plan(make_solver("ect"), None, 1, 0, together=2)
    assert [job.places for job in jobs_of(group, plan)] == [[0, 1], [2, 3], [4]]
    starts = [np.array([place, 0]) for place in range(5)]
    assert [job.start.tolist() for job in jobs_of(group, plan, starts) if job.start is not None] == [
        [[0, 0], [1, 0]],
        [[2, 0], [3, 0]],
        [[4, 0]],
    ]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20), st.data())
def test_answers_come_in_order_and_none_is_lost(kinds: list[int], data: st.DataObject) -> None:
    batches: dict[int, dict[int, Any]] = {}
    for place, kind in enumerate(kinds):
        batches.setdefault(kind, {})[place] = f"answer {place}"
    order = data.draw(st.permutations(sorted(batches)))
    places = [place for place, _ in in_order(batches[kind] for kind in order)]
    assert places == list(range(len(kinds)))


def test_an_answer_does_not_wait_for_those_after_it() -> None:
    seen: list[str] = []

    def batches() -> Any:
        yield {0: "a", 2: "c"}
        seen.append("asked for more")
        yield {1: "b"}

    answers = in_order(batches())
    assert next(answers) == (0, "a")
    assert seen == []
    assert list(answers) == [(1, "b"), (2, "c")]


def test_what_is_left_after_an_interruption() -> None:
    assert list(in_order(iter([{0: "a"}, {3: "d", 2: "c"}]))) == [(0, "a"), (2, "c"), (3, "d")]  # type: ignore[dict-item]
