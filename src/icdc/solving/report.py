"""An answer for people and for programs: readable text, and one JSON object a line."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..data.instances import Instance
from ..data.solutions import named
from ..problem import Problem
from ..problems.pmsp import Pmsp
from ..problems.tours import TourProblem
from .verify import Verdict

_WIDTH = 100
_BAR = 24


@dataclass(frozen=True)
class Answer:
    """A verified solution of one instance, and how it was made.

    choice : (rows,) int64, the column of each row.
    seconds : time spent on the batch it was solved in, shared equally.
    solver, model : who made it; the model is None for solvers that have none.
    """

    instance: Instance
    choice: NDArray[np.int64]
    verdict: Verdict
    samples: int
    seconds: float
    seed: int
    solver: str
    model: str | None

    @property
    def problem(self) -> Problem:
        """The problem it solves."""
        return self.instance.problem

    @property
    def feasible(self) -> bool:
        """Whether the problem's own test accepts it."""
        return self.verdict.feasible

    @property
    def objective(self) -> int | float | None:
        """Its cost, an int where the instance holds integers; None if it is infeasible."""
        return self.verdict.objective

    @property
    def bound(self) -> int | float | None:
        """A proven lower bound on the optimum, where one is known."""
        return self.verdict.bound

    @property
    def gap(self) -> float | None:
        """How far the cost can be above the optimum, as a fraction of the bound."""
        return self.verdict.gap

    @property
    def optimal(self) -> bool:
        """Whether the bound is met."""
        return self.verdict.optimal

    @property
    def solution(self) -> list[int]:
        """The solution as people write it: cities in visiting order, or the machine of each job; from 0."""
        return self.problem.solution(self.choice)

    def __str__(self) -> str:
        return text(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the object that `--json` prints, keys in their documented order."""
        return {
            "problem": self.problem.name,
            "instance": self.instance.name,
            "objective": self.objective,
            "solution": self.solution,
            "feasible": self.feasible,
            "bound": self.bound,
            "gap": self.gap,
            "samples": self.samples,
            "seconds": round(self.seconds, 6),
            "seed": self.seed,
            "solver": self.solver,
            "model": self.model,
            "version": __version__,
        }


def json_line(answer: Answer) -> str:
    """Return an answer as one line of JSON."""
    return json.dumps(answer.as_dict(), allow_nan=False)


def text(answer: Answer) -> str:
    """Return an answer as a few lines for reading."""
    by = answer.solver + (f" ({answer.model})" if answer.model else "")
    tries = f"{answer.samples} samples, " if answer.samples > 1 else ""
    found = verdict_text(answer.verdict, answer.instance)
    return "\n".join(
        [
            f"{answer.instance.name}: {_subject(answer.instance)}, {found}",
            *_body(answer.instance, answer.choice),
            f"  {by}, {tries}seed {answer.seed}, {answer.seconds:.2f} s",
        ]
    )


def verdict_text(verdict: Verdict, instance: Instance) -> str:
    """Return objective, bound and gap in a phrase, or that the solution is infeasible."""
    if not verdict.feasible or verdict.objective is None:
        return "infeasible"
    if isinstance(instance.problem, Pmsp):
        measure = "makespan"
    else:
        measure = "length" if isinstance(instance.problem, TourProblem) else "objective"
    found = f"{measure} {number(verdict.objective)}"
    if verdict.optimal:
        return f"{found}, optimal"
    if verdict.bound is None:
        return found
    gap = "" if verdict.gap is None else f" (gap {100 * verdict.gap:.2f} %)"
    return f"{found}, at least {number(verdict.bound)} is needed{gap}"


def number(value: int | float) -> str:
    """Write integers exactly and reals to ten digits."""
    return str(value) if isinstance(value, int) else f"{value:.10g}"


def _subject(instance: Instance) -> str:
    """Say what is solved: "tour of 20 cities", "20 jobs on 4 machines", "a problem of 4 × 3"."""
    problem = instance.problem
    size = problem.size(instance.batch())
    if isinstance(problem, TourProblem):
        return f"tour of {size[0]} cities"
    if isinstance(problem, Pmsp):
        return f"{_count(size[0], 'job')} on {_count(size[1], 'machine')}"
    return f"{problem.name} of " + ", ".join(f"{n} {what}" for n, what in zip(size, problem.size_names, strict=True))


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _body(instance: Instance, choice: NDArray[np.int64]) -> list[str]:
    """Return the lines that show the solution itself."""
    items = instance.problem.solution(choice)
    if isinstance(instance.problem, TourProblem):
        cities = named([*items, items[0]], instance.rows)
        return _wrapped("  ", " → ".join(cities))
    if isinstance(instance.problem, Pmsp):
        return _machines(instance, items)
    return _wrapped("  ", " ".join(named(items, instance.columns)))


def _machines(instance: Instance, items: Sequence[int]) -> list[str]:
    """Return a line for each machine: its load, as a number and a bar, and its jobs."""
    durations = instance.arrays["durations"]
    machines = named(range(durations.shape[1]), instance.columns)
    jobs = [[j for j, machine in enumerate(items) if machine == m] for m in range(len(machines))]
    # Python's own integers: sums of narrow dtypes must not wrap
    loads = [sum(durations[j, m].item() for j in mine) for m, mine in enumerate(jobs)]
    longest = max(loads)
    width = max(map(len, machines))
    load_width = max(len(number(load)) for load in loads)
    lines = []
    for name, load, mine in zip(machines, loads, jobs, strict=True):
        bar = "█" * round(_BAR * load / longest) if longest else ""
        prefix = f"  machine {name:<{width}}  {number(load):>{load_width}}  {bar:<{_BAR}}  "
        lines += _wrapped(prefix, " ".join(named(mine, instance.rows)) or "–")
    return lines


def _wrapped(prefix: str, words: str) -> list[str]:
    """Break a long line; what follows is indented as far as the first line's beginning."""
    return textwrap.wrap(
        words,
        width=max(_WIDTH, len(prefix) + 40),
        initial_indent=prefix,
        subsequent_indent=" " * len(prefix),
        break_long_words=False,
        break_on_hyphens=False,
    )
