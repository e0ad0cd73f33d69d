"""What a worker says of a search, and when it lets itself be interrupted."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc.errors import UsageError
from icdc.problems import get_problem
from icdc.problems.instance import Instance
from icdc.serve import workers
from icdc.serve.limits import Settings
from icdc.serve.requests import Source, Task, read_task
from icdc.serve.schema import Answer
from icdc.serve.worker import Device, Message, Process, Progress, is_importing, solve_tasks
from icdc.solving.jobs import Job, Observer
from icdc.solving.solver import Improvement


def instance(matrix: Any) -> Instance:
    return Instance("x", get_problem("pmsp"), {"durations": np.asarray(matrix)})


@pytest.fixture
def sent() -> list[Message]:
    return []


@pytest.fixture
def progress(sent: list[Message]) -> Progress:
    """The progress of two tasks, of which a job has the second one first."""
    tasks = [Task(instance([[4, 2], [3, 3]])), Task(instance([[5, 20], [15, 10]]))]
    progress = Progress(tasks, 7, sent.append)
    job = Job([1, 0], [tasks[1].instance, tasks[0].instance], None, 1, 0)  # type: ignore[arg-type]
    progress.begin(job, np.array([7.5, 2.4]))
    return progress


def improvements(sent: list[Message]) -> list[tuple[int, Any]]:
    return [(message.place, message.data) for message in sent if message.what == "improved"]


def test_every_improvement_is_reported_once_to_its_task(progress: Progress, sent: list[Message]) -> None:
    assert [(m.what, m.place, m.data) for m in sent] == [("begun", 1, {"bound": 8}), ("begun", 0, {"bound": 3})]
    assert all(message.batch == 7 for message in sent)
    choice, places = np.array([[0, 1], [1, 1]]), (1, 0)
    progress.improved(Improvement(0.1, np.array([15.0, 5.0]), choice, np.array([5.0, 4.0]), ["a", "b"], places))
    (one, first), (other, second) = improvements(sent)
    assert (one, first["cost"], first["bound"], first["found_by"]) == (1, 15, 8, "a")
    assert (other, second["cost"], second["bound"], second["solution"]) == (0, 5, 4, [1, 1])
    assert isinstance(second["cost"], int)
    progress.improved(Improvement(0.2, np.array([15.0, 4.0]), choice, np.array([5.0, 4.0]), ["a", "c"], places))
    assert [place for place, _ in improvements(sent)] == [1, 0, 0]
    progress.improved(Improvement(0.3, np.array([np.inf, 4.0]), choice, np.array([5.0, 4.0]), ["", "c"], places))
    assert len(improvements(sent)) == 3


def test_real_costs_stay_real(sent: list[Message]) -> None:
    progress = Progress([Task(instance([[0.5, 2.0], [1.5, 1.0]]))], 1, sent.append)
    progress.improved(Improvement(0.1, np.array([1.5]), np.array([[0, 1]]), np.array([0.75]), ["a"], (0,)))
    ((_, best),) = improvements(sent)
    assert (best["cost"], best["bound"]) == (1.5, 0.75)


def test_the_best_of_a_search_that_was_cut_off_is_checked(progress: Progress) -> None:
    assert progress.best_answer(0) is None
    choice = np.array([[0, 1], [1, 1]])
    progress.improved(Improvement(0.1, np.array([10.0, 99.0]), choice, np.array([5.0, 3.0]), ["a", "search"], (1, 0)))
    best = progress.best_answer(0)
    assert best is not None
    assert best["objective"] == 5  # by the instance, not by the improvement
    assert best["feasible"]
    assert best["interrupted"]
    assert best["found_by"] == "search"


def test_a_start_is_the_best_while_there_is_no_other(sent: list[Message]) -> None:
    best = Progress([Task(instance([[4, 2], [3, 3]]), start=np.array([1, 0]))], 1, sent.append).best_answer(0)
    assert best is not None
    assert best["objective"] == 3
    assert best["found_by"] == "start"


def test_a_batch_is_solved_like_every_other(sent: list[Message]) -> None:
    tasks = [Task(instance([[4, 2], [3, 3]]), "lpt"), Task(instance([[9, 1], [1, 9]]), "lpt")]
    answers = solve_tasks(tasks, Progress(tasks, 1, sent.append), Device())
    assert [answers[place]["objective"] for place in (0, 1)] == [3, 1]
    assert answers[1]["optimal"]
    assert answers[1]["in_words"] == "makespan 1, optimal"
    assert set(answers[1]) <= set(Answer.model_fields)
    assert {place for place, _ in improvements(sent)} == {0, 1}


def test_answers_are_json_where_a_pair_is_forbidden_among_reals() -> None:
    source = Source(b"[[3.5, null], [5, 6]]", "application/json", {"problem": "pmsp", "solver": "lpt"})
    task = read_task(source, Settings())
    assert json.loads(json.dumps(solve_tasks([task], Observer(), Device())[0]))["optimal"] is False


def test_only_a_batch_that_is_to_stop_is_interrupted() -> None:
    """Neither the terminal's Ctrl-C, nor half a message, nor half an import."""
    connection: Any = None
    process = Process(connection, Device(), Settings())
    process.interrupt()  # nothing is being solved
    process.number = 3
    process.interrupt()  # nothing is to stop
    process.stopped.add(2)
    process.interrupt()  # another batch is to stop
    process.stopped.add(3)
    process.sending = True
    process.interrupt()
    process.sending = False
    with pytest.raises(KeyboardInterrupt):
        process.interrupt(2, sys._getframe())


def test_imports_are_noticed_in_the_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_imported.py").write_text("import sys\nFRAME = sys._getframe()\nFOUND = CHECK(FRAME)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("builtins.CHECK", is_importing, raising=False)
    import half_imported  # type: ignore[import-not-found]

    assert half_imported.FOUND
    assert not is_importing(sys._getframe())
    assert not is_importing(None)


def test_workers_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_gpus", lambda: [])
    monkeypatch.setattr(workers, "cores", lambda: 5)
    assert workers.devices("auto", 2) == [Device("cpu", None, 2)] * 2
    assert workers.devices("cpu", 8, warm=False) == [Device("cpu", None, 1, False)] * 8
    with pytest.raises(UsageError, match="--device cuda: there is no GPU that can be used"):
        workers.devices("cuda", 1)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, ["0", "1", "2"]), ("5,3,4", ["5", "3", "4"]), ("GPU-8932, 1,0", ["GPU-8932", "1", "0"]), ("2", ["2"])],
)
def test_every_gpu_gets_a_worker_of_its_own(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, expected: list[str]
) -> None:
    """By the name it has on the machine, so that a worker sees that one GPU alone."""
    monkeypatch.setattr(workers, "may_have_gpu", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: len(expected))
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    devices = workers.devices("auto", 8, warm=False)
    assert devices == [Device("cuda", gpu, 1, False) for gpu in expected] == workers.devices("cuda", 1, warm=False)
    assert [device.kind for device in workers.devices("cpu", 2)] == ["cpu", "cpu"]
    seen = []
    for device in devices:
        with workers._environment(device.environment):
            seen.append((os.environ["CUDA_VISIBLE_DEVICES"], os.environ["OMP_NUM_THREADS"]))
    assert seen == [(gpu, "1") for gpu in expected]
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == visible
