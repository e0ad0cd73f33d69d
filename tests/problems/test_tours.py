"""What tour problems share: feasibility, violation, the text of a tour, and the tmat generator."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icdc.errors import InputError
from icdc.kernels import Noise, fold, root_key
from icdc.problems.atsp import Atsp
from icdc.problems.base import Instances
from icdc.problems.bounds import assignment_bound
from icdc.problems.instance import Instance
from icdc.problems.navigation import Navigation
from icdc.problems.tensors import one_hot, to_tensors
from icdc.problems.tours import random_tmat
from icdc.problems.tours_torch import random_tour_cost

ATSP = Atsp()


def noise(count: int) -> Noise:
    return Noise(fold(root_key(0), torch.arange(count)))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_feasible_means_one_cycle_through_all(size: int) -> None:
    """Of all n^n choices exactly the (n − 1)! Hamiltonian cycles are feasible."""
    choices = torch.tensor(list(itertools.product(range(size), repeat=size)))
    found = ATSP.feasible({}, choices[None])[0]
    expected = []
    for successor in choices.tolist():
        walk, city = [], 0
        for _ in range(size):
            city = successor[city]
            walk.append(city)
        expected.append(sorted(walk) == list(range(size)))
    assert found.tolist() == expected
    assert int(found.sum()) == [1, 1, 2, 6][size - 1]


def test_cities_that_do_not_exist_are_infeasible() -> None:
    """An index outside the matrix is refused, not wrapped or clamped."""
    assert ATSP.feasible({}, torch.tensor([[[1, 2, 3], [1, 2, -3], [1, 2, 0]]])).tolist() == [[False, False, True]]


def test_violation_is_the_papers() -> None:
    """C_ATSP = Σ_j (Σ_i x_ij − 1)² + Σ_i (Σ_j x_ij − 1)², by loops."""
    x = torch.rand(3, 4, 4)
    for matrix, found in zip(x.tolist(), ATSP.violation(x).tolist(), strict=True):
        columns = sum((sum(row[j] for row in matrix) - 1) ** 2 for j in range(4))
        rows = sum((sum(row) - 1) ** 2 for row in matrix)
        assert found == pytest.approx(columns + rows, rel=1e-5)
    tour = one_hot(torch.tensor([[1, 2, 3, 0]]), 4)
    assert ATSP.violation(tour).item() == 0


@given(st.permutations(range(6)))
def test_a_tour_reads_and_writes(order: list[int]) -> None:
    """solution() lists the cities in visiting order from city 0, and choice() reads it back."""
    choice = ATSP.choice(order)
    written = ATSP.solution(choice)
    start = order.index(0)
    assert written == order[start:] + order[:start]
    assert (ATSP.choice(written) == choice).all()


@pytest.mark.parametrize("broken", [[0, 1, 1], [1, 2, 3], [0, 2], [0, -1, 1]])
def test_what_is_no_tour_is_refused(broken: list[int]) -> None:
    """A city named twice, left out or unknown is bad input."""
    with pytest.raises(InputError, match="every city"):
        ATSP.choice(broken)


def test_writing_a_broken_tour_ends() -> None:
    """A choice with a cycle that never comes home is written without looping for ever."""
    assert len(ATSP.solution(np.array([1, 2, 1]))) <= 4


@pytest.mark.parametrize("cities", [1, 2, 3, 20])
def test_tmat_is_closed_under_detours(cities: int) -> None:
    """No detour is shorter, the diagonal is zero, values are integers below a million, asymmetric."""
    matrices = random_tmat(20, cities, np.random.default_rng(0)).astype(np.int64)
    detours = (matrices[:, :, :, None] + matrices[:, None, :, :]).min(2)
    assert (matrices <= detours).all()
    assert (matrices[:, np.arange(cities), np.arange(cities)] == 0).all()
    assert matrices.min() == 0
    assert matrices.max() < 10**6
    if cities > 1:
        assert (matrices != matrices.transpose(0, 2, 1)).any()


def test_tmat_is_the_largest_closed_matrix() -> None:
    """The closure is the shortest-path matrix of the uniform draw, not something smaller."""
    raw = np.random.default_rng(5).integers(0, 10**6, size=(1, 6, 6), dtype=np.int64)
    raw[:, np.arange(6), np.arange(6)] = 0
    closed = raw[0].copy()
    while True:  # the paper's way: repeat until nothing changes
        shorter = np.minimum(closed, (closed[:, :, None] + closed[None]).min(1))
        if (shorter == closed).all():
            break
        closed = shorter
    assert (random_tmat(1, 6, np.random.default_rng(5))[0] == closed).all()


def test_a_tour_is_drawn_on_its_map_beside_the_matrix_in_its_order() -> None:
    problem, tour = Atsp(), [0, 2, 1, 3]
    arrays = {"distances": np.arange(16).reshape(4, 4)}
    points = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
    instance = Instance("file", problem, arrays, *(("a", "b", "c", "d"),) * 2, points)
    on_map, matrix, _ = problem.draw_solution(instance, problem.choice(tour)).axes
    assert on_map.get_title() == "tour of 4 cities, length 30"
    assert [text.get_text() for text in on_map.texts] == ["a", "b", "c", "d"]
    assert np.array_equal(np.asarray(on_map.collections[0].get_offsets()), points)
    assert [label.get_text() for label in matrix.get_yticklabels()] == ["a", "c", "b", "d"]
    assert matrix.get_title() == "cost of every step, cities in the order of the tour"
    shown = np.ma.filled(matrix.images[0].get_array(), np.nan)
    assert np.isnan(np.diag(shown)).all()
    assert shown[0, 1] == arrays["distances"][0, 2]


def test_the_bound_of_a_tour_is_that_of_its_steps() -> None:
    arrays = Atsp().sample(3, (6,), np.random.default_rng(1))
    assert np.array_equal(Atsp().lower_bound(arrays), assignment_bound(arrays["distances"]))
    hidden = Navigation().sample(3, (6,), np.random.default_rng(1))
    costs = Navigation().travel(to_tensors(hidden)).numpy()
    assert np.array_equal(Navigation().lower_bound(hidden), assignment_bound(costs))
    assert np.array_equal(Navigation().cost_matrix(hidden), costs)


@pytest.mark.parametrize("cities", [1, 2, 3, 4, 6])
def test_random_tours_by_enumeration(cities: int) -> None:
    """Mean and spread over all tours, through matrices with negative entries and a diagonal that does not count."""
    generator = torch.Generator().manual_seed(cities)
    travel = 3 + 5 * torch.randn(4, cities, cities, generator=generator, dtype=torch.float64)
    travel = travel if cities > 1 else torch.zeros_like(travel)
    tours = [torch.tensor([0, *order]) for order in itertools.permutations(range(1, cities))]
    every = torch.stack([travel[:, tour, tour.roll(-1)].sum(1) for tour in tours], 1)
    mean, spread = random_tour_cost(travel)
    torch.testing.assert_close(mean, every.mean(1))
    torch.testing.assert_close(spread, every.std(1, correction=0))


def test_what_counts_other_than_lengths_has_no_formula() -> None:
    class Longest(Atsp):
        def cost(self, instances: Instances, choice: torch.Tensor) -> torch.Tensor:
            return super().cost(instances, choice).square()

    instances = to_tensors(ATSP.sample(2, (5,), np.random.default_rng(0)))
    assert Longest().random_cost(instances) is None
    assert ATSP.random_cost(instances) is not None
