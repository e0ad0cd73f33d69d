"""What is asked of a solution over HTTP: the same words, sentences and answers as in Python."""

import json
import re
from typing import Any

import numpy as np
import pytest

import icdc
from icdc.errors import InputError, UsageError
from icdc.problems import SHIPPED
from icdc.problems.instance import Conditions
from icdc.serve.app import conditions_of
from icdc.serve.limits import Limits, Settings
from icdc.serve.orders import Order, Source, read_order
from icdc.serve.reading import read

from .conftest import RunningServer

SETTINGS = Settings(Limits(cells=100, samples=50, seconds=10.0))
CSV = b"job,saw,mill\na,1,2\nb,3,4\nc,5,6\n"


def order(document: Any) -> Order:
    return read_order(Source(json.dumps(document).encode(), "application/json"), SETTINGS)


def test_what_is_asked_of_a_solution() -> None:
    """The words of `icdc.solve`, in an object and, as JSON, in a query."""
    document = json.loads(json.dumps({"instance": [[1, 2], [3, 4], [5, 6]], "fixed": [[0, 1]], "busy": {"0": 2}}))
    asked = order(document).instance.conditions
    assert asked == Conditions(((0, 1),), busy=(2, 0))
    words = {"fixed": '{"a": "mill"}', "busy": "[0, 4.5]", "start": "0,0,1", "stay": "2"}
    found = read_order(Source(CSV, "text/csv", words), SETTINGS)
    assert found.instance.conditions == Conditions(((0, 1),), busy=(0, 4.5), stay=2, before=(0, 0, 1))
    assert found.start is None  # it is compared with, and does not keep to what is fixed
    tour = {"instance": [[0, 2, 9], [4, 0, 6], [7, 8, 0]], "problem": "atsp", "open": True, "first": 0, "last": "2"}
    found = order({**tour, "start": [0, 1, 2]})
    assert found.instance.conditions == Conditions(open=True, first=0, last=2)
    assert found.start is not None
    assert found.instance.solution(found.start) == [0, 1, 2]
    assert found.batch_key != found.batch_key  # sizes of its own: never in a batch with others
    assert order({"instance": [[1, 2], [3, 4]], "problem": "flow-shop"}).instance.problem.name == "flow-shop"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"fixed": "a,b"}, "'fixed' must be JSON, got 'a,b'"),
        ({"fixed": 7}, "'fixed' must be pairs"),
        ({"busy": {"mill": 1}}, "'busy': instance has no machine 'mill'"),
        ({"busy": True}, "'busy' must be a mapping"),
        ({"open": "perhaps"}, "'open' must be true or false"),
        ({"open": True}, "'open' is for tours, and instance is a schedule"),
        ({"first": {"a": 1}}, "'first' is for tours"),
        ({"stay": 3}, "'stay' weighs changes against a start, and there is none; give 'start'"),
        ({"stay": "much", "start": [0, 0, 0]}, "'stay' must be JSON"),
        ({"stay": [3], "start": [0, 0, 0]}, "'stay': '[3]' is not a number"),
        ({"trace": True, "busy": [1, 2]}, "'trace' shows the steps of plain instances"),
        ({"start": [0, 0, 7], "busy": [1, 2]}, "does not keep to what is asked"),
    ],
)
def test_what_cannot_be_asked(words: dict[str, Any], sentence: str) -> None:
    with pytest.raises((InputError, UsageError), match=re.escape(sentence)):
        order({"instance": [[1, 2], [3, 4], [5, 6]], **words})


@pytest.mark.parametrize("name", SHIPPED)
def test_what_the_server_says_can_be_asked_can_be_asked(name: str) -> None:
    """Of every problem exactly what is listed."""
    problem = SHIPPED[name]()
    size = (3,) * len(problem.size_names)
    arrays = problem.sample(1, size, np.random.default_rng(0))
    document = {"problem": name, **{key: array[0].tolist() for key, array in arrays.items()}}
    asked: dict[str, Any] = {"fixed": [[0, 1]], "stay": 1, "open": True, "first": 0, "last": 1, "busy": [1, 2, 3]}
    for word, value in asked.items():
        start = {"start": [0, 1, 2]} if word == "stay" else {}
        wanted = {"instance": document, "problem": name, word: value, **start}
        if word in conditions_of(type(problem)):
            assert order(wanted).instance.conditions is not None
        else:
            with pytest.raises(UsageError, match=f"'{word}'"):
                order(wanted)


def test_a_sequence_is_shown_as_it_was_given() -> None:
    shown = read(Source(b"5,6\n0,x\n3,0\n", "text/csv", {"problem": "setups"}), SETTINGS)
    assert shown["matrix"] == [[0, None], [3, 0]]
    assert shown["subject"] == "2 jobs on one machine"


def test_the_client_asks_what_icdc_solve_asks(running_server: RunningServer) -> None:
    """Paths, busy machines, changes and sequences come back in the words they were asked in."""
    client = icdc.Client(running_server.url)
    rng = np.random.default_rng(0)
    tour, schedule = rng.integers(1, 99, (6, 6)), rng.integers(1, 20, (6, 3))
    setups = [[None, 3, 9], [2, None, None], [9, 1, None]]
    questions: list[tuple[Any, dict[str, Any]]] = [
        (tour, {"problem": "atsp", "open": True, "fixed": {0: 3}}),
        (tour, {"problem": "atsp", "open": True, "first": 2, "last": 0}),
        (schedule, {"busy": {1: 25}, "fixed": [(0, 2)]}),
        (schedule, {"start": [0, 1, 2, 0, 1, 2], "stay": 3, "busy": [1, 0, 2]}),
        (schedule, {"problem": "flow-shop", "last": 1}),
        (setups, {"problem": "setups", "first": 1}),
    ]
    for instance, asked in questions:
        here, there = icdc.solve(instance, **asked), client.solve(instance, **asked)
        assert (here.objective, here.cost, here.changes) == (there.objective, there.cost, there.changes)
        assert there.instance.solution(there.choice) == there.solution
        assert there.optimal == here.optimal
    with pytest.raises(UsageError, match="unknown option 'weight'; choose from"):
        client.solve(schedule, weight=3)
    with pytest.raises(InputError, match="'first': instance has no city 'z'"):
        client.solve(tour, problem="atsp", first="z")
    job = client.submit(schedule, busy=[50, 0, 0], time_limit=0.3)
    assert job.answer().objective == 50
    path = client.submit(tour, problem="atsp", open=True)
    again = client.job(path.id, tour, problem="atsp").answer()  # which was not told what was asked
    assert again.instance.conditions == Conditions(open=True)
    assert again == path.answer()
