"""Forbidden pairs: exact stand-ins, true bounds, and reasons that hold, against every solution of tiny instances."""

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

import icdc
from icdc.errors import InfeasibleError, InputError
from icdc.problems import Instance, Navigation, Problem
from icdc.problems.atsp import Atsp
from icdc.problems.forbidden import (
    ceiling,
    forbidden_pair,
    highest_cost,
    huge_numbers,
    may_forbid,
    why_impossible,
    with_stand_ins,
)
from icdc.problems.pmsp import Pmsp
from icdc.solving.verify import Verdict, lower_bounds, permitted, verify


def made(problem: Problem, matrix: NDArray[Any], forbidden: NDArray[np.bool_], **names: Any) -> Instance:
    """Return an instance with stand-ins."""
    arrays = with_stand_ins(problem, {problem.arrays[0]: matrix}, forbidden)
    return Instance("t", problem, arrays, forbidden=forbidden, **names)


def tours(size: int) -> list[NDArray[np.int64]]:
    """Return every tour as successors."""
    found = []
    for rest in permutations(range(1, size)):
        order = np.array([0, *rest])
        choice = np.empty(size, dtype=np.int64)
        choice[order] = np.roll(order, -1)
        found.append(choice)
    return found


def schedules(jobs: int, machines: int) -> list[NDArray[np.int64]]:
    return [np.array(choice) for choice in product(range(machines), repeat=jobs)]


