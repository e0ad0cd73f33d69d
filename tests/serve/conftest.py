"""Servers for tests: the application with workers in threads that can be told what to do, and a real process."""

import asyncio
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.testclient import TestClient

from icdc.errors import IcdcError
from icdc.serve import workers as workers_module
from icdc.serve.app import make_app
from icdc.serve.limits import Limits, Refusal, Settings, refusal_of
from icdc.serve.worker import Batch, Device, Message, Process, Progress, Reading, solve_tasks

from .process import RunningServer
from .process import start as start_process

SHOP = [[3, 9, 4], [7, 2, 8], [5, 6, 1], [4, 4, 9], [8, 3, 2]]


@dataclass
class Director:
    """Tells the workers of a test what to do, and remembers what they were sent.

    free : batches are solved only while it is set.
    deaf : workers do not react when they are stopped.
    dies : how many more batches kill their worker.
    poison : the name of an instance that kills every worker.
    """

    batches: list[Batch] = field(default_factory=list)
    workers: list[Any] = field(default_factory=list)
    free: threading.Event = field(default_factory=threading.Event)
    deaf: bool = False
    dies: int = 0
    poison: str = ""
    first_answer: bool = False

    def hold(self) -> None:
        self.free.clear()


class ThreadWorker:
    """A worker in a thread of this process: it reads like one, and solves as the director says."""

    director: Director

    def __init__(self, device: Device, settings: Settings, receive: Callable[[Any, Message | None], None]) -> None:
        self.device, self.settings, self.receive = device, settings, receive
        self.ready = False
        self.stopped = threading.Event()
        if device.kind != "reader":
            self.director.workers.append(self)

    def hear(self, message: Message | None) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self.receive, self, message)

    def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.inbox: queue.Queue[Batch | Reading | None] = queue.Queue()
        threading.Thread(target=self._work, args=(self.inbox,), daemon=True).start()
        self.hear(Message("ready"))

    def send(self, work: Any) -> None:
        if isinstance(work, int):
            if not self.director.deaf:
                self.stopped.set()
            return
        self.stopped.clear()
        if isinstance(work, Batch):
            self.director.batches.append(work)
        self.inbox.put(work)

    def kill(self) -> None:
        self.inbox.put(None)
        self.hear(None)

    def _work(self, inbox: "queue.Queue[Batch | Reading | None]") -> None:
        while (work := inbox.get()) is not None:
            if isinstance(work, Reading):
                process = Process(None, self.device, self.settings)  # type: ignore[arg-type]
                process._send = lambda message: self.hear(message)  # type: ignore[method-assign]
                process._do(work)
            elif not self._solve(work):
                self.hear(None)
                return

    def _solve(self, batch: Batch) -> bool:
        """Solve a batch; return False where that kills the worker."""
        director, number = self.director, batch.number
        if director.dies or director.poison in [task.instance for task in batch.tasks]:
            director.dies = max(0, director.dies - 1)
            return False
        tasks = [task.unpack() for task in batch.tasks]
        progress = Progress(tasks, number, lambda message: self.hear(message))
        if director.first_answer:
            for place, task in enumerate(tasks):
                best = {"seconds": 0.01, "cost": 99, "bound": 1, "solution": [0] * task.instance.shape[0]}
                self.hear(Message("improved", number, place, best | {"found_by": None}))
        while not director.free.is_set() and not self.stopped.is_set():
            time.sleep(0.005)
        if self.stopped.is_set():
            self.hear(Message("done", number, data={}))
            return True
        try:
            self.hear(Message("done", number, data=solve_tasks(tasks, progress, self.device)))
        except Exception as error:
            refusal = refusal_of(error) if isinstance(error, IcdcError) else Refusal(500, str(error))
            self.hear(Message("failed", number, data=refusal))
        return True


@pytest.fixture
def director(monkeypatch: pytest.MonkeyPatch) -> Director:
    """The director of the workers of this test's servers."""
    director = Director()
    director.free.set()
    worker = type("DirectedWorker", (ThreadWorker,), {"director": director})
    monkeypatch.setattr(workers_module, "Worker", worker)
    return director


@pytest.fixture
def serving(director: Director) -> Iterator[Callable[..., TestClient]]:
    """Return a function that starts the application and returns a client of it."""
    opened: list[TestClient] = []

    def start(settings: Settings | None = None, **limits: Any) -> TestClient:
        settings = settings or Settings(Limits(**limits))
        client = TestClient(make_app(settings), base_url="http://127.0.0.1:8000", raise_server_exceptions=False)
        client.__enter__()
        opened.append(client)
        return client

    yield start
    director.free.set()
    for client in opened:
        client.__exit__(None, None, None)


@pytest.fixture
def shop() -> dict[str, Any]:
    """A request: five jobs on three machines, solved in no time."""
    return {"instance": {"problem": "pmsp", "matrix": SHOP}, "solver": "lpt"}


@pytest.fixture(scope="session")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A real server for the tests that need one."""
    server = start_process("--data", str(tmp_path_factory.mktemp("data")))
    try:
        yield server.wait()
    finally:
        server.stop(signal.SIGKILL)


@pytest.fixture
def start_server() -> Iterator[Callable[..., RunningServer]]:
    """Return a function that starts a server of the test's own; it is gone after the test."""
    started: list[RunningServer] = []

    def start(*flags: str, port: int | None = None) -> RunningServer:
        started.append(start_process(*flags, port=port))
        return started[-1]

    yield start
    for server in started:
        server.stop(signal.SIGKILL)
