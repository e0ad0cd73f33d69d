"""`icdc verify`: check anybody's solution."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .problems import HELP, find_problem


def verify(
    instance: Annotated[str, typer.Argument(help="File with one instance, or - for standard input.")],
    solution: Annotated[str, typer.Argument(help="A .tour, .json, .csv or text file, or - for standard input.")],
    problem: Annotated[str | None, typer.Option(help=HELP)] = None,
    index: Annotated[int, typer.Option(min=0, help="Which instance of a file with several, from 0.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check a solution: feasible or not, its objective, a lower bound and the gap between them.

    Exits with 3 if the solution does not fit the instance or is infeasible.
    """
    from ..io import read_instances, read_solution
    from ..solving.answer import verdict_text
    from ..solving.verify import verify as judge

    if instance == solution == "-":
        raise InputError("the instance and the solution cannot both come from standard input")
    instances = read_instances(instance, None if problem is None else find_problem(problem))
    if index >= len(instances):
        raise InputError(f"{instance}: there is no instance {index}; the file holds {len(instances)}")
    chosen = instances[index]
    choice = read_solution(solution, chosen)
    (verdict,) = judge(chosen.problem, chosen.batch(), choice[None])
    if as_json:
        about = {"problem": chosen.problem.name, "instance": chosen.name, "solution": str(Path(solution))}
        found = {"feasible": verdict.feasible, "objective": verdict.objective}
        print(json.dumps({**about, **found, "bound": verdict.bound, "gap": verdict.gap}))
    if not verdict.feasible:
        raise InputError(f"{solution}: the solution is infeasible for {chosen.name}")
    if not as_json:
        print(f"{solution}: feasible, {verdict_text(verdict, chosen)}")
