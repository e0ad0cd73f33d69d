"""The queue: order, room, and who goes together."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from icdc.problems import get_problem
from icdc.problems.instance import Instance
from icdc.serve.batching import Queue
from icdc.serve.orders import Order


def job(key: object, name: str = "", alone: bool = False) -> Any:
    return SimpleNamespace(batch_key=key, alone=alone, name=name, weight=10)


def test_the_first_takes_those_alike_along_in_their_order() -> None:
    queue = Queue(room=10, batch=3)
    jobs = [job("a", "1"), job("b", "2"), job("a", "3"), job("a", "4"), job("a", "5"), job("b", "6")]
    for one in jobs:
        queue.add(one)
    assert [one.name for one in queue.take()] == ["1", "3", "4"]
    assert [one.name for one in queue.take()] == ["2", "6"]
    assert [one.name for one in queue.take()] == ["5"]
    assert len(queue) == 0


def test_whoever_is_alone_goes_alone() -> None:
    queue = Queue(room=10, batch=9)
    for one in (job("a", "1", alone=True), job("a", "2"), job("a", "3", alone=True), job("a", "4")):
        queue.add(one)
    assert [[one.name for one in queue.take()] for _ in range(3)] == [["1"], ["2", "4"], ["3"]]


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


BASE = Order(instance((3, 2)))


@pytest.mark.parametrize(
    "other",
    [
        Order(instance((2, 3))),
        Order(instance((3, 2), np.float64)),
        Order(instance((3, 2)), solver="lpt"),
        Order(instance((3, 2)), samples=4),
        Order(instance((3, 2)), seed=1),
        Order(instance((3, 2)), options={"steps": 2}),
        Order(instance((3, 2)), time_limit=1.0),
        Order(instance((3, 2)), trace=True),
        Order(instance((3, 2)), start=np.zeros(3, dtype=np.int64)),
    ],
)
def test_only_orders_that_agree_in_everything_are_alike(other: Order) -> None:
    assert BASE.batch_key == Order(instance((3, 2), np.int32)).batch_key
    assert BASE.batch_key != other.batch_key


def test_a_time_limit_is_not_shared() -> None:
    """Equal limits are no reason to be solved together: each has its time for itself."""
    assert Order(instance((3, 2)), time_limit=1.0).batch_key != Order(instance((3, 2)), time_limit=1.0).batch_key
