"""The conformance kit: does a problem keep the contract of `icdc.Problem`?

Every check compares two parts of a problem that were written independently of each other, on instances so
tiny that all solutions can be listed. `assert_conforms` is for tests, `icdc check-problem module:Class` for
the command line.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..problems.base import Problem, Size
from .instances import Wrong
from .solvers import AllChecks

__all__ = ["Finding", "assert_conforms", "check_conformance"]


@dataclass(frozen=True)
class Finding:
    """The outcome of one check: what was checked, and what is wrong if anything is."""

    check: str
    wrong: str | None = None


def assert_conforms(problem: Problem, size: Size | None = None, seed: int = 0) -> None:
    """Raise AssertionError with every broken part of the contract; for use in tests."""
    broken = [f"{f.check}: {f.wrong}" for f in check_conformance(problem, size, seed) if f.wrong is not None]
    if broken:
        raise AssertionError(f"'{problem.name}' breaks the contract of a problem:\n  " + "\n  ".join(broken))


def check_conformance(problem: Problem, size: Size | None = None, seed: int = 0, only: str = "") -> list[Finding]:
    """Run the checks and return what each found.

    Parameters
    ----------
    problem : the problem.
    size : of the tiny instances; rows and columns should differ where they are different things, and all
        assignments of columns to rows must be few enough to list. Chosen from `size_names` unless given.
    seed : of the instances.
    only : run the checks whose names begin with this; by default all.
    """
    kit = AllChecks(problem, size if size is not None else _tiny(problem), seed)
    checks: dict[str, Callable[[], None]] = {
        "instances are drawn repeatably and pass their own check": kit.instances,
        "check refuses what is not a number": kit.refuses,
        "features have the declared sizes, are finite, and ignore the batch": kit.features,
        "the order of rows and columns means nothing": kit.equivariance,
        "costs are finite and do not depend on the batch": kit.batch,
        "feasible keeps to the matrix and to the mask": kit.feasibility,
        "what the rule decodes is feasible": kit.decoding,
        "probabilities of all feasible solutions sum to one": kit.probabilities,
        "samples come as often as their probabilities say": kit.frequencies,
        "shortcuts of the rule do what the generic rule does": kit.shortcuts,
        "a solution reads back as the choice it was written from": kit.round_trip,
        "density is the share of ones": kit.density,
        "violation is zero on feasible matrices only": kit.violation,
        "the lower bound is below the best of all solutions": kit.bound,
        "cost_changes says what cost does": kit.cost_changes,
        "improve makes nothing worse and ends in local optima": kit.improvement,
        "merge makes nothing worse, of what it is given alone": kit.merging,
        "construct begins with feasible solutions, better than at random": kit.construction,
        "forbidden pairs are known as such, and never part of what is best": kit.permitted,
        "cost_matrix and structure say what cost and feasible do": kit.structure,
        "an answer can be described and drawn": kit.presentation,
        "a solution file reads back as the choice it was written from": kit.solution_file,
        "the generator on the device draws like the one on the host": kit.device,
        "no value is read on the host": kit.synchronisation,
    }
    findings = []
    for name, check in checks.items():
        if not name.startswith(only):
            continue
        try:
            check()
        except Wrong as wrong:
            findings.append(Finding(name, str(wrong)))
        except Exception as error:  # whatever a user's code raises is a finding, not a crash
            findings.append(Finding(name, f"{type(error).__name__}: {error}"))
        else:
            findings.append(Finding(name))
    return findings


def _tiny(problem: Problem) -> Size:
    """Return a size whose solutions can be listed: five items, or five rows and three columns."""
    return (5, 3, 2, 2)[: len(problem.size_names)]
