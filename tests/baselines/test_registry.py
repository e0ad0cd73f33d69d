"""Solvers by name: options, errors that help, and no optional package before it is asked for."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import icdc
from icdc.cli import run
from icdc.errors import MissingExtraError, UsageError
from icdc.problems import get_problem
from icdc.problems.atsp import Atsp
from icdc.problems.base import Problem
from icdc.solvers import SOLVERS, make_solver, options_of


def test_options_are_read_by_their_types() -> None:
    solver: Any = make_solver("ga:iterations=7,individuals=5,mutation=0.5")
    assert (solver.iterations, solver.individuals, solver.mutation, solver.crossover) == (7, 5, 0.5, 0.3)
    assert make_solver("nn:all_starts=true").all_starts is True  # type: ignore[attr-defined]
    assert make_solver("ga:iterations=7", iterations=3).iterations == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gaa", "unknown solver 'gaa'; choose one of icdc, "),
        ("ga:speed=3", "no option 'speed'; choose from iterations, individuals, device, mutation, crossover"),
        ("ga:iterations=many", "must be a whole number, got 'many'"),
        ("ga:mutation=x", "must be a number"),
        ("nn:all_starts=maybe", "must be true or false"),
        ("ga:iterations", "must look like key=value"),
        ("lkh:processes=0", "at least 1"),
        ("routing:seconds=0", "positive"),
    ],
)
def test_mistakes_say_what_is_valid(spec: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_solver(spec)


@pytest.mark.parametrize(
    ("name", "package"),
    [(name, {"exact": "ortools", "pyvrp": "pyvrp", "lkh": "elkai"}[entry.extra])
     for name, entry in SOLVERS.items() if entry.extra and name != "cplex"],
)  # fmt: skip
def test_a_missing_package_is_named_with_its_pip_line(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'icdc\[{SOLVERS[name].extra}\]'"):
        make_solver(name)
    assert run(["evaluate", "atsp-10", "--limit", "1", "--solver", name]) == 5
    printed = capsys.readouterr()
    assert "pip install" in printed.err
    assert printed.out == ""


def test_cplex_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cplex", None)
    with pytest.raises(MissingExtraError, match=r"commercial.*pip install cplex"):
        make_solver("cplex")


def test_looking_around_imports_no_optional_package() -> None:
    program = (
        "import sys, icdc.solvers as s, icdc.evaluation.evaluate, icdc.evaluation.report, icdc.io.datasets\n"
        "[s.options_of(name) for name in s.SOLVERS if name not in ('icdc', 'network')]\n"
        "s.make_solver('cpsat'); s.make_solver('lkh'); s.make_solver('pyvrp')\n"
        "print([m for m in ('ortools', 'pyvrp', 'elkai', 'cplex') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_solver_describes_its_options() -> None:
    """All of them have a default: a name alone makes a solver."""
    for name, entry in SOLVERS.items():
        assert isinstance(options_of(name), dict)
        if entry.extra is None or name != "cplex":
            assert make_solver(name).name == name
    assert {"steps", "decodes", "model", "refine", "device"} <= options_of("icdc").keys()
    assert options_of("ga:iterations=5").keys() == options_of("ga").keys()


OWN = """
from dataclasses import dataclass
import numpy as np
from icdc.solving import Abilities, Solver

@dataclass(frozen=True)
class First(Solver):
    name = "first"
    column: int = 0

    def refusal(self, problem):
        return None

    def search(self, request):
        request.offer(np.full((request.count, request.shape[0]), self.column))

class Thing:
    pass
