"""`icdc solve --explain`: what was read, and who answers it, and why."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import IcdcError

if TYPE_CHECKING:
    from ..solving.jobs import Job


@dataclass(frozen=True)
class Asked:
    """What the options named.

    solver : whether a solver was named.
    model : the model that was named, if one was.
    """

    solver: bool
    model: str | None


def explained(job: "Job", asked: Asked) -> list[str]:
    """Return lines about a job: its instances as they were understood, the solver, the model and the effort."""
    from ..problems.conditions import in_words
    from ..solving.answer import subject

    plan, first = job.plan, job.meant[0]
    lines = [f"read: {_names(job)}, {subject(first)} ({first.problem.name}), {_numbers(job)}"]
    if first.rows is not None:
        lines[0] += f"; rows are named, the first '{first.rows[0]}'"
    if first.columns is not None:
        lines[0] += f"; columns are named, the first '{first.columns[0]}'"
    if (words := in_words(first)) is not None:
        lines.append(f"asked for: {words}")
    if job.instances[0] is not first:
        lines.append(f"solved as: {_plainly(job)}")
    why = "asked for" if asked.solver else "the default"
    tries = "1 sample" if plan.samples == 1 else f"{plan.samples} samples"
    lines.append(f"solver: {plan.solver.name} ({why}), {tries}, seed {plan.seed}, device {plan.solver.runs_on}")
    if plan.solver.model_name is not None:
        lines.append(f"model: {plan.solver.model_name} ({_why_this_model(plan.solver.model_name, asked.model)})")
    elif (words := _network(job)) is not None:
        lines.append(words)
    return lines


def _plainly(job: "Job") -> str:
    """Say which plain instance solvers are given, where it is another one."""
    from ..problems.present import counted
    from ..solving.answer import subject

    solved = job.instances[0]
    count = 0 if solved.forbidden is None else int(solved.forbidden.sum())
    pairs = f", {counted(count, ('forbidden pair', 'forbidden pairs'))}" if count else ""
    return f"{subject(solved)} ({solved.problem.name}){pairs}"


def _network(job: "Job") -> str | None:
    """Say which network the default solver asks, if it asks one; None of other solvers."""
    from ..models.catalogue import default_for
    from ..problems import problem_path
    from ..solving.anytime import AnytimeSolver

    problem, solver, instance = job.problem, job.plan.solver, job.instances[0]
    if not isinstance(solver, AnytimeSolver):
        return None
    if not solver.network_helps(problem, instance.shape):
        return "model: none (search and proofs alone: there is none for this problem, or it could not help in time)"
    name = default_for(problem_path(problem), instance.size)
    return f"model: {name} ({_why_this_model(name, None)}), for what search and proofs leave open"


def _names(job: "Job") -> str:
    count = len(job.instances)
    return job.instances[0].name if count == 1 else f"{job.instances[0].name} and {count - 1} more"


def _numbers(job: "Job") -> str:
    return "whole numbers" if job.meant[0].integral else "real numbers"


def _why_this_model(name: str, asked: str | None) -> str:
    """Say why a model was taken, and what it knows."""
    from ..models.catalogue import card_of

    try:
        sizes = card_of(name).get("sizes", [])
    except IcdcError:  # made in Python, and never written
        sizes = []
    why = "asked for" if asked is not None else "of those that ship the one that knows the nearest size"
    words = ["×".join(map(str, size)) for size in sizes]
    if not words:
        return why
    known = words[0] if len(words) == 1 else f"{len(words)} sizes from {words[0]} to {words[-1]}"
    return f"{why}; trained on {known}"
