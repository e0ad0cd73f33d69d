"""Tours by classical search: checked against enumeration on tiny instances."""

import threading
import time
from itertools import combinations, permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from icdc.jit import plain
from icdc.search import tours
from icdc.search.run import Budget
from icdc.search.tour_moves import kicks
from icdc.search.tour_prices import Prices
from icdc.search.tours import Kicks, Terrain, construct, improve, iterate, length, survey, tour_of
from tests.families import TOURS, distances_of

SIZE = 9


def instance(seed: int, size: int = SIZE, real: bool = False) -> NDArray[np.int64] | NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    return rng.random((size, size)) if real else rng.integers(-5, 60, (size, size))


def random_tour(size: int, seed: int) -> NDArray[np.int64]:
    order = np.random.default_rng(seed).permutation(size)
    return successors(order)


def successors(order: NDArray[np.int64]) -> NDArray[np.int64]:
    successor = np.empty(len(order), np.int64)
    successor[order] = np.roll(order, -1)
    return successor


def is_tour(successor: NDArray[np.int64]) -> bool:
    city, seen = 0, set()
    while city not in seen:
        seen.add(city)
        city = int(successor[city])
    return len(seen) == len(successor)


def shortest(distances: NDArray[np.generic], allowed: NDArray[np.bool_] | None = None) -> float:
    size = len(distances)
    costs = distances.astype(np.float64) if allowed is None else np.where(allowed, distances, np.inf)
    orders = np.array([(0, *rest) for rest in permutations(range(1, size))])
    return float(costs[orders, np.roll(orders, -1, 1)].sum(1).min())


def terrain(distances: NDArray[np.generic], allowed: NDArray[np.bool_] | None = None, **options: int | bool) -> Terrain:
    start = construct(distances, allowed)
    assert start is not None
    return survey(start.costs, start.prices, **options)  # type: ignore[arg-type]


