"""The search for tours: checked against enumeration on tiny instances, its parts, limits and proofs."""

import threading
import time
from itertools import combinations, count

import numpy as np
import pytest
from numpy.typing import NDArray

from icdc.jit import plain
from icdc.search import tour_search
from icdc.search.run import Budget
from icdc.search.tour_bounds import Prices
from icdc.search.tour_branching import cycles_of, is_tour, length
from icdc.search.tour_moves import kicks
from icdc.search.tour_search import (
    IteratedSearch,
    Neighbourhood,
    TourSearch,
    construct,
    improve,
    iterate,
    neighbourhood,
    tour_of,
)
from tests.families import TOURS
from tests.families import distances_of as family
from tests.search import tiny
from tests.search.tiny import random_tour, run, successors

SIZE = 9


def area_of(distances: NDArray[np.generic], **options: int | bool) -> Neighbourhood:
    first = construct(distances, Budget())
    return neighbourhood(first.costs, first.prices, **options)  # type: ignore[arg-type]


def visited(successor: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.array(next(cycles_of(successor)))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("real", [False, True])
def test_no_exchange_of_segments_improves_a_local_optimum(seed: int, depth: int, real: bool) -> None:
    """With every city a neighbour, a descent ends where full enumeration finds nothing better."""
    area = area_of(tiny.distances_of(seed, real=real), width=SIZE - 1, reversals=False)
    best = improve(area, random_tour(SIZE, seed), Budget(), depth)
    assert is_tour(best)
    order = visited(best)
    others = [
        np.concatenate([order[:a], order[b:c], order[a:b], order[c:]]) for a, b, c in combinations(range(SIZE + 1), 3)
    ]
    least = min(float(length(area.costs, successors(other))) for other in others)
    assert float(length(area.costs, best)) <= least + 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_no_reversal_that_starts_well_improves_a_local_optimum(seed: int) -> None:
    """None whose sums of gains stay positive shortens the tour."""
    area = area_of(tiny.distances_of(seed), width=SIZE - 1, reversals=True)
    best = improve(area, random_tour(SIZE, seed), Budget())
    assert is_tour(best)
    gains, total = area.gains, length(area.gains, best)
    for first in range(SIZE):
        start = visited(best).tolist().index(first)
        order = np.roll(visited(best), -start)
        for end in range(2, SIZE - 1):
            opened = gains[first, order[1]] - gains[first, order[end]]
            swapped = opened + gains[order[end], order[end + 1]] - gains[order[1], order[end + 1]]
            other = np.array([first, *order[1 : end + 1][::-1], *order[end + 1 :]])
            assert opened <= 0 or swapped <= 0 or length(gains, successors(other)) >= total


def test_reversals_help_where_distances_are_nearly_symmetric() -> None:
    """On a noisy plane they are switched on, and descents end lower."""
    distances = family("noisy-plane", 60, 0)
    area = area_of(distances)
    assert area.reversals
    assert not area_of(family("uniform", 60, 0)).reversals
    plainer = area_of(distances, reversals=False)
    tours = [random_tour(60, seed) for seed in range(20)]
    lengths = [np.mean([length(one.costs, improve(one, tour, Budget())) for tour in tours]) for one in (area, plainer)]
    assert lengths[0] < lengths[1]


@pytest.mark.parametrize("name", sorted(TOURS))
def test_search_never_lengthens_and_stays_a_tour(name: str) -> None:
    """On every family, from a random tour and from the constructed one; more kicks never give a longer one."""
    distances = family(name, 40, 1)
    first = construct(distances, Budget())
    assert is_tour(first.successor)
    area = neighbourhood(first.costs, first.prices)
    for start in (first.successor, random_tour(40, 0)):
        kept = start.copy()
        tours = [start, improve(area, start, Budget())]
        tours += [iterate(area, tours[1], Budget(steps=steps), seed=1) for steps in (0, 300, 600, 900)]
        lengths = [length(distances, tour) for tour in tours]
        assert all(is_tour(tour) for tour in tours)
        assert lengths == sorted(lengths, reverse=True)
        assert first.prices.bound <= lengths[-1]
        np.testing.assert_array_equal(start, kept)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("reversals", [False, True])
def test_kicks_find_the_shortest_tour_of_a_few_cities(seed: int, reversals: bool) -> None:
    distances = tiny.distances_of(seed)
    best = iterate(area_of(distances, reversals=reversals), random_tour(SIZE, seed), Budget(steps=2000), seed=seed)
    assert length(distances, best) == tiny.shortest_tour(distances)


def test_descents_go_on_until_nothing_gains() -> None:
    """Looking at the cities near a change is not enough: order decides, too, and more looks find more."""
    for seed in range(40):
        area = area_of(tiny.distances_of(seed, 14), width=13, reversals=True)
        best = improve(area, random_tour(14, seed), Budget())
        np.testing.assert_array_equal(improve(area, best, Budget()), best)


def test_the_best_tour_is_returned() -> None:
    """Slightly longer tours are kept, but more kicks never give a longer one."""
    distances = family("noisy-plane", 100, 3)
    first = construct(distances, Budget())
    area = neighbourhood(first.costs, first.prices)
    tour = improve(area, first.successor, Budget())
    lengths = [length(distances, iterate(area, tour, Budget(steps=steps), seed=1)) for steps in range(0, 1600, 300)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < lengths[0]


def test_integers_stay_exact() -> None:
    """Differences of one in numbers that float64 cannot tell apart decide."""
    offset = 2**50
    small = tiny.distances_of(3)
    large = area_of(small + offset)
    assert large.costs.dtype == np.int64
    tour = random_tour(SIZE, 3)
    best = iterate(large, tour, Budget(steps=300), seed=1)
    np.testing.assert_array_equal(best, iterate(area_of(small), tour, Budget(steps=300), seed=1))
    assert length(large.costs, best) == SIZE * offset + length(small, best)


def test_seeds_repeat_themselves_alone_and_side_by_side() -> None:
    area, tour = area_of(family("noisy-plane", 80, 0)), random_tour(80, 0)
    for budget in (Budget(steps=700), Budget(steps=50, searches=3)):
        np.testing.assert_array_equal(*(iterate(area, tour, budget, seed=5) for _ in range(2)))
    ones = [length(area.costs, iterate(area, tour, Budget(steps=5), seed=seed)) for seed in range(8)]
    several = [length(area.costs, iterate(area, tour, Budget(steps=5, searches=3), seed=seed)) for seed in range(8)]
    assert len(set(ones)) > 1
    assert all(many <= one for many, one in zip(several, ones, strict=True))
    assert several != ones


@pytest.mark.parametrize("real", [False, True])
def test_compiled_and_plain_code_agree(real: bool) -> None:
    distances = tiny.distances_of(1, 25, real)
    distances = distances + distances.T * 2
    for reversals in (False, True):
        area, tour = area_of(distances, reversals=reversals), random_tour(25, 1)
        fast = iterate(area, tour, Budget(steps=150), seed=3)
        with plain():
            np.testing.assert_array_equal(iterate(area, tour, Budget(steps=150), seed=3), fast)


@pytest.mark.parametrize("slack", [0, 20_000])
def test_a_kick_is_kept_only_within_the_slack(slack: int) -> None:
    """The present tour is never longer than the best by more, and both are as long as is said."""
    distances = family("noisy-plane", 60, 0)
    search = IteratedSearch(area_of(distances), random_tour(60, 0), 1, Budget())
    undone, least = 0, search.first
    for _ in range(200):
        before = search.tour.order.copy()
        kicks(
            search.tour, search.best, search.gained, search.state, 1, 15, np.int64(slack), 3,
            search.area.tolerance, search.area.reversals,
        )  # fmt: skip
        present, best = (search.first - gained for gained in search.gained)
        assert length(distances, tour_of(search.tour.order)) == present
        assert length(distances, tour_of(search.best)) == best
        assert best <= present <= best + slack
        assert best <= least
        least = best
        undone += (search.tour.order == before).all()
    assert 0 < undone < 200


def test_a_search_can_be_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """In two parts it ends where it ends in one, wherever it is cut."""
    monkeypatch.setattr(tour_search, "PATIENCE", 6)
    area, tour = area_of(family("tmat", 50, 1)), random_tour(50, 0)
    whole, parts = (IteratedSearch(area, tour, 4, Budget()) for _ in range(2))
    whole.run(2000)
    for steps in (1, 298, 2, 399, *[50] * 26):
        parts.run(steps)
    np.testing.assert_array_equal(whole.best, parts.best)
    np.testing.assert_array_equal(whole.tour.order, parts.tour.order)


def test_limits_end_the_search() -> None:
    """Seconds, also where nothing is compiled, a target that is met, and no steps."""
    area, tour = area_of(family("noisy-plane", 300, 0)), random_tour(300, 0)
    with plain():
        begin = time.perf_counter()
        better = improve(area, tour, Budget(0.2))
        assert time.perf_counter() - begin < 2
    assert length(area.costs, better) < length(area.costs, tour)
    tour = improve(area, tour, Budget())
    iterate(area, tour, Budget(steps=1), seed=1)
    begin = time.perf_counter()
    iterate(area, tour, Budget(0.3), seed=1)
    assert 0.2 < time.perf_counter() - begin < 3
    target = float(length(area.costs, tour)) + 1
    np.testing.assert_array_equal(iterate(area, tour, Budget(steps=10**9), seed=1, target=target), tour)
    np.testing.assert_array_equal(iterate(area, tour, Budget(), seed=1), tour)


def test_threads_do_not_disturb_each_other() -> None:
    area, tour = area_of(family("tmat", 60, 2)), random_tour(60, 0)
    alone = [iterate(area, tour, Budget(steps=200), seed=seed) for seed in range(4)]
    beside: dict[int, NDArray[np.int64]] = {}

    def work(seed: int) -> None:
        beside[seed] = iterate(area, tour, Budget(steps=200), seed=seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, expected in enumerate(alone):
        np.testing.assert_array_equal(beside[seed], expected)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 8])
def test_the_smallest_instances(size: int) -> None:
    for seed in range(5):
        distances = tiny.distances_of(seed, size)
        best = iterate(area_of(distances, reversals=True), random_tour(size, seed), Budget(steps=200), seed=1)
        assert is_tour(best)
        if size != 2:
            assert length(distances, best) <= length(distances, random_tour(size, seed))
        assert construct(distances, Budget()).prices.bound <= tiny.shortest_tour(distances)


def test_prices_do_not_change_which_tour_is_shorter() -> None:
    """Gains differ from costs by the same amount for every tour."""
    first = construct(tiny.distances_of(4), Budget())
    odd = Prices(np.arange(SIZE) * 3, np.arange(SIZE)[::-1] * 7, first.prices.excess, first.prices.bound)
    area = neighbourhood(first.costs, odd)
    tours = [random_tour(SIZE, seed) for seed in range(9)]
    assert len({int(length(area.costs, tour) - length(area.gains, tour)) for tour in tours}) == 1


def test_a_search_that_finds_nothing_is_perturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best tour stays, its length is what is said, and what is found elsewhere counts against all before."""
    area = area_of(family("roads", 60, 1))
    quiet, restless = (IteratedSearch(area, random_tour(60, 0), 4, Budget()) for _ in range(2))
    count = 0
    perturb = IteratedSearch._perturb

    def counted(self: IteratedSearch) -> None:
        nonlocal count
        count += 1
        before = self.shortest
        perturb(self)
        assert self.shortest == before
        assert sorted(self.tour.order.tolist()) == list(range(60))
        # measured afresh from where it is now
        assert float(self.first) == length(area.costs, tour_of(self.tour.order))
        assert not self.gained.any()

    monkeypatch.setattr(IteratedSearch, "_perturb", counted)
    monkeypatch.setattr(tour_search, "PATIENCE", 10)
    lengths = []
    for _ in range(300):
        restless.run(30)
        lengths.append(restless.shortest)
        assert restless.shortest == length(area.costs, tour_of(restless.best))
    assert lengths == sorted(lengths, reverse=True)
    assert 2 <= count <= 15
    monkeypatch.setattr(tour_search, "PATIENCE", 10**9)
    before = count
    quiet.run(9000)
    assert count == before
    assert restless.shortest <= quiet.shortest


@pytest.mark.parametrize("name", sorted(TOURS))
def test_a_bound_is_never_above_the_tour_and_the_limit_is_kept(name: str) -> None:
    """Where assignments are nearly tours, these are proven."""
    distances = family(name, 60, 1)
    run(TourSearch(distances, 1), 0.1)  # compiles
    begin = time.perf_counter()
    search = run(TourSearch(distances, 1), 0.5)
    assert time.perf_counter() - begin < 5
    assert is_tour(search.choice)
    assert search.cost == length(distances, search.choice)
    assert search.bound <= search.cost
    assert search.proven == (search.bound == search.cost)
    if name in ("crane", "tmat", "uniform"):
        assert run(TourSearch(family(name, 25, 0), 1), 5.0).proven


def test_without_seconds_the_same_seed_gives_the_same_parts() -> None:
    distances = family("noisy-plane", 45, 1)
    searches = [TourSearch(distances, 3) for _ in range(2)]
    for one in searches:
        for part, steps in ((one.construct, 0), (one.search, 100), (one.prove, 0), (one.search, 400)):
            part(Budget(None, steps, 2))
    first, second = searches
    assert (first.choice == second.choice).all()
    assert (first.cost, first.bound) == (second.cost, second.bound)
    assert first.cost == length(distances, first.choice)


def test_starts_and_proposals_are_searched_on_from() -> None:
    """What search makes of a proposal belongs to both; what it cannot improve is as it was proposed."""
    distances = family("uniform", 60, 0)
    best = run(TourSearch(distances, 1), 10.0)
    started = TourSearch(distances, 3, best.choice)
    started.construct(Budget())
    assert (started.cost, started.incumbent.found_by[0]) == (best.cost, "start")
    swapped = best.choice
    one, two, three = 0, int(swapped[0]), int(swapped[swapped[0]])
    swapped[one], swapped[two], swapped[three] = three, swapped[three], two  # two neighbours change places
    for proposal, found_by in ((swapped, "network + search"), (best.choice, "network")):
        search = TourSearch(distances, 3)
        search.construct(Budget())
        assert search.cost > best.cost
        search.search_from(proposal, "network", Budget(steps=50))
        assert search.cost == best.cost
        assert search.incumbent.found_by[0] == found_by


def test_where_time_is_short_there_is_a_tour_and_no_long_part_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by a second with every look."""
    distances = family("noisy-plane", 60, 0)
    for seconds, constructed in ((0.0, False), (6.0, False), (1000.0, True)):
        budget = Budget(seconds, clock=map(float, count()).__next__)
        search = TourSearch(distances, 1)
        search.construct(budget)
        assert is_tour(search.choice)
        assert search.bound <= search.cost
        assert search.constructed == search.likely == constructed
    monkeypatch.setattr(tour_search, "LARGEST_BRANCHED", 0)
    search._slow = 10.0
    search.prove(Budget(30.0))
    assert search.relaxation is None
    assert not search.likely, "it is not tried again and again"
