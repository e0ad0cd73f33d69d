"""Answers against all solutions of tiny instances, in exact fractions: does anything claim what is not so?

    python -m tests.cross_check --minutes 60 [--seed 1] [--torch] [--no-service]

Random instances of every problem are drawn with numbers that are hard on solvers (ties, zeros, 1e-9, 1e29, 2^53, 9999
for "no road"), forbidden pairs and conditions, and asked of every solver that answers them: from Python alone and in a
batch, with and without a time limit, on the command line, and of a service that has answered others before. Every
solution is listed and costed by this file alone. An answer must be one of them at the cost that it says; what it calls
optimal must be the best; no bound may be above that; and only what has no solution may be called infeasible.

torch changes what is imported, and nothing else may follow from it: without `--torch` this process never imports it.
"""

import argparse
import contextlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise, permutations, product
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np

import icdc
from icdc.cli import run
from icdc.errors import IcdcError, InfeasibleError

ROUNDING = Fraction(1, 10**9)
"""Relative difference that sums of reals may have; whole numbers may have none."""
EXACT = {"icdc", "search", "cpsat", "highs", "scip", "branch", "dp"}
"""Solvers that, without a limit, may not miss a solution of a tiny instance."""
ENGINES: dict[str, list[str]] = {
    "tour": ["search", "search", "branch", "branch", "cpsat", "highs", "scip", "nn", "ni", "fi", "patching"],
    "schedule": ["search", "search", "dp", "dp", "cpsat", "highs", "scip", "sjf", "ect", "lpt"],
}
KINDS = ("atsp", "pmsp", "setups", "flow-shop", "navigation")
REFUSED = ("large", "huge", "wide")
"""Styles of numbers whose sums may be beyond what can be exact; a solver may refuse them, and no others."""

Matrix = list[list[Any]]


@dataclass(frozen=True)
class Question:
    """An instance with conditions, in plain numbers.

    arrays : by name; None in a matrix is a forbidden pair.
    conditions : keyword arguments of `icdc.solve`.
    style : what kind of numbers they are.
    """

    problem: str
    arrays: dict[str, Any]
    conditions: dict[str, Any]
    style: str

    @property
    def whole(self) -> bool:
        """Whether all numbers are integers."""
        numbers = [*_numbers(list(self.arrays.values())), *_numbers([self.conditions.get("stay", 0)])]
        return all(isinstance(one, int) for one in [*numbers, *_numbers(self.conditions.get("busy", []))])


@dataclass(frozen=True)
class Solution:
    """What a solution costs, exactly, and with the weight of its changes."""

    cost: Fraction
    objective: Fraction


