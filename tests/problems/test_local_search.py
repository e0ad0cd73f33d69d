"""Local search for any problem, and the solutions it begins with."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from icdc.kernels import Noise, fold, root_key
from icdc.problems import Atsp, Navigation, Pmsp, Problem, local_search
from icdc.problems.base import Instances, Size
from icdc.problems.decoding import decode_around, fixed_noise, random_choice
from icdc.problems.local_search import CHANGE_ONE, EXCHANGE_TWO, MOVE_SEGMENT, Changes, affordable_rounds, descend
from icdc.problems.rules import OneColumnPerRow, Rule, State
from icdc.problems.tensors import picked, to_tensors, totals_by_column

ENOUGH = 1000


class Crowded(Pmsp):
    """Jobs pay their time, and every machine the square of its number of jobs."""

    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        together = totals_by_column(torch.ones_like(instances["durations"]), choice)
        return picked(instances["durations"], choice).sum(-1) + together.square().sum(-1)


class Told(Crowded):
    """The same, and says how the cost changes."""

    def cost_changes(self, instances: Instances, choice: Tensor) -> Tensor:
        durations = instances["durations"]
        together = totals_by_column(torch.ones_like(durations), choice)
        own = picked(durations, choice)[..., None]
        here = together.gather(-1, choice)[..., None]
        changes = durations[:, None] - own + 2 * (together[:, :, None] - here + 1)
        return changes.scatter(3, choice[..., None], -1000)  # nobody reads these


class AtMostTwo(Crowded):
    """No machine may have more than two jobs; no rule knows it."""

    def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
        inside = super().feasible(instances, choice)
        clamped = choice.clamp(0, instances["durations"].shape[2] - 1)
        return inside & (totals_by_column(torch.ones_like(instances["durations"]), clamped) <= 2).all(-1)


class ToldAtMostTwo(AtMostTwo):
    cost_changes = Told.cost_changes


class Barred(Told):
    """Some pairs are forbidden, mostly the shortest ones."""

    def mask(self, instances: Instances) -> Tensor:
        return (instances["durations"] > 9) | (torch.arange(instances["durations"].shape[2]) == 1)

    def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
        inside = super().feasible(instances, choice)
        columns = instances["durations"].shape[2]
        return inside & picked(self.mask(instances), choice.clamp(0, columns - 1)).all(-1)


class EachOnce(Rule):
    """Every column is taken once; rows decide from the first on."""

    def start(self, shape: tuple[int, int, int], first: Tensor, mask: Tensor | None) -> State:
        count, rows, columns = shape
        return {"turn": torch.zeros_like(first), "open": torch.ones(count, rows, columns, dtype=torch.bool)}

    def next_row(self, state: State) -> Tensor:
        return state["turn"]

    def allowed(self, state: State) -> Tensor:
        return state["open"]

    def choose(self, state: State, row: Tensor, column: Tensor) -> State:
        open_ = state["open"].clone()
        each = torch.arange(len(row))
        open_[each, row] = False
        open_[each, :, column] = False
        return {"turn": state["turn"] + 1, "open": open_}


class Matching(Pmsp):
    """Every job has a machine of its own; the sum of the times."""

    rule = EachOnce()

    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        return picked(instances["durations"], choice).sum(-1)

    def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
        return (choice.sort(-1).values == torch.arange(choice.shape[-1])).all(-1)


class ToldMatching(Matching):
    def cost_changes(self, instances: Instances, choice: Tensor) -> Tensor:
        durations = instances["durations"]
        return durations[:, None] - picked(durations, choice)[..., None]


class Hurried(Atsp):
    """A tour whose longest step counts ten times; and the step from 0 to 1 is forbidden."""

    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        steps = picked(self.travel(instances), choice)
        return steps.sum(-1) + 9 * steps.amax(-1)

    def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
        return super().feasible(instances, choice) & (choice[..., 0] != 1)


PROBLEMS: list[tuple[Problem, Size]] = [
    (Crowded(), (5, 3)),
    (Told(), (5, 3)),
    (AtMostTwo(), (5, 3)),
    (ToldAtMostTwo(), (5, 3)),
    (Barred(), (6, 3)),
    (Matching(), (5, 5)),
    (ToldMatching(), (5, 5)),
    (Hurried(), (6,)),
    (Atsp(), (6,)),
    (Pmsp(), (6, 3)),
]


def setting(problem: Problem, size: Size, count: int = 3) -> tuple[dict[str, Tensor], list[Tensor], Tensor]:
    """Return instances, all feasible solutions of each, and some of those to begin with."""
    instances = to_tensors(problem.sample(count, size, np.random.default_rng(3)))
    rows, columns = problem.shape(size)
    every = torch.tensor(list(itertools.product(range(columns), repeat=rows)))
    good = problem.feasible(instances, every[None].expand(count, -1, -1))
    feasible = [every[one] for one in good]
    return instances, feasible, torch.stack([one[torch.arange(15) * len(one) // 15] for one in feasible])


def near(problem: Problem, one: Tensor, others: Tensor) -> Tensor:
    """Return those of the others (n, rows) that one change leads to."""
    differ = one != others
    rows = differ.sum(1)
    if isinstance(problem, Atsp):
        return others[rows == 3]
    exchanged = torch.tensor([sorted(one[d].tolist()) == sorted(o[d].tolist()) for d, o in zip(differ, others)])  # noqa: B905
    return others[(rows == 1) | ((rows == 2) & exchanged)]


@pytest.mark.parametrize("problem_size", PROBLEMS, ids=lambda given: type(given[0]).__name__)
def test_it_ends_in_local_optima(problem_size: tuple[Problem, Size]) -> None:
    """Nothing near is cheaper, nothing got worse, and something got better."""
    problem, size = problem_size
    instances, feasible, starts = setting(problem, size)
    found = descend(problem, instances, starts, ENOUGH)
    cost = problem.cost(instances, found)
    assert problem.feasible(instances, found).all()
    assert (cost <= problem.cost(instances, starts)).all()
    assert (cost < problem.cost(instances, starts)).any()
    for i, k in itertools.product(range(len(found)), range(found.shape[1])):
        one = {name: tensor[i : i + 1] for name, tensor in instances.items()}
        assert problem.cost(one, near(problem, found[i, k], feasible[i])[None]).amin() >= cost[i, k]


@pytest.mark.parametrize("problem_size", PROBLEMS, ids=lambda given: type(given[0]).__name__)
def test_a_round_is_one_change_the_best_of_its_kind(problem_size: tuple[Problem, Size]) -> None:
    """One row if that helps, else an exchange; on a tour a segment."""
    problem, size = problem_size
    instances, feasible, starts = setting(problem, size, count=1)
    once = descend(problem, instances, starts, 1)
    assert torch.equal(descend(problem, instances, starts, 0), starts)
    for before, after in zip(starts[0], once[0], strict=True):
        others = near(problem, before, feasible[0])
        own, cost = problem.cost(instances, before[None, None]).item(), problem.cost(instances, others[None])[0]
        single = (others != before).sum(1) == 1
        if single.any() and cost[single].min() < own:
            expected = cost[single].min()
        else:
            expected = min(cost.min(), own)
        assert problem.cost(instances, after[None, None]).item() == expected
    twice = descend(problem, instances, once, 1)
    assert torch.equal(descend(problem, instances, starts, 2), twice)


@pytest.mark.parametrize("problem_size", PROBLEMS, ids=lambda given: type(given[0]).__name__)
@pytest.mark.parametrize("rounds", [1, 3, ENOUGH // 20])
def test_devices_blocks_and_company_change_nothing(
    problem_size: tuple[Problem, Size], rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a look at values, in small blocks of changes and alone, the same solutions come out."""
    problem, size = problem_size
    instances, _, starts = setting(problem, size)
    starts = starts[:, :6]
    found = descend(problem, instances, starts, rounds)
    one = {name: tensor[1:2] for name, tensor in instances.items()}
    assert torch.equal(descend(problem, one, starts[1:2, 2:4], rounds), found[1:2, 2:4])
    monkeypatch.setattr(local_search, "MOST_ENTRIES", 200)
    assert torch.equal(descend(problem, instances, starts, rounds), found)
    monkeypatch.setattr(local_search, "_readable", lambda tensor: False)
    assert torch.equal(descend(problem, instances, starts, rounds), found)


