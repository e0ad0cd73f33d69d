"""The best solutions so far, and what is left to spend."""

import threading
import time

import numpy as np
import pytest

from icdc.search.run import Budget, Incumbent, cores, meets, run_all, searched, within

LARGE = 2**53 - 1


def test_an_incumbent_keeps_what_is_better_and_tells_where() -> None:
    best = Incumbent(3, 2, whole=False)
    assert best.cost.tolist() == [np.inf] * 3
    assert not best.solved.any()
    assert best.offer([[0, 1], [1, 0], [0, 0]], [5.0, 6.0, np.inf], "construction").tolist() == [True, True, False]
    assert best.solved.tolist() == [True, True, False]
    assert best.offer([[1, 1], [1, 1]], [5.0, 5.5], "search", places=[0, 1]).tolist() == [False, True]
    assert best.choice.tolist() == [[0, 1], [1, 1], [-1, -1]]
    assert best.cost.tolist() == [5.0, 5.5, np.inf]
    assert best.found_by.tolist() == ["construction", "search", ""]
    assert best.offer([2, 2], 1.0, "network", places=slice(2, 3)).tolist() == [True]
    assert best.cost[2] == 1.0


def test_bounds_only_rise_and_prove_what_meets_them() -> None:
    best = Incumbent(2, 1, whole=False)
    best.offer([[0], [0]], [10.0, 10.0], "search")
    best.raise_bound([9.0, np.nan])
    best.raise_bound([8.0, 10.0 * (1 - 1e-10)])
    assert best.bound.tolist() == [9.0, 10.0 * (1 - 1e-10)]
    assert best.proven.tolist() == [False, True]
    assert best.open() == [0]
    best.raise_bound([10.0], places=[0])
    assert best.open() == []


def test_whole_costs_are_exact() -> None:
    """Neither a float nor a tolerance comes between two integers."""
    best = Incumbent(1, 1, whole=True)
    best.raise_bound([float(LARGE - 1)])
    assert best.offer([0], LARGE, "search").all()
    assert not best.proven.any(), "one more than its bound"
    assert not best.offer([1], LARGE, "search").any()
    assert best.offer([1], LARGE - 1, "exact").all()
    assert best.proven.all()
    assert best.exact_cost.tolist() == [LARGE - 1]
    assert isinstance(best.exact_cost[0].item(), int)
    nothing = Incumbent(1, 1, whole=True)
    nothing.raise_bound([0.0])
    assert nothing.open() == [0]
    assert not nothing.offer([0], np.inf, "search").any()


def test_a_bound_of_nothing_is_met_by_nothing() -> None:
    assert meets(np.array([0, 5]), np.array([0.0, -np.inf])).tolist() == [True, False]
    # rounding is in proportion: no unit is too small, and below zero it goes the same way
    small = np.array([1e-12, 1e-12, -1e-12, -1e-12])
    assert meets(small, small * [1 - 1e-10, 1 - 1e-8, 1 + 1e-10, 1 + 1e-8]).tolist() == [True, False, True, False]


def test_a_view_of_one_instance_changes_the_whole_and_a_copy_does_not() -> None:
    best = Incumbent(3, 2, whole=True)
    one, before = best.at(1), best.copy()
    assert len(one) == 1
    assert one.offer([0, 1], 7, "construction").all()
    one.raise_bound(7)
    assert best.cost.tolist() == [np.inf, 7.0, np.inf]
    assert best.open() == [0, 2]
    assert best.choice[1].tolist() == [0, 1]
    assert best.found_by[1] == "construction"
    assert one.proven.all()
    assert not before.solved.any()
    assert before.bound[1] == -np.inf
    assert before.found_by[1] == ""
    assert before.whole


