"""What every address answers, with workers that can be held, killed and made deaf."""

import asyncio
import base64
import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from icdc.serve import jobs as jobs_module
from icdc.serve import workers as workers_module
from icdc.serve.limits import Limits, Refusal, Settings
from icdc.serve.queue import MOST_EVENTS, Events
from icdc.serve.schema import Answer, Job, Problem
from icdc.serve.security import BODIES, Intake

from .conftest import SHOP, Director

Serving = Callable[..., TestClient]


def assert_soon(true: Callable[[], Any], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


def test_solve_answers_like_the_command_line(serving: Serving, shop: dict[str, Any]) -> None:
    answer = serving().post("/v1/solve", json=shop).json()
    assert answer["problem"] == "pmsp"
    assert answer["feasible"]
    totals = [sum(SHOP[j][m] for j, chosen in enumerate(answer["solution"]) if chosen == m) for m in range(3)]
    assert answer["objective"] == max(totals)
    assert answer["bound"] <= answer["objective"]
    assert answer["in_words"].startswith(f"makespan {answer['objective']}")
    assert set(answer) <= set(Answer.model_fields)
    assert Answer.model_validate(answer, strict=True)
    assert not answer["interrupted"]


def test_errors_are_sentences_as_problem_json(serving: Serving, shop: dict[str, Any]) -> None:
    client = serving(body=4096, cells=50)
    cases = [
        (client.post("/v1/solve", json={"instance": [[1, 2], [3]]}), 422, 3, "row 2 has 1 entries"),
        (client.post("/v1/solve", json=shop | {"solver": "nobody"}), 400, 2, "unknown solver 'nobody'"),
        (client.post("/v1/solve", json=shop | {"solver": "nn"}), 400, 2, "nn"),
        (client.post("/v1/solve", content=b"x" * 5000, headers={"content-type": "text/csv"}), 413, None, "larger than"),
        (client.post("/v1/solve", content=b"<x/>", headers={"content-type": "text/xml"}), 415, None, "'text/xml'"),
        (client.post("/v1/solve", content=b"1,2", headers={"content-type": ""}), 415, None, "is not read"),
        (client.get("/v1/jobs/nobody"), 404, None, "there is no job 'nobody'"),
        (client.get("/v1/nothing"), 404, None, "there is nothing at this address"),
        (client.put("/v1/solve"), 405, None, "this address takes POST"),
        (client.get("/v1/jobs/%2e%2e%2fetc"), 404, None, ""),
    ]
    for response, status, exit_code, sentence in cases:
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/problem+json"
        document = response.json()
        assert set(document) == set(Problem.model_fields)
        assert document["status"] == status
        assert document["exit_code"] == exit_code
        assert sentence in document["detail"]


@pytest.mark.parametrize(
    "document",
    [
        '{"instance": [[1, 2], [3, 4], [5, 6]], "problem": [0]}',
        '{"instance": [[1, 2], [3, 4], [5, 6]], "problem": {"a": 1}}',
        '{"instance": [[1, 2], [3, 4], [5, 6]], "name": "\\ud800"}',
        '{"instance": [[1, 2], [3, 4], [5, 6]], "solver": "\\ud800"}',
        '{"instance": [[1, 2], [3, 4], [5, 6]], "model": ["a"]}',
        '{"instance": [[1, 2], [3, 4], [5, 6]], "labels": [1]}',
        '{"instance": [[1, 2], [3, 4], [5, 6]], "forbidden": ["nan"]}',
        '{"instance": "1,\\udfff", "name": "x.csv"}',
        '{"instance": {"problem": "pmsp", "matrix": [[1, 2]], "rows": ["\\ud800"]}}',
        '{"problem": "pmsp", "matrix": [[1, 2]], "rows": ["\\ud800"]}',
        '[[], [":"]]',
        '[["a", 1], []]',
    ],
)
def test_words_of_another_kind_are_refused(serving: Serving, document: str) -> None:
    """And half a character, which no answer could be written with."""
    for path in ("/v1/solve", "/v1/jobs", "/v1/read"):
        answer = serving().post(path, content=document, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422), (path, answer.text)
        assert answer.json()["detail"]


def test_a_wrong_method_is_told_the_right_ones(serving: Serving) -> None:
    client = serving()
    for method, path, takes in (
        ("GET", "/v1/solve", "POST"),
        ("PUT", "/v1/solve", "POST"),
        ("POST", "/v1/problems", "GET"),
        ("POST", "/v1/jobs/x", "DELETE and GET"),
    ):
        answer = client.request(method, path)
        assert (answer.status_code, answer.json()["detail"]) == (405, f"this address takes {takes}")
        assert answer.headers["Allow"] == takes.replace(" and ", ", ")
    for method, path in (("GET", "/v1/solved"), ("GET", "/nothing"), ("POST", "/v1/solve/x")):
        assert client.request(method, path).status_code in (404, 405)
        assert "takes" not in client.request(method, path).json()["detail"]


def test_a_body_without_a_length_is_limited_too(serving: Serving) -> None:
    def chunks() -> Any:
        for _ in range(100):
            yield b"1,2,3\n" * 10

    response = serving(body=2048).post("/v1/solve", content=chunks(), headers={"content-type": "text/csv"})
    assert response.status_code == 413


def test_bodies_that_come_in_at_once_are_limited_together() -> None:
    """Each may be as large as is allowed, but not all that a machine can be sent."""
    intake = Intake(Limits(body=1000))
    gate = asyncio.Event()

    def request() -> Any:
        async def stream() -> Any:
            yield b"1" * 900
            await gate.wait()
            yield b"1"

        return SimpleNamespace(headers={"content-type": "text/csv"}, query_params={}, stream=stream)

    async def receive() -> int:
        async with intake.receive(request()) as source:
            return len(source.content)

    async def story() -> list[Any]:
        tasks = [asyncio.ensure_future(receive()) for _ in range(BODIES + 4)]
        await asyncio.sleep(0.01)
        assert intake.held <= BODIES * 1000
        gate.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    ends = asyncio.run(story())
    refused = [end for end in ends if isinstance(end, Refusal)]
    assert {end.status for end in refused} == {429}
    assert len(refused) == BODIES + 4 - BODIES * 1000 // 900
    assert {end for end in ends if isinstance(end, int)} == {901}
    assert intake.held == 0


def test_a_job_from_begin_to_end_with_its_events(serving: Serving, shop: dict[str, Any]) -> None:
    client = serving()
    begun = client.post("/v1/jobs", json=shop)
    assert begun.status_code == 202
    address = begun.headers["location"]
    events = parsed(client.get(f"{address}/events").text)
    names = [event["event"] for event in events]
    assert names[0] == "state"
    assert names[-1] == "end"
    assert "begun" in names
    improved = [event["data"] for event in events if event["event"] == "improved"]
    assert improved
    assert {"seconds", "cost", "bound", "solution"} <= set(improved[-1])
    job = client.get(address).json()
    assert job["state"] == "done"
    assert job["answer"]["objective"] == improved[-1]["cost"] == job["cost"]
    assert set(job) == set(Job.model_fields)
    assert Job.model_validate(job, strict=True)
    assert events[-1]["data"]["answer"] == job["answer"]
    # whoever comes back is told only what is new
    later = parsed(client.get(f"{address}/events", headers={"last-event-id": str(events[-2]["id"])}).text)
    assert [event["event"] for event in later] == ["end"]


def test_those_alike_are_solved_together(serving: Serving, director: Director, shop: dict[str, Any]) -> None:
    client = serving(batch=3)
    director.hold()
    addresses = [client.post("/v1/jobs", json=shop).headers["location"] for _ in range(6)]
    other = client.post("/v1/jobs", json=shop | {"seed": 1}).headers["location"]
    assert client.get(addresses[5]).json()["position"] == 4
    director.free.set()
    for address in (*addresses, other):
        assert parsed(client.get(f"{address}/events").text)[-1]["data"]["state"] == "done"
    assert [len(batch.tasks) for batch in director.batches] == [1, 3, 2, 1]
    assert len({json.dumps(client.get(one).json()["answer"]["solution"]) for one in addresses}) == 1


def test_a_full_queue_says_when_to_come_back(serving: Serving, director: Director, shop: dict[str, Any]) -> None:
    client = serving(queue=2)
    director.hold()
    for _ in range(3):
        assert client.post("/v1/jobs", json=shop).status_code == 202
    refused = client.post("/v1/solve", json=shop)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert "2 requests wait already" in refused.json()["detail"]


def test_healthy_is_not_ready(serving: Serving, director: Director, shop: dict[str, Any]) -> None:
    """While every worker is held, the server is healthy, but a new request would wait."""
    client = serving()
    assert client.get("/readyz").json() == {"status": "ready", "free": 1, "waiting": 0}
    director.hold()
    addresses = [client.post("/v1/jobs", json=shop).headers["location"] for _ in range(2)]
    assert client.get("/healthz").status_code == 200
    busy = client.get("/readyz")
    assert (busy.status_code, busy.json()) == (503, {"status": "busy", "free": 0, "waiting": 1})
    director.free.set()
    assert_soon(lambda: client.get(addresses[1]).json()["state"] == "done")
    assert_soon(lambda: client.get("/readyz").status_code == 200)


def test_cancelling_what_waits_and_what_runs(serving: Serving, director: Director, shop: dict[str, Any]) -> None:
    client = serving()
    director.hold()
    director.first_answer = False
    running = client.post("/v1/jobs", json=shop).headers["location"]
    waiting = client.post("/v1/jobs", json=shop | {"seed": 5}).headers["location"]
    assert client.delete(waiting).json()["state"] == "cancelled"
    assert client.delete(running).json()["state"] == "cancelled"
    assert len(director.batches) == 1
    assert client.delete(running).json()["state"] == "cancelled"
    assert client.get("/metrics").text.count('icdc_jobs_total{state="cancelled"} 2.0') == 1


def test_a_batch_goes_on_while_anybody_wants_it(serving: Serving, director: Director, shop: dict[str, Any]) -> None:
    client = serving()
    director.hold()
    first = client.post("/v1/jobs", json=shop | {"seed": 9}).headers["location"]  # the others gather meanwhile
    one, other = (client.post("/v1/jobs", json=shop).headers["location"] for _ in range(2))
    client.delete(first)
    assert_soon(lambda: len(director.batches) == 2)
    assert len(director.batches[1].tasks) == 2
    (worker,) = director.workers
    jobs = client.app.state.jobs  # type: ignore[attr-defined]
    jobs._loop.call_soon_threadsafe(jobs.cancel, jobs.find(one.rsplit("/", 1)[1]))
    time.sleep(0.1)
    assert not worker.stopped.is_set()
    director.free.set()
    assert parsed(client.get(f"{other}/events").text)[-1]["data"]["state"] == "done"
    assert client.get(one).json()["state"] == "cancelled"


def test_a_worker_that_does_not_stop_is_killed(
    serving: Serving, director: Director, shop: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job ends with the best that was heard of, and the next job is solved."""
    monkeypatch.setattr(workers_module, "KILL_AFTER", 0.1)
    monkeypatch.setattr(workers_module, "STOP_AFTER", 0.1)
    client = serving()
    director.hold()
    director.deaf = director.first_answer = True
    address = client.post("/v1/jobs", json=shop | {"time_limit": 0.05}).headers["location"]
    end = parsed(client.get(f"{address}/events").text)[-1]["data"]
    assert end["state"] == "done"
    assert end["answer"]["interrupted"]
    assert end["answer"]["objective"] == 99
    assert "icdc_worker_restarts_total 1.0" in client.get("/metrics").text
    director.deaf = director.first_answer = False
    director.free.set()
    assert client.post("/v1/solve", json=shop).status_code == 200


def test_without_any_answer_the_time_is_up_all_the_same(
    serving: Serving, director: Director, shop: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers_module, "KILL_AFTER", 0.1)
    monkeypatch.setattr(workers_module, "STOP_AFTER", 0.05)
    monkeypatch.setattr(workers_module, "FIRST_ANSWER", 0.1)
    client = serving(seconds=0.2)
    director.hold()
    director.deaf = True
    response = client.post("/v1/solve", json=shop)
    assert response.status_code == 500
    assert response.json()["detail"] == "no solution was found in the time there was"
    director.deaf = False
    response = client.post("/v1/solve", json=shop)
    assert response.status_code == 422
    assert response.json()["exit_code"] == 4


def test_jobs_of_a_worker_that_dies_are_begun_again(serving: Serving, director: Director, shop: dict[str, Any]) -> None:
    client = serving()
    director.dies = 2
    assert client.post("/v1/solve", json=shop).status_code == 200
    assert len(director.batches) == 3
    director.dies = 3
    response = client.post("/v1/solve", json=shop)
    assert response.status_code == 500
    assert response.json()["detail"] == "the worker that solved it died 3 times"
    assert client.post("/v1/solve", json=shop).status_code == 200


@pytest.mark.parametrize("end", ["fails", "dies"])
def test_one_bad_task_does_not_spoil_its_batch(
    serving: Serving, director: Director, shop: dict[str, Any], monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """The others of its batch are begun again without it, and so is it: only its own deaths are counted."""
    from . import conftest

    real = conftest.solve_tasks

    def touchy(tasks: Any, *rest: Any) -> Any:
        if any(task.instance.name == "bad" for task in tasks):
            raise RuntimeError("it cannot be done")
        return real(tasks, *rest)

    client = serving()
    director.hold()
    names = ["first", "good", "bad", "fine"]
    addresses = [client.post("/v1/jobs", json=shop | {"name": name}).headers["location"] for name in names]
    if end == "fails":
        monkeypatch.setattr(conftest, "solve_tasks", touchy)
    else:
        director.poison = "bad"
    director.free.set()
    states = [parsed(client.get(f"{one}/events").text)[-1]["data"]["state"] for one in addresses]
    assert states == ["done", "done", "failed", "done"]
    sizes = [len(batch.tasks) for batch in director.batches]
    assert sizes[:2] == [1, 3]
    assert set(sizes[2:]) == {1}
    assert len(sizes) == (5 if end == "fails" else 6)


def test_what_takes_long_becomes_a_job(serving: Serving, director: Director, shop: dict[str, Any]) -> None:
    client = serving(Settings(Limits(wait=0.2)))
    director.hold()
    response = client.post("/v1/solve", json=shop)
    assert response.status_code == 202
    director.free.set()
    assert_soon(lambda: client.get(response.headers["location"]).json()["state"] == "done")


def test_a_stop_lets_running_jobs_end_and_refuses_new_ones(
    serving: Serving, director: Director, shop: dict[str, Any]
) -> None:
    client = serving(grace=5.0)
    director.hold()
    running = client.post("/v1/jobs", json=shop).headers["location"]
    waiting = client.post("/v1/jobs", json=shop | {"seed": 3}).headers["location"]
    client.app.state.jobs.stop_soon()  # type: ignore[attr-defined]
    assert_soon(lambda: client.get(waiting).json()["state"] == "failed")
    assert "stopped before" in client.get(waiting).json()["error"]["detail"]
    assert client.post("/v1/solve", json=shop).status_code == 503
    assert client.get("/healthz").status_code == 503
    director.free.set()
    assert_soon(lambda: client.get(running).json()["state"] == "done")


def test_a_stop_ends_what_is_slower_than_its_grace(serving: Serving, director: Director, shop: dict[str, Any]) -> None:
    client = serving(grace=0.1)
    director.hold()
    running = client.post("/v1/jobs", json=shop).headers["location"]
    client.app.state.jobs.stop_soon()  # type: ignore[attr-defined]
    assert_soon(lambda: client.get(running).json()["state"] == "failed")


def test_the_steps_of_the_network_are_events(serving: Serving, models: dict[str, Any]) -> None:
    client = serving(Settings(models={"tiny": models["pmsp"]}))
    document = {"instance": SHOP, "problem": "pmsp", "trace": True, "samples": 1, "model": "tiny", "steps": 3}
    address = client.post("/v1/jobs", json=document).headers["location"]
    events = parsed(client.get(f"{address}/events").text)
    steps = [event["data"] for event in events if event["event"] == "step"]
    assert [step["t"] for step in steps] == sorted((step["t"] for step in steps), reverse=True)
    assert len(steps) >= 2
    assert (steps[0]["rows"], steps[0]["columns"]) == (5, 3)
    assert len(base64.b64decode(steps[0]["belief"])) == 15
    assert len(base64.b64decode(steps[0]["x"])) == 2


def test_a_current_solution_is_noised_and_denoised(serving: Serving, models: dict[str, Any]) -> None:
    """With a start the steps begin at it, go up and come down; the answer is not worse than it."""
    client = serving(Settings(models={"tiny": models["pmsp"]}))
    start = [0, 1, 2, 0, 1]
    document = {"instance": SHOP, "problem": "pmsp", "trace": True, "samples": 1, "model": "tiny", "start": start}
    address = client.post("/v1/jobs", json=document).headers["location"]
    events = parsed(client.get(f"{address}/events").text)
    steps = [event["data"] for event in events if event["event"] == "step"]
    up = [step for step in steps if step["s"] > step["t"]]
    assert [step["t"] for step in steps] == [step["t"] for step in up] + [step["s"] for step in reversed(up)]
    bits = np.unpackbits(np.frombuffer(base64.b64decode(steps[0]["x"]), dtype=np.uint8))[:15].reshape(5, 3)
    assert bits.argmax(1).tolist() == start
    assert bits.sum() == 5
    assert np.frombuffer(base64.b64decode(steps[0]["belief"]), dtype=np.uint8).reshape(5, 3).argmax(1).tolist() == start
    current = max(sum(SHOP[job][m] for job, machine in enumerate(start) if machine == m) for m in range(3))
    assert events[-1]["data"]["answer"]["objective"] <= current


def test_what_the_server_says_of_itself(serving: Serving, shop: dict[str, Any]) -> None:
    client = serving()
    about = client.get("/v1/problems").json()
    assert about["problems"]["pmsp"]["row_words"] == ["job", "jobs"]
    assert about["problems"]["atsp"]["tour"]
    assert about["problems"]["pmsp"]["conditions"] == ["fixed", "stay", "busy"]
    assert about["problems"]["atsp"]["conditions"] == ["fixed", "stay", "open", "first", "last"]
    assert {"setups", "flow-shop"} < set(about["problems"])
    for name in ("setups", "flow-shop"):
        assert about["problems"][name]["sequence"]
        assert about["problems"][name]["conditions"] == ["fixed", "stay", "first", "last"]
        assert about["problems"][name]["row_words"] == ["job", "jobs"]
    assert {"time_limit", "busy", "transpose"} < set(about["words"])
    assert "text/csv" in about["content"]
    assert about["solvers"]["search"]["installed"]
    assert about["limits"]["queue"] == 256
    assert client.get("/v1/models").json()["pmsp"]["problem"] == "pmsp"
    assert client.get("/healthz").json()["status"] == "ok"
    client.post("/v1/solve", json=shop)
    text = client.get("/metrics").text
    for line in (
        'icdc_requests_total{code="200",route="/v1/solve"} 1.0',
        "icdc_queue_length 0.0",
        "icdc_batch_size_count 1.0",
        'icdc_batch_size_bucket{le="1.0"} 1.0',
        'icdc_jobs_total{state="done"} 1.0',
    ):
        assert line in text.splitlines()
    document = client.get("/v1/openapi.json").json()
    assert {"/v1/solve", "/v1/jobs", "/v1/jobs/{id}", "/v1/jobs/{id}/events", "/v1/models"} <= set(document["paths"])
    assert "application/x-npz" in document["paths"]["/v1/solve"]["post"]["requestBody"]["content"]


def test_jobs_that_ended_long_ago_take_little_memory(
    serving: Serving, director: Director, shop: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their curve stays, solutions on the way to it go; and only so many are kept at all."""
    monkeypatch.setattr(jobs_module, "REPLAYED", 0.05)
    client = serving(kept=3)
    addresses = []
    for seed in range(5):
        addresses.append(client.post("/v1/jobs", json=shop | {"seed": seed}).headers["location"])
        assert_soon(lambda: client.get(addresses[-1]).json()["state"] == "done")
    assert [client.get(address).status_code for address in addresses] == [404, 404, 200, 200, 200]
    time.sleep(0.1)
    client.post("/v1/solve", json=shop)  # when another ends
    events = parsed(client.get(f"{addresses[-1]}/events").text)
    improved = [event["data"] for event in events if event["event"] == "improved"]
    assert improved
    assert all("solution" not in data and "cost" in data for data in improved)
    assert events[-1]["data"]["answer"]["solution"]
    jobs = client.app.state.jobs  # type: ignore[attr-defined]
    assert not jobs.workers.batches
    assert not jobs.workers._tasks


def test_a_job_that_has_ended_lets_go_of_its_matrix(serving: Serving, shop: dict[str, Any]) -> None:
    """What is left of many requests is what can be asked for, whatever they sent."""
    client = serving(kept=3)
    for seed in range(6):
        address = client.post("/v1/jobs", json=shop | {"seed": seed}).headers["location"]
        assert_soon(lambda address=address: client.get(address).json()["state"] == "done")  # type: ignore[misc]
    jobs = client.app.state.jobs  # type: ignore[attr-defined]
    assert len(jobs.records) == 3
    for job in jobs.records.values():
        assert job.source is None
        with pytest.raises(AssertionError):
            _ = job.task
    assert not jobs._tasks


def test_no_more_jobs_stay_in_memory_than_are_kept(serving: Serving, director: Director, shop: dict[str, Any]) -> None:
    """However many ended after the last of them had come."""
    client = serving(kept=2)
    director.hold()
    addresses = [client.post("/v1/jobs", json=shop | {"seed": seed}).headers["location"] for seed in range(5)]
    director.free.set()
    assert_soon(lambda: client.get(addresses[-1]).json()["state"] == "done")
    assert [client.get(address).status_code for address in addresses] == [404, 404, 404, 200, 200]


def test_many_improvements_are_thinned_out() -> None:
    events, most = Events(), MOST_EVENTS
    for number in range(5 * most):
        events.add("improved", {"cost": -number})
    assert len(events.events) <= most
    numbers = [number for number, *_ in events.events]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 5 * most
    assert numbers[0] == 1


def test_the_page_is_whole(serving: Serving) -> None:
    """Everything it refers to is there, and nothing of it is fetched from elsewhere."""
    import re
    from pathlib import Path

    from icdc.serve import app

    client = serving()
    page = client.get("/").text
    links = [link for link in re.findall(r'(?:src|href)="([^"#]+)"', page) if not link.startswith("v1/")]
    assert len(links) >= 3
    for link in links:
        assert client.get(f"/{link}").status_code == 200, link
    folder = Path(app.__file__).parent / "static"
    for file in folder.rglob("*.*"):
        text = file.read_text()
        assert not re.search(r"(?:src|href|from|import|url\()\s*[=(]?\s*[\"']?https?:", text), file
        for module in re.findall(r'from "\./([\w.]+)"', text):
            assert (file.parent / module).is_file(), module


def parsed(text: str) -> list[dict[str, Any]]:
    """Return the events of a stream."""
    events = []
    for part in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in part.splitlines() if line and not line.startswith(":"))
        if fields:
            events.append({"id": int(fields["id"]), "event": fields["event"], "data": json.loads(fields["data"])})
    return events