@dataclass
class Report:
    """How many answers there were of each kind, and what was wrong with any."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def judge(self, question: Question, solutions: dict[tuple[int, ...], Solution], answer: Any, how: str) -> None:
        """Compare an answer, an object as `--json` prints it or the error instead of it, with all solutions."""
        self.counts["answers"] += 1
        self.counts[how.split()[0]] += 1
        for sentence in complaints(question, solutions, answer, how.split()[1]):
            self.wrong.append(f"{sentence}\n  {how}: {answer}\n  {question}")
            self.kinds[f"{how.split()[1]}, {question.problem}, numbers that are {question.style}"] += 1
        if isinstance(answer, dict) and answer.get("bound") is not None and answer["bound"] == answer["objective"]:
            self.counts["proven"] += 1
        if isinstance(answer, IcdcError):
            self.counts[type(answer).__name__] += 1


def complaints(
    question: Question, solutions: dict[tuple[int, ...], Solution], answer: Any, solver: str
) -> Iterator[str]:
    """Yield what is wrong with an answer."""
    if isinstance(answer, InfeasibleError) or (isinstance(answer, dict) and not answer["feasible"]):
        reason = str(answer) if isinstance(answer, InfeasibleError) else answer.get("reason")
        if solutions and (solver in EXACT or reason):
            yield f"there are {len(solutions)} solutions"
        return
    if isinstance(answer, IcdcError):
        limited = solver == "dp" and (not question.whole or "table entries" in str(answer))
        if solutions and question.style not in REFUSED and not limited:
            yield "refused"
        return
    if not isinstance(answer, dict):
        yield "an internal error"
        return
    mine = solutions.get(tuple(answer["solution"]))
    if mine is None:
        yield "no solution"
        return
    best = min(one.objective for one in solutions.values())
    slack = Fraction(0) if question.whole else ROUNDING * max(abs(best), abs(mine.objective))
    objective = Fraction(answer["objective"])
    if abs(objective - mine.objective) > slack:
        yield f"costs {_shown(mine.objective)}"
    if question.whole and not isinstance(answer["objective"], int):
        yield "whole numbers with a real cost"
    if abs(Fraction(answer.get("cost", answer["objective"])) - mine.cost) > slack:
        yield f"costs {_shown(mine.cost)} without the weight of its changes"
    if answer["bound"] is not None and Fraction(answer["bound"]) > best + slack:
        yield f"the best is {_shown(best)}, below the bound"
    if answer["bound"] is not None and answer["bound"] >= answer["objective"] and objective > best + slack:
        yield f"called optimal, the best is {_shown(best)}"


# Every solution, by the definition of the problem.


def all_solutions(question: Question) -> dict[tuple[int, ...], Solution]:
    """Return every solution that keeps to the conditions, as people write it, with its costs."""
    numbers = [Fraction(one) for one in _numbers([list(question.arrays.values()), *_weights(question)])]
    unit = lcm(*(one.denominator for one in numbers)) if numbers else 1  # sums of integers are much faster
    scaled = _scaled([question.arrays, question.conditions.get("stay"), question.conditions.get("busy")], unit)
    kind = question.problem
    listing = _schedules if kind == "pmsp" else _tours if kind in ("atsp", "navigation") else _sequences
    pairs = listing(question, *scaled, unit)
    return {order: Solution(Fraction(cost, unit), Fraction(total, unit)) for order, cost, total in pairs}


Costed = Iterator[tuple[tuple[int, ...], int, int]]


def _schedules(question: Question, arrays: dict[str, Any], stay: int | None, busy: Any, unit: int) -> Costed:
    times = arrays["durations"]
    machines = len(times[0])
    start, fixed = question.conditions.get("start"), dict(question.conditions.get("fixed", ()))
    for chosen in product(range(machines), repeat=len(times)):
        if any(times[job][machine] is None for job, machine in enumerate(chosen)):
            continue
        if any(chosen[job] != machine for job, machine in fixed.items()):
            continue
        ends = []
        for weight in (0, stay or 0):
            loads = list(busy or [0] * machines)
            for job, machine in enumerate(chosen):
                loads[machine] += times[job][machine] + weight * (start is not None and start[job] != machine)
            ends.append(max(loads))
        yield chosen, ends[0], ends[1]


def _tours(question: Question, arrays: dict[str, Any], stay: int | None, busy: Any, unit: int) -> Costed:
    if question.problem == "atsp":
        matrix = arrays["distances"]
    else:
        matrix = _travel_times(question, unit)
    asked = question.conditions
    first, last, closed = asked.get("first"), asked.get("last"), not asked.get("open")
    for order in permutations(range(len(matrix))):
        begin = first if first is not None else 0 if closed and last is None else order[0]
        if order[0] != begin or (last is not None and order[-1] != last):
            continue
        steps = [*pairwise(order), *([(order[-1], order[0])] if closed else [])]
        yield from _walked(question, order, steps, matrix, 0, stay)


def _sequences(question: Question, arrays: dict[str, Any], stay: int | None, busy: Any, unit: int) -> Costed:
    asked, times = question.conditions, arrays["durations"]
    jobs = len(times)
    if question.problem == "setups":
        steps_cost = [
            [None if one is None else one + times[job] for job, one in enumerate(row)] for row in arrays["setups"]
        ]
        begins = [None if one is None else one + times[job] for job, one in enumerate(arrays["initial"])]
        ends = [0] * jobs
    else:
        # without waiting, a job may begin as soon as it finds no machine still at work on the job before it
        steps_cost = [
            [max(sum(one[: k + 1]) - sum(two[:k]) for k in range(len(one))) for two in times] for one in times
        ]
        begins, ends = [0] * jobs, [sum(one) for one in times]
    for order in permutations(range(jobs)):
        if asked.get("first") not in (None, order[0]) or asked.get("last") not in (None, order[-1]):
            continue
        if begins[order[0]] is None:
            continue
        yield from _walked(question, order, list(pairwise(order)), steps_cost, begins[order[0]] + ends[order[-1]], stay)


def _walked(
    question: Question,
    order: tuple[int, ...],
    steps: list[tuple[int, int]],
    matrix: Matrix,
    more: int,
    stay: int | None,
) -> Costed:
    """Yield an order with its costs, if all of its steps are permitted and the fixed ones are among them."""
    asked = question.conditions
    if any(matrix[i][j] is None for i, j in steps) or not set(map(tuple, asked.get("fixed", ()))) <= set(steps):
        return
    before: set[tuple[int, int]] = set()
    if (start := asked.get("start")) is not None:
        before = set(pairwise(start))
        if question.problem in ("atsp", "navigation") and not asked.get("open"):
            before.add((start[-1], start[0]))
    total = more + sum(matrix[i][j] for i, j in steps)
    yield order, total, total + (stay or 0) * sum(step not in before for step in steps)


def _travel_times(question: Question, unit: int) -> Matrix:
    points, slowness, traffic = (question.arrays[name] for name in ("coordinates", "slowness", "traffic"))
    rows = []
    for i, one in enumerate(points):
        squares = [sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(one, two, strict=True)) for two in points]
        rows.append([unit * (s * Fraction(slowness[i][j]) + Fraction(traffic[i][j])) for j, s in enumerate(squares)])
    return rows


def _numbers(values: Any) -> Iterator[Any]:
    """Yield all numbers of nested lists."""
    if isinstance(values, list | tuple):
        for one in values:
            yield from _numbers(one)
    elif values is not None:
        yield values


def _scaled(values: Any, unit: int) -> Any:
    if isinstance(values, dict):
        return {name: _scaled(one, unit) for name, one in values.items()}
    if isinstance(values, list | tuple):
        return [_scaled(one, unit) for one in values]
    return None if values is None else int(Fraction(values) * unit)


def _weights(question: Question) -> list[Any]:
    return [question.conditions.get("stay"), question.conditions.get("busy")]


def _shown(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else repr(float(value))


# Random questions.

STYLES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Any]] = {
    "ties": lambda rng, shape: rng.integers(0, 4, shape),
    "small": lambda rng, shape: rng.integers(0, 100, shape),
    "zeros": lambda rng, shape: rng.integers(1, 30, shape) * (rng.random(shape) < 0.4),
    "no road": lambda rng, shape: np.where(rng.random(shape) < rng.uniform(0.1, 0.7), 9999, rng.integers(0, 90, shape)),
    "reals": lambda rng, shape: rng.random(shape),
    "decimals": lambda rng, shape: np.round(rng.random(shape) * 10, 2),
    "tiny": lambda rng, shape: rng.random(shape) * 10.0 ** rng.integers(-12, -5),
    "tiny units": lambda rng, shape: rng.integers(0, 9, shape) * 1e-9,
    "mixed": lambda rng, shape: rng.random(shape) * 10.0 ** rng.integers(-9, 4, shape),
    "huge": lambda rng, shape: rng.random(shape) * 1e29,
    "large": lambda rng, shape: rng.integers(2**49, 2**53, shape),
    "wide": lambda rng, shape: np.where(rng.random(shape) < 0.5, rng.integers(0, 5, shape), 2**52),
}


def draw(problem: str, rng: np.random.Generator, size: int) -> Question:
    """Return a random question of a problem with so many cities or jobs; it may have no solution."""
    style = str(rng.choice(list(STYLES)))
    if problem == "navigation" and style in REFUSED:
        style = "reals"
    numbers = STYLES[style]

    def matrix(*shape: int) -> Any:
        return numbers(rng, shape).tolist()

    machines = int(rng.integers(1, 4))
    arrays: dict[str, Any]
    if problem == "atsp":
        arrays = {"distances": matrix(size, size)}
        for i in range(size):
            arrays["distances"][i][i] = 0
    elif problem in ("pmsp", "flow-shop"):
        arrays = {"durations": matrix(size, machines)}
    elif problem == "setups":
        arrays = {"setups": matrix(size, size), "durations": matrix(size), "initial": matrix(size)}
    else:
        arrays = {"coordinates": matrix(size, 2), "slowness": matrix(size, size), "traffic": matrix(size, size)}
    masked = {"atsp": "distances", "pmsp": "durations", "setups": "setups"}.get(problem)
    if masked is not None and rng.random() < 0.35:
        share = rng.uniform(0.05, 0.5)
        for i, row in enumerate(arrays[masked]):
            for j in range(len(row)):
                if rng.random() < share and (i != j or problem == "pmsp"):
                    row[j] = None
    return Question(problem, arrays, _conditions(problem, rng, size, machines, numbers), style)


def _conditions(problem: str, rng: np.random.Generator, size: int, machines: int, numbers: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if rng.random() < 0.45:
        return asked
    schedule = problem == "pmsp"
    if rng.random() < 0.4:
        one, two = int(rng.integers(size)), int(rng.integers(machines if schedule else size))
        if schedule or one != two:
            asked["fixed"] = [[one, two]]
    if schedule and rng.random() < 0.5:
        asked["busy"] = numbers(rng, (machines,)).tolist()
    if not schedule:
        for word in ("first", "last"):
            if rng.random() < 0.3:
                asked[word] = int(rng.integers(size))
        if problem in ("atsp", "navigation") and rng.random() < 0.4:
            asked["open"] = True
    if rng.random() < 0.4:
        asked["start"] = (rng.integers(machines, size=size) if schedule else rng.permutation(size)).tolist()
        asked["stay"] = numbers(rng, (1,)).tolist()[0]
    return asked


# The ways to an answer.


def answered(solve: Callable[[], Any]) -> Any:
    """Return the answer as an object of JSON, or the error instead of it."""
    try:
        return solve().as_dict()
    except IcdcError as error:
        return error
    except Exception as error:  # an internal one: told with the question that it belongs to
        return error


def ask_alone(question: Question, solver: str, limit: float | None = None) -> Any:
    """Return the answer of `icdc.solve`."""
    asked = {**question.conditions, "solver": solver, "time_limit": limit}
    return answered(lambda: icdc.solve(question.arrays, problem=question.problem, **asked))


def ask_together(questions: list[Question], solver: str) -> list[Any]:
    """Return the answers of `icdc.solve_many` to questions without conditions."""
    if not questions:
        return []
    try:
        together = icdc.solve_many([one.arrays for one in questions], problem=questions[0].problem, solver=solver)
    except IcdcError as error:
        return [error] * len(questions)
    return [one.as_dict() for one in together]


def ask_command(question: Question, solver: str, folder: Path, fresh: bool) -> Any:
    """Return the answer of the command line, in this process or in a fresh one."""
    words = ["solve", _saved(folder, "instance.json", {"problem": question.problem, **question.arrays})]
    words += ["--problem", question.problem, "--solver", solver, "--json"]
    for name, value in question.conditions.items():
        if name in ("fixed", "busy", "start"):
            words += [f"--{name.replace('fixed', 'fix')}", _saved(folder, f"{name}.json", value)]
        else:
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    out, err = io.StringIO(), io.StringIO()
    if fresh:
        done = subprocess.run([sys.executable, "-m", "icdc", *words], capture_output=True, text=True, check=False)
        code, text, said = done.returncode, done.stdout, done.stderr
    else:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(words)
        text, said = out.getvalue(), err.getvalue()
    if code == 0 or (code == 4 and text):
        return json.loads(text)
    return InfeasibleError(said) if code == 4 else IcdcError(said) if code in (2, 3) else RuntimeError(said)


def _saved(folder: Path, name: str, value: Any) -> str:
    path = folder / name
    path.write_text(json.dumps(value))
    return str(path)


@contextlib.contextmanager
def service(folder: Path) -> Iterator[icdc.Client]:
    """Serve on a free port of this machine while the block runs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "icdc", "serve", "--port", port, "--device", "cpu", "--no-warm"]
    with (folder / "serve.log").open("w+") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until = time.monotonic() + 60
            while (match := re.search(r"http://[\w.]+:\d+", (folder / "serve.log").read_text())) is None:
                if server.poll() is not None or time.monotonic() > until:
                    raise RuntimeError((folder / "serve.log").read_text())
                time.sleep(0.05)
            yield icdc.Client(match[0])
        finally:
            server.terminate()
            server.wait(30)


