"""Replicas that share their jobs: who has which, what the others see, who inherits the jobs of the dead; and Ray."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from icdc.cli import run
from icdc.serve import ray as ray_module
from icdc.serve.app import make_app
from icdc.serve.limits import Limits, Settings
from icdc.serve.ray import SILENT, SharedJobs, SharedStore
from icdc.serve.requests import Source

from .conftest import Director
from .test_app import assert_soon, parsed

SOURCE = Source(b"1,2\n", "text/csv", {"problem": "pmsp"})


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_jobs_of_the_silent_go_to_the_next_that_speaks(tmp_path: Path) -> None:
    clock = Clock()
    jobs = SharedJobs(now=clock)

    async def story() -> None:
        await jobs.add("a", "one", 1.0, SOURCE)
        await jobs.add("b", "two", 2.0, SOURCE)
        assert await jobs.report("a", {"one": {"state": "running", "cost": 5}}) == ([], [])
        clock.now = SILENT - 0.1
        assert (await jobs.report("b", {}))[1] == []
        clock.now = SILENT + 0.1
        _, inherited = await jobs.report("b", {})
        assert [stored.id for stored in inherited] == ["one"]
        assert (await jobs.report("b", {}))[1] == []
        # the dead one was only slow: its word about a job that is no longer its own does not count
        await jobs.report("a", {"one": {"state": "running", "cost": 4}})
        stored = await jobs.get("one")
        assert stored is not None
        assert stored.outcome == {"state": "running", "cost": 5}

    asyncio.run(story())


def test_the_first_end_of_a_job_counts() -> None:
    jobs = SharedJobs()

    async def story() -> None:
        await jobs.add("a", "one", 1.0, SOURCE)
        await jobs.finish("one", {"state": "done", "answer": 1})
        await jobs.finish("one", {"state": "done", "answer": 2})
        await jobs.cancel("one")
        assert (await jobs.report("a", {"one": {"state": "running"}})) == ([], [])
        stored = await jobs.get("one")
        assert stored is not None
        assert stored.outcome == {"state": "done", "answer": 1}
        assert await jobs.get("nobody") is None

    asyncio.run(story())


def test_jobs_in_a_folder_is_taken_up_again(tmp_path: Path) -> None:
    async def first() -> None:
        jobs = SharedJobs(tmp_path)
        await jobs.add("a", "one", 1.0, SOURCE)
        await jobs.add("a", "two", 2.0, SOURCE)
        await jobs.finish("one", {"state": "done"})
        assert jobs._store is not None
        jobs._store.close()

    async def second() -> None:
        jobs = SharedJobs(tmp_path)
        _, inherited = await jobs.report("b", {})
        assert [stored.id for stored in inherited] == ["two"]
        done = await jobs.get("one")
        assert done is not None
        assert done.outcome == {"state": "done"}

    asyncio.run(first())
    asyncio.run(second())


@pytest.fixture
def pair(director: Director, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TestClient, TestClient]]:
    """Two servers with one jobs."""
    monkeypatch.setattr(ray_module, "BEAT", 0.05)
    jobs = SharedJobs()

    async def call(method: str, *values: Any) -> Any:
        return await getattr(jobs, method)(*values)

    clients = [TestClient(make_app(Settings(Limits(grace=0.1)), shared=SharedStore(call))) for _ in range(2)]
    for client in clients:
        client.__enter__()
    yield clients[0], clients[1]
    director.free.set()
    for client in clients:
        client.__exit__(None, None, None)


Wait = Callable[[Callable[[], Any]], None]


def test_every_server_knows_every_job(
    pair: tuple[TestClient, TestClient], director: Director, shop: dict[str, Any]
) -> None:
    one, other = pair
    director.hold()
    director.first_answer = True
    address = one.post("/v1/jobs", json=shop).headers["location"]
    assert_soon(lambda: other.get(address).json().get("cost") == 99)
    assert other.get(address).json()["state"] == "running"
    threading.Timer(0.5, director.free.set).start()  # once the other server is asked: a job that is done tells no more
    events = parsed(other.get(f"{address}/events").text)
    assert [event["event"] for event in events][-1] == "end"
    assert events[0]["event"] == "improved"
    assert events[-1]["data"]["answer"] == one.get(address).json()["answer"]
    assert other.get("/v1/jobs/nobody").status_code == 404


def test_a_job_is_cancelled_from_another_server(
    pair: tuple[TestClient, TestClient], director: Director, shop: dict[str, Any]
) -> None:
    one, other = pair
    director.hold()
    address = one.post("/v1/jobs", json=shop).headers["location"]
    began = time.monotonic()
    assert other.delete(address).json()["state"] == "cancelled"
    assert time.monotonic() - began < 5
    assert one.get(address).json()["state"] == "cancelled"


ROOT = Path(__file__).parents[2]
PRESENT = all(importlib.util.find_spec(name) is not None for name in ("ray", "grpc", "starlette"))


@pytest.mark.slow
@pytest.mark.skipif(not PRESENT, reason="Ray Serve is not installed (pip install icdc[serve-cluster])")
def test_no_job_is_lost_when_a_replica_dies() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "experiments.service.faults", "--ray", "--jobs", "24"]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["accepted"] > 0
    assert found["lost"] == 0
    assert found["clean"]


def test_without_ray_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else find(name))
    assert run(["serve", "--ray", "local"]) == 5
    assert "pip install 'icdc[serve-cluster]'" in capsys.readouterr().err


def test_a_cluster_that_does_not_answer_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr("icdc.serve.ray._module", lambda name: pytest.fail("Ray was asked"))
    assert run(["serve", "--ray", "127.0.0.1:99999999"]) == 2
    assert "--ray 127.0.0.1:99999999: there is no Ray cluster to be reached (" in capsys.readouterr().err
