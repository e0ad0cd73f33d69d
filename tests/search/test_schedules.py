"""Construction, descent and tabu search for schedules against brute force."""

import time
from itertools import permutations

import numpy as np
import pytest

from icdc.jit import plain
from icdc.search.run import Budget
from icdc.search.schedule_prices import price
from icdc.search.schedule_tabu import KICKS, Tabu
from icdc.search.schedules import NEAR, construct, improve, iterate, makespan
from tests.search.tiny import instance, loads, optimum, random_choice


def _relieving_changes(durations, allowed, choice, near):
    """Every change of the stated neighbourhood after which all touched machines are below the makespan."""
    before = loads(durations, choice)
    top = max(before)
    machines, jobs = range(durations.shape[1]), range(len(durations))
    usable = np.ones(durations.shape, bool) if allowed is None else allowed

    def try_out(changes):
        if not all(usable[job, machine] for job, machine in changes):
            return False
        after = choice.copy()
        for job, machine in changes:
            after[job] = machine
        touched = {choice[job] for job, _ in changes} | {machine for _, machine in changes}
        now = loads(durations, after)
        return all(now[machine] < top for machine in touched)

    for full in (machine for machine in machines if before[machine] == top):
        for job in (job for job in jobs if choice[job] == full):
            yield from ([(job, m)] for m in machines if m != full and try_out([(job, m)]))
            for other in (other for other in jobs if choice[other] != full):
                if try_out([(job, choice[other]), (other, full)]):
                    yield [(job, choice[other]), (other, full)]
                second = choice[other]
                for third in machines:
                    if second not in near[job] or third not in near[other] or third in (full, second):
                        continue
                    chain = [(job, second), (other, third)]
                    lasts = [(last, full) for last in jobs if choice[last] == third]
                    yield from (c for c in [chain, *([*chain, last] for last in lasts)] if try_out(c))


@pytest.mark.parametrize("whole", [True, False])
def test_improve_is_never_worse_obeys_the_mask_and_ends_at_a_local_optimum(whole: bool) -> None:
    changed = 0
    for seed in range(40):
        durations, allowed = instance(seed, whole, jobs=9, machines=4)
        start = random_choice(seed, durations, allowed)
        end = improve(durations, start, allowed)
        assert makespan(durations, end) <= makespan(durations, start)
        assert allowed is None or allowed[np.arange(9), end].all()
        near = np.argsort(price(durations, allowed).given, axis=1)[:, :NEAR]
        assert next(_relieving_changes(durations, allowed, end, near), None) is None
        changed += next(_relieving_changes(durations, allowed, start, near), None) is not None
    assert changed > 20  # the check above has something to find where nothing was improved


def test_improve_finds_a_chain_where_no_move_or_exchange_helps() -> None:
    # full: 0 with jobs 0 and 1 (5 + 5); job 0 may go to machine 1 only, job 2 on to machine 2 only: no exchange helps
    far = 50
    durations = np.array([[5, 4, far], [5, far, far], [far, 6, 3], [far, far, 4]])
    end = improve(durations, np.array([0, 0, 1, 2]))
    assert loads(durations, end) == [5, 4, 7]
    # the same with machine 2 so full that one of its jobs has to come back to machine 0
    durations = np.array([[5, 4, far], [5, far, far], [far, 6, 3], [4, far, 7]])
    end = improve(durations, np.array([0, 0, 1, 2]))
    assert loads(durations, end) == [9, 4, 3]


def test_improve_leaves_a_plateau_of_two_fullest_machines() -> None:
    durations = np.array([[4, 9, 1], [4, 9, 9], [9, 4, 9], [9, 4, 1]])
    assert loads(durations, improve(durations, np.array([0, 0, 1, 1]))) == [4, 4, 2]


def test_improve_takes_batches_of_any_shape() -> None:
    durations, _ = instance(1)
    choices = np.stack([random_choice(seed, durations, None) for seed in range(6)]).reshape(2, 3, -1)
    prices = price(durations)
    together = improve(durations, choices, prices=prices)
    assert together.shape == choices.shape
    for one, alone in zip(choices.reshape(6, -1), together.reshape(6, -1), strict=True):
        np.testing.assert_array_equal(improve(durations, one, prices=prices), alone)


def test_makespan_is_exact_for_large_integers() -> None:
    large = 2**61
    durations = np.array([[large + 1, large], [3, 1], [large, large + 3]])
    assert makespan(durations, np.array([0, 0, 1])) == large + 4
    found = iterate(durations, np.array([0, 0, 1]), Budget(steps=50))
    assert makespan(durations, found) == large + 1


@pytest.mark.parametrize("whole", [True, False])
def test_construct_gives_allowed_starts_sorted_and_a_bound_below_the_optimum(whole: bool) -> None:
    for seed in range(30):
        durations, allowed = instance(seed, whole)
        starts = construct(durations, allowed)
        best = optimum(durations, allowed)
        assert starts.prices.bound <= best
        assert starts.makespans[0] >= best * (1 - 1e-12)
        assert (np.diff(starts.makespans) >= 0).all()
        for choice, value in zip(starts.choices, starts.makespans, strict=True):
            assert max(loads(durations, choice)) == pytest.approx(value)
            assert allowed is None or allowed[np.arange(len(choice)), choice].all()


