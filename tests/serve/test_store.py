"""Jobs on the disk: they survive, they are taken up again, and a disk that is full loses none."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from icdc.errors import InputError
from icdc.serve import jobs as jobs_module
from icdc.serve.limits import Limits, Settings
from icdc.serve.requests import Source
from icdc.serve.store import NoRoomError, Store

from .conftest import Director
from .test_app import assert_soon, parsed

Serving = Callable[..., TestClient]
SOURCE = Source(b"1,2\n", "text/csv", {"problem": "pmsp"})


def test_what_was_stored_is_there_after_opening_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "data")

    async def fill() -> None:
        await asyncio.gather(*(store.add(f"job{i}", float(i), SOURCE) for i in range(20)))
        await store.finish("job3", {"state": "done", "answer": {"objective": 7}})

    asyncio.run(fill())
    store.close()
    again = Store(tmp_path / "deep" / "data")
    left = again.unfinished()
    assert [one.id for one in left] == [f"job{i}" for i in range(20) if i != 3]
    assert left[0].source == SOURCE
    stored = asyncio.run(again.get("job3"))
    assert stored is not None
    assert stored.outcome == {"state": "done", "answer": {"objective": 7}}
    assert asyncio.run(again.get("nobody")) is None
    again.close()


def test_a_folder_that_cannot_be_used_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(InputError, match=r"^--data .*/file: this is not a folder$"):
        Store(file)
    with pytest.raises(InputError, match=r"^--data .*/below: cannot be used \(Not a directory\)$"):
        Store(file / "below")
    first = Store(tmp_path / "data")
    with pytest.raises(InputError, match=r"^--data .*/data: cannot be used \(another server uses it\)$"):
        Store(tmp_path / "data", patience=0.1)
    first.close()


def test_jobs_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    """Also those of a file that an earlier version made, and what SQLite puts beside it."""
    for file in ("jobs.sqlite3", "jobs.sqlite3-wal"):
        (tmp_path / file).touch(0o644)
    store = Store(tmp_path)
    asyncio.run(store.add("one", 0.0, SOURCE))
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert set(modes) >= {"jobs.sqlite3", "jobs.sqlite3-wal"}
    assert set(modes.values()) == {0o600}
    store.close()


def test_a_folder_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    Store(tmp_path).close()
    database = sqlite3.connect(tmp_path / "jobs.sqlite3", isolation_level=None)
    assert database.execute("PRAGMA user_version").fetchone() == (1,)
    database.execute("PRAGMA user_version = 2")
    database.close()
    before = (tmp_path / "jobs.sqlite3").read_bytes()
    with pytest.raises(InputError, match=r"^--data \S*: it was written by a newer version of icdc \(format 2\)$"):
        Store(tmp_path)
    assert (tmp_path / "jobs.sqlite3").read_bytes() == before


def test_a_start_writes_nothing_so_that_a_full_disk_does_not_prevent_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    asyncio.run(store.add("one", 0.0, SOURCE))
    store.close()
    again = Store(tmp_path)
    assert [one.id for one in again.unfinished()] == ["one"]
    beside = {file.name: file.stat().st_size for file in tmp_path.iterdir() if file.name != "jobs.sqlite3"}
    assert set(beside.values()) <= {0}, beside
    again.close()


def test_a_damaged_file_is_a_sentence(serving: Serving, shop: dict[str, Any], tmp_path: Path) -> None:
    """At the start where what is to be done cannot be read, later where an answer cannot."""
    client = serving(Settings(Limits(kept=1), data=tmp_path))
    addresses = [client.post("/v1/jobs", json=shop | {"seed": seed}).headers["location"] for seed in range(40)]
    for address in addresses:
        assert_soon(lambda address=address: client.get(address).json()["state"] == "done")  # type: ignore[misc]
    store: Store = client.app.state.jobs.store  # type: ignore[attr-defined]
    store._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file = tmp_path / "jobs.sqlite3"
    content = file.read_bytes()
    file.write_bytes(content[:8192] + b"\xa5" * (len(content) - 8192))
    store._database.execute("PRAGMA cache_size = 0")
    store._database.execute("PRAGMA shrink_memory")
    response = client.get(addresses[0])
    assert response.status_code == 500
    assert "what is stored cannot be read" in response.json()["detail"]
    client.__exit__(None, None, None)
    with pytest.raises(InputError, match=r"^--data \S*: cannot be used \("):
        Store(tmp_path)


def test_a_full_disk_is_said_and_what_is_stored_stays(tmp_path: Path) -> None:
    store = Store(tmp_path)
    asyncio.run(store.add("before", 0.0, SOURCE))
    pages = store._database.execute("PRAGMA page_count").fetchone()[0]
    store._database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(NoRoomError, match=r"the job cannot be stored .*full"):
        asyncio.run(store.add("large", 1.0, Source(bytes(2**20), "text/csv")))
    assert [one.id for one in store.unfinished()] == ["before"]
    store._database.execute("PRAGMA max_page_count = 1000000")
    asyncio.run(store.add("after", 2.0, Source(bytes(2**20), "text/csv")))
    assert [one.id for one in store.unfinished()] == ["before", "after"]
    store.close()


def test_unfinished_jobs_run_again_and_finished_ones_keep_their_answers(
    serving: Serving, director: Director, shop: dict[str, Any], tmp_path: Path
) -> None:
    settings = Settings(Limits(grace=0.1), data=tmp_path)
    client = serving(settings)
    done = client.post("/v1/jobs", json=shop).headers["location"]
    answer = parsed(client.get(f"{done}/events").text)[-1]["data"]["answer"]
    director.hold()
    client.post("/v1/jobs", json=shop | {"seed": 1})
    waiting = client.post("/v1/jobs", json=shop | {"seed": 2}).headers["location"]
    client.__exit__(None, None, None)
    director.free.set()
    client = serving(settings)
    assert client.get(done).json()["answer"] == answer
    assert parsed(client.get(f"{done}/events").text)[0]["event"] == "end"
    assert parsed(client.get(f"{waiting}/events").text)[-1]["data"]["state"] == "done"


def test_an_answer_that_the_disk_does_not_take_is_given_and_stored_later(
    serving: Serving, shop: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_module, "STORE_AGAIN", 0.05)
    client = serving(Settings(data=tmp_path))
    full = True
    real = Store.finish

    async def finish(self: Store, job: str, outcome: Any) -> None:
        if full:
            raise NoRoomError("the job cannot be stored (database or disk is full)")
        await real(self, job, outcome)

    monkeypatch.setattr(Store, "finish", finish)
    address = client.post("/v1/jobs", json=shop).headers["location"]
    end = parsed(client.get(f"{address}/events").text)[-1]["data"]
    assert end["state"] == "done"
    assert end["answer"]["feasible"]
    assert "tried again" in end["notes"][-1]
    full = False
    store: Store = client.app.state.jobs.store  # type: ignore[attr-defined]
    assert_soon(lambda: not store.unfinished())


def test_a_job_that_cannot_be_stored_is_refused(
    serving: Serving, shop: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def add(self: Store, *_: Any) -> None:
        raise NoRoomError("the job cannot be stored (database or disk is full)")

    monkeypatch.setattr(Store, "add", add)
    client = serving(Settings(data=tmp_path))
    response = client.post("/v1/jobs", json=shop)
    assert response.status_code == 507
    assert "full" in response.json()["detail"]
    assert client.post("/v1/solve", json=shop).status_code == 200


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "jobs.sqlite3").write_bytes(b"not a database at all, but long enough to be looked at " * 20)
    with pytest.raises(InputError, match="cannot be used"):
        Store(tmp_path)
    assert b"not a database" in (tmp_path / "jobs.sqlite3").read_bytes()
    assert sqlite3.sqlite_version