def test_what_a_problem_says_about_changes_is_what_costs_say() -> None:
    """With and without cost_changes the search goes the same way."""
    instances, _, starts = setting(Told(), (6, 4))
    for rounds in (1, 2, 5, ENOUGH):
        assert torch.equal(descend(Told(), instances, starts, rounds), descend(Crowded(), instances, starts, rounds))


def test_costs_are_asked_for_only_where_changes_are_not_told() -> None:
    """One row's changes are taken from cost_changes: only their outcome is scored, and exchanges."""
    counted: list[int] = []

    class Counting(Told):
        def cost(self, instances: Instances, choice: Tensor) -> Tensor:
            counted.append(choice.shape[0] * choice.shape[1])
            return super().cost(instances, choice)

        cost_changes = Told.cost_changes

    instances = to_tensors(Counting().sample(1, (12, 9), np.random.default_rng(0)))
    descend(Counting(), instances, torch.zeros(1, 1, 12, dtype=torch.long), 3)
    assert sum(counted) == 4  # the start, and what three changes led to


def numbered(changes: Changes, choice: Tensor, columns: int) -> set[tuple[int, ...]]:
    """Return what all changes of a kind make of one choice (rows,)."""
    number = torch.arange(changes.count(len(choice), columns))
    rows, taken = changes.of(choice[None], columns, number)
    return {tuple(choice.scatter(0, r, t).tolist()) for r, t in zip(rows[0], taken[0], strict=True)}


