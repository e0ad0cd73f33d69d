"""A real server process under what happens to servers: signals, dead workers, clients that stall or leave."""

import asyncio
import contextlib
import http.client
import io
import os
import signal
import socket
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np
import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import icdc
from icdc.cli import run
from icdc.machine import may_have_gpu
from icdc.serve import server as server_module
from icdc.serve.requests import KINDS
from icdc.serve.store import Store

from .fuzzing import requests_never_end_in_an_internal_error
from .process import RunningServer, free_port
from .test_app import assert_soon

Start = Callable[..., RunningServer]
_RNG = np.random.default_rng(0)
HARD = (_RNG.integers(10**8, 10**9, (60, 1)) + _RNG.integers(0, 10**6, (60, 7))).tolist()
"""Loads that can be balanced ever better: nothing is proven in the seconds that tests give it."""
LONG = {"instance": {"problem": "pmsp", "matrix": HARD}}


def children(pid: int) -> list[int]:
    """Return the workers of a server: the processes it has started that have loaded torch; readers do not."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                is_worker = int(fields[1]) == pid and b"libtorch" in (entry / "maps").read_bytes()
            except OSError:
                continue
            if is_worker:
                found.append(int(entry.name))
    return found


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_kill_nine_loses_no_answer_and_no_job(start_server: Start, tmp_path: Path, shop: dict[str, Any]) -> None:
    port = free_port()
    server = start_server("--data", str(tmp_path), port=port).wait()
    with httpx.Client(base_url=server.url, timeout=30) as client:
        done = client.post("/v1/jobs", json=shop).headers["location"]
        assert_soon(lambda: client.get(done).json()["state"] == "done", 20)
        answer = client.get(done).json()["answer"]
        running = client.post("/v1/jobs", json=LONG | {"time_limit": 1.5}).headers["location"]
        waiting = client.post("/v1/jobs", json=shop | {"seed": 4}).headers["location"]
    (worker,) = children(server.process.pid)
    server.stop(signal.SIGKILL)
    command = Path(f"/proc/{worker}/cmdline")
    assert_soon(lambda: not command.exists() or not command.read_bytes(), 10)
    server = start_server("--data", str(tmp_path), port=port).wait()
    with httpx.Client(base_url=server.url, timeout=30) as client:
        assert client.get(done).json()["answer"] == answer
        for address in (running, waiting):
            assert_soon(lambda address=address: client.get(address).json()["state"] == "done", 40)
    assert server.stop(signal.SIGTERM) == 0


def test_a_worker_that_is_killed_is_replaced(running_server: RunningServer, shop: dict[str, Any]) -> None:
    with httpx.Client(base_url=running_server.url, timeout=60) as client:
        job = client.post("/v1/jobs", json=LONG | {"time_limit": 1}).headers["location"]
        assert_soon(lambda: client.get(job).json()["state"] == "running", 20)
        before = children(running_server.process.pid)
        os.kill(before[0], signal.SIGKILL)
        assert_soon(lambda: client.get(job).json()["state"] == "done", 40)
        assert client.post("/v1/solve", json=shop).status_code == 200
        assert children(running_server.process.pid) != before


def test_cancelled_and_abandoned_searches_stop_computing(running_server: RunningServer, shop: dict[str, Any]) -> None:
    with httpx.Client(base_url=running_server.url, timeout=60) as client:
        job = client.post("/v1/jobs", json=LONG | {"time_limit": 60}).headers["location"]
        assert_soon(lambda: client.get(job).json()["cost"] is not None, 40)
        began = time.monotonic()
        cancelled = client.delete(job).json()
        assert cancelled["state"] == "cancelled"
        assert cancelled["answer"]["feasible"]
        assert cancelled["answer"]["interrupted"]
        assert time.monotonic() - began < 6
        (worker,) = children(running_server.process.pid)

        def rests() -> bool:
            before = processor_seconds(worker)
            time.sleep(0.6)
            return processor_seconds(worker) - before < 0.2

        assert_soon(rests, 4)  # with its first job a worker goes on for half a second; with later ones it stops at once
        # a client that goes away without a word
        with pytest.raises(httpx.TimeoutException):
            client.post("/v1/solve", json=LONG | {"time_limit": 25}, timeout=1.0)
        began = time.monotonic()
        assert client.post("/v1/solve", json=shop).status_code == 200
        assert time.monotonic() - began < 10


def test_half_a_body_and_unread_events_hold_nobody_up(running_server: RunningServer, shop: dict[str, Any]) -> None:
    host, port = running_server.url.removeprefix("http://").split(":")
    head = f"POST /v1/solve HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    with (
        socket.create_connection((host, int(port))) as half,
        socket.create_connection((host, int(port))) as deaf,
        httpx.Client(base_url=running_server.url, timeout=30) as client,
    ):
        half.sendall((head + 'Content-Length: 1000\r\n\r\n{"instance": [[1,').encode())
        job = client.post("/v1/jobs", json=LONG | {"time_limit": 1}).headers["location"]
        deaf.sendall(f"GET {job}/events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert_soon(lambda: client.get(job).json()["state"] == "done", 30)
        assert client.post("/v1/solve", json=shop).status_code == 200


def test_a_stop_returns_the_best_so_far(start_server: Start) -> None:
    server = start_server("--grace", "0.5").wait()
    client = icdc.Client(server.url)
    job = client.submit(HARD, time_limit=60)
    events = job.events()
    next(events)  # who watches already is told the end; who connects while a server stops may be turned away
    assert_soon(lambda: job.state()["cost"] is not None, 40)
    server.process.send_signal(signal.SIGINT)
    *_, end = events
    answer = client._answer_of(end, job.instance)
    assert answer.feasible
    assert answer.interrupted
    assert server.process.wait(20) == 0


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_before_it_can_work(start_server: Start, sig: int) -> None:
    server = start_server()

    def listens() -> bool:
        try:
            return httpx.get(f"{server.url}/healthz", timeout=2).status_code in (200, 503)
        except httpx.HTTPError:
            return False

    assert_soon(listens, 40)
    assert server.stop(sig) == 0


def test_a_stop_leaves_waiting_jobs_to_the_next_server(start_server: Start, tmp_path: Path) -> None:
    """Whoever watches one is let go, so that nothing waits for a connection that would never end."""
    server = start_server("--grace", "0.2", "--data", str(tmp_path)).wait()
    with httpx.Client(base_url=server.url, timeout=60) as client:
        first = client.post("/v1/jobs", json=LONG | {"time_limit": 60}).headers["location"]
        assert_soon(lambda: client.get(first).json()["cost"] is not None, 40)
        waiting = client.post("/v1/jobs", json=LONG | {"time_limit": 60, "seed": 1}).headers["location"]
        with client.stream("GET", f"{waiting}/events") as events:
            assert events.status_code == 200
            began = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            assert "".join(events.iter_text()) == ""
    assert server.process.wait(30) == 0
    assert time.monotonic() - began < 12
    store = Store(tmp_path)
    assert [f"/v1/jobs/{stored.id}" for stored in store.unfinished()] == [waiting]
    store.close()


def test_what_stands_in_the_way_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert run(["serve", "--port", port]) == 2
        said = capsys.readouterr().err
        assert said == f"icdc: --host 127.0.0.1 --port {port}: cannot listen there (address already in use)\n"
    if not may_have_gpu():
        assert run(["serve", "--port", port, "--device", "cuda"]) == 2
        assert capsys.readouterr().err == "icdc: --device cuda: there is no GPU that can be used\n"
    (tmp_path / "file").write_text("x")
    assert run(["serve", "--port", str(free_port()), "--data", str(tmp_path / "file")]) == 3
    assert capsys.readouterr().err == f"icdc: --data {tmp_path / 'file'}: this is not a folder\n"


def test_connections_that_ask_for_nothing_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a request before them or not; one that gets an answer all the time is not."""
    monkeypatch.setattr(server_module, "HEAD_SECONDS", 0.2)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"transfer-encoding", b"chunked")]})
        for _ in range(8 if scope["path"] == "/slow" else 1):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            await asyncio.sleep(0.1)
        await send({"type": "http.response.body", "body": b""})

    async def ask(port: int, sent: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        try:
            return await asyncio.wait_for(reader.read(), 20)
        finally:
            writer.close()

    async def story() -> list[bytes]:
        config = uvicorn.Config(
            app, http=server_module._Protocol, lifespan="off", log_level="critical", port=free_port()
        )
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        whole = b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"
        sent = [b"", b"GET / HTTP/1.1\r\nHost: ", whole, whole + b"GET / HTTP/1.1\r\n"]
        answers = await asyncio.gather(*(ask(config.port, one) for one in sent))
        server.should_exit = True
        await serving
        return answers

    silent, half, slow, slow_then_half = asyncio.run(story())
    assert silent == half == b""
    assert slow.count(b"x\r\n") == slow_then_half.count(b"x\r\n") == 8


def test_small_answers_on_an_open_connection_are_not_held_back(running_server: RunningServer) -> None:
    """Without TCP_NODELAY the body of an answer waits for the acknowledgement of its head, 40 ms."""
    host, port = running_server.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    seconds = []
    for _ in range(15):
        began = time.perf_counter()
        connection.request("GET", "/healthz")
        assert connection.getresponse().read()
        seconds.append(time.perf_counter() - began)
    connection.close()
    assert min(seconds[1:]) < 0.03  # the first is sent at once either way


def hostile_workbooks() -> dict[str, bytes]:
    """Return small workbooks that take long, or much memory, to read: columns, merged cells and rows without end."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["job", "saw", "mill"], ["a", 1, 2], ["b", 3, 4]):
        book.active.append(row)
    plain = io.BytesIO()
    book.save(plain)
    columns = b"<cols>" + b'<col min="1" max="16384" width="9"/>' * 400_000 + b"</cols><sheetData>"
    merged = b"</sheetData><mergeCells>" + b'<mergeCell ref="A1:XFD1048576"/>' * 20_000 + b"</mergeCells>"
    rows = b"".join(b'<row r="%d"/>' % row for row in range(4, 1_000_000)) + b"</sheetData>"
    changes = {
        "columns": (b"<sheetData>", columns),
        "merged": (b"</sheetData>", merged),
        "rows": (b"</sheetData>", rows),
    }
    return {name: _changed(plain.getvalue(), *change) for name, change in changes.items()}


def _changed(workbook: bytes, old: bytes, new: bytes) -> bytes:
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(workbook)) as before, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as after:
        for entry in before.infolist():
            content = before.read(entry)
            after.writestr(entry.filename, content.replace(old, new) if "sheet1" in entry.filename else content)
    return changed.getvalue()


@pytest.mark.parametrize("name", ["columns", "merged", "rows"])
def test_a_hostile_workbook_is_ended_and_holds_nobody_up(
    running_server: RunningServer, shop: dict[str, Any], name: str
) -> None:
    kind = next(kind for kind, ending in KINDS.items() if ending == ".xlsx")
    workbook = hostile_workbooks()[name]
    assert len(workbook) < 10**7
    ends: list[tuple[float, int]] = []

    def send() -> None:
        began = time.monotonic()
        response = httpx.post(
            f"{running_server.url}/v1/solve?problem=pmsp", content=workbook, headers={"content-type": kind}, timeout=60
        )
        ends.append((time.monotonic() - began, response.status_code))

    senders = [threading.Thread(target=send) for _ in range(2)]
    with httpx.Client(base_url=running_server.url, timeout=30) as client:
        client.post("/v1/solve", json=shop)
        for sender in senders:
            sender.start()
        time.sleep(0.3)
        began = time.monotonic()
        assert client.post("/v1/solve", json=shop).status_code == 200
        assert client.get("/healthz").status_code == 200
        assert time.monotonic() - began < 3
    for sender in senders:
        sender.join()
    assert {status for _, status in ends} <= {200, 413, 422}
    assert min(seconds for seconds, _ in ends) < 10


@given(st.data())
@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_no_request_ends_in_an_internal_error(running_server: RunningServer, data: st.DataObject) -> None:
    """`python -m tests.fuzz --service` tries more of them."""
    requests_never_end_in_an_internal_error(data, running_server.url)


def test_a_stop_does_not_wait_for_reading(start_server: Start) -> None:
    server = start_server("--grace", "0.5").wait()
    kind = next(kind for kind, ending in KINDS.items() if ending == ".xlsx")
    workbook = hostile_workbooks()["columns"]

    def send() -> None:
        with contextlib.suppress(httpx.HTTPError):
            url = f"{server.url}/v1/solve?problem=pmsp"
            httpx.post(url, content=workbook, headers={"content-type": kind}, timeout=60)

    sender = threading.Thread(target=send)
    sender.start()
    time.sleep(0.5)
    began = time.monotonic()
    assert server.stop(signal.SIGTERM) == 0
    assert time.monotonic() - began < 10
    sender.join()