"""


def test_a_solver_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By module:Class, with options behind a second colon; on the command line from the current folder, too."""
    (tmp_path / "my_solvers.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    schedule = [[3, 9], [4, 1], [5, 7]]
    assert icdc.solve(schedule, solver="my_solvers:First").objective == 12
    assert icdc.solve(schedule, solver=make_solver("my_solvers:First:column=1")).objective == 17
    assert icdc.solve(schedule, solver="my_solvers:First", column=1).objective == 17
    for spec, words in (
        ("my_solvers:Last", "has no class 'Last'"),
        ("my_solvers:Thing", "not a subclass of icdc.Solver"),
        ("no_such_module:First", "cannot import the solver"),
        ("my_solvers:First:row=1", "has no option 'row'; choose from column"),
    ):
        with pytest.raises(UsageError, match=words):
            make_solver(spec)


class WithForbiddenSteps(Atsp):
    """A tour problem with a mask, which the classical solvers do not know about."""

    def mask(self, instances: Any) -> Any:
        return instances["distances"] > 0


def test_what_a_solver_does_not_understand_it_does_not_claim() -> None:
    problem: Problem = WithForbiddenSteps()
    assert not make_solver("cpsat").supports(problem)
    assert make_solver("random").supports(problem)
    with pytest.raises(UsageError, match="cannot answer"):
        make_solver("nn").solve(get_problem("pmsp"), {"durations": np.ones((1, 2, 2))})
    with pytest.raises(UsageError, match="cannot answer"):
        make_solver("ga").solve(get_problem("atsp"), {"distances": np.ones((1, 2, 2))})


class PretendedCplex:
    """The part of CPLEX's Python interface that the solver uses; HiGHS, through SciPy, does the work."""

    def __init__(self) -> None:
        def setter() -> SimpleNamespace:
            return SimpleNamespace(set=lambda value: None)

        self.variables = SimpleNamespace(add=lambda **given: setattr(self, "columns", given))
        self.linear_constraints = SimpleNamespace(add=lambda **given: setattr(self, "rows", given))
        self.MIP_starts = SimpleNamespace(
            add=lambda point, level: setattr(self, "start", point), effort_level=SimpleNamespace(auto=0)
        )
        self.parameters = SimpleNamespace(
            threads=setter(), randomseed=setter(), timelimit=setter(),
            mip=SimpleNamespace(tolerances=SimpleNamespace(mipgap=setter())),
        )  # fmt: skip

    def set_log_stream(self, stream: None) -> None: ...

    def set_results_stream(self, stream: None) -> None: ...

    def set_warning_stream(self, stream: None) -> None: ...

    def solve(self) -> None:
        from scipy.optimize import Bounds, LinearConstraint, milp

        columns: dict[str, Any] = self.columns  # type: ignore[attr-defined]
        rows: dict[str, Any] = self.rows  # type: ignore[attr-defined]
        matrix = np.zeros((len(rows["rhs"]), len(columns["obj"])))
        for row, (index, value) in enumerate(rows["lin_expr"]):
            matrix[row, index] = value
        right = np.array(rows["rhs"])
        low = np.where([sense in "EG" for sense in rows["senses"]], right, -np.inf)
        high = np.where([sense in "EL" for sense in rows["senses"]], right, np.inf)
        found = milp(
            columns["obj"],
            integrality=[kind == "I" for kind in columns["types"]],
            bounds=Bounds(columns["lb"], columns["ub"]),
            constraints=LinearConstraint(matrix, low, high),
        )
        self.solution = SimpleNamespace(
            is_primal_feasible=lambda: True,
            get_values=lambda: found.x.tolist(),
            get_status=lambda: 101,
            status=SimpleNamespace(MIP_optimal=101, optimal_tolerance=102),
            MIP=SimpleNamespace(get_best_objective=lambda: found.fun),
        )


def test_cplex_is_given_the_whole_model(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("cplex")
    module.__spec__ = SimpleNamespace(name="cplex")
    module.Cplex, module.SparsePair = PretendedCplex, lambda index, value: (index, value)
    monkeypatch.setitem(sys.modules, "cplex", module)
    rng = np.random.default_rng(0)
    for problem, size in ((get_problem("atsp"), (6,)), (get_problem("pmsp"), (5, 2))):
        arrays = problem.sample(3, size, rng)
        results = make_solver("cplex").solve(problem, arrays)
        assert np.array_equal(results.cost, make_solver("cpsat").solve(problem, arrays).cost)
        assert results.proven.all()
