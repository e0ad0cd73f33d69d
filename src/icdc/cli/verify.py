"""`icdc verify`: check anybody's solution."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError, UsageError, visible
from ..options import Group
from .parameters import Given, check_files, files_of, find_problem, read_options, takes, wanted_conditions


@takes(Group.CONDITIONS, Group.READING, "problem", start="Earlier solution that --stay compares with.")
def verify(
    *,
    instance: Annotated[str, typer.Argument(help="File with one instance, or - for standard input.")],
    solution: Annotated[str, typer.Argument(help="A .tour, .json, .csv or text file, or - for standard input.")],
    given: Given,
    index: Annotated[int | None, typer.Option(min=0, help="Which instance of a file with several, from 0.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check a solution: feasible or not, its objective, a lower bound and the gap between them.

    Exits with 3 if the solution does not fit the instance or is infeasible.
    """
    if instance == solution == "-":
        raise InputError("the instance and the solution cannot both come from standard input")
    start, stay = given["start"], given["stay"]
    if start is not None and stay is None:
        raise UsageError("--start needs --stay: what each change of the start weighs")
    check_files([instance, solution, *files_of(given)])

    from ..io import read_instances, read_solution
    from ..problems.conditions import changes, cost, violation, with_conditions
    from ..problems.forbidden import forbidden_pair
    from ..solving.answer import verdict_text
    from ..solving.verify import verdict_on

    problem = given["problem"]
    asked = None if problem is None else find_problem(problem)
    instances = read_instances(instance, asked, read_options(given))
    if index is None and len(instances) > 1:
        raise UsageError(f"{instance}: the file holds {len(instances)} instances; say which with --index, from 0")
    index = index or 0
    if index >= len(instances):
        raise InputError(f"{instance}: there is no instance {index}; the file holds {len(instances)}")
    wanted, words = wanted_conditions(given)
    begin = None if start is None else partial(read_solution, start)
    chosen, _ = with_conditions(instances[index], wanted, begin, words)
    choice = read_solution(solution, chosen)
    verdict = verdict_on(chosen, choice)
    if as_json:
        about = {"problem": chosen.problem.name, "instance": chosen.name, "solution": str(Path(solution))}
        found = {"feasible": verdict.feasible, "objective": verdict.objective}
        if stay is not None and verdict.feasible:
            found |= {"cost": cost(chosen, choice), "changes": changes(chosen, choice)}
        conditions = {} if chosen.conditions is None else {"conditions": chosen.conditions.as_dict()}
        print(json.dumps({**about, **conditions, **found, "bound": verdict.bound, "gap": verdict.gap}))
    if chosen.conditions is not None or chosen.problem.restated:
        if (wrong := violation(chosen, choice)) is not None:
            raise InputError(f"{solution}: the solution is infeasible for {chosen.name}: {wrong}")
    elif (pair := forbidden_pair(chosen, choice)) is not None:
        raise InputError(f"{solution}: the solution uses a forbidden pair of {chosen.name}: {chosen.pair_text(pair)}")
    if not verdict.feasible:
        raise InputError(f"{solution}: the solution is infeasible for {chosen.name}")
    if not as_json:
        print(f"{visible(solution)}: feasible, {verdict_text(verdict, chosen, choice)}")
