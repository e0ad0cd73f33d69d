"""Adapting as a part of solving: groups of one size, shares of the time, what answers say."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from icdc.problems.instance import Instance
from icdc.problems.pmsp import Pmsp
from icdc.solving import Request, Solver, adapting, path
from icdc.solving.adapting import Adapt, Adapted, Adapter
from icdc.solving.jobs import Observer
from icdc.solving.path import solve_instances
from tests.solving.recording import Recording


def shop(jobs: int, machines: int, name: str = "x") -> Instance:
    durations = np.random.default_rng(jobs).integers(1, 9, (jobs, machines))
    return Instance(name, Pmsp(), {"durations": durations})


@dataclass
class Spreading(Adapter):
    """Puts jobs on the machines in turn, takes what time it is given, and makes the solver take the second machine."""

    calls: list[tuple[Request, Adapt]] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)

    def adapt(self, solver: Solver, request: Request, adapt: Adapt) -> Adapted:
        assert isinstance(solver, Recording)
        self.calls.append((request, adapt))
        solver.clock.now += adapt.seconds or 0.0
        count, (rows, columns) = request.count, request.shape
        choice = np.tile(np.arange(rows) % columns, (count, 1))
        by, better = ["spreading"] * count, replace(solver, column=1)
        return Adapted(better, choice, np.full(count, 0.5), by, f"spread {count}", **self.more)


class Listening(Observer):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def adapted(self, sentence: str) -> None:
        self.sentences.append(sentence)


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> Spreading:
    made = Spreading()
    monkeypatch.setattr(adapting, "import_class", lambda *_: lambda: made)
    return made


def solved(instances: Sequence[Instance], adapt: Adapt, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Any:
    solver, heard = Recording(), Listening()
    clock = solver.clock
    for module in (path, adapting):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    answers = dict(solve_instances(instances, solver, observer=heard, adapt=adapt, **more))
    return answers, solver, heard


def test_each_size_is_learned_with_its_share_of_the_time(adapter: Spreading, monkeypatch: pytest.MonkeyPatch) -> None:
    instances = [shop(6, 3), shop(4, 2), shop(6, 3), shop(6, 3)]
    answers, solver, heard = solved(instances, Adapt(8.0), monkeypatch, time_limit=20.0)
    asked = [(request.count, request.size, adapt.seconds) for request, adapt in adapter.calls]
    assert asked == [(3, (6, 3), 6.0), (1, (4, 2), 2.0)]
    assert heard.sentences == ["spread 3", "spread 1"]
    assert solver.asked[0].time_limit == pytest.approx(12.0 * 2 / 4)  # 8 of the 20 seconds are gone
    assert all(request.start is not None for request in solver.asked)
    assert list(answers) == [0, 1, 2, 3]


def test_candidates_count_and_answers_say_what_found_them(adapter: Spreading, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, solver, _ = solved([shop(6, 3), shop(6, 3)], Adapt(rounds=3), monkeypatch)
    assert [answer.found_by for answer in answers.values()] == ["spreading"] * 2
    assert (answers[0].choice == np.arange(6) % 3).all()
    assert solver.asked[0].bound is not None
    assert (solver.asked[0].bound >= 0.5).all()
    assert adapter.calls[0][1] == Adapt(rounds=3)


def test_what_the_caller_said_is_handed_on(adapter: Spreading, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = [np.full(6, 2), np.full(6, 1)]
    solved([shop(6, 3), shop(6, 3)], Adapt(rounds=3), monkeypatch, starts=starts, samples=5, seed=9)
    ((request, _),) = adapter.calls
    assert (request.start == np.stack(starts)).all()
    assert (request.samples, request.seed, request.time_limit) == (5, 9, None)


def test_only_so_many_are_learned_and_all_are_solved_with_what_was_learned(
    adapter: Spreading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapting, "MOST_INSTANCES", 3)
    answers, solver, _ = solved([shop(6, 3)] * 5, Adapt(rounds=1), monkeypatch)
    assert [request.count for request, _ in adapter.calls] == [2]
    assert [request.start is None for request in solver.asked] == [False, True, True]
    assert [answer.found_by for answer in answers.values()] == ["spreading"] * 2 + ["recording"] * 3
    assert (answers[4].choice == 1).all()


def test_after_ctrl_c_there_is_what_was_known(adapter: Spreading, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter.more = {"interrupted": True}
    answers, solver, _ = solved([shop(6, 3)] * 3 + [shop(4, 2)], Adapt(rounds=1), monkeypatch)
    assert not solver.asked
    assert list(answers) == [0, 1, 2]  # of both jobs of the group; nothing is known of the other
    assert all(answer.interrupted and answer.found_by == "spreading" for answer in answers.values())


def test_told_to_end_it_answers_at_once(adapter: Spreading, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter.more = {"finished": True}
    answers, solver, _ = solved([shop(6, 3)] * 3, Adapt(rounds=1), monkeypatch)
    assert not solver.asked
    assert len(answers) == 3
    assert not any(answer.interrupted for answer in answers.values())


def test_the_time_of_an_answer_includes_it(adapter: Spreading, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, _, _ = solved([shop(6, 3)] * 2, Adapt(4.0), monkeypatch)
    assert answers[0].seconds == pytest.approx(4.0 / 2 + 1.0 / 2)


def test_an_instance_without_a_solution_is_not_learned(adapter: Spreading, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = shop(6, 3, "nothing")
    monkeypatch.setattr(adapting, "why_impossible", lambda one: "so" if one is nothing else None)
    monkeypatch.setattr(path, "why_impossible", lambda one: "so" if one is nothing else None)
    answers, solver, _ = solved([nothing, shop(6, 3)], Adapt(rounds=1), monkeypatch)
    assert [request.count for request, _ in adapter.calls] == [1]
    assert [answers[place].feasible for place in (0, 1)] == [False, True]
    assert answers[1].found_by == "spreading"
    assert [request.count for request in solver.asked] == [1]
    answers, _, _ = solved([nothing], Adapt(rounds=1), monkeypatch)
    assert len(adapter.calls) == 1
    assert not answers[0].feasible


def test_a_network_is_not_loaded_for_a_moment(adapter: Spreading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    _, solver, heard = solved([shop(6, 3)], Adapt(1.0), monkeypatch, time_limit=2.0)
    assert heard.sentences == ["not adapted: 1 seconds are too few to load a network"]
    assert not adapter.calls
    assert solver.asked[0].time_limit == pytest.approx(2.0)
