"""`icdc check-problem`: the conformance kit on a problem of your own."""

from typing import Annotated

import typer

from ..errors import InputError
from .parameters import Given, find_problem, read_size, takes


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

    found = find_problem(problem)
    findings = check_conformance(found, None if size is None else read_size(size, found), given["seed"])
    for finding in findings:
        print(f"ok     {finding.check}" if finding.wrong is None else f"WRONG  {finding.check}: {finding.wrong}")
    wrong = sum(finding.wrong is not None for finding in findings)
    if wrong:
        raise InputError(f"'{found.name}' breaks the contract of a problem in {wrong} of {len(findings)} parts")
