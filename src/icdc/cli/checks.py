"""`icdc verify`, `check-problem`, `models` and `info`: a solution, a problem of your own, and what is installed."""

import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import __version__
from ..errors import InputError, UsageError, visible
from ..io import read_instances, read_solution
from ..models import catalogue
from ..options import Group
from ..problems import SHIPPED
from ..problems.conditions import violation, with_conditions
from ..problems.forbidden import forbidden_pair
from ..solvers import SOLVERS
from ..solving.answer import judge_answer, verdict_text
from ..training import presets
from .parameters import Given, check_files, conditions_of, files_of, find_problem, read_options, read_size, takes

_PACKAGES = ("torch", "numpy", "scipy", "safetensors", "typer", "matplotlib")
_MODULES = {"exact": "ortools", "pyvrp": "pyvrp", "lkh": "elkai"}


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

    of = None if given["problem"] is None else find_problem(given["problem"])
    instances = read_instances(instance, of, read_options(given))
    if index is None and len(instances) > 1:
        raise UsageError(f"{instance}: the file holds {len(instances)} instances; say which with --index, from 0")
    index = index or 0
    if index >= len(instances):
        raise InputError(f"{instance}: there is no instance {index}; the file holds {len(instances)}")
    values, words = conditions_of(given)
    target, _ = with_conditions(
        instances[index], values, None if start is None else partial(read_solution, start), words
    )
    choice = read_solution(solution, target)
    answer = judge_answer(target, choice)
    if as_json:
        about = {"problem": target.problem.name, "instance": target.name, "solution": str(Path(solution))}
        result = {"feasible": answer.feasible, "objective": answer.objective}
        if stay is not None and answer.feasible:
            result |= {"cost": answer.cost, "changes": answer.changes}
        conditions = {} if target.conditions is None else {"conditions": target.conditions.as_dict()}
        print(json.dumps({**about, **conditions, **result, "bound": answer.bound, "gap": answer.gap}))
    if target.conditions is not None or target.problem.restated:
        if (wrong := violation(target, choice)) is not None:
            raise InputError(f"{solution}: the solution is infeasible for {target.name}: {wrong}")
    elif (pair := forbidden_pair(target, choice)) is not None:
        raise InputError(f"{solution}: the solution uses a forbidden pair of {target.name}: {target.pair_text(pair)}")
    if not answer.feasible:
        raise InputError(f"{solution}: the solution is infeasible for {target.name}")
    if not as_json:
        print(f"{visible(solution)}: feasible, {verdict_text(answer)}")


@takes(seed="Seed of the instances.")
def check_problem(
    problem: Annotated[str, typer.Argument(help="module:Class, or the name of a built-in problem.")],
    size: Annotated[str | None, typer.Option(help="Size of the tiny instances, such as 5 or 5x3.")] = None,
    *,
    given: Given,
) -> None:
    """Check a problem against the contract, part by part.

    Decoding against brute force, cost and feasibility against each other, probabilities summing to one,
    and the rest of what training and solving rely on. Exits with 3 if anything is wrong.
    """
    from ..conformance import check_conformance

    checked = find_problem(problem)
    findings = check_conformance(checked, None if size is None else read_size(size, checked), given["seed"])
    for finding in findings:
        print(f"ok     {finding.check}" if finding.wrong is None else f"WRONG  {finding.check}: {finding.wrong}")
    wrong = sum(finding.wrong is not None for finding in findings)
    if wrong:
        raise InputError(f"'{checked.name}' breaks the contract of a problem in {wrong} of {len(findings)} parts")


def info(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Show versions, the device that would be used, solvers installed or missing, problems, models and presets."""
    about = gather()
    if as_json:
        print(json.dumps(about))
        return
    print(f"icdc {about['icdc']}, Python {about['python']} on {about['system']}")
    print("  " + ", ".join(f"{name} {version}" for name, version in about["packages"].items()))
    print(f"  device: {about['device']}; {about['processors']} processors, {about['threads']} threads")
    print("solvers:")
    width = max(map(len, about["solvers"]))
    for name, solver in about["solvers"].items():
        missing = f"  (missing: pip install 'icdc[{solver['extra']}]')" if not solver["available"] else ""
        print(f"  {name:<{width}}  {solver['summary']}{missing}")
    print("problems: " + ", ".join(about["problems"]))
    print("models: " + (", ".join(about["models"]) or "none"))
    print("presets of icdc train:")
    width = max(map(len, about["presets"]))
    for name, summary in about["presets"].items():
        print(f"  {name:<{width}}  {summary}")


def gather() -> dict[str, Any]:
    """Return everything `icdc info` shows."""
    import torch

    device = f"cuda ({torch.cuda.get_device_name()})" if torch.cuda.is_available() else "cpu"
    return {
        "icdc": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: importlib.metadata.version(name) for name in _PACKAGES},
        "device": device,
        "processors": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "solvers": {
            name: {
                "problems": entry.problems,
                "summary": entry.summary,
                "extra": entry.extra,
                "available": entry.extra is None or importlib.util.find_spec(_MODULES[entry.extra]) is not None,
            }
            for name, entry in SOLVERS.items()
        },
        "problems": list(SHIPPED),
        "models": catalogue.available(),
        "presets": presets(),
    }


def models(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """List the shipped models: what they solve, which sizes they know, how large they are."""
    rows = []
    for name in catalogue.available():
        size = (catalogue.models_folder() / f"{name}.safetensors").stat().st_size
        rows.append({"model": name, **catalogue.card_of(name), "bytes": size})
    if as_json:
        for row in rows:
            print(json.dumps(row))
        return
    if not rows:
        print("no models ship with this installation; train one with icdc train", file=sys.stderr)
    table = [("model", "problem", "sizes", "size"), *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(4)]
    for line in table if rows else []:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _cells(row: dict[str, Any]) -> tuple[str, str, str, str]:
    """Return a model's line in the table."""
    sizes = ", ".join("×".join(map(str, size)) for size in row.get("sizes", []))
    return row["model"], str(row["problem"]), sizes, f"{row['bytes'] / 2**20:.1f} MiB"
