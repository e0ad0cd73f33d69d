"""Ctrl-C and SIGTERM: the best so far is printed, whatever solver runs and however early or often it is asked."""

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icdc.cli import interrupts
from icdc.problems import get_problem
from icdc.problems.families import sample_family
from icdc.solving import Abilities, Request, Solver

TALKING = """
import sys
from icdc.cli import main
from icdc.solving import solver
begin = solver.Request.__init__
def told(self, *given, **named):
    begin(self, *given, **named)
    print("begun", file=sys.stderr, flush=True)
solver.Request.__init__ = told
main()
"""


def stopped(arguments: list[Any], number: signal.Signals, pause: float = 0.3) -> tuple[int, str, str]:
    """Send a signal to a command that is searching; return its exit code and what it wrote."""
    path = os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part)
    with subprocess.Popen(
        [sys.executable, "-c", TALKING, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
    ) as process:  # fmt: skip
        assert process.stderr is not None
        try:
            while "begun" not in (line := process.stderr.readline()):
                assert line, "it ended without a search"
            time.sleep(pause)
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    return process.returncode, out, err


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Schedules that no exact solver is done with soon."""
    path = tmp_path / "large.npy"
    drawn = sample_family(get_problem("pmsp"), "job-correlated", 1, (100, 20), np.random.default_rng(1))
    np.save(path, drawn["durations"][0])
    return path


@pytest.mark.parametrize(
    ("solver", "number"),
    [
        ("cpsat", signal.SIGINT),
        ("highs", signal.SIGTERM),
        ("ga:iterations=1000000", signal.SIGTERM),
        ("pso:iterations=1000000", signal.SIGINT),
    ],
)
def test_any_solver_has_an_answer_when_it_is_stopped(large: Path, solver: str, number: signal.Signals) -> None:
    if solver in ("cpsat", "highs"):
        pytest.importorskip("ortools")
    code, out, err = stopped(["solve", large, "--problem", "pmsp", "--solver", solver, "--json"], number)
    assert code == 128 + number, err
    assert json.loads(out)["feasible"]


def test_lkh_is_stopped_too(tmp_path: Path) -> None:
    pytest.importorskip("elkai")
    path = tmp_path / "cities.npy"
    np.save(path, get_problem("atsp").sample(1, (300,), np.random.default_rng(1))["distances"][0])
    arguments = ["solve", path, "--problem", "atsp", "--solver", "lkh:runs=1000", "--json"]
    code, out, _ = stopped(arguments, signal.SIGINT, pause=1.0)
    assert code == 130
    assert json.loads(out)["feasible"]


class Stubborn(Solver):
    """Is interrupted before it has found anything."""

    name = "fake"
    abilities = Abilities()
    signals: tuple[int, ...] = (signal.SIGINT,)

    def refusal(self, problem: Any) -> None:
        return None

    def search(self, request: Request) -> None:
        for number in self.signals:
            os.kill(os.getpid(), number)
        raise AssertionError("the first signal ends the search")


def test_before_the_first_answer_there_is_one_at_once(
    icdc: Any, offer: Callable[[type], None], shop: Path, cities: Path
) -> None:
    offer(Stubborn)
    for file, problem in ((shop, "pmsp"), (cities, "atsp")):
        ran = icdc("solve", file, "--problem", problem, "--solver", "fake", "--json")
        assert ran.code == 130
        assert json.loads(ran.out)["feasible"]
        assert json.loads(ran.out)["samples"] == 0


def test_sigterm_is_143(icdc: Any, offer: Callable[[type], None], shop: Path) -> None:
    class Terminated(Stubborn):
        signals = (signal.SIGTERM,)

    offer(Terminated)
    ran = icdc("solve", shop, "--solver", "fake", "--json")
    assert ran.code == 143
    assert json.loads(ran.out)["feasible"]


def test_a_second_ctrl_c_loses_nothing(
    icdc: Any, offer: Callable[[type], None], shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes while the answer is being checked and printed."""
    command = importlib.import_module("icdc.cli.solve")
    offer(Stubborn)
    plain = command.json_line

    def impatient(found: Any) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return plain(found)

    monkeypatch.setattr(command, "json_line", impatient)
    ran = icdc("solve", shop, "--solver", "fake", "--json")
    assert ran.code == 130
    assert json.loads(ran.out)["feasible"]
    assert "a third time gives up" in ran.err


def test_a_third_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    heard = interrupts.Interrupts()
    with pytest.raises(KeyboardInterrupt):
        heard.hear(signal.SIGTERM, None)
    heard.hear(signal.SIGINT, None)
    assert ended == []
    heard.hear(signal.SIGINT, None)
    assert ended == [143]


def test_handlers_are_put_back(icdc: Any, shop: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert icdc("solve", shop, "--solver", "ect").code == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_interrupted_answers_are_no_results(icdc: Any, offer: Callable[[type], None], tmp_path: Path) -> None:
    """Neither references nor outcomes are written of a search that was cut short."""
    offer(Stubborn)
    ran = icdc("generate", "pmsp", "--size", "4x2", "--count", 3, "--reference", "fake", "--out", tmp_path / "set.npz")
    assert ran.code == 130
    assert not (tmp_path / "set.npz").exists()
    assert icdc("generate", "pmsp", "--size", "4x2", "--count", 3, "--out", tmp_path / "set.npz").code == 0
    ran = icdc("evaluate", tmp_path / "set.npz", "--solver", "fake", "--out", tmp_path / "results.jsonl")
    assert ran.code == 130
    assert (tmp_path / "results.jsonl").read_text() == ""


INTERRUPTED_EXEC = """
import os, signal
from icdc.cli.interrupts import listening
with listening() as interrupts:
    try:
        exec("os.kill(os.getpid(), signal.SIGTERM)\\nimport time\\ntime.sleep(5)")
    except KeyboardInterrupt:
        pass
print(interrupts.exit_code)
"""


def test_the_exit_code_stays_wherever_the_signal_came() -> None:
    """Imports execute texts, and the interpreter ends by SIGINT after such a text was interrupted."""
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED_EXEC], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "143\n")


def test_an_import_is_not_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that comes in the middle of one is heard when it is over, also by who waits for another thread then.

    An interrupted import fails in words of its own.
    """
    module = "import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(0.02)\nwhole = True\n"
    (tmp_path / "slow_to_import.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt), interrupts.listening() as heard:  # noqa: PT012
        slow = importlib.import_module("slow_to_import")
        assert slow.whole
        threading.Event().wait(30.0)
    assert time.perf_counter() - began < 15.0
    assert heard.came == [signal.SIGTERM]
    assert heard.exit_code == 143


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_after_the_answer_changes_no_exit_code(number: signal.Signals) -> None:
    """The interpreter takes a while to end; a command that has answered has not been terminated."""
    late = f"import atexit, os, sys\natexit.register(os.kill, os.getpid(), {int(number)})\n"
    program = late + "sys.argv = ['icdc', '--version']\nfrom icdc.cli import main\nmain()"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("icdc ")
