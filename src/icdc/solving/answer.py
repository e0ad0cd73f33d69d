"""An answer for people and for programs: readable text, and one JSON object a line.

What a solution looks like in words is the problem's own affair (`Problem.describe_solution`).
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..problems.contract import Problem
from ..problems.instance import Instance
from ..problems.text import number
from .verify import Verdict


@dataclass(frozen=True)
class Answer:
    """A verified solution of one instance, and how it was made.

    choice : (rows,) int64, the column of each row.
    seconds : time spent on the batch it was solved in, shared equally.
    solver, model : who made it; the model is None for solvers that have none.
    interrupted : whether the search was stopped before it was done.
    """

    instance: Instance
    choice: NDArray[np.int64]
    verdict: Verdict
    samples: int
    seconds: float
    seed: int
    solver: str
    model: str | None
    interrupted: bool = False

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
    problem, instance = answer.problem, answer.instance
    subject = problem.describe_size(problem.size(instance.batch()))
    lines = problem.describe_solution(instance, answer.choice)
    return "\n".join(
        [
            f"{instance.name}: {subject}, {verdict_text(answer.verdict, instance)}",
            *lines,
            f"  {by}, {tries}seed {answer.seed}, {answer.seconds:.2f} s",
        ]
    )


def verdict_text(verdict: Verdict, instance: Instance) -> str:
    """Return objective, bound and gap in a phrase, or that the solution is infeasible."""
    if not verdict.feasible or verdict.objective is None:
        return "infeasible"
    found = f"{instance.problem.objective} {number(verdict.objective)}"
    if verdict.optimal:
        return f"{found}, optimal"
    if verdict.bound is None:
        return found
    gap = "" if verdict.gap is None else f" (gap {100 * verdict.gap:.2f} %)"
    return f"{found}, at least {number(verdict.bound)} is needed{gap}"
