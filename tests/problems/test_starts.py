"""Solutions to begin with, and the searches of schedules and tours: what prices lead to, and whom they are for."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from icdc.problems import Atsp, Navigation, Pmsp, Problem
from icdc.problems.base import Instances, Size
from icdc.problems.decoding import decode_around, fixed_noise
from icdc.problems.rules import OneColumnPerRow
from icdc.problems.tensors import picked, to_tensors

SHIPPED: list[tuple[Problem, Size]] = [(Pmsp(), (12, 3)), (Atsp(), (9,)), (Navigation(), (9,))]


def drawn(problem: Problem, size: Size, count: int = 6) -> dict[str, Tensor]:
    return to_tensors(problem.sample(count, size, np.random.default_rng(5)))


def named(value: object) -> str | None:
    return type(value).__name__ if isinstance(value, Problem) else None


@pytest.mark.parametrize(("problem", "size"), SHIPPED, ids=named)
def test_prices_lead_to_good_solutions_and_bounds(problem: Problem, size: Size) -> None:
    """Within a few per cent of a bound that holds, in local optima, several of them different."""
    instances = drawn(problem, size)
    made = problem.construct(instances, 8)
    rows, columns = problem.shape(size)
    assert made.choice.shape == (6, 8, rows)
    assert made.row_prices is not None
    assert made.row_prices.shape == (6, rows)
    assert made.column_prices is not None
    assert made.column_prices.shape == (6, columns)
    assert made.bound is not None
    cost = problem.cost(instances, made.choice).double()
    assert problem.feasible(instances, made.choice).all()
    assert (cost.amin(1) >= made.bound).all()
    assert (cost.amin(1) / made.bound).mean() < 1.12
    assert torch.equal(problem.improve(instances, made.choice, 1000), made.choice)
    assert len({tuple(one) for choice in made.choice.tolist() for one in choice}) > 6
    assert torch.equal(problem.construct(instances, 1).choice, made.choice[:, :1])


@pytest.mark.parametrize("values", [0, 1, 5])
@pytest.mark.parametrize("kind", [torch.int64, torch.float64, torch.float32])
def test_ties_everywhere_are_no_obstacle(values: int, kind: torch.dtype) -> None:
    """Matrices of one number, zero or not."""
    for problem, size in ((Pmsp(), (4, 3)), (Atsp(), (5,)), (Atsp(), (2,))):
        name, shape = problem.arrays[0], problem.shape(size)
        instances = {name: torch.full((2, *shape), values, dtype=kind)}
        made = problem.construct(instances, 3)
        assert problem.feasible(instances, made.choice).all()
        steps = (shape[0] if isinstance(problem, Atsp) else -(-shape[0] // shape[1])) * values
        assert (problem.cost(instances, made.choice) == steps).all()


@pytest.mark.parametrize(("problem", "size"), SHIPPED, ids=named)
def test_schedules_and_tours_have_a_search_of_their_own(
    problem: Problem, size: Size, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ships never falls back to the search for any problem."""
    monkeypatch.setattr("icdc.problems.local_search.descend", None)
    instances = drawn(problem, size)
    rows, columns = problem.shape(size)
    start = torch.arange(1, rows + 1) % columns
    found = problem.improve(instances, start.expand(6, 2, -1), 50)
    assert (problem.cost(instances, found) < problem.cost(instances, start.expand(6, 2, -1))).all()
    assert problem.feasible(instances, found).all()


class Penalty(Atsp):
    """A tour that pays its longest step ten times: the search for the shortest tour would be wrong."""

    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        steps = picked(self.travel(instances), choice)
        return steps.sum(-1) + 9 * steps.amax(-1)


class Balance(Pmsp):
    """A schedule whose cost is the sum of the times."""

    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        return picked(instances["durations"], choice).sum(-1)


@pytest.mark.parametrize(("problem", "size"), [(Penalty(), (6,)), (Balance(), (5, 3))], ids=named)
def test_another_cost_has_the_search_for_any_problem(problem: Problem, size: Size) -> None:
    """A subclass that breaks the promise of its parent is searched by its own cost, and begins without prices."""
    instances = drawn(problem, size)
    made = problem.construct(instances, 4)
    assert made.bound is None
    assert problem.feasible(instances, made.choice).all()
    found = problem.improve(instances, made.choice, 1000)
    cost = problem.cost(instances, found)
    rows, columns = problem.shape(size)
    every = torch.tensor(list(itertools.product(range(columns), repeat=rows)))[None]
    for i in range(len(cost)):
        one = {name: tensor[i : i + 1] for name, tensor in instances.items()}
        feasible = every[:, problem.feasible(one, every)[0]]
        nearby = (found[i, 0] != feasible[0]).sum(1) <= (3 if isinstance(problem, Atsp) else 1)
        assert problem.cost(one, feasible[:, nearby]).min() == cost[i, 0]


def test_the_first_start_is_greedy_and_the_others_are_near() -> None:
    """Scores in their unit: without noise the best column, with noise now and then the second best."""
    scores = torch.tensor([[[0.0, -3.0, -3000.0]] * 200])
    made = decode_around(OneColumnPerRow(), scores, torch.tensor([[[3.0]]]), 5, "rule", 0.5)
    assert (made[0, 0] == 0).all()
    share = (made[0, 1:] == 1).float().mean().item()
    assert share == pytest.approx(1 / (1 + np.exp(2.0)), abs=0.03)
    assert not (made == 2).any()
    single = decode_around(OneColumnPerRow(), scores, torch.tensor([[[3.0]]]), 1, "rule", 0.5)
    assert torch.equal(single, made[:, :1])


def test_noise_is_the_same_for_every_instance() -> None:
    drawn_numbers = fixed_noise(3, 4, torch.device("cpu")).uniform(5).view(3, 4, 5)
    assert torch.equal(drawn_numbers[0], drawn_numbers[2])
    assert not torch.equal(drawn_numbers[0, 0], drawn_numbers[0, 1])