def check(seed: int, until: Callable[[], bool], client: icdc.Client | None, folder: Path, batch: int = 24) -> Report:
    """Draw questions and judge the answers until it is time to end."""
    rng, report = np.random.default_rng(seed), Report()
    while not until():
        problem = str(rng.choice(KINDS))
        size = int(rng.integers(2, 7 if problem in ("atsp", "pmsp") else 6))
        questions = [draw(problem, rng, size) for _ in range(batch)]
        solutions = [all_solutions(one) for one in questions]
        engines = ENGINES["schedule" if problem == "pmsp" else "tour"]
        alone = []
        for one, every in zip(questions, solutions, strict=True):
            alone.append(ask_alone(one, "icdc"))
            report.judge(one, every, alone[-1], "python icdc")
            if rng.random() < 0.3:  # most of the time would be theirs
                solver = str(rng.choice(engines))
                report.judge(one, every, ask_alone(one, solver), f"python {solver}")
        # one that is refused would take its whole batch along
        plain = [place for place, one in enumerate(questions) if not one.conditions and one.style not in REFUSED]
        for solver in ("icdc", str(rng.choice(engines[:4]))):
            some = [place for place in plain if solver != "dp" or questions[place].style in ("small", "ties", "zeros")]
            for place, answer in zip(some, ask_together([questions[p] for p in some], solver), strict=True):
                report.judge(questions[place], solutions[place], answer, f"batch {solver}")
                if solver == "icdc" and _differs(alone[place], answer):
                    report.wrong.append(f"alone {alone[place]}\n  in a batch {answer}\n  {questions[place]}")
        one, every = questions[0], solutions[0]
        report.judge(one, every, ask_alone(one, "icdc", float(rng.choice([0.001, 0.05]))), "limit icdc")
        if not _is_triangle(one):
            solver = str(rng.choice(["icdc", *engines]))
            report.judge(one, every, ask_command(one, solver, folder, False), f"command {solver}")
            if rng.random() < 0.02:
                report.judge(one, every, ask_command(one, "icdc", folder, True), "fresh icdc")
        if client is not None:
            for one, every in [pair for pair in zip(questions[:4], solutions) if not _is_triangle(pair[0])]:  # noqa: B905
                asked = {**one.conditions, "solver": str(rng.choice(["icdc", *engines]))}
                answer = answered(lambda: client.solve(one.arrays, problem=one.problem, **asked))  # noqa: B023
                report.judge(one, every, answer, f"service {asked['solver']}")
    return report


