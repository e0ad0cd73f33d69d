"""Answers: judged once, from the instance alone, and written for people and for programs.

Nothing here knows how an answer was found. Costs are computed afresh on the CPU, in 64-bit integers where the instance
holds integers and in float64 otherwise: by the problem's own word, or, where it promises a `structure`, by what that
promise says about its matrix, for which no torch is needed. The conformance kit compares the two.
"""

import html
import io
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..errors import visible
from ..problems.base import Arrays, Problem
from ..problems.conditions import changes, cost, in_words, objective, violation
from ..problems.forbidden import forbidden_pair, highest_cost, why_infeasible
from ..problems.instance import Instance, Number
from ..problems.present import counted, number, wrapped
from ..problems.restating import restate
from ..search.run import SAME, contradicts, rounded_up
from ..search.structures import structure_of


@dataclass(frozen=True, eq=False)
class Answer:
    """A judged solution of one instance, and how it was made.

    instance : with its conditions.
    choice : (rows,) int64, the column of each row; −1 in all rows where there is no solution.
    objective : what was minimised, an int where all numbers are integers; None if the solution is infeasible. It is the
        cost and, where changes weigh something, what they weigh; bound and gap are about it.
    bound : a proven lower bound on the optimum, rounded up where costs are integers; None if none is known.
    samples : tries made; fewer than asked after a limit or Ctrl-C. Default solver: the most in one turn of the
        network, 0 without a turn.
    seconds : time spent on the batch it was solved in, shared equally.
    solver, model : what made it; the model is None for solvers that have none.
    interrupted : whether the search was stopped before it was done.
    found_by : what found it: the solver, or a part of it ("construction", "search", "exact", "network",
        "network + merging", "network + search"); "start" where nothing better than the given start was found.
    cause : why there is no feasible answer, where that is known.
    """

    instance: Instance
    choice: NDArray[np.int64]
    objective: int | float | None
    bound: int | float | None
    samples: int = 1
    seconds: float = 0.0
    seed: int = 0
    solver: str = ""
    model: str | None = None
    interrupted: bool = False
    found_by: str | None = None
    cause: str | None = None

    @property
    def problem(self) -> Problem:
        """The problem it solves."""
        return self.instance.problem

    @property
    def feasible(self) -> bool:
        """Whether it is a solution: nothing infeasible or forbidden is one."""
        return self.objective is not None

    @property
    def cost(self) -> int | float | None:
        """What it costs by the instance's own numbers, whatever changes weigh; None if it is infeasible."""
        return self.objective if self.changes is None else cost(self.instance, self.choice)

    @property
    def changes(self) -> int | None:
        """How many jobs moved, or how many steps are new, where changes of the start weigh something; else None."""
        return changes(self.instance, self.choice) if self.feasible else None

    @property
    def gap(self) -> float | None:
        """How far the objective can be above the optimum, as a fraction of the bound; None where unknown."""
        return gap(self.objective, self.bound)

    @property
    def optimal(self) -> bool:
        """Whether the bound is met, so that nothing better exists."""
        return bool(self.gap == 0.0)  # a bound may be a number of NumPy, whose truth values are not JSON

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
            "solution": self.solution if self.feasible else None,
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
    origin = f"found by {answer.found_by}, " if part else ""
    problem, instance = answer.problem, answer.instance
    if answer.reason is None:
        lines = problem.describe_solution(instance, answer.choice)
    else:
        lines = [f"  {answer.reason}"]
    # the sizes alone are in the heading already
    notes = instance.understood if instance.understood is not None and ";" in instance.understood else None
    understood = [] if notes is None else wrapped("  read as ", visible(notes))
    conditions = in_words(instance)
    wanted = [] if conditions is None else wrapped("  asked for ", visible(conditions))
    return "\n".join(
        [
            f"{visible(instance.name)}: {subject(instance)}, {verdict_text(answer)}",
            *understood,
            *wanted,
            *lines,
            f"  {by}, {origin}{tries}seed {answer.seed}, {answer.seconds:.2f} s",
        ]
    )


def subject(instance: Instance) -> str:
    """Say what is solved: "20 jobs on 4 machines", "path through 6 cities"."""
    problem = instance.problem
    if instance.conditions is not None and instance.conditions.open:
        return f"path through {counted(problem.named(instance.size)[0], problem.row_words)}"
    return problem.describe_size(instance.size)


