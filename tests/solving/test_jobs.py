"""Jobs: what can be stacked is; answers come in order, in their time, and none is lost."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icdc.problems.atsp import Atsp
from icdc.problems.instance import Instance
from icdc.problems.pmsp import Pmsp
from icdc.solvers import make_solver
from icdc.solving import Improvement
from icdc.solving.jobs import Observer, cut_jobs, group_alike, in_order, solve_instances, stack
from icdc.solving.resume import AnswersFile
from tests.solving.recording import Recording


def shop(jobs: int, machines: int, kind: type = np.int64, name: str = "x") -> Instance:
    return Instance(name, Pmsp(), {"durations": np.ones((jobs, machines), dtype=kind)})


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


def test_a_solver_is_asked_for_what_was_asked_for() -> None:
    """Starts go with their instances though kinds of numbers are solved apart; bounds are known before."""

    class Heard(Observer):
        improvements: list[Improvement] = []  # noqa: RUF012

        def improved(self, improvement: Improvement) -> None:
            self.improvements.append(improvement)

    solver = Recording()
    instances = [shop(2, 2, kind) for kind in (np.int64, np.float64) * 2]
    starts = [np.array(start) for start in ([0, 0], [0, 1], [1, 0], [1, 1])]
    answers = dict(solve_instances(instances, solver, seed=7, starts=starts, observer=Heard()))
    whole, real = solver.asked
    assert whole.arrays["durations"].dtype == np.int64
    assert real.arrays["durations"].dtype == np.float64
    assert whole.start is not None
    assert real.start is not None
    assert whole.start.tolist() == [[0, 0], [1, 0]]
    assert real.start.tolist() == [[0, 1], [1, 1]]
    for request in solver.asked:
        assert (request.samples, request.seed, request.time_limit) == (5, 7, None)
        assert request.bound is not None
        assert request.bound.tolist() == [1, 1]
    assert [answers[place].choice.tolist() for place in range(4)] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert {(answer.samples, answer.seed, answer.solver) for answer in answers.values()} == {(5, 7, "recording")}
    assert len(Heard.improvements) == 2
    (_, answer), *_ = solve_instances(instances, solver, samples=3)
    assert (answer.samples, solver.asked[-1].samples) == (3, 3)


@pytest.mark.parametrize(("limit", "shares"), [(8.0, [5.0, 3.5, 6.0]), (2.5, [1.5625, 0.75, 0.5])])
def test_the_time_that_is_left_is_shared_out_by_instances(
    limit: float, shares: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each job takes a second of it: two instances of four get half of all, the next the half of what is left."""
    solver = Recording()
    monkeypatch.setattr("icdc.solving.jobs.time", SimpleNamespace(perf_counter=lambda: solver.clock.now))
    answers = dict(solve_instances([shop(2, 2)] * 3 + [shop(3, 2)], solver, time_limit=limit))
    assert [request.time_limit for request in solver.asked] == pytest.approx(shares)
    assert [answers[place].seconds for place in range(4)] == [0.5, 0.5, 1.0, 1.0]


def test_after_the_time_limit_no_search_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left gets what its rule gives at once: many instances take no longer than the limit and one job."""
    solver = Recording()
    monkeypatch.setattr("icdc.solving.jobs.time", SimpleNamespace(perf_counter=lambda: solver.clock.now))
    answers = dict(solve_instances([shop(2, 2)] * 3 + [shop(3, 2)], solver, time_limit=1.0))
    assert len(solver.asked) == 1
    assert [answers[place].found_by for place in range(4)] == ["recording"] * 2 + ["construction"] * 2
    assert not any(answers[place].interrupted for place in range(4))
    assert all(answers[place].feasible for place in range(4))
    assert [answers[place].samples for place in (2, 3)] == [0, 0]
    starts = [np.array([1, 0])] * 3 + [np.array([1, 0, 1])]
    answers = dict(solve_instances([shop(2, 2)] * 3 + [shop(3, 2)], solver, time_limit=1.0, starts=starts))
    assert (answers[3].found_by, answers[3].choice.tolist()) == ("start", [1, 0, 1])


def test_after_an_interruption_nothing_more_begins(tmp_path: Path) -> None:
    """What was found by then is handed over, but is not for the file."""
    instances = [shop(2, 2, name=f"shop {number}") for number in range(5)]
    solver = Recording(interrupted=True)
    answers = list(solve_instances(instances, solver))
    assert [(place, answer.interrupted) for place, answer in answers] == [(0, True), (1, True)]
    file = AnswersFile(tmp_path / "answers.jsonl")
    assert [place for place, _ in solve_instances(instances, solver, file=file)] == [0, 1]
    assert len(solver.asked) == 2
    assert file.lines == {}
    assert file.path.read_text() == ""


def test_what_is_on_file_is_not_solved_again(tmp_path: Path) -> None:
    """A job of which an answer is missing is done whole; only that answer is new."""
    instances = [shop(2, 2, name=f"shop {number}") for number in range(5)]
    path = tmp_path / "answers.jsonl"
    first = Recording()
    assert [place for place, _ in solve_instances(instances, first, file=AnswersFile(path))] == list(range(5))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3] + lines[4:]))
    again = Recording()
    assert [place for place, _ in solve_instances(instances, again, file=AnswersFile(path, resume=True))] == [3]
    assert [request.count for request in again.asked] == [2]
    assert len(path.read_text().splitlines()) == 5
    assert list(solve_instances(instances, again, file=AnswersFile(path, resume=True))) == []
    assert len(again.asked) == 1


def test_only_one_problem_shape_and_kind_goes_together() -> None:
    tour = Instance("x", Atsp(), {"distances": np.ones((3, 3), dtype=np.int64)})
    instances = [shop(3, 3), tour, shop(3, 3, np.float64), shop(3, 2), shop(3, 3, np.uint8), tour]
    assert group_alike(instances, [False] * 6) == [[0, 4], [1, 5], [2], [3]]
    together = stack([instances[0], instances[4]])["durations"]
    assert (together.dtype, together.shape) == (np.int64, (2, 3, 3))


def test_jobs_are_as_large_as_the_solver_says() -> None:
    class Small(type(make_solver("ect"))):  # type: ignore[misc]
        def batch_size(self, *_: Any) -> int:
            return 2

    starts = [np.array([place, 0]) for place in range(5)]
    jobs = cut_jobs([shop(2, 2)] * 5, Small(), None, 7, starts, Observer())
    assert [job.places for job in jobs] == [[0, 1], [2, 3], [4]]
    assert [job.start.tolist() for job in jobs if job.start is not None] == [
        [[0, 0], [1, 0]],
        [[2, 0], [3, 0]],
        [[4, 0]],
    ]
    assert {(job.samples, job.seed) for job in jobs} == {(1, 7)}
