"""`icdc verify`: check anybody's solution."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError, UsageError, visible
from . import reading, wishes
from .problems import HELP, find_problem


def verify(
    instance: Annotated[str, typer.Argument(help="File with one instance, or - for standard input.")],
    solution: Annotated[str, typer.Argument(help="A .tour, .json, .csv or text file, or - for standard input.")],
    problem: Annotated[str | None, typer.Option(help=HELP)] = None,
    index: Annotated[int, typer.Option(min=0, help="Which instance of a file with several, from 0.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    start: Annotated[str | None, typer.Option(help="Earlier solution that --stay compares with.")] = None,
    fix: wishes.Fix = None,
    stay: wishes.Stay = None,
    open_path: wishes.Open = False,
    first: wishes.First = None,
    last: wishes.Last = None,
    busy: wishes.Busy = None,
    labels: reading.Labels = None,
    comments: reading.Comments = None,
    decimal: reading.Decimal = None,
    id_column: reading.IdColumn = None,
    metric: reading.Metric = None,
    skip: reading.Skip = None,
    transpose: reading.Transpose = None,
    sheet: reading.Sheet = None,
    cells: reading.Range = None,
    hidden: reading.Hidden = None,
    forbidden: reading.Forbidden = None,
) -> None:
    """Check a solution: feasible or not, its objective, a lower bound and the gap between them.

    Exits with 3 if the solution does not fit the instance or is infeasible.
    """
    if instance == solution == "-":
        raise InputError("the instance and the solution cannot both come from standard input")
    if (start is None) != (stay is None):
        raise UsageError("--stay W and --start FILE go together: changes of the start weigh W")
    given = [instance, solution, *([] if start is None else [start])]
    wishes.check_files(fix, busy, given)
    for path in given:
        if path != "-" and not Path(path).exists():
            raise InputError(f"{path}: no such file")

    from ..io import read_instances, read_solution
    from ..problems.asked import changes, cost, violation
    from ..problems.forbidden import forbidden_pair
    from ..problems.naming import pair_text
    from ..problems.wishes import posed
    from ..solving.answer import verdict_text
    from ..solving.verify import verdict_on

    read = reading.read_options(
        labels, comments, decimal, id_column, metric, sheet, cells, forbidden, skip, transpose, hidden
    )
    instances = read_instances(instance, None if problem is None else find_problem(problem), read)
    if index >= len(instances):
        raise InputError(f"{instance}: there is no instance {index}; the file holds {len(instances)}")
    wanted = wishes.read_wishes(fix, stay, open_path, first, last, busy, decimal)
    chosen, _ = posed(instances[index], wanted, None if start is None else partial(read_solution, start))
    choice = read_solution(solution, chosen)
    verdict = verdict_on(chosen, choice)
    if as_json:
        about = {"problem": chosen.problem.name, "instance": chosen.name, "solution": str(Path(solution))}
        found = {"feasible": verdict.feasible, "objective": verdict.objective}
        if stay is not None and verdict.feasible:
            found |= {"cost": cost(chosen, choice), "changes": changes(chosen, choice)}
        asked = {} if chosen.conditions is None else {"conditions": chosen.conditions.as_dict()}
        print(json.dumps({**about, **asked, **found, "bound": verdict.bound, "gap": verdict.gap}))
    if chosen.conditions is not None or chosen.problem.restated:
        if (wrong := violation(chosen, choice)) is not None:
            raise InputError(f"{solution}: the solution is infeasible for {chosen.name}: {wrong}")
    elif (pair := forbidden_pair(chosen, choice)) is not None:
        raise InputError(f"{solution}: the solution uses a forbidden pair of {chosen.name}: {pair_text(chosen, pair)}")
    if not verdict.feasible:
        raise InputError(f"{solution}: the solution is infeasible for {chosen.name}")
    if not as_json:
        print(f"{visible(solution)}: feasible, {verdict_text(verdict, chosen, choice)}")