@pytest.mark.parametrize("rows", [1, 2, 5, 6])
def test_every_row_and_every_pair_of_rows_has_its_change(rows: int) -> None:
    choice = torch.randint(0, 4, (rows,))
    singles, pairs = set(), set()
    for row, column in itertools.product(range(rows), range(4)):
        singles.add(tuple(choice.scatter(0, torch.tensor([row]), column).tolist()))
    for i, j in itertools.combinations(range(rows), 2):
        pairs.add(tuple(choice.scatter(0, torch.tensor([i, j]), choice[[j, i]]).tolist()))
    assert numbered(CHANGE_ONE, choice, 4) == singles
    assert numbered(EXCHANGE_TWO, choice, 4) == pairs
    assert EXCHANGE_TWO.count(rows, 4) <= rows * rows / 2


@pytest.mark.parametrize("cities", [2, 3, 4, 5, 6, 7, 8])
def test_segments_move_everywhere(cities: int) -> None:
    """All tours that differ from a tour by three steps, which is every exchange of neighbouring segments."""
    order = [0, *np.random.default_rng(cities).permutation(np.arange(1, cities)).tolist()]

    def successors(tour: list[int]) -> tuple[int, ...]:
        return tuple(tour[(tour.index(city) + 1) % cities] for city in range(cities))

    expected = {
        successors(order[:i] + order[j:k] + order[i:j] + order[k:])
        for i, j, k in itertools.combinations(range(1, cities + 1), 3)
    } | {
        successors(order[i:j] + order[:i] + order[j:]) for i, j in itertools.combinations(range(1, cities), 2)
    }  # fmt: skip
    found = numbered(MOVE_SEGMENT, torch.tensor(successors(order)), cities)
    assert found == expected
    assert len(found) == cities * (cities - 1) * (cities - 2) // 6


def test_long_segments_stay() -> None:
    """Of many cities only segments up to a length are moved: the changes grow with the square, not the cube."""
    choice = torch.arange(1, 61) % 60
    rows, taken = MOVE_SEGMENT.of(choice[None], 60, torch.arange(MOVE_SEGMENT.count(60, 60)))
    moved = choice[None].expand(rows.shape[1], -1).scatter(1, rows[0], taken[0])
    instances = {"distances": torch.zeros(1, 60, 60)}
    assert Atsp().feasible(instances, moved[None, ::50]).all()
    length = (rows[0, :, 1] - rows[0, :, 0]) % 60
    assert sorted(set(length.tolist())) == list(range(1, 11))
    assert MOVE_SEGMENT.count(60, 60) == 60 * 10 * 58


