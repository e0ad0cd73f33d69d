"""The queue: order, room, and who goes together."""

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from icdc.problems import get_problem
from icdc.problems.instance import Instance
from icdc.serve import workers as workers_module
from icdc.serve.limits import Limits, Refusal, Settings
from icdc.serve.queue import Queue
from icdc.serve.requests import Source, Task
from icdc.serve.worker import Device, Message, Reading
from icdc.serve.workers import Readers


def job(key: object, name: str = "", alone: bool = False) -> Any:
    return SimpleNamespace(task=SimpleNamespace(batch_key=key), alone=alone, name=name, weight=10)


def test_the_first_takes_those_alike_along_in_their_order() -> None:
    queue = Queue(room=10, batch=3)
    jobs = [job("a", "1"), job("b", "2"), job("a", "3"), job("a", "4"), job("a", "5"), job("b", "6")]
    for one in jobs:
        queue.add(one)
    assert [one.name for one in queue.take()] == ["1", "3", "4"]
    assert [one.name for one in queue.take()] == ["2", "6"]
    assert [one.name for one in queue.take()] == ["5"]
    assert len(queue) == 0


def test_a_job_that_is_to_be_alone_goes_alone() -> None:
    queue = Queue(room=10, batch=9)
    for one in (job("a", "1", alone=True), job("a", "2"), job("a", "3", alone=True), job("a", "4")):
        queue.add(one)
    batches = []
    while len(queue):
        batches.append([one.name for one in queue.take()])
    assert batches == [["1"], ["2", "4"], ["3"]]


def test_room_places_removing_and_putting_back() -> None:
    queue = Queue(room=2, batch=1)
    first, second, third = job(1), job(2), job(3)
    queue.add(first)
    assert not queue.full
    queue.add(second)
    assert queue.full
    assert queue.place(second) == 1
    assert queue.remove(first)
    assert not queue.remove(first)
    assert queue.place(first) is None
    queue.put_back([first, third])
    assert [queue.place(one) for one in (first, third, second)] == [0, 1, 2]


def test_what_waits_is_counted_in_bytes_too() -> None:
    queue = Queue(room=100, batch=1, memory=25)
    for key in range(3):
        assert not queue.full
        queue.add(job(key))
    assert queue.full
    queue.take()
    assert not queue.full


def instance(shape: tuple[int, int], kind: Any = np.int64) -> Instance:
    return Instance("x", get_problem("pmsp"), {"durations": np.ones(shape, dtype=kind)})


BASE = Task(instance((3, 2)))


@pytest.mark.parametrize(
    "other",
    [
        Task(instance((2, 3))),
        Task(instance((3, 2), np.float64)),
        Task(instance((3, 2)), solver="lpt"),
        Task(instance((3, 2)), samples=4),
        Task(instance((3, 2)), seed=1),
        Task(instance((3, 2)), options={"steps": 2}),
        Task(instance((3, 2)), time_limit=1.0),
        Task(instance((3, 2)), trace=True),
        Task(instance((3, 2)), start=np.zeros(3, dtype=np.int64)),
    ],
)
def test_only_tasks_that_agree_in_everything_are_alike(other: Task) -> None:
    assert BASE.batch_key == Task(instance((3, 2), np.int32)).batch_key
    assert BASE.batch_key != other.batch_key


def test_a_time_limit_is_not_shared() -> None:
    """Equal limits are no reason to be solved together: each has its time for itself."""
    assert Task(instance((3, 2)), time_limit=1.0).batch_key is None
    queue = Queue(room=10, batch=9)
    for _ in range(2):
        queue.add(job(None))
    assert len(queue.take()) == 1


@pytest.fixture
def slow_readers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Readers that read "slow" and archives only once they are told, and "deadly" never; return the workers."""
    started: list[Any] = []

    class Fake:
        def __init__(self, device: Device, settings: Settings, hear: Any) -> None:
            self.hear, self.starts, self.waiting = hear, 0, []
            started.append(self)

        def start(self) -> None:
            self.starts += 1
            self.hear(self, Message("ready"))

        def send(self, reading: Reading) -> None:
            if reading.source.content == b"deadly":
                self.hear(self, None)
            elif reading.source.content == b"slow" or reading.source.content.startswith(b"PK"):
                self.waiting.append(reading)
            else:
                self.hear(self, Message("done", reading.number, data=reading.source.content))

        def kill(self) -> None:
            self.hear(self, None)

    monkeypatch.setattr(workers_module, "Worker", Fake)
    return started


def read(*contents: bytes, seconds: float = 0.2) -> list[Any]:
    """Read requests at the same moment; return what comes of each within two seconds."""

    class Hasty(Limits):
        reading_seconds = seconds  # type: ignore[assignment]

    async def story() -> list[Any]:
        readers = Readers(Settings(Hasty()))
        reading = [readers.read(Source(content, "text/csv")) for content in contents]
        ends = await asyncio.gather(*(asyncio.wait_for(one, 2) for one in reading), return_exceptions=True)
        readers.close()
        return ends

    return asyncio.run(story())


def test_reading_that_takes_too_long_is_ended(slow_readers: list[Any]) -> None:
    slow, quick = read(b"slow", b"1,2")
    assert isinstance(slow, Refusal)
    assert (slow.status, slow.sentence) == (413, "reading the content takes more than 0.2 s (icdc serve --cells)")
    assert quick == b"1,2"
    assert [worker.starts for worker in slow_readers] == [2]


def test_archives_do_not_hold_up_small_requests(slow_readers: list[Any]) -> None:
    archive, quick = read(b"PK\x03\x04", b"1,2", seconds=10.0)
    assert isinstance(archive, TimeoutError)
    assert quick == b"1,2"


def test_content_that_ends_its_reader_twice_is_refused(slow_readers: list[Any]) -> None:
    deadly, quick = read(b"deadly", b"1,2")
    assert isinstance(deadly, Refusal)
    assert "ended the process" in deadly.sentence
    assert quick == b"1,2"
    assert [worker.starts for worker in slow_readers] == [3]
