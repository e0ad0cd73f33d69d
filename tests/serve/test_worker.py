"""What a worker says of a search, and when it lets itself be interrupted."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc.baselines.heuristics import RandomSolver
from icdc.errors import UsageError
from icdc.problems import get_problem
from icdc.problems.instance import Instance
from icdc.serve import pool
from icdc.serve.orders import Order
from icdc.serve.telling import Teller
from icdc.serve.worker import Batch, Device, Message, _is_importing, _Worker, run, solve_batch
from icdc.solving.jobs import Job, Plan
from icdc.solving.solver import Improvement


def instance(matrix: Any) -> Instance:
    return Instance("x", get_problem("pmsp"), {"durations": np.asarray(matrix)})


@pytest.fixture
def said() -> list[Message]:
    return []


@pytest.fixture
def teller(said: list[Message]) -> Teller:
    """The teller of two orders, one with integers, one with reals; the second job of the path comes first."""
    orders = [Order(instance([[4, 2], [3, 3]])), Order(instance([[0.5, 2.0], [1.5, 1.0]]))]
    made = Teller([order.instance for order in orders], Batch(7, orders), said.append)
    plan: Any = Plan(None, 1, 0)  # type: ignore[arg-type]
    made.begin(Job([1, 0], [orders[1].instance, orders[0].instance], plan), np.array([0.75, 2.4]))
    return made


def told(said: list[Message]) -> list[tuple[int, Any]]:
    return [(message.place, message.data) for message in said if message.what == "improved"]


def test_improvements_are_told_once_each_to_whom_they_concern(teller: Teller, said: list[Message]) -> None:
    assert [(m.what, m.place, m.data) for m in said] == [("begun", 1, {"bound": 0.75}), ("begun", 0, {"bound": 3})]
    assert all(message.batch == 7 for message in said)
    choice = np.array([[0, 1], [1, 1]])
    teller.improved(Improvement(0.1, np.array([1.5, 5.0]), choice, np.array([0.5, 4.0]), ["a", "b"]))
    first = told(said)
    assert [place for place, _ in first] == [1, 0]
    assert (first[0][1]["cost"], first[0][1]["bound"], first[0][1]["found_by"]) == (1.5, 0.75, "a")
    assert (first[1][1]["cost"], first[1][1]["bound"], first[1][1]["solution"]) == (5, 4, [1, 1])
    assert isinstance(first[1][1]["cost"], int)
    teller.improved(Improvement(0.2, np.array([1.5, 4.0]), choice, np.array([0.5, 4.0]), ["a", "c"]))
    assert [place for place, _ in told(said)] == [1, 0, 0]
    teller.improved(Improvement(0.3, np.array([np.inf, 4.0]), choice))
    assert len(told(said)) == 3


def test_the_best_of_a_search_that_was_cut_off_is_checked(teller: Teller) -> None:
    assert teller.best_of(0) is None
    choice = np.array([[0, 1], [1, 1]])
    teller.improved(Improvement(0.1, np.array([1.0, 99.0]), choice, None, ["a", "search"]))
    best = teller.best_of(0)
    assert best is not None
    assert best["objective"] == 5  # by the instance, whatever was claimed
    assert best["feasible"]
    assert best["interrupted"]
    assert best["found_by"] == "search"


def test_a_start_is_the_best_while_there_is_no_other(said: list[Message]) -> None:
    order = Order(instance([[4, 2], [3, 3]]), start=np.array([1, 0]))
    best = Teller([order.instance], Batch(1, [order]), said.append).best_of(0)
    assert best is not None
    assert best["objective"] == 3
    assert best["found_by"] == "start"


def test_a_batch_is_solved_through_the_one_path(said: list[Message]) -> None:
    orders = [Order(instance([[4, 2], [3, 3]]), "lpt"), Order(instance([[9, 1], [1, 9]]), "lpt")]
    teller = Teller([order.instance for order in orders], Batch(1, orders), said.append)
    answers = solve_batch(orders, teller, Device())
    assert [answers[place]["objective"] for place in (0, 1)] == [3, 1]
    assert answers[1]["optimal"]
    assert answers[1]["in_words"] == "makespan 1, optimal"
    assert {place for place, _ in told(said)} == {0, 1}


def test_only_what_was_asked_to_stop_is_interrupted() -> None:
    """Neither the terminal's Ctrl-C, nor half a message, nor half an import."""
    connection: Any = None
    worker = _Worker(connection, Device())
    worker._interrupted()  # nothing is being solved
    worker.solving = 3
    worker._interrupted()  # nobody asked
    worker.stopped.add(2)
    worker._interrupted()  # another batch was meant
    worker.stopped.add(3)
    worker.speaking = True
    worker._interrupted()
    worker.speaking = False
    with pytest.raises(KeyboardInterrupt):
        worker._interrupted(2, sys._getframe())


def test_imports_are_noticed_in_the_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_imported.py").write_text("import sys\nFRAME = sys._getframe()\nFOUND = CHECK(FRAME)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("builtins.CHECK", _is_importing, raising=False)
    import half_imported  # type: ignore[import-not-found]

    assert half_imported.FOUND
    assert not _is_importing(sys._getframe())
    assert not _is_importing(None)


def test_workers_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_gpus", lambda: [])
    monkeypatch.setattr(pool, "_cores", lambda: 5)
    assert pool.devices("auto", 2) == [Device("cpu", None, 2)] * 2
    assert pool.devices("cpu", 8, warm=False) == [Device("cpu", None, 1, False)] * 8
    with pytest.raises(UsageError, match="--device cuda: there is no GPU that can be used"):
        pool.devices("cuda", 1)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, ["0", "1", "2"]), ("5,3,4", ["5", "3", "4"]), ("GPU-8932, 1,0", ["GPU-8932", "1", "0"]), ("2", ["2"])],
)
def test_every_gpu_gets_a_worker_of_its_own(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, expected: list[str]
) -> None:
    """By the name it has on the machine, so that a worker that sees one GPU sees the one that was meant."""
    monkeypatch.setattr(pool, "may_have_gpu", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: len(expected))
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    made = pool.devices("auto", 8, warm=False)
    assert made == [Device("cuda", gpu, 1, False) for gpu in expected] == pool.devices("cuda", 1, warm=False)
    assert [device.kind for device in pool.devices("cpu", 2)] == ["cpu", "cpu"]
    seen = []

    def work(self: _Worker) -> None:
        seen.append(os.environ["CUDA_VISIBLE_DEVICES"])

    monkeypatch.setattr(_Worker, "work", work)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for device in made:
        run(None, device)  # type: ignore[arg-type]
    assert seen == expected
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")


class OnDevice(RandomSolver):
    """A solver that says where it was put, and does nothing."""

    def __init__(self, device: str = "cpu") -> None:
        raise UsageError(f"on {device}")


def test_batches_go_to_the_device_of_their_worker() -> None:
    for device in (Device("cuda", "3"), Device("cpu")):
        with pytest.raises(UsageError, match=f"on {device.kind}"):
            solve_batch([Order(instance([[4, 2], [3, 3]]), f"{__name__}:OnDevice")], None, device)
