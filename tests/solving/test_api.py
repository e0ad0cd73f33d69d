"""From Python: one way to answers, with every proof, start and warning that the command line has."""

import os
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import icdc
from icdc.errors import InfeasibleError, InputError, UsageError
from icdc.models import catalogue
from icdc.models.file import read_weights
from icdc.problems.base import Problem
from icdc.problems.pmsp import Pmsp
from icdc.solving import Improvement, Request, Solver

EQUAL = [[2, 2], [2, 2], [2, 2]]
"""Three equal jobs on two machines: the best makespan is 4, the linear-programming bound 3."""


@dataclass(frozen=True)
class Fixed(Solver):
    """Gives every row the same column."""

    name = "fixed"
    column: int = 0

    def refusal(self, problem: Problem) -> str | None:
        return None

    def search(self, request: Request) -> None:
        request.offer(np.full((request.count, request.shape[0]), self.column))


@pytest.mark.parametrize("solver", ["cpsat", "highs", "dp"])
def test_a_solver_s_proof_counts(solver: str) -> None:
    """Where the problem's own bound is lower, too, and for a solver that is named as for one that is made."""
    assert icdc.solve(EQUAL, solver="ect").bound == 3
    for given in (solver, icdc.make_solver(solver)):
        answer = icdc.solve(EQUAL, solver=given)
        assert (answer.objective, answer.bound, answer.gap, answer.optimal) == (4, 4, 0.0, True)


@pytest.mark.parametrize("solver", ["ect", "ga:iterations=0", "cpsat", "random"])
def test_a_start_with_any_solver(solver: str) -> None:
    """It is never made worse, by those that begin from it and by those that do not."""
    durations = Pmsp().sample(1, (8, 3), np.random.default_rng(0))["durations"][0]
    best = icdc.solve(durations, solver="dp")
    answer = icdc.solve(durations, solver=solver, start=best.solution)
    assert answer.objective == best.objective
    with pytest.raises(InputError, match="not a feasible"):
        icdc.solve(durations, solver=solver, start=[7] * 8)


def test_many_of_any_size_in_their_order() -> None:
    rng = np.random.default_rng(1)
    shapes = [(5, 2), (4, 3), (5, 2), (6, 2)]
    instances = [rng.integers(1, 9, shape) for shape in shapes]
    together = icdc.solve_many(instances, solver="cpsat")
    alone = [icdc.solve(instance, solver="cpsat") for instance in instances]
    assert [answer.solution for answer in together] == [answer.solution for answer in alone]
    assert [answer.instance.name for answer in together] == ["instance", "instance 1", "instance 2", "instance 3"]
    again = icdc.solve_many([answer.instance for answer in together], solver="ect")
    assert [answer.instance.name for answer in again] == [answer.instance.name for answer in together]
    begun = icdc.solve_many(instances, solver="ect", starts=[answer.solution for answer in together])
    assert [answer.objective for answer in begun] == [answer.objective for answer in together]
    with pytest.raises(UsageError, match="1 starts for 4 instances"):
        icdc.solve_many(instances, solver="ect", starts=[together[0].solution])
    with pytest.raises(UsageError, match="must be a number of seconds, got nan"):
        icdc.solve_many(instances, solver="ect", time_limit=float("nan"))


def test_options_belong_to_solvers_that_are_made_here() -> None:
    assert icdc.solve(EQUAL, solver="ga", iterations=1).feasible
    with pytest.raises(UsageError, match="made already"):
        icdc.solve(EQUAL, solver=icdc.make_solver("ga"), iterations=1)
    with pytest.raises(UsageError, match="has no option 'steps'"):
        icdc.solve(EQUAL, solver="ga", steps=1)


def test_nothing_feasible_is_said() -> None:
    """By an exception for one instance, by its answer among many."""
    with pytest.raises(InfeasibleError, match="no feasible solution"):
        icdc.solve(EQUAL, solver=Fixed(column=9))
    answers = icdc.solve_many([EQUAL, EQUAL], solver=Fixed(column=9))
    assert [(answer.feasible, answer.objective) for answer in answers] == [(False, None)] * 2


def test_a_callback_hears_of_an_answer_from_any_solver() -> None:
    told: list[Improvement] = []
    icdc.solve(EQUAL, solver="ect", callback=told.append)
    assert [event.cost.tolist() for event in told] == [[4.0]]


def test_an_interrupted_search_returns_what_it_had() -> None:
    class Impatient(Fixed):
        def search(self, request: Request) -> None:
            if request.seed:
                super().search(request)
            raise KeyboardInterrupt

    answer = icdc.solve(EQUAL, solver=Impatient(), seed=1)
    assert (answer.objective, answer.interrupted) == (6, True)
    nothing_found = icdc.solve(EQUAL, solver=Impatient())  # an answer at once, without any try
    assert (nothing_found.feasible, nothing_found.interrupted, nothing_found.samples) == (True, True, 0)


class Counted(Pmsp):
    """Counts how often its parts are asked."""

    calls: ClassVar[Counter[str]] = Counter()

    def feasible(self, instances: Any, choice: Any) -> Any:
        self.calls["feasible"] += 1
        return super().feasible(instances, choice)

    def lower_bound(self, arrays: Any) -> Any:
        self.calls["bound"] += 1
        return super().lower_bound(arrays)


@pytest.mark.parametrize("limit", [None, 0.2])
def test_an_answer_is_checked_once_and_bounded_once(limit: float | None) -> None:
    Counted.calls.clear()
    icdc.solve(EQUAL, problem=Counted(), solver=Fixed(), time_limit=limit)
    assert Counted.calls == {"feasible": 2, "bound": 1}  # once more when it is offered without its cost


