"""Masks read off matrices: exact for stand-ins, never at the cost of an optimum, and blind to how large they are."""

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from icdc.problems import Problem
from icdc.problems.atsp import Atsp
from icdc.problems.decoding import decode, log_probability
from icdc.problems.forbidden import permitted_in, with_stand_ins
from icdc.problems.pmsp import Pmsp
from icdc.problems.task import Task
from icdc.problems.tensors import FAR, neutral, permitted_mean, permitted_pairs, to_tensors
from icdc.solving.verify import judge

PROBLEMS = (Pmsp(), Atsp())


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
