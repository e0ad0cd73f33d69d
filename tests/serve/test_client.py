"""The client: the answers and errors of `icdc.solve`, from a server."""

import json
from typing import Any

import httpx2 as httpx
import numpy as np
import pytest

import icdc
from icdc.client import ServerError
from icdc.errors import InputError, UsageError
from icdc.problems.instance import Conditions

from .process import RunningServer, free_port


def test_the_client_returns_the_answers_of_icdc_solve(running_server: RunningServer) -> None:
    client = icdc.Client(running_server.url)
    matrix = np.random.default_rng(1).integers(2, 30, (9, 3))
    here, there = icdc.solve(matrix, solver="search"), client.solve(matrix, solver="search")
    assert there.objective == here.objective
    assert there.optimal == here.optimal
    assert there.problem.name == "pmsp"
    assert there.found_by == here.found_by
    loads = [int(matrix[there.choice == m, m].sum()) for m in range(3)]
    assert max(loads) == there.objective
    job = client.submit(matrix, time_limit=2)
    names = [event["event"] for event in job.events()]
    assert names[-1] == "end"
    assert "improved" in names
    assert job.answer().objective == here.objective
    assert "pmsp" in client.models()
    # what is wrong is said by the same errors as here
    with pytest.raises(icdc.UsageError, match="unknown solver 'nobody'"):
        client.solve(matrix, solver="nobody")
    with pytest.raises(icdc.UsageError, match="unknown option 'colour'; choose from model, solver"):
        client.solve(matrix, colour="red")  # type: ignore[call-arg]
    with pytest.raises(icdc.UsageError, match="a server's address looks like"):
        icdc.Client("127.0.0.1:8000")
    with pytest.raises(ServerError, match="cannot be reached"):
        icdc.Client(f"http://127.0.0.1:{free_port()}").solve(matrix)
    with pytest.raises(ServerError, match="there is no job"):
        client.job("nobody", matrix).state()


def test_the_client_sends_forbidden_pairs(running_server: RunningServer) -> None:
    answer = icdc.Client(running_server.url).solve([[1, None], [None, 1], [5, 6]], problem="pmsp")
    assert answer.solution[:2] == [0, 1]
    assert answer.objective == 6


def test_large_work_becomes_a_job_for_the_client_too(running_server: RunningServer) -> None:
    """A time limit that is longer than a request waits for is answered with an address, which the client follows."""
    client = icdc.Client(running_server.url)
    assert client.solve([[1, 2], [3, 4], [5, 6]], time_limit=200).optimal


def test_what_is_said_on_the_wire_is_json(running_server: RunningServer) -> None:
    response = httpx.post(
        f"{running_server.url}/v1/solve?problem=atsp",
        content="0,1\n2,0\n",
        headers={"content-type": "text/csv"},
        timeout=30,
    )
    assert json.loads(response.content)["objective"] == 3


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
