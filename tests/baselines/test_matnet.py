"""MatNet: exact probabilities, feasible solutions, and no dependence on the order of items."""

from collections.abc import Callable
from itertools import permutations, product

import numpy as np
import torch
from torch import Tensor

from icdc.baselines.matnet import MatNet
from icdc.baselines.matnet.pointer_network import MatNetEncoding, deciding_order
from icdc.kernels import Noise, fold, root_key
from icdc.problems.base import Arrays, Problem
from icdc.problems.navigation_torch import squared_distances
from icdc.problems.task import Task
from icdc.problems.tensors import to_tensors

Small = tuple[MatNet, Arrays]


def noise(count: int, seed: int = 0) -> Noise:
    return Noise(fold(root_key(seed), torch.arange(count)))


def all_solutions(problem: Problem, rows: int, columns: int) -> Tensor:
    """Return every feasible choice, (solutions, rows)."""
    if not problem.feature_sizes.same_items:
        return torch.tensor(list(product(range(columns), repeat=rows)))
    tours = [problem.choice([0, *rest]) for rest in permutations(range(1, rows))]
    return torch.from_numpy(np.stack(tours))


def encoded(model: MatNet, arrays: Arrays) -> tuple[Task, MatNetEncoding]:
    task = Task(model.problem, to_tensors(arrays))
    return task, model.encode(model.problem.features(task.instances), noise(task.batch))


@torch.no_grad()
def test_probabilities_sum_to_one_over_all_solutions(small: Small) -> None:
    """Over all tours of five cities, from any first city, and over all assignments of a small shop."""
    model, arrays = small
    task, encoding = encoded(model, arrays)
    solutions = all_solutions(model.problem, task.rows, task.columns).expand(task.batch, -1, -1)
    spread = []
    for city in range(task.rows if model.problem.feature_sizes.same_items else 1):
        first = torch.full(solutions.shape[:2], city)
        p = model.roll_out(task, encoding, first, forced=solutions).log_p.double().exp()
        assert torch.allclose(p.sum(1), torch.ones(task.batch, dtype=torch.float64), atol=1e-5)
        spread.append(p.amax(1) / p.amin(1))
    assert torch.stack(spread).amin() > 1.5  # not a trivial distribution


@torch.no_grad()
def test_samples_are_feasible_and_come_with_their_own_probability(small: Small) -> None:
    model, arrays = small
    task, encoding = encoded(model, arrays)
    first = torch.arange(50).expand(task.batch, -1) % task.rows
    sampled = model.roll_out(task, encoding, first, noise=noise(50 * task.batch, 7))
    assert model.problem.feasible(task.instances, sampled.choice).all()
    again = model.roll_out(task, encoding, first, forced=sampled.choice)
    assert torch.equal(again.choice, sampled.choice)
    assert torch.allclose(again.log_p, sampled.log_p, atol=1e-5)


@torch.no_grad()
def test_samples_are_as_frequent_as_their_probability_says(small: Small) -> None:
    model, arrays = small
    task, encoding = encoded(model, {name: array[:1] for name, array in arrays.items()})
    count = 4000
    first = torch.zeros(1, count, dtype=torch.long)
    sampled = model.roll_out(task, encoding, first, noise=noise(count, 3)).choice[0]
    solutions = all_solutions(model.problem, task.rows, task.columns)
    forced = solutions[None]
    p = model.roll_out(task, encoding, first[:, : len(solutions)], forced=forced).log_p[0].exp()
    seen = (sampled[:, None] == solutions).all(-1).float().mean(0)
    assert ((seen - p).abs() < 5 * (p * (1 - p) / count).sqrt() + 1e-3).all()


