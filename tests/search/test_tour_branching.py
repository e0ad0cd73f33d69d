"""Cycles of permutations: what a tour is, joining cycles, and proofs by branch and bound."""

from itertools import count, product

import numpy as np
import pytest

from icdc.search.run import Budget, Incumbent
from icdc.search.tour_bounds import with_barrier
from icdc.search.tour_branching import branch, cycles_of, is_tour, length, patched
from tests.search.tiny import distances_of, shortest_tour


def test_tours_pass_every_city_once() -> None:
    for cities in range(1, 6):
        for successor in product(range(cities), repeat=cities):
            visited, city = [0], successor[0]
            while city not in visited:
                visited.append(city)
                city = successor[city]
            assert is_tour(np.array(successor)) == (city == 0 and len(visited) == cities)
    many = np.random.default_rng(0).permuted(np.tile(np.arange(6), (200, 1)), axis=1)
    assert is_tour(many).tolist() == [len(list(cycles_of(one))) == 1 for one in many]


def test_patching_joins_where_it_costs_least() -> None:
    """Two cycles have one best pair of cities to swap successors; all pairs are tried here."""
    rng = np.random.default_rng(1)
    for _ in range(10):
        costs = with_barrier(rng.integers(0, 100, (7, 7)))
        successor = np.array([1, 2, 0, 4, 5, 6, 3])
        lengths = []
        for i, j in product(range(3), range(3, 7)):
            other = successor.copy()
            other[i], other[j] = successor[j], successor[i]
            lengths.append(length(costs, other))
        assert length(costs, patched(costs, successor, Budget())) == min(lengths)


def test_cycles_are_joined_in_few_passes_where_all_steps_cost_the_same() -> None:
    """The clock is looked at once a pass; and when the time is over the rest is joined at once."""
    costs = with_barrier(np.full((300, 300), 7))
    pairs = np.arange(300) ^ 1
    looks = count()
    assert is_tour(patched(costs, pairs, Budget(clock=lambda: float(next(looks)))))
    assert next(looks) < 40
    assert is_tour(patched(costs, pairs, Budget(0.0)))


@pytest.mark.parametrize("real", [False, True])
def test_branch_and_bound_proves_the_shortest_tour(real: bool) -> None:
    for seed in range(10):
        distances = distances_of(seed, 7, real)
        incumbent = Incumbent(1, 7, whole=not real)
        branch(distances, incumbent, 10_000, Budget())
        assert incumbent.proven[0]
        assert is_tour(incumbent.choice[0])
        assert incumbent.cost[0] == pytest.approx(shortest_tour(distances))


def test_branch_and_bound_stops_with_the_lowest_open_bound() -> None:
    """After so many openings, and when the time is over."""
    stopped = 0
    for seed in range(20):
        distances = distances_of(seed, 8) + distances_of(seed, 8).T
        for nodes, budget in ((1, Budget()), (10_000, Budget(0.0))):
            incumbent = Incumbent(1, 8, whole=True)
            branch(distances, incumbent, nodes, budget)
            assert incumbent.bound[0] <= shortest_tour(distances) <= incumbent.cost[0]
            stopped += not incumbent.proven[0]
    assert stopped > 10
