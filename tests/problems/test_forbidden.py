"""Forbidden pairs: exact stand-ins, masks read off matrices, true bounds, reasons that hold, and repairs."""

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

import icdc
from icdc.errors import InfeasibleError, InputError
from icdc.problems import Instance, Navigation, Problem
from icdc.problems.atsp import Atsp
from icdc.problems.decoding import decode, log_probability
from icdc.problems.forbidden import (
    ceiling,
    forbidden_pair,
    highest_cost,
    huge_numbers,
    may_forbid,
    permitted_in,
    why_impossible,
    with_stand_ins,
    without_forbidden,
)
from icdc.problems.pmsp import Pmsp
from icdc.problems.task import Task
from icdc.problems.tensors import FAR, neutral, permitted_mean, permitted_pairs, to_tensors
from icdc.search.structures import structure_of
from icdc.solving.answer import judge, judge_answer, lower_bounds, make_answer


def made(problem: Problem, matrix: NDArray[Any], forbidden: NDArray[np.bool_], **names: Any) -> Instance:
    """Return an instance with stand-ins."""
    arrays = with_stand_ins(problem, {problem.arrays[0]: matrix}, forbidden)
    return Instance("t", problem, arrays, forbidden=forbidden, **names)


def solutions(problem: Problem, rows: int, columns: int) -> NDArray[np.int64]:
    """Return every solution of a tiny size, (count, rows)."""
    if problem.structure == "makespan":
        return np.array(list(product(range(columns), repeat=rows)))
    found = []
    for rest in permutations(range(1, rows)):
        order = np.array([0, *rest])
        choice = np.empty(rows, dtype=np.int64)
        choice[order] = np.roll(order, -1)
        found.append(choice)
    return np.array(found)


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
        problem, shape = Atsp(), (size, size)
    else:
        shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 3)))
        problem = Pmsp()
    matrix = rng.integers(0, 30, shape) if whole else rng.uniform(0, 30, shape)
    forbidden = rng.random(shape) < share
    if problem.structure == "tour":
        np.fill_diagonal(matrix, 0)
        np.fill_diagonal(forbidden, False)
    return problem, matrix, forbidden, list(solutions(problem, *shape))


@given(cases())
def test_stand_ins_leave_the_best_the_best(case: Any) -> None:
    """Every permitted solution is cheaper than every other, bounds are true, and reasons are reasons."""
    problem, matrix, forbidden, every = case
    assume(forbidden.any())
    instance = made(problem, matrix, forbidden)
    matrix = np.where(forbidden, 0, matrix)
    stood = instance.arrays[problem.arrays[0]]
    good, bad = [], []
    for choice in every:
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
    for choice in every:
        shown = judge_answer(instance, choice)
        uses = forbidden_pair(instance, choice) is not None
        assert shown.feasible != uses
        assert (shown.objective is None) == uses
        assert shown.bound is None or shown.bound <= highest_cost(instance)


@given(cases(), st.sampled_from(["exact", "search"]))
def test_solvers_find_the_best_permitted_solution(case: Any, kind: str) -> None:
    problem, matrix, forbidden, every = case
    assume(forbidden.any())
    solver = ("branch" if problem.structure == "tour" else "cpsat") if kind == "exact" else "highs"
    good = [cost_of(problem, matrix, choice) for choice in every if not forbidden[np.arange(len(choice)), choice].any()]
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
    for bound, shown in ((6, 6), (9, None), (10, None)):
        answer = make_answer(instance, instance, np.array([0, 1]), 6, bound)
        assert (answer.objective, answer.bound) == (6, shown)
    assert judge_answer(instance, np.array([1, 1]), 8).objective is None
    assert (
        make_answer(instance, instance, np.array([1, 1]), None, 9).bound == 9
    )  # what permitted solutions cost at most
    assert make_answer(instance, instance, np.array([1, 1]), None, 10).bound is None
    free = Instance("t", Pmsp(), {"durations": np.array([[3, 4]])})
    assert make_answer(free, free, np.array([0]), None, 100).bound == 100
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


PROBLEMS = (Pmsp(), Atsp())


