"""What a structure promises, by trying everything; and a structure of one's own that the whole package can solve."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

import icdc
from icdc.errors import UsageError
from icdc.problems.base import Arrays, FeatureSizes, Instances, Problem, Size
from icdc.problems.features import Features
from icdc.problems.rules import OneColumnPerRow
from icdc.problems.tensors import picked
from icdc.search.run import Budget, Incumbent, InstanceSearch
from icdc.search.structures import STRUCTURES, Schedules, Structure, Tours, register, structure_of
from icdc.search.tour_branching import is_tour


@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize("structure", [Tours(), Schedules()])
def test_choices_are_judged_one_by_one(structure: Structure, kind: type[Any]) -> None:
    columns = 4 if isinstance(structure, Tours) else 3
    costs = np.random.default_rng(0).integers(1, 100, (4, columns)).astype(kind)
    choices = np.array(list(product(range(-1, columns + 1), repeat=4)))
    feasible, values = structure.judge(np.broadcast_to(costs, (len(choices), 4, columns)), choices)
    assert values.dtype == kind
    for choice, fits, value in zip(choices, feasible, values, strict=True):
        inside = ((choice >= 0) & (choice < columns)).all()
        assert fits == (inside and (isinstance(structure, Schedules) or bool(is_tour(choice))))
        if fits:
            entries = costs[np.arange(4), choice]
            assert value == (
                entries.sum() if isinstance(structure, Tours) else max(entries[choice == m].sum() for m in range(3))
            )


def test_first_choices_are_solutions() -> None:
    costs = np.random.default_rng(1).random((5, 7, 7))
    for structure in (Tours(), Schedules()):
        assert structure.judge(costs, structure.first_choice(costs))[0].all()


class MatchingSearch(InstanceSearch):
    """Proves the cheapest matching at once."""

    likely = False

    def construct(self, budget: Budget) -> None:
        choice = linear_sum_assignment(self.matrix)[1]
        self.offer(choice, "exact")
        self.incumbent.raise_bound(self.cost_of(choice))

    def prove(self, budget: Budget, brief: bool = False) -> None: ...

    def search(self, budget: Budget) -> None: ...

    def search_from(self, choice: NDArray[np.int64], found_by: str, budget: Budget) -> None: ...

    def cost_of(self, choice: NDArray[np.int64]) -> Any:
        return self.matrix[np.arange(len(choice)), choice].sum()


class Matchings(Structure):
    """Every row takes a column of its own; the cost is the sum of the entries."""

    name, words = "matching", "matchings"

    def judge(self, costs: NDArray[Any], choice: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
        inside = np.clip(choice, 0, costs.shape[2] - 1)
        own = (np.diff(np.sort(inside, 1), axis=1) > 0).all(1)
        return own & (inside == choice).all(1), np.take_along_axis(costs, inside[:, :, None], 2)[:, :, 0].sum(1)

    def first_choice(self, costs: NDArray[Any]) -> NDArray[np.int64]:
        return np.tile(np.arange(costs.shape[1]), (len(costs), 1))

    def search(
        self,
        matrix: NDArray[Any],
        seed: int,
        start: NDArray[np.int64] | None = None,
        incumbent: Incumbent | None = None,
    ) -> InstanceSearch:
        return MatchingSearch(matrix, seed, start, incumbent)


@pytest.fixture
def matchings() -> Iterator[None]:
    register(Matchings())
    yield
    del STRUCTURES["matching"]


def seating() -> Problem:
    """A problem of guests and seats, whose structure the package has never seen."""

    class Seating(Problem):
        name = "seating"
        arrays = ("prices",)
        size_names = ("guests", "seats")
        feature_sizes = FeatureSizes(relations=1, raw_relations=1)
        rule = OneColumnPerRow()
        structure = "matching"

        def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
            return {"prices": rng.integers(1, 9, (count, *size))}

        def size(self, arrays: Mapping[str, Any]) -> Size:
            return tuple(arrays["prices"].shape[1:])

        def shape(self, size: Size) -> tuple[int, int]:
            return size[0], size[1]

        def check(self, arrays: Mapping[str, Any]) -> Arrays:
            return {"prices": np.atleast_3d(arrays["prices"])}

        def cost_matrix(self, arrays: Mapping[str, Any]) -> NDArray[Any]:
            return np.asarray(arrays["prices"])

        def features(self, instances: Instances) -> Features:
            return Features(instances["prices"].float()[..., None])

        def cost(self, instances: Instances, choice: Tensor) -> Tensor:
            return picked(instances["prices"], choice).sum(-1)

        def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
            return (choice.sort(-1).values.diff(dim=-1) > 0).all(-1)

        def density(self, size: Size) -> float:
            return 1.0 / size[1]

        def violation(self, x: Tensor) -> Tensor:
            return (x.sum(2) - 1).square().sum(1)

    return Seating()


@pytest.mark.usefixtures("matchings")
@pytest.mark.parametrize("options", [{}, {"solver": "search"}, {"time_limit": 1.0}])
def test_a_structure_of_ones_own_is_solved_and_proven(options: dict[str, Any]) -> None:
    prices = np.random.default_rng(3).integers(1, 100, (5, 7))
    answer = icdc.solve(prices, problem=seating(), **options)
    rows, columns = linear_sum_assignment(prices)
    assert (answer.cost, answer.optimal) == (prices[rows, columns].sum(), True)
    with pytest.raises(UsageError, match="for tours and schedules"):
        icdc.solve(prices, problem=seating(), solver="highs")
    with pytest.raises(UsageError, match="cannot be asked of 'seating'"):
        icdc.solve(prices, problem=seating(), fixed={0: 1})


def test_a_structure_must_be_registered() -> None:
    with pytest.raises(ValueError, match="no structure 'matching'"):
        seating()
    with pytest.raises(ValueError, match="'tour', 'makespan'"):
        structure_of("matching")