def _is_triangle(question: Question) -> bool:
    """Tell whether half of the distances are forbidden: a file with such a matrix means them for both directions."""
    matrix = np.array(question.arrays.get("distances", [[0]]), dtype=float)
    upper = np.triu_indices(len(matrix), 1)
    return bool(np.isnan(matrix[upper]).all() or np.isnan(matrix.T[upper]).all())


def _differs(alone: Any, together: Any) -> bool:
    """Tell whether two answers of one solver without a limit differ in what they say."""
    if not (isinstance(alone, dict) and isinstance(together, dict)):
        return False
    return any(alone[name] != together[name] for name in ("solution", "objective", "bound"))


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--torch", action="store_true", help="import torch before anything is solved")
    parser.add_argument("--no-service", action="store_true")
    parser.add_argument("--show", type=int, default=10, help="how many of the wrong answers to print")
    options = parser.parse_args(None if arguments is None else list(arguments))
    os.environ.setdefault("ICDC_NO_BACKGROUND", "1")
    if options.torch:
        import torch  # noqa: F401
    end = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with contextlib.nullcontext() if options.no_service else service(folder) as client:
            report = check(options.seed, lambda: time.monotonic() >= end, client, folder)
    print(", ".join(f"{count:,} {kind}" for kind, count in report.counts.items()))
    print(*report.wrong[: options.show], sep="\n")
    for kind, count in report.kinds.most_common():
        print(f"{count:6,} {kind}")
    print(f"{len(report.wrong)} wrong")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
