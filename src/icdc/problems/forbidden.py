"""Forbidden pairs of an instance: numbers that stand in for them, and why no solution may exist.

Solvers that know a problem by its `structure` take every pair for permitted. They are given a finite number in place
of a forbidden one, larger than any permitted solution as a whole. So the best solutions stay the best, a solution uses
no forbidden pair exactly if it costs less than one, and lower bounds stay true. The number itself is never shown: a
solution that uses it is infeasible, whatever it costs.

Nothing carries the mask itself to the network: `tensors.permitted_pairs` recognises the stand-in by its size. A number
that is not larger than all permitted solutions is an ordinary cost there.
"""

from decimal import ROUND_CEILING, Context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..search.run import Budget
from ..search.structures import structure_of
from .arrays import LARGEST_INTEGER, LARGEST_REAL
from .base import Arrays, Problem
from .instance import Instance

_HUGE = 9999
"""The smallest number that files use in place of a forbidden pair."""


_ONE_DIGIT = Context(prec=1, rounding=ROUND_CEILING)


def may_forbid(problem: Problem) -> bool:
    """Tell whether instances of a problem can have forbidden pairs: solvers know it, and one matrix says all."""
    return problem.structure is not None and len(problem.arrays) == 1 and not problem.restated


def with_stand_ins(problem: Problem, arrays: Arrays, forbidden: NDArray[np.bool_]) -> Arrays:
    """Return the arrays of one instance with stand-ins at its forbidden pairs.

    Raises
    ------
    InputError
        If the problem cannot have forbidden pairs, or if numbers so large would not be exact.
    """
    if problem.restated:  # they are put in where it is restated
        return arrays
    if not may_forbid(problem):
        raise InputError(f"instances of '{problem.name}' cannot have forbidden pairs")
    (name,) = problem.arrays
    matrix = arrays[name]
    costs = problem.cost_matrix({name: matrix[None]})
    if costs is None or costs[0].shape != forbidden.shape or not np.array_equal(costs[0], matrix):
        raise InputError(f"instances of '{problem.name}' cannot have forbidden pairs: its entries are not their costs")
    highest = ceiling(matrix, forbidden)
    # of one digit among reals, in whatever unit, so that decimals stay decimals
    number = highest + 1 if isinstance(highest, int) else float(_ONE_DIGIT.create_decimal(2 * highest or 1.0))
    limit = LARGEST_INTEGER if isinstance(highest, int) else LARGEST_REAL
    if number * len(matrix) > limit:
        raise InputError("the numbers are too large for an instance with forbidden pairs; use a larger unit")
    wide = np.int64 if isinstance(highest, int) else np.float64
    return {name: np.where(forbidden, wide(number), matrix.astype(wide))}


def batch_with_stand_ins(problem: Problem, arrays: Arrays, forbidden: NDArray[np.bool_]) -> Arrays:
    """Return the same for a batch of instances, leading axis count, with forbidden pairs (count, rows, columns).

    Instances that forbid nothing keep their numbers.
    """
    filled = []
    for number, mask in enumerate(forbidden):
        one = {name: array[number] for name, array in arrays.items()}
        filled.append(with_stand_ins(problem, one, mask) if mask.any() else one)
    return {name: np.stack([one[name] for one in filled]) for name in arrays}