def verdict_text(answer: Answer) -> str:
    """Return objective, bound and gap in a phrase, or that the solution is infeasible.

    Where changes weigh something the cost and their number come first, and what is minimised has a phrase of its own:
    the bound is about that.
    """
    if answer.objective is None:
        return "infeasible"
    instance, problem = answer.instance, answer.problem
    words = f"{problem.objective} {number(answer.objective)}"
    stay = None if instance.conditions is None else instance.conditions.stay
    if stay is not None:
        tour, weight, row = problem.structure == "tour", number(stay), problem.row_words
        one, many = ("new step", "new steps") if tour else (f"{row[0]} moved", f"{row[1]} moved")
        each = f"{weight} for each {one}" if tour else f"{weight} longer for each {one}"
        words = f"{problem.objective} {number(answer.cost or 0)} with {counted(answer.changes or 0, (one, many))}; "
        words += f"weighed {number(answer.objective)} ({each})"
    if answer.optimal:
        return f"{words}, optimal"
    if answer.bound is None:
        return words
    percent = "" if answer.gap is None else f" (gap {100 * answer.gap:.2f} %)"
    return f"{words}, at least {number(answer.bound)} is needed{percent}"


def judge_answer(instance: Instance, choice: NDArray[np.int64], bound: float = -math.inf, **made: Any) -> Answer:
    """Judge a choice (rows,) of an instance, with the better of a given lower bound and the problem's own.

    made : the fields of the answer that say how the choice was made.
    """
    solved = restate(instance)
    bound = float(np.fmax(lower_bounds(solved.problem, solved.batch())[0], bound))
    return make_answer(instance, solved, choice, value_of(instance, solved, choice), bound, **made)


def value_of(instance: Instance, solved: Instance, choice: NDArray[np.int64]) -> Number | None:
    """Return what a choice (rows,) costs, with what its changes weigh; None if it is infeasible.

    solved : the instance as solvers are given it, without conditions.
    """
    if solved is not instance:
        if violation(instance, choice) is not None:
            return None
        value = objective(instance, choice)
        return value if solved.integral else float(value)
    feasible, costs = judge(instance.problem, instance.batch(), choice[None])
    total: Number = costs[0].item()
    return total if feasible[0] and forbidden_pair(instance, choice) is None else None


def make_answer(
    instance: Instance, solved: Instance, choice: NDArray[np.int64], value: Number | None, bound: float, **made: Any
) -> Answer:
    """Return the answer that a judged choice (rows,) of an instance is.

    Parameters
    ----------
    solved : the instance as solvers are given it, without conditions.
    value : what the choice costs; None if it is infeasible.
    bound : a proven lower bound; −inf where there is none. Numbers that stand in for forbidden pairs are none.
    """
    whole = solved.integral and (isinstance(value, int) or solved.problem.structure is not None)
    low = int(rounded_up(bound)) if whole and math.isfinite(bound) else bound
    true = math.isfinite(bound) and bound <= highest_cost(solved)
    if value is not None and true:
        if contradicts(np.array([low]), np.array([value]))[0]:
            true = False
        elif gap(value, low) == 0:
            low = value  # sums of reals may differ in their last digits
    return Answer(instance, choice, value, low if true else None, **made)


def gap(objective: Number | None, bound: Number | None) -> float | None:
    """Return how far an objective can be above the optimum, as a fraction of the bound; None where unknown.

    Whole numbers are compared exactly, reals up to rounding.
    """
    if objective is None or bound is None:
        return None
    excess = objective - bound
    whole = isinstance(objective, int) and isinstance(bound, int)
    if excess <= (0 if whole else SAME * abs(bound)):
        return 0.0
    return excess / abs(bound) if bound else None


def judge(problem: Problem, arrays: Arrays, choice: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Return whether choices (count, rows) are feasible and what they cost, (count,) each.

    Costs are int64 or float64, and mean nothing where a choice is not feasible.
    """
    rows, columns = problem.shape(problem.size(arrays))
    if choice.shape != (len(next(iter(arrays.values()))), rows):
        raise ValueError(f"there are choices of shape {choice.shape} for {rows} rows")
    costs = None if problem.structure is None else problem.cost_matrix(arrays)
    if problem.structure is not None and costs is not None:
        return structure_of(problem.structure).judge(costs, choice)
    import torch

    from ..problems.tensors import to_tensors

    instances = to_tensors(arrays)
    chosen = torch.from_numpy(np.ascontiguousarray(choice, dtype=np.int64))[:, None]
    feasible = problem.feasible(instances, chosen)[:, 0].numpy()
    # an infeasible choice may point outside the matrix; cost it as if it stayed inside, and do not tell
    cost = problem.cost(instances, chosen.clamp(0, columns - 1))[:, 0]
    return feasible, (cost.double() if cost.is_floating_point() else cost).numpy()


def lower_bounds(problem: Problem, arrays: Arrays) -> NDArray[np.float64]:
    """Return the problem's own lower bound of every instance, (count,); −inf where it has none."""
    bound = problem.lower_bound(arrays)
    return np.full(len(next(iter(arrays.values()))), -math.inf) if bound is None else bound
