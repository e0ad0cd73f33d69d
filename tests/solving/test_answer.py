"""Reports: what people read and what programs parse."""

import json
import pickle
from dataclasses import replace

import numpy as np

import icdc
from icdc.problems.atsp import Atsp
from icdc.problems.base import Problem
from icdc.problems.instance import Instance
from icdc.problems.pmsp import Pmsp
from icdc.solving.answer import Answer, json_line, text
from icdc.solving.verify import Verdict


def answer(
    problem: Problem,
    arrays: dict[str, np.ndarray],
    choice: list[int],
    verdict: Verdict,
    **names: tuple[str, ...],
) -> Answer:
    instance = Instance("file", problem, arrays, **names)
    return Answer(instance, np.array(choice), verdict, 8, 1.23456789, 5, "icdc", "small")


def test_a_schedule() -> None:
    durations = np.array([[3, 9], [9, 4], [2, 9]], dtype=np.uint8)
    found = answer(
        Pmsp(),
        {"durations": durations},
        [0, 1, 0],
        Verdict(True, 5, 4),
        rows=("paint", "cut", "pack"),
        columns=("M1", "M2"),
    )
    assert text(found).splitlines() == [
        "file: 3 jobs on 2 machines, makespan 5, at least 4 is needed (gap 25.00 %)",
        "  machine M1  5  ████████████████████████  paint pack",
        "  machine M2  4  ███████████████████       cut",
        "  icdc (small), 8 samples, seed 5, 1.23 s",
    ]
    assert str(found) == text(found)


def test_an_idle_machine_and_no_work() -> None:
    idle = answer(Pmsp(), {"durations": np.array([[0, 1]])}, [0], Verdict(True, 0, 0))
    lines = text(idle).splitlines()
    assert lines[0] == "file: 1 job on 2 machines, makespan 0, optimal"
    assert lines[2].endswith("–")


def test_a_long_tour_is_wrapped_and_comes_home() -> None:
    size = 60
    tour = list(range(size))
    found = answer(
        Atsp(), {"distances": np.ones((size, size), int)}, np.roll(tour, -1).tolist(), Verdict(True, 60, None)
    )
    lines = text(found).splitlines()
    assert lines[0] == "file: tour of 60 cities, length 60"
    assert all(len(line) <= 100 for line in lines)
    assert " ".join(lines[1:-1]).split(" → ")[-1] == "0"


def test_the_objective_is_called_as_the_problem_calls_it() -> None:
    class Late(Pmsp):
        objective = "lateness"

    late = answer(Late(), {"durations": np.array([[1, 2]])}, [0], Verdict(True, 1, None))
    assert text(late).splitlines()[0] == "file: 1 job on 2 machines, lateness 1"


def test_an_infeasible_answer() -> None:
    found = answer(Pmsp(), {"durations": np.ones((2, 2))}, [0, 0], Verdict(False, None, 1.0))
    assert "infeasible" in text(found)
    parsed = json.loads(json_line(found))
    assert parsed["feasible"] is False
    assert parsed["objective"] is None


def test_properties_and_json_agree() -> None:
    found = answer(Pmsp(), {"durations": np.ones((2, 2))}, [0, 1], Verdict(True, 1.0, 0.5))
    parsed = json.loads(json_line(found))
    assert parsed["objective"] == found.objective == 1.0
    assert parsed["bound"] == found.bound == 0.5
    assert parsed["gap"] == found.gap == 1.0
    assert parsed["solution"] == found.solution == [0, 1]
    assert parsed["problem"] == found.problem.name
    assert parsed["feasible"] == found.feasible
    assert not found.optimal
    assert parsed["seconds"] == 1.234568


def test_answers_are_equal_after_pickling_and_different_where_anything_is() -> None:
    answer = icdc.solve([[3, 5], [4, 2], [1, 1]], solver="ect")
    again = pickle.loads(pickle.dumps(answer))
    assert again == answer
    assert hash(again) == hash(answer)
    assert len({again, answer}) == 1
    assert answer != replace(answer, seed=1)
    assert answer != replace(answer, choice=1 - answer.choice)
    assert answer != "an answer"
    instance = answer.instance
    others = [
        replace(instance, name="other"),
        replace(instance, rows=("a", "b", "c")),
        replace(instance, coordinates=np.zeros((3, 2))),
        replace(instance, arrays={"durations": instance.arrays["durations"] + 1}),
        replace(instance, arrays={"durations": instance.arrays["durations"].astype(float)}),
        replace(instance, problem=icdc.Atsp()),
    ]
    for other in others:
        assert other != instance
        assert answer != replace(answer, instance=other)
    assert instance != 3


def test_notebooks_show_the_text_and_the_picture() -> None:
    answer = icdc.solve([[3, 5], [4, 2], [1, 1]], solver="ect")
    answer = replace(answer, instance=replace(answer.instance, name="<b>"))
    shown = answer._repr_html_()
    assert shown.startswith("<pre>&lt;b&gt;: 3 jobs on 2 machines")
    assert "<svg" in shown
    assert "<?xml" not in shown
    infeasible = replace(answer, verdict=Verdict(False, None, None))
    assert "<svg" not in infeasible._repr_html_()