@pytest.mark.filterwarnings("ignore::icdc.UnfamiliarWarning")
def test_the_learned_solver_is_checked_once_and_bounded_once(small_model: Callable[[Problem], icdc.Model]) -> None:
    model = small_model(Counted())
    Counted.calls.clear()
    icdc.solve(EQUAL, model=model, steps=1, samples=1, time_limit=0.1, device="cpu")
    assert Counted.calls == {"feasible": 1, "bound": 1}


def test_weights_are_read_once(models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a solver is asked or made anew; a file that was changed is read again."""
    path = tmp_path / "pmsp.safetensors"
    path.write_bytes(models["pmsp"].read_bytes())
    read: list[Path] = []
    original = read_weights

    def reading(path: Path) -> Any:
        read.append(path)
        return original(path)

    monkeypatch.setattr("icdc.models.diffusion.read_weights", reading)
    monkeypatch.setattr(catalogue, "models_folder", lambda: tmp_path)
    durations = np.arange(18).reshape(6, 3)
    solver = icdc.DiffusionSolver(steps=1, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", icdc.UnfamiliarWarning)
        for _ in range(2):
            icdc.solve(durations, solver=solver, samples=1)
            icdc.solve(durations, solver="network", steps=1, samples=1, device="cpu")
        assert len(read) == 1
        os.utime(path, (1, 1))
        icdc.solve(durations, solver="network", steps=1, samples=1, device="cpu")
        assert len(read) == 2


def test_what_is_new_to_the_model_is_said(models: dict[str, Path]) -> None:
    """As a warning, unless the answer is proven optimal: then nothing was lost."""
    options: dict[str, Any] = {"solver": "network", "model": str(models["pmsp"])}
    options |= {"steps": 1, "samples": 1, "device": "cpu"}
    with pytest.warns(icdc.UnfamiliarWarning, match=r"size 3×2 is not one it was trained on \(6×3\)") as said:
        icdc.solve(EQUAL, **options)
    assert said[0].filename == __file__
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert icdc.solve([[5], [6]], **options).optimal
    assert heard == []


def test_waiting_threads_sleep_from_python_too() -> None:
    """The setting is read when torch is loaded, so it must be there before; one that is set stays."""
    code = "import icdc, os, sys; assert 'torch' not in sys.modules; print(os.environ['OMP_WAIT_POLICY'])"
    for given, expected in (({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")):
        environment = {"PYTHONPATH": ":".join(sys.path), **given}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert ran.stdout.strip() == expected


class Scaled(Pmsp):
    """Schedules whose cost is scaled by a number of their own."""

    def __init__(self, scale: int) -> None:
        self.scale = scale

    def cost(self, instances: Any, choice: Any) -> Any:
        return super().cost(instances, choice) * self.scale


def test_problems_of_one_class_with_different_values_stay_apart() -> None:
    arrays = {"durations": np.array(EQUAL)}
    instances = [icdc.Instance(f"times {scale}", Scaled(scale), arrays) for scale in (1, 10)]
    assert [answer.objective for answer in icdc.solve_many(instances, solver=Fixed())] == [6, 60]


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: icdc.solve(EQUAL, solver="ect", samples=0), UsageError, "samples must be at least 1, got 0"),
        (lambda: icdc.solve([[1, 2], [3]], problem="pmsp"), InputError, "row 2 has 1 entries where row 1 has 2"),
        (lambda: icdc.solve([[1, 2], [3]]), InputError, "row 2 has 1 entries where row 1 has 2"),
        (
            lambda: icdc.solve_many([EQUAL, EQUAL], solver="ect", starts=[[0, 1, 0], [0, 1]]),
            InputError,
            "the start of instance 1 makes 2 choices where it needs 3",
        ),
        (
            lambda: icdc.solve(icdc.Instance("shop", Pmsp(), {"durations": np.array(EQUAL)}), problem="atsp"),
            UsageError,
            "shop is an instance of 'pmsp', not of 'atsp'",
        ),
        (lambda: icdc.make_solver("icdc:trace=3"), UsageError, "has no option 'trace'"),
    ],
)
def test_mistakes_get_a_sentence(call: Callable[[], object], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        call()


def test_a_start_survives_an_interruption() -> None:
    class Impatient(Fixed):
        def search(self, request: Request) -> None:
            raise KeyboardInterrupt

    answer = icdc.solve(EQUAL, solver=Impatient(), start=[0, 1, 0])
    assert (answer.objective, answer.interrupted) == (4, True)


def test_a_solver_without_options_need_not_be_a_dataclass() -> None:
    class Plain(Solver):
        name = "plain"

        def refusal(self, problem: Problem) -> str | None:
            return None

        def search(self, request: Request) -> None:
            request.offer(np.zeros((request.count, request.shape[0]), dtype=np.int64))

    assert Plain.options() == {}
    assert icdc.solve(EQUAL, solver=Plain()).objective == 6


def test_the_time_of_the_bound_counts() -> None:
    """A limit is for everything that is done for an answer."""
    asked: list[float | None] = []

    class Bounded(Pmsp):
        def lower_bound(self, arrays: Any) -> Any:
            time.sleep(0.3)
            return super().lower_bound(arrays)

    class Asked(Fixed):
        def search(self, request: Request) -> None:
            asked.append(request.time_limit)
            super().search(request)

    icdc.solve(EQUAL, problem=Bounded(), solver=Asked(), time_limit=1.0)
    (limit,) = asked
    assert limit is not None
    assert 0.01 <= limit <= 0.7