def test_threads_offer_at_once_and_nothing_is_torn() -> None:
    best = Incumbent(1, 50, whole=True)

    def work(first: int) -> None:
        for cost in range(first, 0, -2):
            best.offer(np.full(50, cost), cost, str(cost))

    threads = [threading.Thread(target=work, args=(first,)) for first in (1999, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert best.exact_cost.tolist() == [1]
    assert (best.choice == 1).all()
    assert best.found_by[0] == "1"


def test_who_improves_a_proposal_is_named_with_who_made_it() -> None:
    assert searched("network") == "network + search"
    assert searched("network + search") == "network + search"


def test_a_budget_of_seconds_runs_out_by_its_clock() -> None:
    now = [100.0]
    budget = Budget(seconds=10.0, steps=7, clock=lambda: now[0])
    assert budget.timed
    assert (budget.left, budget.seconds, budget.over) == (10.0, 10.0, False)
    now[0] = 104.0
    half = budget.share(0.5)
    assert half.left == pytest.approx(3.0)
    now[0] = 109.0
    assert half.over
    assert not budget.over
    now[0] = 111.0
    assert budget.over
    assert (budget.left, budget.share(0.5).left) == (0.0, 0.0)


def test_a_pause_costs_a_budget_nothing() -> None:
    now = [100.0]
    budget = Budget(seconds=10.0, clock=lambda: now[0])
    now[0] = 103.0
    with budget.paused():
        now[0] = 150.0
    assert (budget.spent, budget.left) == (3.0, 7.0)
    untimed = Budget(clock=lambda: now[0])
    with untimed.paused():
        now[0] = 160.0
    assert (untimed.spent, untimed.timed, untimed.over) == (0.0, False, False)


def test_a_budget_of_steps_knows_no_time() -> None:
    budget = Budget(steps=1001, searches=3)
    assert not budget.timed
    assert budget.seconds is None
    assert budget.left == np.inf
    assert not budget.over
    part = budget.share(0.5)
    assert (part.steps, part.searches, part.seconds) == (500, 3, None)
    assert budget.share(1.0, searches=1).searches == 1


def test_calling_off_ends_all_shares_and_nothing_above() -> None:
    whole = Budget(seconds=60.0)
    part = whole.share(0.5)
    small = part.share(0.5)
    part.cancel()
    assert (small.cancelled, part.over, whole.cancelled, whole.over) == (True, True, False, False)
    whole.cancel()
    assert Budget(seconds=1.0).cancelled is False
    assert whole.share(1.0).over


class Counter:
    """A search that counts its steps, each of which takes a while by a clock of its own."""

    def __init__(self, goal: float = np.inf, fails: bool = False, wait: float = 0.0) -> None:
        self.steps, self.pieces, self.goal, self.fails, self.wait = 0, [0], goal, fails, wait

    def run(self, steps: int) -> None:
        if self.fails:
            raise KeyboardInterrupt
        self.pieces.append(steps)
        self.steps += steps
        time.sleep(self.wait)

    @property
    def done(self) -> bool:
        return self.steps >= self.goal


def test_steps_are_made_by_each_whatever_the_others_do() -> None:
    searches = [Counter(goal=10), Counter(), Counter()]
    run_all(searches, Budget(steps=500))
    assert [search.steps for search in searches[1:]] == [500, 500]
    assert 10 <= searches[0].steps < 500


def test_with_seconds_all_end_when_one_is_done_or_the_time_is_over() -> None:
    searches = [Counter(wait=0.001), Counter(goal=3, wait=0.001)]
    began = time.perf_counter()
    run_all(searches, Budget(seconds=60.0))
    run_all([Counter(wait=0.001)], Budget(seconds=0.05))
    assert time.perf_counter() - began < 20
    late = Counter()
    run_all([late], Budget(seconds=0.0))
    assert late.steps == 0


def test_slices_grow_until_they_fill_a_fiftieth_of_a_second() -> None:
    now = [0.0]

    class Slow(Counter):
        def run(self, steps: int) -> None:
            super().run(steps)
            now[0] += 0.001 * steps

    slow = Slow()
    run_all([slow], Budget(seconds=1.0, clock=lambda: now[0]))
    assert slow.pieces[1:7] == [1, 2, 4, 8, 16, 20]
    assert now[0] < 1.03


def test_when_one_fails_the_others_are_called_off() -> None:
    endless = Counter(wait=0.001)
    with pytest.raises(KeyboardInterrupt):
        run_all([endless, Counter(fails=True)], Budget(steps=10**9))
    budget = Budget(seconds=60.0)
    budget.cancel()
    run_all([endless], budget)


def test_cores_are_those_that_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3,1")
    assert cores() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    assert cores() >= 1


def test_native_code_that_takes_too_long_is_left_behind() -> None:
    go_on = threading.Event()
    assert within(Budget(), lambda: 1) == 1
    assert within(Budget(10.0), lambda: 1) == 1
    assert within(Budget(0.01), lambda: go_on.wait(10)) is None
    go_on.set()
    with pytest.raises(TimeoutError, match="its own"):
        within(Budget(10.0), fail)


def fail() -> None:
    raise TimeoutError("its own")


def test_integers_that_no_real_number_holds_are_never_proven() -> None:
    """A bound that is rounded up on its way into a float64 would prove a solution that is one too dear."""
    incumbent = Incumbent(2, 1, whole=True)
    exact = 2**53 + 3  # float64 makes it 2^53 + 4
    incumbent.offer([[0], [0]], np.array([exact + 1, 2**53]), "search")
    incumbent.raise_bound([exact, 2**53])
    assert incumbent.bound[0] <= exact
    assert incumbent.proven.tolist() == [False, True]
    assert not meets(np.array([exact + 1]), np.array([float(exact + 1)])).any()