def exchanges(order: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """All orders that differ by two neighbouring segments which changed places; every such pair, with wrapping."""
    size = len(order)
    return [
        np.concatenate([order[:a], order[b:c], order[a:b], order[c:]]) for a, b, c in combinations(range(size + 1), 3)
    ]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("real", [False, True])
def test_no_exchange_of_segments_improves_a_local_optimum(seed: int, depth: int, real: bool) -> None:
    """With every city a neighbour, a descent ends where full enumeration finds nothing better."""
    distances = instance(seed, real=real)
    ground = terrain(distances, width=SIZE - 1, turns=False)
    found = improve(ground, random_tour(SIZE, seed), depth=depth)
    assert is_tour(found)
    order = [0]
    for _ in range(SIZE - 1):
        order.append(int(found[order[-1]]))
    least = min(float(length(ground.costs, successors(other))) for other in exchanges(np.array(order)))
    assert float(length(ground.costs, found)) <= least + 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_no_turn_that_starts_well_improves_a_local_optimum(seed: int) -> None:
    """Segments met backwards: none whose sums of gains stay positive shortens the tour."""
    distances = instance(seed)
    ground = terrain(distances, width=SIZE - 1, turns=True)
    found = improve(ground, random_tour(SIZE, seed))
    assert is_tour(found)
    gains, total = ground.gains, length(ground.gains, found)
    for first in range(SIZE):
        order = [first]
        for _ in range(SIZE - 1):
            order.append(int(found[order[-1]]))
        for end in range(2, SIZE - 1):
            opened = gains[first, order[1]] - gains[first, order[end]]
            swapped = opened + gains[order[end], order[end + 1]] - gains[order[1], order[end + 1]]
            turned = np.array([first, *order[1 : end + 1][::-1], *order[end + 1 :]])
            assert opened <= 0 or swapped <= 0 or length(gains, successors(turned)) >= total


def test_turns_help_where_distances_are_nearly_symmetric() -> None:
    """On a noisy plane they are switched on, and descents end lower."""
    distances = distances_of("noisy-plane", 60, 0)
    ground = terrain(distances)
    assert ground.turns
    assert not terrain(distances_of("uniform", 60, 0)).turns
    tours = [random_tour(60, seed) for seed in range(20)]
    with_turns = [length(ground.costs, improve(ground, tour)) for tour in tours]
    plainer = terrain(distances, turns=False)
    without = [length(ground.costs, improve(plainer, tour)) for tour in tours]
    assert np.mean(with_turns) < np.mean(without)


@pytest.mark.parametrize("name", sorted(TOURS))
def test_search_never_lengthens_and_stays_a_tour(name: str) -> None:
    """On every family, from a random tour and from the constructed one."""
    distances = distances_of(name, 40, 1)
    start = construct(distances)
    assert start is not None
    assert is_tour(start.successor)
    ground = survey(start.costs, start.prices)
    for given in (start.successor, random_tour(40, 0)):
        kept = given.copy()
        better = improve(ground, given)
        best = iterate(ground, better, Budget(steps=300), seed=1)
        assert is_tour(better)
        assert is_tour(best)
        assert length(distances, best) <= length(distances, better) <= length(distances, given)
        assert start.prices.bound <= length(distances, best)
        np.testing.assert_array_equal(given, kept)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("turns", [False, True])
def test_kicks_find_the_shortest_tour_of_a_few_cities(seed: int, turns: bool) -> None:
    distances = instance(seed)
    found = iterate(terrain(distances, turns=turns), random_tour(SIZE, seed), Budget(steps=2000), seed=seed)
    assert length(distances, found) == shortest(distances)


def test_descents_go_on_until_nothing_gains() -> None:
    """Looking at the cities near a change is not enough: order decides, too, and more looks find more."""
    for seed in range(40):
        ground = terrain(instance(seed, 14), width=13, turns=True)
        found = improve(ground, random_tour(14, seed))
        np.testing.assert_array_equal(improve(ground, found), found)


def test_the_best_tour_met_is_returned() -> None:
    """Slightly longer tours are carried on, but more kicks never give a longer one."""
    distances = distances_of("noisy-plane", 100, 3)
    start = construct(distances)
    assert start is not None
    ground = survey(start.costs, start.prices)
    tour = improve(ground, start.successor)
    lengths = [length(distances, iterate(ground, tour, Budget(steps=count), seed=1)) for count in range(0, 1600, 300)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < lengths[0]


def test_forbidden_steps_are_avoided() -> None:
    """From a tour without them no search takes one, however cheap the matrix says it is."""
    rng = np.random.default_rng(0)
    for seed in range(10):
        distances = instance(seed)
        given = random_tour(SIZE, seed)
        allowed = rng.random((SIZE, SIZE)) < 0.5
        allowed[np.arange(SIZE), given] = True
        distances[~allowed] = -1000
        start = construct(distances, allowed)
        assert start is not None
        ground = survey(start.costs, start.prices)
        for found in (improve(ground, given), iterate(ground, given, Budget(steps=500), seed=1)):
            assert is_tour(found)
            assert allowed[np.arange(SIZE), found].all()
        assert length(distances, found) == shortest(distances, allowed)
        assert start.prices.bound <= shortest(distances, allowed)


def test_an_instance_without_any_assignment_has_no_start() -> None:
    allowed = np.ones((5, 5), dtype=bool)
    allowed[:, 2] = False
    assert construct(np.ones((5, 5)), allowed) is None


def test_integers_stay_exact() -> None:
    """Differences of one in numbers that float64 cannot tell apart decide."""
    offset = 2**50
    small = instance(3)
    ground = terrain(small)
    large = terrain(small + offset)
    assert large.costs.dtype == np.int64
    tour = random_tour(SIZE, 3)
    found = iterate(large, tour, Budget(steps=300), seed=1)
    np.testing.assert_array_equal(found, iterate(ground, tour, Budget(steps=300), seed=1))
    assert length(large.costs, found) == SIZE * offset + length(small, found)


def test_the_same_seed_gives_the_same_tour_and_chunks_do_not_matter() -> None:
    ground = terrain(distances_of("noisy-plane", 80, 0))
    tour = random_tour(80, 0)
    one = iterate(ground, tour, Budget(steps=700), seed=5)
    np.testing.assert_array_equal(one, iterate(ground, tour, Budget(steps=700), seed=5))
    others = [iterate(ground, tour, Budget(steps=40), seed=seed) for seed in range(6)]
    assert any((other != others[0]).any() for other in others)


@pytest.mark.parametrize("real", [False, True])
def test_compiled_and_plain_code_agree(real: bool) -> None:
    distances = instance(1, 25, real)
    distances = distances + distances.T * 2
    for turns in (False, True):
        ground = terrain(distances, turns=turns)
        tour = random_tour(25, 1)
        fast = iterate(ground, tour, Budget(steps=150), seed=3)
        with plain():
            np.testing.assert_array_equal(iterate(ground, tour, Budget(steps=150), seed=3), fast)


@pytest.mark.parametrize("slack", [0, 20_000])
def test_a_kick_is_kept_only_within_the_slack(slack: int) -> None:
    """The tour that is carried on is never longer than the best by more, and both are as long as is said."""
    distances = distances_of("noisy-plane", 60, 0)
    search = Kicks(terrain(distances), random_tour(60, 0), 1, None, 3, np.inf)
    left_behind = 0
    for _ in range(200):
        before = search.tour.order.copy()
        kicks(
            search.tour, search.best, search.standing, search.state, 1, 15, np.int64(slack), 3,
            search.terrain.tolerance, search.terrain.turns,
        )  # fmt: skip
        present, best = (search.first - standing for standing in search.standing)
        assert length(distances, tour_of(search.tour.order)) == present
        assert length(distances, tour_of(search.best)) == best
        assert best <= present <= best + slack
        left_behind += (search.tour.order == before).all()
    assert 0 < left_behind < 200


def test_searches_side_by_side_are_no_worse_than_one_and_repeat_themselves() -> None:
    ground = terrain(distances_of("noisy-plane", 80, 0))
    tour = random_tour(80, 0)
    two = [iterate(ground, tour, Budget(steps=50, searches=3), seed=5) for _ in range(2)]
    np.testing.assert_array_equal(two[0], two[1])
    ones = [length(ground.costs, iterate(ground, tour, Budget(steps=5), seed=seed)) for seed in range(8)]
    several = [length(ground.costs, iterate(ground, tour, Budget(steps=5, searches=3), seed=seed)) for seed in range(8)]
    assert all(many <= one for many, one in zip(several, ones, strict=True))
    assert several != ones


def test_a_search_can_be_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """In two parts it ends where it ends in one, wherever it is cut."""
    monkeypatch.setattr(tours, "PATIENCE", 6)
    ground, tour = terrain(distances_of("tmat", 50, 1)), random_tour(50, 0)
    whole, parts = (Kicks(ground, tour, 4, None, 3, np.inf) for _ in range(2))
    whole.run(2000)
    for steps in (1, 298, 2, 399, *[50] * 26):
        parts.run(steps)
    np.testing.assert_array_equal(whole.best, parts.best)
    np.testing.assert_array_equal(whole.tour.order, parts.tour.order)


def test_without_a_compiler_a_descent_looks_at_the_clock() -> None:
    ground, tour = terrain(distances_of("noisy-plane", 300, 0)), random_tour(300, 0)
    with plain():
        begin = time.perf_counter()
        found = improve(ground, tour, seconds=0.2)
        assert time.perf_counter() - begin < 2
    assert length(ground.costs, found) < length(ground.costs, tour)


def test_limits_end_the_search() -> None:
    """Seconds, a target that is met, and no steps."""
    distances = distances_of("noisy-plane", 120, 0)
    ground = terrain(distances)
    tour = improve(ground, random_tour(120, 0))
    iterate(ground, tour, Budget(steps=1), seed=1)
    begin = time.perf_counter()
    iterate(ground, tour, Budget(seconds=0.3), seed=1)
    assert 0.2 < time.perf_counter() - begin < 3
    target = float(length(distances, tour)) + 1
    np.testing.assert_array_equal(iterate(ground, tour, Budget(steps=10**9), seed=1, target=target), tour)
    np.testing.assert_array_equal(iterate(ground, tour, Budget(), seed=1), tour)


def test_threads_do_not_disturb_each_other() -> None:
    ground = terrain(distances_of("tmat", 60, 2))
    tour = random_tour(60, 0)
    alone = [iterate(ground, tour, Budget(steps=200), seed=seed) for seed in range(4)]
    found: dict[int, NDArray[np.int64]] = {}

    def run(seed: int) -> None:
        found[seed] = iterate(ground, tour, Budget(steps=200), seed=seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, expected in enumerate(alone):
        np.testing.assert_array_equal(found[seed], expected)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 8])
def test_the_smallest_instances(size: int) -> None:
    for seed in range(5):
        distances = instance(seed, size)
        found = iterate(terrain(distances, turns=True), random_tour(size, seed), Budget(steps=200), seed=1)
        assert is_tour(found)
        if size != 2:
            assert length(distances, found) <= length(distances, random_tour(size, seed))
        if size in (4, 5, 8):
            start = construct(distances)
            assert start is not None
            assert start.prices.bound <= shortest(distances)


def test_prices_do_not_change_which_tour_is_shorter() -> None:
    """Gains differ from costs by the same amount for every tour."""
    distances = instance(4)
    start = construct(distances)
    assert start is not None
    odd = Prices(np.arange(SIZE) * 3, np.arange(SIZE)[::-1] * 7, start.prices.excess, start.prices.bound)
    ground = survey(start.costs, odd)
    shifts = {
        int(length(ground.costs, tour) - length(ground.gains, tour))
        for tour in (random_tour(SIZE, seed) for seed in range(9))
    }
    assert len(shifts) == 1


def test_a_search_that_finds_nothing_is_shaken_off_its_tour(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best tour stays, its length is what is said, and what is met elsewhere counts against all that was met."""
    distances = distances_of("roads", 60, 1)
    ground = terrain(distances)
    quiet, restless = (Kicks(ground, random_tour(60, 0), 4, None, 3, np.inf) for _ in range(2))
    shaken = 0
    shake = Kicks._shake

    def counted(self: Kicks) -> None:
        nonlocal shaken
        shaken += 1
        before = self.shortest
        shake(self)
        assert self.shortest == before
        assert sorted(self.tour.order.tolist()) == list(range(60))
        # measured afresh from where it stands now
        assert float(self.first) == length(ground.costs, tour_of(self.tour.order))
        assert not self.standing.any()

    monkeypatch.setattr(Kicks, "_shake", counted)
    monkeypatch.setattr(tours, "PATIENCE", 10)
    lengths = []
    for _ in range(300):
        restless.run(30)
        lengths.append(restless.shortest)
        assert restless.shortest == length(ground.costs, tour_of(restless.best))
    assert lengths == sorted(lengths, reverse=True)
    assert 2 <= shaken <= 15
    monkeypatch.setattr(tours, "PATIENCE", 10**9)
    before = shaken
    quiet.run(9000)
    assert shaken == before
    assert restless.shortest <= quiet.shortest
