"""Servers that share their jobs: who has which, what the others see of it, and who inherits the jobs of the dead."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from icdc.serve import board as board_module
from icdc.serve.app import make_app
from icdc.serve.board import SILENT, Board, Ledger
from icdc.serve.limits import Limits, Settings
from icdc.serve.orders import Source

from .conftest import Director
from .test_app import assert_soon, parsed

SOURCE = Source(b"1,2\n", "text/csv", {"problem": "pmsp"})


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_jobs_of_the_silent_go_to_the_next_that_speaks(tmp_path: Path) -> None:
    clock = Clock()
    ledger = Ledger(now=clock)

    async def story() -> None:
        await ledger.add("a", "one", 1.0, SOURCE)
        await ledger.add("b", "two", 2.0, SOURCE)
        assert await ledger.beat("a", {"one": {"state": "running", "cost": 5}}) == ([], [])
        clock.now = SILENT - 0.1
        assert (await ledger.beat("b", {}))[1] == []
        clock.now = SILENT + 0.1
        _, inherited = await ledger.beat("b", {})
        assert [stored.id for stored in inherited] == ["one"]
        assert (await ledger.beat("b", {}))[1] == []
        # the dead one was only slow: its word about a job that is no longer its own does not count
        await ledger.beat("a", {"one": {"state": "running", "cost": 4}})
        stored = await ledger.get("one")
        assert stored is not None
        assert stored.outcome == {"state": "running", "cost": 5}

    asyncio.run(story())


def test_the_first_end_of_a_job_counts() -> None:
    ledger = Ledger()

    async def story() -> None:
        await ledger.add("a", "one", 1.0, SOURCE)
        await ledger.finish("one", {"state": "done", "answer": 1})
        await ledger.finish("one", {"state": "done", "answer": 2})
        await ledger.cancel("one")
        assert (await ledger.beat("a", {"one": {"state": "running"}})) == ([], [])
        stored = await ledger.get("one")
        assert stored is not None
        assert stored.outcome == {"state": "done", "answer": 1}
        assert await ledger.get("nobody") is None

    asyncio.run(story())


def test_a_ledger_in_a_folder_is_taken_up_again(tmp_path: Path) -> None:
    async def first() -> None:
        ledger = Ledger(tmp_path)
        await ledger.add("a", "one", 1.0, SOURCE)
        await ledger.add("a", "two", 2.0, SOURCE)
        await ledger.finish("one", {"state": "done"})
        assert ledger._store is not None
        ledger._store.close()

    async def second() -> None:
        ledger = Ledger(tmp_path)
        _, inherited = await ledger.beat("b", {})
        assert [stored.id for stored in inherited] == ["two"]
        done = await ledger.get("one")
        assert done is not None
        assert done.outcome == {"state": "done"}

    asyncio.run(first())
    asyncio.run(second())


@pytest.fixture
def pair(director: Director, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TestClient, TestClient]]:
    """Two servers with one ledger."""
    monkeypatch.setattr(board_module, "BEAT", 0.05)
    ledger = Ledger()

    async def call(method: str, *values: Any) -> Any:
        return await getattr(ledger, method)(*values)

    clients = [TestClient(make_app(Settings(Limits(grace=0.1)), Board(call))) for _ in range(2)]
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
    director.free.set()
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
