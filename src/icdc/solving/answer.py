"""An answer for people and for programs: readable text, and one JSON object a line.

What a solution looks like in words is the problem's own affair (`Problem.describe_solution`).
"""

import html
import io
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..errors import visible
from ..problems.base import Problem
from ..problems.conditions import changes, cost, in_words
from ..problems.forbidden import why_infeasible
from ..problems.instance import Instance
from ..problems.present import counted, number, wrapped
from .verify import Verdict


@dataclass(frozen=True, eq=False)
class Answer:
    """A verified solution of one instance, and how it was made.

    choice : (rows,) int64, the column of each row.
    samples : tries that were made: fewer than were asked for where a limit or Ctrl-C came before. Of the default
        solver, the most that the network made at a time; 0 where it had no turn within the limit.
    seconds : time spent on the batch it was solved in, shared equally.
    solver, model : who made it; the model is None for solvers that have none.
    interrupted : whether the search was stopped before it was done.
    found_by : what found it: the solver, or a part of it ("construction", "search", "exact", "network",
        "network + merging", "network + search"); "start" where nothing better than the given start was found.
    cause : why there is no feasible answer, where whoever solved it knows.
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
    found_by: str | None = None
    cause: str | None = None

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
        """What was minimised, an int where all numbers are integers; None if it is infeasible.

        It is the cost and, where changes weigh something, what they weigh; bound and gap are about it.
        """
        return self.verdict.objective

    @property
    def cost(self) -> int | float | None:
        """What it costs by the instance's own numbers, whatever changes weigh; None if it is infeasible."""
        if not self.feasible or self.changes is None:
            return self.objective
        return cost(self.instance, self.choice)

    @property
    def changes(self) -> int | None:
        """How many jobs moved, or how many steps are new, where changes of the start weigh something; else None."""
        return changes(self.instance, self.choice) if self.feasible else None

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
    def timetable(self) -> dict[str, list[Any]]:
        """When each job of a sequence begins and ends, in the order of `solution`; nothing for other problems."""
        return self.problem.timetable(self.instance, self.choice) if self.feasible else {}

    @property
    def reason(self) -> str | None:
        """Why there is no feasible answer, where forbidden pairs or conditions are the reason; None if there is one."""
        if self.feasible:
            return None
        if self.cause is not None or self.instance.forbidden is None:
            return self.cause
        return why_infeasible(self.instance)

    @property
    def solution(self) -> list[int]:
        """The solution as people write it: cities in visiting order, or the machine of each job; from 0."""
        return self.instance.solution(self.choice)

    def __str__(self) -> str:
        return text(self)

    def __eq__(self, other: object) -> bool:
        """Tell whether everything about two answers is the same, the instance and its numbers too."""
        if not isinstance(other, Answer):
            return NotImplemented
        mine, theirs = vars(self) | {"choice": None}, vars(other) | {"choice": None}
        return mine == theirs and np.array_equal(self.choice, other.choice)

    def __hash__(self) -> int:
        return hash((self.instance, self.objective, self.choice.tobytes(), self.solver, self.seed))

    def _repr_html_(self) -> str:
        """Return the text with the picture below it, for notebooks."""
        words = f"<pre>{html.escape(text(self))}</pre>"
        if not self.feasible:
            return words
        buffer = io.StringIO()
        figure = self.problem.draw_solution(self.instance, self.choice, self.bound)
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        picture = buffer.getvalue()
        return f'{words}<div style="max-width: 48em">{picture[picture.index("<svg") :]}</div>'

    def as_dict(self) -> dict[str, Any]:
        """Return the object that `--json` prints, keys in their documented order."""
        return {
            "problem": self.problem.name,
            "instance": self.instance.name,
            "understood": self.instance.understood,
            "objective": self.objective,
            "solution": self.solution if self.choice.min() >= 0 else None,
            "feasible": self.feasible,
            **({} if self.reason is None else {"reason": self.reason}),
            **({} if self.instance.conditions is None else {"conditions": self.instance.conditions.as_dict()}),
            **({} if self.changes is None else {"cost": self.cost, "changes": self.changes}),
            **({} if not self.timetable else {"timetable": self.timetable}),
            "bound": self.bound,
            "gap": self.gap,
            "samples": self.samples,
            "seconds": round(self.seconds, 6),
            "seed": self.seed,
            "solver": self.solver,
            "model": self.model,
            "found_by": self.found_by,
            "version": __version__,
        }


def json_line(answer: Answer) -> str:
    """Return an answer as one line of JSON."""
    return json.dumps(answer.as_dict(), allow_nan=False)


def text(answer: Answer) -> str:
    """Return an answer as a few lines for reading."""
    by = answer.solver + (f" ({answer.model})" if answer.model else "")
    part = answer.found_by not in (None, answer.solver)
    # samples are the network's: an answer that was found without it says nothing of them
    tries = f"{answer.samples} samples, " if answer.samples > 1 and (answer.model or not part) else ""
    found = f"found by {answer.found_by}, " if part else ""
    problem, instance = answer.problem, answer.instance
    if answer.reason is None:
        lines = problem.describe_solution(instance, answer.choice)
    else:
        lines = [f"  {answer.reason}"]
    # the sizes alone are in the heading already
    said = instance.understood if instance.understood is not None and ";" in instance.understood else None
    understood = [] if said is None else wrapped("  read as ", visible(said))
    conditions = in_words(instance)
    asked = [] if conditions is None else wrapped("  asked for ", visible(conditions))
    return "\n".join(
        [
            f"{visible(instance.name)}: {subject(instance)}, {verdict_text(answer.verdict, instance, answer.choice)}",
            *understood,
            *asked,
            *lines,
            f"  {by}, {found}{tries}seed {answer.seed}, {answer.seconds:.2f} s",
        ]
    )


def subject(instance: Instance) -> str:
    """Say what is solved: "20 jobs on 4 machines", "path through 6 cities"."""
    problem = instance.problem
    if instance.conditions is not None and instance.conditions.open:
        return f"path through {counted(problem.named(instance.size)[0], problem.row_words)}"
    return problem.describe_size(instance.size)


def verdict_text(verdict: Verdict, instance: Instance, choice: NDArray[np.int64] | None = None) -> str:
    """Return objective, bound and gap in a phrase, or that the solution is infeasible.

    Where changes weigh something the cost and their number come first, and what is minimised has a phrase of its own:
    the bound is about that. For this the choice (rows,) is needed.
    """
    if not verdict.feasible or verdict.objective is None:
        return "infeasible"
    found = f"{instance.problem.objective} {number(verdict.objective)}"
    stay = None if instance.conditions is None else instance.conditions.stay
    if choice is not None and stay is not None:
        tour, word = instance.problem.structure == "tour", instance.problem.row_words
        one, many = ("new step", "new steps") if tour else (f"{word[0]} moved", f"{word[1]} moved")
        weight = number(stay)
        how = f"{weight} for each {one}" if tour else f"{weight} longer for each {one}"
        changed = counted(changes(instance, choice) or 0, (one, many))
        found = f"{instance.problem.objective} {number(cost(instance, choice))} with {changed}; "
        found += f"weighed {number(verdict.objective)} ({how})"
    if verdict.optimal:
        return f"{found}, optimal"
    if verdict.bound is None:
        return found
    gap = "" if verdict.gap is None else f" (gap {100 * verdict.gap:.2f} %)"
    return f"{found}, at least {number(verdict.bound)} is needed{gap}"