def a_mask(problem: Problem, shape: tuple[int, int], share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Forbid a share of the pairs, but none of one random solution."""
    forbidden = rng.random(shape) < share
    if problem.structure == "tour":
        order = rng.permutation(shape[0])
        forbidden[order, np.roll(order, -1)] = False
        np.fill_diagonal(forbidden, False)
    else:
        forbidden[np.arange(shape[0]), rng.integers(0, shape[1], shape[0])] = False
    return forbidden


def masked_batch(
    problem: Problem, size: tuple[int, ...], count: int, share: float, seed: int = 0
) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
    """Return instances with stand-ins, and which pairs are forbidden."""
    rng = np.random.default_rng(seed)
    (name,) = problem.arrays
    matrices = problem.sample(count, size, rng)[name]
    forbidden = np.stack([a_mask(problem, matrix.shape, share, rng) for matrix in matrices])
    made = [with_stand_ins(problem, {name: m}, f)[name] for m, f in zip(matrices, forbidden, strict=True)]
    return {name: np.stack(made)}, forbidden


@given(st.integers(0, 10**6), st.sampled_from(PROBLEMS), st.booleans(), st.sampled_from([0.2, 0.5]))
def test_stand_ins_are_recognised_exactly(seed: int, problem: Problem, whole: bool, share: float) -> None:
    rng = np.random.default_rng(seed)
    shape = (5, 5) if problem.structure == "tour" else (int(rng.integers(1, 7)), int(rng.integers(2, 5)))
    matrix = rng.integers(0, 30, shape) if whole else rng.uniform(0, 30, shape)
    tour = problem.structure == "tour"
    if tour:
        np.fill_diagonal(matrix, 0)
    forbidden = a_mask(problem, shape, share, rng)
    if not forbidden.any():
        return
    (name,) = problem.arrays
    stood = with_stand_ins(problem, {name: matrix}, forbidden)
    assert (permitted_in(stood[name][None], tour)[0] == ~forbidden).all()
    mask = problem.permitted(to_tensors({name: stood[name][None]}))
    assert mask is not None
    assert (mask[0].numpy() == ~forbidden).all()


@given(st.integers(0, 10**6), st.sampled_from(PROBLEMS), st.integers(1, 3))
def test_no_optimum_is_lost(seed: int, problem: Problem, kinds: int) -> None:
    """Whatever the numbers: of all best solutions one does with the permitted pairs, unless no tour does at all."""
    rng = np.random.default_rng(seed)
    shape = (4, 4) if problem.structure == "tour" else (3, 3)
    matrix = rng.integers(0, 5, shape) * 10 ** rng.integers(0, kinds, shape)
    tour = problem.structure == "tour"
    permitted = permitted_in(matrix[None], tour)
    assert np.array_equal(permitted, permitted_pairs(torch.from_numpy(matrix[None]), tour).numpy())
    every = solutions(problem, *shape)
    (name,) = problem.arrays
    feasible, cost = judge(problem, {name: np.repeat(matrix[None], len(every), 0)}, every)
    kept = permitted[0][np.arange(len(matrix)), every].all(1)
    assert feasible.all()
    if kept.any():
        assert cost[kept].min() == cost.min()
    assert kept.any() or tour
    # rows always keep a pair to choose
    assert permitted[0].any(1).all()


@pytest.mark.parametrize(
    ("matrix", "tour", "left_out"),
    [
        ([[1, 6], [3, 4]], False, [(0, 1)]),  # more than 1 + 4
        ([[1, 5], [3, 4]], False, []),
        ([[9, 9], [3, 4]], False, []),  # the first job has no other machine
        ([[1, -9], [3, 40]], False, []),  # with negative numbers large ones may pay
        ([[0, 1, 99], [2, 0, 3], [4, 5, 0]], True, [(0, 2)]),
        ([[0, 1, 99], [2, 0, 99], [4, 5, 0]], True, []),  # nobody else goes to the third city
        ([[99, 1, 2], [2, 99, 3], [4, 5, 99]], True, []),  # the diagonal does not count
        ([[0, 7], [5, 0]], True, []),
    ],
)
def test_what_can_only_mean_forbidden(matrix: list[list[int]], tour: bool, left_out: list[tuple[int, int]]) -> None:
    for numbers in (np.array([matrix]), np.array([matrix], dtype=np.float64)):
        assert list(map(tuple, np.argwhere(~permitted_in(numbers, tour)[0]).tolist())) == left_out
        found = permitted_pairs(torch.from_numpy(numbers), tour)[0]
        assert list(map(tuple, (~found).nonzero().tolist())) == left_out


def test_forbidden_entries_look_like_large_ones() -> None:
    matrix = torch.tensor([[[2, 100, 4], [100, 6, 8]], [[1, 2, 3], [4, 5, 6]]])
    permitted = permitted_pairs(matrix)
    assert permitted[1].all()
    seen = neutral(matrix, permitted)
    assert seen.tolist() == [[[2, 8 * FAR, 4], [8 * FAR, 6, 8]], [[1, 2, 3], [4, 5, 6]]]
    assert permitted_mean(seen, permitted, 2).squeeze(2).tolist() == [[3, 7], [2, 5]]
    assert permitted_mean(seen, permitted, (1, 2)).flatten().tolist() == [5, 3.5]
    halves = neutral(matrix.float(), permitted)
    assert halves.dtype == torch.float32


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_features_do_not_depend_on_how_large_a_stand_in_is(problem: Problem) -> None:
    """Neither those of the shipped models nor priced ones; and a forbidden pair is never a candidate before others."""
    (name,) = problem.arrays
    size = (12, 8) if problem.structure == "makespan" else (12,)
    arrays, forbidden = masked_batch(problem, size, 3, 0.3)
    larger = {name: np.where(forbidden, 10**9, arrays[name])}
    plain = problem.sample(3, size, np.random.default_rng(0))
    for features in (problem.features, problem.priced_features):
        here, there = (features(to_tensors(some)).relations for some in (arrays, larger))
        assert here.isfinite().all()
        torch.testing.assert_close(here, there)
        # of the order of what a network has seen without any
        assert here.abs().max() <= 2 * features(to_tensors(plain)).relations.abs().max() + 1
    described = problem.priced_features(to_tensors(arrays), 3)
    assert described.candidates is not None
    chosen = described.candidates.of(torch.from_numpy(~forbidden))
    assert chosen.float().mean() > 0.98


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_features_without_forbidden_pairs_are_what_they_were(problem: Problem) -> None:
    """The mean of permitted entries is the mean, to the last bit: shipped models answer as before."""
    (name,) = problem.arrays
    size = (20, 4) if problem.structure == "makespan" else (20,)
    batch = to_tensors(problem.sample(5, size, np.random.default_rng(3)))
    raw = problem.features(batch).relations[..., 0]
    matrix = batch[name].float()
    if problem.structure == "makespan":
        assert torch.equal(raw, matrix / matrix.mean((1, 2), keepdim=True) - 1.0)
    else:
        assert torch.equal(raw, matrix / (matrix.sum((1, 2), keepdim=True) / (20 * 19)))


@pytest.mark.parametrize("share", [0.1, 0.4])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_starts_and_local_search_use_no_forbidden_pair(problem: Problem, share: float) -> None:
    size = (15, 4) if problem.structure == "makespan" else (15,)
    arrays, forbidden = masked_batch(problem, size, 6, share)
    instances = to_tensors(arrays)
    for choice in (problem.construct(instances, 6).choice, problem.construct(instances, 1).choice):
        used = torch.from_numpy(forbidden)[:, None].expand(-1, choice.shape[1], -1, -1).gather(3, choice[..., None])
        best = problem.cost(instances, choice).argmin(1)
        assert not used[torch.arange(6), best].any()
        assert problem.structure == "tour" or not used.any()


@pytest.mark.parametrize("order", ["rule", "confidence", "loads"])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_a_task_decodes_what_instances_permit(problem: Problem, order: str) -> None:
    """Though all that is forbidden is far more probable; and log p̂ of what was drawn is that of permitted choices."""
    if problem.structure == "tour" and order == "loads":
        return
    size = (8, 4) if problem.structure == "makespan" else (8,)
    arrays, forbidden = masked_batch(problem, size, 4, 0.2)
    task = Task(problem, to_tensors(arrays))
    mask = task.mask(1)
    assert mask is not None
    assert (mask.numpy() == ~forbidden).all()
    log_odds = torch.randn(4, task.rows, task.columns) + 30.0 * torch.from_numpy(forbidden)
    times = task.times() if order == "loads" else None
    choice = decode(problem.rule, log_odds, order=order, mask=mask, times=times)  # type: ignore[arg-type]
    used = torch.from_numpy(forbidden).gather(2, choice[..., None]).float().mean()
    assert used == 0 if problem.structure == "makespan" else used < 0.1
    if order != "confidence":
        log_p = log_probability(problem.rule, log_odds, choice, None, mask, order=order, times=times)  # type: ignore[arg-type]
        assert (log_p > -20.0).all()


def test_loads_are_measured_without_stand_ins() -> None:
    arrays, forbidden = masked_batch(Pmsp(), (10, 4), 3, 0.3)
    times = Task(Pmsp(), to_tensors(arrays)).times()
    assert times.max() == FAR * arrays["durations"][~forbidden].max()


def test_a_task_knows_by_itself_whether_pairs_are_forbidden() -> None:
    plain = to_tensors(Pmsp().sample(3, (10, 4), np.random.default_rng(0)))
    assert Task(Pmsp(), plain).mask(2) is None
    known = Task(Pmsp(), plain, masked=True).mask(2)
    assert known is not None
    assert known.shape == (6, 10, 4)
    assert known.all()
    masked = to_tensors(masked_batch(Pmsp(), (10, 4), 3, 0.3)[0])
    assert Task(Pmsp(), masked).mask(1) is not None
    assert Task(Pmsp(), masked, masked=False).mask(1) is None


def test_a_problem_with_another_cost_reads_no_mask_off_its_matrix() -> None:
    class Late(Pmsp):
        def cost(self, instances: Any, choice: Any) -> Any:
            return super().cost(instances, choice) + 1

    class Squared(Atsp):
        def cost(self, instances: Any, choice: Any) -> Any:
            return super().cost(instances, choice) ** 2

    for problem in (Late(), Squared()):
        size = (6, 3) if isinstance(problem, Pmsp) else (6,)
        drawn = problem.sample(1, size, np.random.default_rng(0))
        assert problem.permitted(to_tensors(drawn)) is None


@pytest.mark.parametrize("jobs", [6, 300])
def test_bounds_leave_forbidden_pairs_out(jobs: int) -> None:
    """Where a machine costs nothing in the linear program, a stand-in there must not count as cheap."""
    rng = np.random.default_rng(1)
    machines = 20 if jobs > 10 else 3
    durations = rng.integers(1, 20, (jobs, machines))
    forbidden = np.zeros((jobs, machines), dtype=bool)
    forbidden[1:, -1] = True  # the last machine is for the first job alone, and has time to spare
    stood = with_stand_ins(Pmsp(), {"durations": durations}, forbidden)["durations"]
    without = Pmsp().lower_bound({"durations": durations[None, 1:, :-1]})[0]
    assert Pmsp().lower_bound({"durations": stood[None]})[0] >= without


def a_tour(size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    order = rng.permutation(size)
    choice = np.empty(size, dtype=np.int64)
    choice[order] = np.roll(order, -1)
    return choice


def used(permitted: NDArray[np.bool_], choice: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many forbidden pairs choices (count, rows) use."""
    return (~np.take_along_axis(permitted, choice[:, :, None], 2)).sum((1, 2))


@given(st.integers(0, 10**6), st.sampled_from([0.3, 0.6]))
def test_tours_do_without_wherever_that_is_possible(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(3, 7))
    matrices, starts = [], []
    for _ in range(3):
        matrix, forbidden = rng.integers(1, 50, (size, size)), rng.random((size, size)) < share
        np.fill_diagonal(matrix, 0)
        np.fill_diagonal(forbidden, False)
        free = ~forbidden & ~np.eye(size, dtype=bool)
        possible = forbidden.any() and free.any(1).all() and free.any(0).all()
        matrices.append(with_stand_ins(Atsp(), {"distances": matrix}, forbidden)["distances"] if possible else matrix)
        starts.append(a_tour(size, rng))
    costs, choice = np.stack(matrices), np.stack(starts)
    permitted = permitted_in(costs, tour=True)
    before = choice.copy()
    found = without_forbidden("tour", costs, choice)
    assert np.array_equal(choice, before)
    assert structure_of("tour").judge(costs, found)[0].all()
    for one, allowed, new, old in zip(costs, permitted, found, before, strict=True):
        tours = (np.array([0, *rest]) for rest in permutations(range(1, size)))
        exists = any(allowed[order, np.roll(order, -1)].all() for order in tours)
        assert (used(allowed[None], new[None])[0] == 0) == exists
        if used(allowed[None], old[None])[0] == 0:
            assert np.array_equal(new, old)
        assert one[np.arange(size), new].sum() <= one[np.arange(size), old].sum()


def test_schedules_do_without() -> None:
    rng = np.random.default_rng(0)
    durations = rng.integers(1, 9, (6, 3))
    forbidden = rng.random((6, 3)) < 0.5
    forbidden[np.arange(6), rng.integers(0, 3, 6)] = False
    costs = with_stand_ins(Pmsp(), {"durations": durations}, forbidden)["durations"]
    every = np.array(list(product(range(3), repeat=6)))
    batch = np.repeat(costs[None], len(every), 0)
    found = without_forbidden("makespan", batch, every)
    assert (used(permitted_in(batch), found) == 0).all()
    clean = used(permitted_in(batch), every) == 0
    assert np.array_equal(found[clean], every[clean])


def test_what_cannot_be_mended_stays_within_its_time() -> None:
    """Two groups that meet in one city: every tour takes a forbidden step."""
    apart = np.ones((7, 7), dtype=bool)
    apart[:4, :4] = apart[3:, 3:] = False
    costs = np.where(apart, 100, 1)
    tour = a_tour(7, np.random.default_rng(2))
    found = without_forbidden("tour", costs[None], tour[None])
    assert used(~apart[None], found)[0] <= used(~apart[None], tour[None])[0]
    assert structure_of("tour").judge(costs[None], found)[0].all()
    assert structure_of("tour").impossible(~apart)
    assert not structure_of("tour").impossible(np.ones((7, 7), dtype=bool))
    # where every tour takes such a step, none becomes dearer for having as few of them
    needed = np.array([[0, 0, 5], [2, 0, 0], [5, 0, 0]])
    for order in ([0, 1, 2], [0, 2, 1]):
        before = Atsp().choice(order)[None]
        after = without_forbidden("tour", needed[None], before)
        assert structure_of("tour").judge(needed[None], after)[1] <= structure_of("tour").judge(needed[None], before)[1]
    # with no time at all a tour that could be mended stays what it was
    ring = np.roll(np.eye(7, dtype=bool), 1, 1)
    costs = np.where(ring, 1, 100)[None]
    assert used(ring[None], without_forbidden("tour", costs, tour[None]))[0] == 0
    assert np.array_equal(without_forbidden("tour", costs, tour[None], -1.0)[0], tour)


def test_no_repair_makes_a_solution_dearer(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = np.array([[[0, 0, 5], [2, 0, 0], [5, 0, 0]]])  # every tour takes a step that stands for a forbidden one
    cheap, dear = Atsp().choice([0, 1, 2])[None], Atsp().choice([0, 2, 1])[None]
    monkeypatch.setattr(structure_of("tour"), "repair", lambda *arguments: dear[0])
    assert np.array_equal(without_forbidden("tour", needed, cheap), cheap)


def test_nothing_is_copied_where_nothing_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(structure_of("tour"), "repair", never)
    choice = np.stack([a_tour(5, np.random.default_rng(seed)) for seed in range(3)])
    costs = np.random.default_rng(0).integers(1, 9, (3, 5, 5))
    assert without_forbidden("tour", costs, choice) is choice