@torch.no_grad()
def test_greedy_solutions_take_the_likeliest_column_each_time(small: Small) -> None:
    model, arrays = small
    task, encoding = encoded(model, arrays)
    first = torch.zeros(task.batch, 1, dtype=torch.long)
    greedy = model.roll_out(task, encoding, first)
    assert model.problem.feasible(task.instances, greedy.choice).all()
    many = model.roll_out(task, encoding, first.expand(-1, 30), noise=noise(30 * task.batch, 5))
    # the first decision of the greedy solution is the commonest first decision of samples
    row = 0 if model.problem.feature_sizes.same_items else int(deciding_order(encoding.relations[..., 0])[0, 0])
    common = many.choice[0, :, row].mode().values
    assert (many.choice[0, :, row] == greedy.choice[0, 0, row]).sum() >= 0.5 * (many.choice[0, :, row] == common).sum()


@torch.no_grad()
def test_an_opening_is_kept_and_does_not_count(make_small: Callable[[str], Small]) -> None:
    model, arrays = make_small("pmsp")
    task, encoding = encoded(model, arrays)
    opening = torch.arange(task.columns).expand(task.batch, -1)
    opened = model.roll_out(task, encoding, torch.zeros_like(opening), opening=opening)
    row = deciding_order(encoding.relations[..., 0])[:, :1, None].expand(-1, task.columns, -1)
    assert torch.equal(opened.choice.gather(2, row).squeeze(2), opening)
    whole = model.roll_out(task, encoding, torch.zeros_like(opening), forced=opened.choice)
    assert (opened.log_p > whole.log_p).all()


@torch.no_grad()
def test_permuting_items_permutes_solutions(small: Small) -> None:
    """With the one-hot vectors permuted along, every solution keeps its probability under its new name."""
    model, arrays = small
    problem = model.problem
    task = Task(problem, to_tensors(arrays))
    rows = torch.randperm(task.rows, generator=torch.Generator().manual_seed(3))
    same = problem.feature_sizes.same_items
    columns = rows if same else torch.randperm(task.columns, generator=torch.Generator().manual_seed(4))
    moved = {
        name: value[:, rows] if name == "coordinates" else value[:, rows][:, :, columns]
        for name, value in task.instances.items()
    }
    moved_task = Task(problem, moved)
    one_hots = model.one_hots(task.columns, noise(task.batch))
    encoding = model.network.encode(problem.features(task.instances), one_hots)
    moved_encoding = model.network.encode(problem.features(moved), one_hots[:, columns])
    first = torch.arange(6).expand(task.batch, -1) % task.rows
    sampled = model.roll_out(task, encoding, first, noise=noise(6 * task.batch, 1))
    new_name, new_column = rows.argsort(), columns.argsort()
    moved_choice = new_column[sampled.choice[:, :, rows]]
    assert problem.feasible(moved, moved_choice).all()
    asked = model.roll_out(moved_task, moved_encoding, new_name[first], forced=moved_choice)
    assert torch.allclose(asked.log_p, sampled.log_p, atol=1e-4)


@torch.no_grad()
def test_it_sees_the_raw_relations_and_nothing_else(make_small: Callable[[str], Small]) -> None:
    """Navigation without coordinates: other places, with the same mean squared distance, change nothing."""
    model, given = make_small("navigation")
    arrays = to_tensors(given)
    moved = dict(arrays)
    fresh = torch.rand(3, 5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def area(coordinates: Tensor) -> Tensor:
        return squared_distances(coordinates).mean((1, 2))[:, None, None]

    moved["coordinates"] = fresh * (area(arrays["coordinates"]) / area(fresh)).sqrt()
    seen = [model.encode(model.problem.features(instances), noise(3)) for instances in (arrays, moved)]
    assert torch.allclose(seen[0].rows, seen[1].rows, atol=1e-5)
    assert torch.allclose(seen[0].columns, seen[1].columns, atol=1e-5)


def test_more_columns_than_one_hots_share_them(make_small: Callable[[str], Small]) -> None:
    model, _ = make_small("atsp")
    few, many = model.one_hots(6, noise(20)), model.one_hots(12, noise(20))
    assert (few.sort(1).values.diff(dim=1) > 0).all()
    assert many.shape == (20, 12)
    assert int(many.max()) < model.config.one_hots