def test_what_is_not_feasible_is_left_for_what_is() -> None:
    """A start that the problem refuses is no standard: any feasible solution near is better."""
    problem = AtMostTwo()
    instances = {"durations": torch.tensor([[[1, 9], [1, 9], [1, 9]]])}
    found = descend(problem, instances, torch.tensor([[[0, 0, 0]]]), 1)
    assert problem.cost(instances, found).item() > problem.cost(instances, torch.tensor([[[0, 0, 0]]])).item()
    assert problem.feasible(instances, found).all()


def test_whole_numbers_beyond_double_precision_are_told_apart() -> None:
    big = 2**60
    instances = {"durations": torch.tensor([[[big + 1, big], [0, 0]]])}
    found = descend(Matching(), instances, torch.tensor([[[0, 1]]]), 5)
    assert found.tolist() == [[[1, 0]]]


def test_a_subclass_with_another_cost_has_no_changes_but_its_own() -> None:
    """What the parent says about its cost does not hold for another; a mixin may bring both, or only the changes."""

    class Silent(Told):
        def cost(self, instances: Instances, choice: Tensor) -> Tensor:
            return -super().cost(instances, choice)

    class Changes:
        def cost_changes(self, instances: Instances, choice: Tensor) -> Tensor:
            return torch.zeros(1)

    class Mixed(Changes, Crowded):  # type: ignore[misc]
        pass

    instances, _, starts = setting(Told(), (5, 3))
    assert Silent().cost_changes(instances, starts) is None
    assert Crowded().cost_changes(instances, starts) is None  # its cost is not the makespan
    assert Mixed().cost_changes(instances, starts) is not None


@pytest.mark.parametrize("machines", [1, 2, 3, 4])
def test_changes_of_a_makespan(machines: int) -> None:
    """For every job and machine, whichever machines are the fullest."""
    problem = Pmsp()
    instances, _, _ = setting(problem, (4, machines))
    choice = torch.randint(0, machines, (3, 20, 4))
    told, cost = problem.cost_changes(instances, choice), problem.cost(instances, choice)
    assert told.dtype == torch.int64
    for job, machine in itertools.product(range(4), range(machines)):
        moved = choice.clone()
        moved[..., job] = machine
        changed = problem.cost(instances, moved) - cost
        other = choice[..., job] != machine
        assert torch.equal(told[..., job, machine][other], changed[other])


def test_the_default_start_is_random_and_improved() -> None:
    """As many solutions as asked for, the first ones the same however many; better than what the rule draws."""
    problem = Crowded()
    instances = to_tensors(problem.sample(4, (12, 4), np.random.default_rng(0)))
    made = problem.construct(instances, 6)
    assert made.choice.shape == (4, 6, 12)
    assert made.bound is None
    assert torch.equal(problem.construct(instances, 2).choice, made.choice[:, :2])
    noise = Noise(fold(root_key(9), torch.arange(24)))
    random = random_choice(problem.rule, (12, 4), noise).view(4, 6, 12)
    assert (problem.cost(instances, made.choice).amax(1) < problem.cost(instances, random).amin(1)).all()
    assert len({tuple(one) for one in made.choice[0].tolist()}) > 1


def test_an_instance_of_one_row_or_column() -> None:
    """Nothing to change is no error."""
    for size in ((1, 1), (1, 3), (3, 1)):
        instances = to_tensors(Crowded().sample(2, size, np.random.default_rng(0)))
        found = descend(Crowded(), instances, torch.zeros(2, 2, size[0], dtype=torch.long), 5)
        assert found.shape == (2, 2, size[0])


def test_starts_of_large_instances_do_not_take_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many changes as rows while all changes are few; none where a single round would be too many to look at."""
    assert affordable_rounds(Crowded(), 20, 4) == 20
    assert 0 < affordable_rounds(Crowded(), 400, 10) < 400
    assert affordable_rounds(Hurried(), 2000, 2000) == 0
    asked: list[int] = []
    monkeypatch.setattr(
        "icdc.problems.local_search.descend", lambda p, i, choice, rounds: asked.append(rounds) or choice
    )
    made = Hurried().construct({"distances": torch.ones(1, 600, 600)})
    assert asked == [0]
    assert made.choice.shape == (1, 1, 600)


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
