"""Descent and tabu search for schedules against brute force."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from icdc.jit import plain
from icdc.search.run import Budget
from icdc.search.schedule_bounds import price
from icdc.search.schedule_exact import makespan
from icdc.search.schedule_moves import TabuSearch
from icdc.search.schedule_search import NEAR, construct, improve, iterate
from tests.search.tiny import durations_of, loads, random_choice, shortest_makespan

Changes = list[tuple[int, int]]


def relieving_changes(durations: NDArray[Any], choice: NDArray[np.int64], near: NDArray[np.int64]) -> Iterator[Changes]:
    """Every change of the stated neighbourhood after which all touched machines are below the makespan."""
    before = loads(durations, choice)
    top = max(before)
    machines, jobs = range(durations.shape[1]), range(len(durations))

    def helps(changes: Changes) -> bool:
        after = choice.copy()
        for job, machine in changes:
            after[job] = machine
        touched = {choice[job] for job, _ in changes} | {machine for _, machine in changes}
        now = loads(durations, after)
        return all(now[machine] < top for machine in touched)

    for full in (machine for machine in machines if before[machine] == top):
        for job in (job for job in jobs if choice[job] == full):
            yield from ([(job, m)] for m in machines if m != full and helps([(job, m)]))
            for other in (other for other in jobs if choice[other] != full):
                second = choice[other]
                if helps([(job, second), (other, full)]):
                    yield [(job, second), (other, full)]
                for third in machines:
                    if second not in near[job] or third not in near[other] or third in (full, second):
                        continue
                    chain = [(job, second), (other, third)]
                    lasts = [(last, full) for last in jobs if choice[last] == third]
                    yield from (c for c in [chain, *([*chain, last] for last in lasts)] if helps(c))


@pytest.mark.parametrize("whole", [True, False])
def test_a_descent_is_never_worse_and_ends_at_a_local_optimum(whole: bool) -> None:
    changed = 0
    for seed in range(40):
        durations = durations_of(seed, whole, jobs=9, machines=4)
        start, prices = random_choice(seed, durations), price(durations)
        end = improve(durations, start, prices, Budget())
        assert makespan(durations, end) <= makespan(durations, start)
        near = np.argsort(prices.reduced, axis=1)[:, :NEAR]
        assert next(relieving_changes(durations, end, near), None) is None
        changed += next(relieving_changes(durations, start, near), None) is not None
    assert changed > 20  # the check above has something to find where nothing was improved


@pytest.mark.parametrize(
    ("durations", "choice", "after"),
    [
        # full: 0 with jobs 0 and 1 (5 + 5); job 0 may go to machine 1 only, job 2 on to machine 2 only
        ([[5, 4, 50], [5, 50, 50], [50, 6, 3], [50, 50, 4]], [0, 0, 1, 2], [5, 4, 7]),
        # the same with machine 2 so full that one of its jobs has to come back to machine 0
        ([[5, 4, 50], [5, 50, 50], [50, 6, 3], [4, 50, 7]], [0, 0, 1, 2], [9, 4, 3]),
        # two fullest machines
        ([[4, 9, 1], [4, 9, 9], [9, 4, 9], [9, 4, 1]], [0, 0, 1, 1], [4, 4, 2]),
    ],
)
def test_chains_help_where_no_exchange_does_and_plateaus_are_left(
    durations: list[list[int]], choice: list[int], after: list[int]
) -> None:
    matrix = np.array(durations)
    assert loads(matrix, improve(matrix, np.array(choice), price(matrix), Budget())) == after


def test_a_descent_takes_batches_of_any_shape_and_goes_as_far_as_time_allows() -> None:
    durations = durations_of(1, jobs=30, machines=4)
    prices = price(durations)
    choices = np.stack([random_choice(seed, durations) for seed in range(6)])
    together = improve(durations, choices.reshape(2, 3, -1), prices, Budget())
    assert together.shape == (2, 3, 30)
    for one, alone in zip(choices, together.reshape(6, -1), strict=True):
        for budget in (Budget(), Budget(60.0)):
            np.testing.assert_array_equal(improve(durations, one, prices, budget), alone)
        np.testing.assert_array_equal(improve(durations, one, prices, Budget(0.0)), one)
    assert (makespan(durations, together.reshape(6, -1)) < makespan(durations, choices)).all()


@pytest.mark.parametrize("choice", [[0, 2], [0, -1], [0]])
def test_wrong_choices_are_refused(choice: list[int]) -> None:
    durations = np.array([[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="machine from 0 to 1 for each of 2 jobs"):
        improve(durations, np.array(choice), price(durations), Budget())


def searched(durations: NDArray[Any], choice: NDArray[np.int64], budget: Budget, seed: int = 0) -> NDArray[np.int64]:
    prices = price(durations)
    return iterate(durations, choice, prices, budget, prices.bound, seed)


@pytest.mark.parametrize("whole", [True, False])
def test_tabu_search_finds_optima_of_tiny_instances(whole: bool) -> None:
    for seed in range(30):
        durations = durations_of(seed, whole)
        best = searched(durations, random_choice(seed, durations), Budget(steps=600), seed)
        # real durations: the search does not look for gains below a ten-thousandth
        assert max(loads(durations, best)) <= shortest_makespan(durations) * (1 if whole else 1 + 2e-4)


def test_tabu_search_is_never_worse_than_its_start_and_ends_at_the_bound() -> None:
    durations = np.array([[2, 9], [9, 2]])
    assert searched(durations, np.array([0, 1]), Budget(steps=10**12)).tolist() == [0, 1]
    large = 2**61
    durations = np.array([[large + 1, large], [3, 1], [large, large + 3]])
    assert makespan(durations, searched(durations, np.array([0, 0, 1]), Budget(steps=50))) == large + 1
    durations = durations_of(2, jobs=30, machines=5)
    start = construct(durations, Budget()).choice
    assert makespan(durations, searched(durations, start, Budget(steps=1))) <= makespan(durations, start)


def test_tabu_search_depends_on_seed_and_steps_alone_however_the_clock_slices_it() -> None:
    durations = durations_of(1, jobs=40, machines=8)
    start = random_choice(0, durations)
    ticks = iter(np.cumsum(np.random.default_rng(0).random(100_000)))
    once = searched(durations, start, Budget(steps=300), 4)
    np.testing.assert_array_equal(once, searched(durations, start, Budget(steps=300, clock=lambda: next(ticks)), 4))
    two = [searched(durations, start, Budget(steps=300, searches=2), 4) for _ in range(2)]
    np.testing.assert_array_equal(two[0], two[1])
    assert makespan(durations, two[0]) <= makespan(durations, once)


def test_a_search_that_found_nothing_for_long_is_kicked() -> None:
    durations = durations_of(1, jobs=8, machines=3)
    search = TabuSearch(durations, price(durations).scaled(), random_choice(0, durations), 0.0, seed=1)
    search.run(4 * search.patience)
    assert 2 <= search.counters.kicks[0] <= 4
    assert search.best[0] == max(loads(durations, search.best_choice)) == shortest_makespan(durations)


@pytest.mark.parametrize("whole", [True, False])
def test_compiled_and_plain_give_the_same_answers(whole: bool) -> None:
    durations = durations_of(3, whole, jobs=20, machines=5)
    start, prices = random_choice(3, durations), price(durations)

    def both() -> list[NDArray[np.int64]]:
        return [improve(durations, start, prices, Budget()), searched(durations, start, Budget(steps=400), 3)]

    fast = both()
    with plain():
        np.testing.assert_array_equal(fast, both())