def cost_of(problem: Problem, matrix: NDArray[Any], choice: NDArray[np.int64]) -> float:
    picked = matrix[np.arange(len(choice)), choice]
    if problem.structure == "tour":
        return picked.sum()
    return max(picked[choice == machine].sum() for machine in range(matrix.shape[1]))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Problem, NDArray[Any], NDArray[np.bool_], list[NDArray[np.int64]]]:
    """Draw a tiny instance with forbidden pairs, and all its solutions, permitted or not."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    share = draw(st.sampled_from([0.2, 0.5, 0.7]))
    whole = draw(st.booleans())
    if draw(st.booleans()):
        size = draw(st.integers(2, 5))
        problem, shape, solutions = Atsp(), (size, size), tours(size)
    else:
        shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 3)))
        problem, solutions = Pmsp(), schedules(*shape)
    matrix = rng.integers(0, 30, shape) if whole else rng.uniform(0, 30, shape)
    forbidden = rng.random(shape) < share
    if problem.structure == "tour":
        np.fill_diagonal(matrix, 0)
        np.fill_diagonal(forbidden, False)
    return problem, matrix, forbidden, solutions


@given(cases())
def test_stand_ins_leave_the_best_the_best(case: Any) -> None:
    """Every permitted solution is cheaper than every other, bounds are true, and reasons are reasons."""
    problem, matrix, forbidden, solutions = case
    assume(forbidden.any())
    instance = made(problem, matrix, forbidden)
    matrix = np.where(forbidden, 0, matrix)
    stood = instance.arrays[problem.arrays[0]]
    good, bad = [], []
    for choice in solutions:
        uses = bool(forbidden[np.arange(len(choice)), choice].any())
        assert (forbidden_pair(instance, choice) is not None) == uses
        (bad if uses else good).append(cost_of(problem, stood, choice))
        if not uses:
            assert good[-1] == cost_of(problem, matrix, choice) <= highest_cost(instance)
    assert not bad or min(bad) > highest_cost(instance)
    reason = why_impossible(instance)
    assert reason is None or not good
    bound = lower_bounds(problem, instance.batch())[0]
    if good:
        assert bound <= min(good) + 1e-9
    for choice in solutions:
        (verdict,) = verify(problem, instance.batch(), choice[None])
        shown = permitted(verdict, instance, choice)
        uses = forbidden_pair(instance, choice) is not None
        assert shown.feasible != uses
        assert (shown.objective is None) == uses
        assert shown.bound is None or shown.bound <= highest_cost(instance)


@given(cases(), st.sampled_from(["exact", "search"]))
def test_solvers_find_the_best_permitted_solution(case: Any, kind: str) -> None:
    problem, matrix, forbidden, solutions = case
    assume(forbidden.any())
    solver = ("branch" if problem.structure == "tour" else "cpsat") if kind == "exact" else "highs"
    good = [
        cost_of(problem, matrix, choice) for choice in solutions if not forbidden[np.arange(len(choice)), choice].any()
    ]
    given_matrix = np.where(forbidden, np.inf, matrix)
    try:
        answer = icdc.solve(given_matrix, problem=problem, solver=solver)
    except InfeasibleError:
        assert not good
        return
    assert answer.objective == pytest.approx(min(good))
    assert answer.bound is not None
    assert answer.bound <= min(good) + 1e-6
    assert answer.reason is None


def test_why_there_is_no_solution() -> None:
    names = ("A", "B", "C", "D")

    def reason(problem: Problem, permits: list[str]) -> str | None:
        forbidden = np.array([[cell == "." for cell in row] for row in permits])
        matrix = np.ones(forbidden.shape, dtype=np.int64)
        rows = names[: len(permits)]
        columns = rows if problem.feature_sizes.same_items else ("x", "y", "z")[: forbidden.shape[1]]
        return why_impossible(made(problem, matrix, forbidden, rows=rows, columns=columns))

    assert reason(Pmsp(), ["11", "..", "1."]) == "job 'B' has no permitted machine"
    assert reason(Pmsp(), ["1.", "1.", "1."]) is None
    assert reason(Atsp(), [".11", "1..", "..1"]) == "city 'C' has no permitted city to go to"
    assert reason(Atsp(), [".1.", "1..", "11."]) == "city 'C' cannot be reached from any other"
    # A and B can only go to C
    assert (
        reason(Atsp(), ["..1.", "..1.", "11.1", "1.1."]) == "the cities A, B have only 1 permitted successors together"
    )
    # A and B go to each other, as do C and D
    assert reason(Atsp(), [".1..", "1...", "...1", "..1."]) == "there is no permitted way from city 'A' to city 'C'"
    assert reason(Atsp(), [".1..", "11..", "1..1", "..1."]) == "there is no permitted way from city 'A' to city 'C'"
    # from A and B there is a way to C and D, but none back
    assert reason(Atsp(), [".1..", "1.1.", "...1", "..1."]) == "there is no permitted way from city 'C' to city 'A'"
    assert reason(Atsp(), [".11.", "..11", "1..1", "11.."]) is None


def test_a_choice_outside_the_matrix_uses_no_pair() -> None:
    shop = made(Pmsp(), np.ones((2, 2), int), np.array([[True, True], [False, True]]))
    assert forbidden_pair(shop, np.array([-1, 0])) is None
    assert forbidden_pair(shop, np.array([5, 1])) == (1, 1)
    assert forbidden_pair(shop, np.array([1, 1])) == (0, 1)


def test_numbers_that_would_not_be_exact_are_refused() -> None:
    forbidden = np.array([[True, False], [False, False]])
    large = np.full((2, 2), 2**51)
    with pytest.raises(InputError, match="too large for an instance with forbidden pairs"):
        with_stand_ins(Pmsp(), {"durations": large}, forbidden)
    stood = with_stand_ins(Pmsp(), {"durations": large // 4}, forbidden)["durations"]
    assert stood[0, 0] == 2 * 2**49 + 1
    assert stood.dtype == np.int64
    small = np.full((2, 2), 200, dtype=np.uint8)
    assert with_stand_ins(Pmsp(), {"durations": small}, forbidden)["durations"][0, 0] == 401
    assert ceiling(small, forbidden) == 400


def test_problems_without_a_structure_have_no_forbidden_pairs() -> None:
    class Late(Pmsp):
        def cost(self, instances: Any, choice: Any) -> Any:
            return super().cost(instances, choice) + 1

    class Doubled(Atsp):
        structure = "tour"

        def cost_matrix(self, arrays: Any) -> Any:
            return 2 * super().cost_matrix(arrays)

    Doubled.structure = "tour"
    mask = np.array([[False, True], [False, False]])
    assert may_forbid(Pmsp())
    assert not may_forbid(Late())
    assert not may_forbid(Navigation())
    with pytest.raises(InputError, match="cannot have forbidden pairs"):
        with_stand_ins(Late(), {"durations": np.ones((2, 2))}, mask)
    with pytest.raises(InputError, match="its entries are not their costs"):
        with_stand_ins(Doubled(), {"distances": np.ones((2, 2))}, mask)


def test_a_bound_or_a_proof_of_a_stand_in_is_not_shown() -> None:
    instance = made(Pmsp(), np.array([[3, 4], [5, 6]]), np.array([[False, True], [True, False]]))
    assert highest_cost(instance) == 9
    choice = np.array([0, 1])
    assert permitted(Verdict(True, 6, 9), instance, choice) == Verdict(True, 6, 9)
    assert permitted(Verdict(True, 6, 10), instance, choice) == Verdict(True, 6, None)
    assert permitted(Verdict(True, 10, 10), instance, np.array([1, 1])) == Verdict(False, None, None)
    free = Instance("t", Pmsp(), {"durations": np.array([[3, 4]])})
    assert permitted(Verdict(True, 3, 100), free, np.array([0])) == Verdict(True, 3, 100)
    assert highest_cost(free) == np.inf


@pytest.mark.parametrize(
    ("matrix", "wanted"),
    [
        ([[0, 9999, 3], [4, 0, 5], [6, 7, 0]], [(0, 1)]),
        ([[0, 10**6, 3], [4, 0, 10**6], [6, 7, 0]], [(0, 1), (1, 2)]),
        ([[0, 2**31 - 1, 3], [4, 0, 5], [6, 7, 0]], [(0, 1)]),
        ([[12345, 12345, 3], [4, 12345, 5], [6, 7, 12345]], [(0, 1)]),  # as on the diagonal
        ([[0, 12345, 3], [4, 0, 5], [6, 7, 0]], []),
        ([[0, 9999, 3], [4, 0, 9000], [6, 7, 0]], [(0, 1)]),
        ([[0, 9999, 3000], [4000, 0, 5], [6000, 7, 0]], []),  # not more than a tour without it
        ([[0, 999, 3], [4, 0, 5], [6, 7, 0]], []),
        ([[0, 9999, 9999], [9999, 0, 9999], [9999, 9999, 0]], []),
        ([[0, 1e6 + 0.5, 3], [4, 0, 5], [6, 7, 0]], []),
        ([[0, 1e6, 3], [4, 0, 5], [6, 7, 0]], [(0, 1)]),
    ],
)
def test_huge_numbers(matrix: list[list[float]], wanted: list[tuple[int, int]]) -> None:
    found = huge_numbers(np.array(matrix), ignore_diagonal=True)
    assert ([] if found is None else [tuple(pair) for pair in np.argwhere(found)]) == wanted


def test_stand_ins_among_decimals_have_one_digit() -> None:
    """So that whoever counts in tenths can go on doing so."""
    arrays = {"durations": np.array([[0.1, 7.0], [0.3, 0.2]])}
    filled = with_stand_ins(Pmsp(), arrays, np.array([[False, True], [False, False]]))["durations"]
    assert filled[0, 1] == 0.9  # twice the .4 that all take at most, rounded up