def uses_forbidden(forbidden: NDArray[np.bool_], choice: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which choices (count, rows) use a pair that is forbidden (count, rows, columns); (count,)."""
    columns = forbidden.shape[2]
    inside = (choice >= 0) & (choice < columns)
    used = np.take_along_axis(forbidden, np.clip(choice, 0, columns - 1)[:, :, None], 2)[:, :, 0]
    return np.asarray((used & inside).any(1))


def ceiling(matrix: NDArray[Any], forbidden: NDArray[np.bool_]) -> int | float:
    """Return a cost that no permitted solution exceeds: in every row the largest permitted entry."""
    permitted = np.where(forbidden, matrix.dtype.type(0), matrix)
    if np.issubdtype(matrix.dtype, np.integer):
        return sum(int(value) for value in permitted.max(1))  # Python's own integers do not overflow
    total = float(permitted.max(1).astype(np.float64).sum())
    return total * (1 + 1e-12)  # above what rounding may have taken away


def highest_cost(instance: Instance) -> int | float:
    """Return a cost that no permitted solution of an instance exceeds; infinite where all pairs are permitted."""
    if instance.forbidden is None:
        return float("inf")
    return ceiling(instance.arrays[instance.problem.arrays[0]], instance.forbidden)


def forbidden_pair(instance: Instance, choice: NDArray[np.int64]) -> tuple[int, int] | None:
    """Return the first forbidden pair (row, column) that a choice (rows,) uses, if it uses one."""
    if instance.forbidden is None:
        return None
    rows, columns = instance.forbidden.shape
    inside = (choice >= 0) & (choice < columns)
    used = np.flatnonzero(inside & instance.forbidden[np.arange(rows), np.clip(choice, 0, columns - 1)])
    return (int(used[0]), int(choice[used[0]])) if len(used) else None


def why_impossible(instance: Instance) -> str | None:
    """Say why the forbidden pairs of an instance leave no solution, where a simple reason can be found; else None.

    That of a restated instance is said in the words of its original.
    """
    if instance.forbidden is None:
        return None
    problem = instance.problem
    permitted = ~instance.forbidden
    tour = problem.structure == "tour"
    if tour:
        np.fill_diagonal(permitted, False)
    for row in np.flatnonzero(~permitted.any(1)).tolist():
        if _is_idle(instance, row):
            return f"no {_words(instance)[0]} may be the first"
        what = f"{_words(instance)[0]} to go to" if tour else problem.column_words[0]
        return f"{_text(instance, row)} has no permitted {what}"
    if not tour:
        return None
    for column in np.flatnonzero(~permitted.any(0)).tolist():
        if _is_idle(instance, column):
            return f"no {_words(instance)[0]} may be the last"
        return f"{_text(instance, column)} cannot be reached from any other"
    return _no_matching(instance, permitted) or _no_way(instance, permitted)


def _words(instance: Instance) -> tuple[str, str]:
    """Return what one row, and several, are called."""
    return (instance.original or instance).problem.row_words


def _is_idle(instance: Instance, item: int) -> bool:
    """Tell whether a row stands for the time before and after a sequence."""
    original = instance.original
    return original is not None and original.problem.named(original.size)[0] <= item < original.shape[0]


def _text(instance: Instance, item: int) -> str:
    """Name a row in a sentence."""
    if _is_idle(instance, item):
        return "the beginning"
    return instance.row_text(item).replace(instance.problem.row_words[0], _words(instance)[0], 1)


def why_infeasible(instance: Instance) -> str:
    """Say why no permitted solution of an instance was found: because there is none, where that can be shown."""
    if (reason := why_impossible(instance)) is not None:
        return reason
    forbidden = instance.forbidden
    structure = instance.problem.structure
    if forbidden is not None and structure is not None and structure_of(structure).impossible(~forbidden):
        return f"all {structure_of(structure).words} use a forbidden pair"
    return "every solution that was found uses a forbidden pair"


def _no_matching(instance: Instance, permitted: NDArray[np.bool_]) -> str | None:
    """Say which rows have too few columns together, where not every row can have a column of its own."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    partner = maximum_bipartite_matching(csr_array(permitted), perm_type="column")
    if (partner >= 0).all():
        return None
    # rows that can be reached from a row without a partner by changing partners share all their columns
    owner = np.full(len(partner), -1)
    owner[partner[partner >= 0]] = np.flatnonzero(partner >= 0)
    rows, columns = {int(np.flatnonzero(partner < 0)[0])}, set[int]()
    waiting = list(rows)
    while waiting:
        for column in np.flatnonzero(permitted[waiting.pop()]).tolist():
            if column not in columns:
                columns.add(column)
                row = int(owner[column])
                if row not in rows:
                    rows.add(row)
                    waiting.append(row)
    first = sorted(rows)[:5]
    labels = zip(first, instance.row_labels(first), strict=True)
    names = ", ".join("(the beginning)" if _is_idle(instance, row) else label for row, label in labels)
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    return f"the {_words(instance)[1]} {names}{more} have only {len(columns)} permitted successors together"


def _no_way(instance: Instance, permitted: NDArray[np.bool_]) -> str | None:
    """Name two items of which the second cannot be reached from the first."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    for graph, backwards in ((permitted, False), (permitted.T, True)):
        reached = breadth_first_order(csr_array(graph.astype(np.int8)), 0, return_predecessors=False)
        if len(reached) < len(permitted):
            other = int(np.setdiff1d(np.arange(len(permitted)), reached)[0])
            first, last = (other, 0) if backwards else (0, other)
            last_text = "the end" if _is_idle(instance, last) else _text(instance, last)
            return f"there is no permitted way from {_text(instance, first)} to {last_text}"
    return None


def huge_numbers(matrix: NDArray[Any], *, ignore_diagonal: bool) -> NDArray[np.bool_] | None:
    """Return which entries hold a number that can only mean "forbidden", if some do.

    It is the largest entry, written like a sentinel (9999…, a power of ten, 2³¹ − 1, or the value of the whole
    diagonal), and larger than any solution without it.
    """
    others = matrix.copy()
    if ignore_diagonal:
        np.fill_diagonal(others, others.min())
    largest = others.max()
    if largest < _HUGE or largest != int(largest):
        return None
    digits = str(int(largest))
    diagonal = ignore_diagonal and bool((matrix.diagonal() == largest).all())
    if not (set(digits) == {"9"} or digits.strip("0") == "1" or int(largest) == 2**31 - 1 or diagonal):
        return None
    marked = others == largest
    if ignore_diagonal:
        np.fill_diagonal(marked, False)
    without = marked.copy()
    if ignore_diagonal:
        np.fill_diagonal(without, True)
    if without.all() or largest <= ceiling(matrix, without):
        return None
    return np.asarray(marked)


def permitted_in(matrices: NDArray[Any], tour: bool = False) -> NDArray[np.bool_]:
    """Do what `tensors.permitted_pairs` does, for arrays (count, rows, columns) and without torch."""
    costs = matrices.astype(np.float64)
    ignored = np.zeros(costs.shape[1:], dtype=bool)
    if tour:
        np.fill_diagonal(ignored, True)
        costs = np.where(ignored, 0.0, costs)
    largest = costs.max((1, 2), keepdims=True)
    usable = (costs < largest) & ~ignored
    dearest = np.where(usable, costs, 0.0).max(2).sum(1)[:, None, None]
    means_forbidden = (largest > dearest * (1 + 1e-12)) & (costs.min((1, 2), keepdims=True) >= 0)
    means_forbidden &= usable.any(2).all(1)[:, None, None]
    if tour:
        means_forbidden &= usable.any(1).all(1)[:, None, None]
    return np.asarray(usable | ignored | ~means_forbidden)


def without_forbidden(
    structure: str, costs: NDArray[Any], choice: NDArray[np.int64], seconds: float | None = None
) -> NDArray[np.int64]:
    """Return choices (count, rows) of which those that use forbidden pairs are repaired.

    Choices for which no repair is found, or whose repair costs more, stay as they are: where every solution needs such
    a pair, the cheapest one need not be among those with the fewest.

    costs : (count, rows, columns), with stand-ins for what is forbidden.
    choice : (count, rows), solutions of the structure.
    seconds : after which to end; by default only steps are counted, so that the same comes out again.
    """
    kind, budget = structure_of(structure), Budget(seconds)
    permitted = permitted_in(costs, tour=not kind.diagonal)
    broken = np.flatnonzero(_broken(permitted, choice))
    if not len(broken):
        return choice
    changed = choice.copy()
    for place in broken:
        changed[place] = kind.repair(costs[place], permitted[place], choice[place], budget)
    (_, before), (_, after) = kind.judge(costs, choice), kind.judge(costs, changed)
    return np.where((after < before)[:, None], changed, choice)


def _broken(permitted: NDArray[np.bool_], choice: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which answers (count, rows) use a pair that is not permitted (count, rows, columns); (count,)."""
    return np.asarray(~np.take_along_axis(permitted, choice[:, :, None], 2).all((1, 2)))