@pytest.mark.parametrize("whole", [True, False])
def test_iterate_finds_optima_of_tiny_instances(whole: bool) -> None:
    for seed in range(30):
        durations, allowed = instance(seed, whole)
        start = random_choice(seed, durations, allowed)
        found = iterate(durations, start, Budget(steps=600), allowed, seed=seed)
        assert allowed is None or allowed[np.arange(len(start)), found].all()
        # real durations: the search does not look for gains below a ten-thousandth
        assert max(loads(durations, found)) <= optimum(durations, allowed) * (1 if whole else 1 + 2e-4)


def test_iterate_is_never_worse_than_its_start_and_ends_when_it_meets_the_bound() -> None:
    durations = np.array([[2, 9], [9, 2]])
    assert iterate(durations, np.array([0, 1]), Budget(steps=10**12)).tolist() == [0, 1]
    durations, _ = instance(2, jobs=30, machines=5)
    start = construct(durations).choices[0]
    assert makespan(durations, iterate(durations, start, Budget(steps=1))) <= makespan(durations, start)


def test_iterate_depends_on_seed_and_iterations_alone_however_the_clock_slices_it() -> None:
    durations, _ = instance(1, jobs=40, machines=8)
    start = random_choice(0, durations, None)
    ticks = iter(np.cumsum(np.random.default_rng(0).random(100_000)))
    once = iterate(durations, start, Budget(steps=300), seed=4)
    again = iterate(durations, start, Budget(steps=300, clock=lambda: next(ticks)), seed=4)
    np.testing.assert_array_equal(once, again)
    two = [iterate(durations, start, Budget(steps=300, searches=2), seed=4) for _ in range(2)]
    np.testing.assert_array_equal(two[0], two[1])
    assert makespan(durations, two[0]) <= makespan(durations, once)


def test_a_search_that_found_nothing_for_long_is_kicked() -> None:
    durations, _ = instance(1, jobs=8, machines=3)
    prices = price(durations)
    search = Tabu(durations, prices.scaled(), random_choice(0, durations, None), 0.0, seed=1)
    search.run(4 * search.patience)
    assert 2 <= search.counters[KICKS] <= 4
    assert search.best[0] == max(loads(durations, search.best_choice)) == optimum(durations, None)


def test_compiled_and_plain_give_the_same_answers() -> None:
    for seed, whole in permutations([3, 4], 2):
        durations, allowed = instance(seed, bool(whole % 2), jobs=20, machines=5)
        start = random_choice(seed, durations, allowed)
        fast = (
            improve(durations, start, allowed),
            iterate(durations, start, Budget(steps=400), allowed, seed=seed),
        )
        with plain():
            slow = (
                improve(durations, start, allowed),
                iterate(durations, start, Budget(steps=400), allowed, seed=seed),
            )
        np.testing.assert_array_equal(fast, slow)


def test_iterate_keeps_its_time_limit() -> None:
    durations = np.random.default_rng(0).integers(1, 20, (300, 20)) + np.arange(1, 301)[:, None]
    start = construct(durations)
    iterate(durations, start.choices[0], Budget(steps=3), prices=start.prices)  # compiles
    for plainly in (False, True):
        begin = time.process_time()
        if plainly:
            with plain():
                iterate(durations, start.choices[0], Budget(seconds=0.3, clock=time.process_time), prices=start.prices)
        else:
            iterate(durations, start.choices[0], Budget(seconds=0.3, clock=time.process_time), prices=start.prices)
        assert time.process_time() - begin < 1.0


def test_a_large_instance_has_a_start_and_a_bound_in_little_memory_and_time() -> None:
    durations = np.random.default_rng(1).integers(1, 101, (2000, 100))
    construct(durations[:20, :4])  # compiles
    begin = time.process_time()
    starts = construct(durations, seconds=1.0)
    assert time.process_time() - begin < 6
    assert starts.prices.bound <= starts.makespans[0] <= 1.1 * starts.prices.bound


def test_improve_with_a_time_limit_goes_as_far_as_it_allows() -> None:
    durations, _ = instance(1, jobs=30, machines=4)
    start = random_choice(0, durations, None)
    np.testing.assert_array_equal(improve(durations, start, seconds=60.0), improve(durations, start))
    np.testing.assert_array_equal(improve(durations, start, seconds=0.0), start)
    assert makespan(durations, improve(durations, start)) < makespan(durations, start)


@pytest.mark.parametrize(
    ("choice", "allowed", "message"),
    [
        ([0, 2], None, "machine from 0 to 1 for each of 2 jobs"),
        ([0, -1], None, "machine from 0 to 1 for each of 2 jobs"),
        ([0], None, "machine from 0 to 1 for each of 2 jobs"),
        ([0, 0], [[True, True], [False, True]], "not allowed"),
        ([0, 0], [[True, True], [False, False]], "no machine"),
    ],
)
def test_wrong_choices_are_refused(choice, allowed, message) -> None:
    durations = np.array([[1, 2], [3, 4]])
    mask = None if allowed is None else np.array(allowed)
    with pytest.raises(ValueError, match=message):
        improve(durations, np.array(choice), mask)
    with pytest.raises(ValueError, match=message):
        iterate(durations, np.array(choice), Budget(steps=1), mask)
