"""Decoding rules: the fast overrides against the generic methods, and both against slow plain Python."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from icdc.kernels import NEVER
from icdc.problems.decoding import Order, decode
from icdc.problems.rules import HamiltonianCycle, OneColumnPerRow, Rule, State, positions


class PlainCycle(HamiltonianCycle):
    """The cycle rule without its fast overrides."""

    follow, by_confidence, allowed_along = Rule.follow, Rule.by_confidence, Rule.allowed_along


class PlainRows(OneColumnPerRow):
    """The one-column-per-row rule without its fast overrides."""

    follow, by_confidence, allowed_along = Rule.follow, Rule.by_confidence, Rule.allowed_along


CYCLE, ROWS = HamiltonianCycle(), OneColumnPerRow()


def tour_from(scores: list[list[float]], first: int) -> list[int]:
    """Follow the best-scored unvisited city from `first`, in plain Python; the successor of each city."""
    size = len(scores)
    successor, city, seen = [0] * size, first, {first}
    while len(seen) < size:
        best = max((c for c in range(size) if c not in seen), key=lambda c: (scores[city][c], -c))
        successor[city], city = best, best
        seen.add(best)
    successor[city] = first
    return successor


def tour_by_confidence(scores: list[list[float]]) -> list[int]:
    """Take the best-scored pair that keeps a tour possible, until there is one, in plain Python."""
    size = len(scores)
    successor: dict[int, int] = {}
    while len(successor) < size:
        best = None
        for i, j in itertools.product(range(size), repeat=2):
            if i in successor or j in successor.values():
                continue
            end, steps = j, 1
            while end in successor:  # where the path through (i, j) would end
                end, steps = successor[end], steps + 1
            if end == i and steps < size:
                continue  # closes a cycle that misses cities
            if best is None or scores[i][j] > scores[best[0]][best[1]]:
                best = (i, j)
        assert best is not None
        successor[best[0]] = best[1]
    return [successor[i] for i in range(size)]


def random_scores(count: int, rows: int, columns: int, seed: int, ties: bool) -> Tensor:
    """Return random scores; with ties, only three different values."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(count, rows, columns, generator=generator) * 3
    return scores.round().clamp(-1, 1) if ties else scores


def is_tour(successor: list[int]) -> bool:
    """Walk the successors from 0 and see every city once."""
    city, seen = 0, []
    for _ in successor:
        seen.append(city)
        city = successor[city]
    return city == 0 and sorted(seen) == list(range(len(successor)))


sizes = st.integers(1, 7)
seeds = st.integers(0, 10**6)


@given(sizes, seeds, st.booleans())
def test_cycle_in_its_own_order(size: int, seed: int, ties: bool) -> None:
    """Fast, generic and plain Python follow the same tour from any first city, ties to the lowest column."""
    scores = random_scores(8, size, size, seed, ties)
    first = torch.arange(8) % size
    fast = CYCLE.follow(scores, first)
    assert torch.equal(fast, PlainCycle().follow(scores, first))
    assert fast.tolist() == [tour_from(s, f) for s, f in zip(scores.tolist(), first.tolist(), strict=True)]


@given(sizes, seeds, st.booleans())
def test_cycle_by_confidence(size: int, seed: int, ties: bool) -> None:
    """Fast, generic and plain Python take the same pairs in the same order, ties to the first pair."""
    scores = random_scores(8, size, size, seed, ties)
    fast = CYCLE.by_confidence(scores)
    assert torch.equal(fast, PlainCycle().by_confidence(scores))
    assert fast.tolist() == [tour_by_confidence(s) for s in scores.tolist()]
    assert all(is_tour(choice) for choice in fast.tolist())


@pytest.mark.parametrize("missing", range(4))
def test_the_city_never_entered_is_found(missing: int) -> None:
    """The last decision by confidence closes the path at its true start, city 0 included."""
    order = [missing, *(c for c in range(4) if c != missing)]
    scores = torch.zeros(1, 4, 4)
    for a, b in itertools.pairwise(order):
        scores[0, a, b] = 5.0
    scores[0, :, missing] = -5.0
    (choice,) = CYCLE.by_confidence(scores).tolist()
    assert [choice[c] for c in order] == [*order[1:], missing]


@given(st.integers(1, 6), st.integers(1, 6), seeds, st.booleans())
def test_one_column_per_row(rows: int, columns: int, seed: int, masked: bool) -> None:
    """Every order gives each row its best permitted column, fast and generic alike."""
    scores = random_scores(6, rows, columns, seed, seed % 2 == 0)
    mask = random_scores(6, rows, columns, seed + 1, False) > -1 if masked else None
    if mask is not None:
        mask[:, :, seed % columns] = True
    first = torch.zeros(6, dtype=torch.long)
    expected = []
    for index, matrix in enumerate(scores.tolist()):
        permitted = [[True] * columns] * rows if mask is None else mask[index].tolist()
        pick = [
            max((c for c in range(columns) if ok[c]), key=lambda c, row=row: (row[c], -c))
            for row, ok in zip(matrix, permitted, strict=True)
        ]
        expected.append(pick)
    for rule in (ROWS, PlainRows()):
        assert rule.follow(scores, first, mask).tolist() == expected
        assert rule.by_confidence(scores, mask).tolist() == expected
    choice = torch.tensor(expected)
    assert torch.equal(
        ROWS.allowed_along(choice, columns, first, mask),
        PlainRows().allowed_along(choice, columns, first, mask),
    )


@given(st.integers(1, 7), seeds)
def test_allowed_along_a_tour(size: int, seed: int) -> None:
    """The columns a row could have taken: cities not yet visited at its turn, and home at the very end."""
    first = torch.arange(5) % size
    choice = CYCLE.follow(random_scores(5, size, size, seed, False), first)
    allowed = CYCLE.allowed_along(choice, size, first)
    assert torch.equal(allowed, PlainCycle().allowed_along(choice, size, first))
    for successor, start, seen in zip(choice.tolist(), first.tolist(), allowed.tolist(), strict=True):
        city, visited = start, {start}
        for _ in range(size):
            expected = [c not in visited for c in range(size)] if len(visited) < size else None
            assert seen[city] == (expected or [c == start for c in range(size)])
            city = successor[city]
            visited.add(city)


@given(st.integers(1, 40), seeds)
def test_positions_count_along_the_tour(size: int, seed: int) -> None:
    """Pointer jumping gives the position that walking gives, for sizes around powers of two too."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(size, generator=generator)
    successor = torch.empty_like(order).scatter(0, order, order.roll(-1))
    found = positions(successor[None], order[:1])[0]
    assert found[order].tolist() == list(range(size))


def test_a_mask_is_kept_where_it_can_be() -> None:
    """A cycle through the permitted pairs only, when greedy choices do not run into a corner."""
    ring = torch.eye(5, dtype=torch.bool).roll(1, 1)[None]  # only 0→1→2→3→4→0 is permitted
    scores = -10.0 * ring.float()  # and every permitted pair scores worse than any other
    for first in range(5):
        assert CYCLE.follow(scores, torch.tensor([first]), ring).tolist() == [[1, 2, 3, 4, 0]]
    assert CYCLE.by_confidence(scores, ring).tolist() == [[1, 2, 3, 4, 0]]
    for rule in (CYCLE, PlainCycle()):
        assert torch.equal(rule.allowed_along(torch.tensor([[1, 2, 3, 4, 0]]), 5, torch.tensor([0]), ring), ring)


@given(st.integers(2, 6), seeds)
def test_a_mask_that_cannot_be_kept_still_gives_a_tour(size: int, seed: int) -> None:
    """Where no permitted pair is left the mask gives way, never the tour."""
    scores = random_scores(6, size, size, seed, False)
    mask = random_scores(6, size, size, seed + 1, False) > 2
    for choice in (CYCLE.follow(scores, torch.arange(6) % size, mask), CYCLE.by_confidence(scores, mask)):
        assert all(is_tour(c) for c in choice.tolist())


def test_a_cycle_needs_a_square_matrix() -> None:
    """A rectangular matrix has no tour, and the rule says so."""
    with pytest.raises(ValueError, match="square"):
        CYCLE.start((1, 2, 3), torch.zeros(1, dtype=torch.long), None)


class Permutation(Rule):
    """A rule as a user writes it: every row takes a column nobody has taken yet."""

    def start(self, shape: tuple[int, int, int], first: Tensor, mask: Tensor | None) -> State:
        count, rows, columns = shape
        free = torch.ones(count, columns, dtype=torch.bool, device=first.device)
        opened = torch.ones(count, rows, dtype=torch.bool, device=first.device)
        return {"turn": torch.zeros_like(first), "free": free, "open": opened}

    def next_row(self, state: State) -> Tensor:
        return state["turn"]

    def allowed(self, state: State) -> Tensor:
        return state["open"][:, :, None] & state["free"][:, None, :]

    def choose(self, state: State, row: Tensor, column: Tensor) -> State:
        taken = torch.zeros_like(state["free"]).scatter(1, column[:, None], True)
        done = torch.zeros_like(state["open"]).scatter(1, row[:, None], True)
        return {"turn": state["turn"] + 1, "free": state["free"] & ~taken, "open": state["open"] & ~done}


@given(st.integers(1, 6), seeds, st.booleans())
def test_a_users_rule_decodes_by_the_generic_methods(size: int, seed: int, ties: bool) -> None:
    """Four methods are enough: both orders give permutations, the second that of plain Python."""
    scores = random_scores(4, size, size, seed, ties)
    rule = Permutation()
    followed = rule.follow(scores, torch.zeros(4, dtype=torch.long))
    assert (followed.sort(1).values == torch.arange(size)).all()
    confident = rule.by_confidence(scores)
    for matrix, found in zip(scores.tolist(), confident.tolist(), strict=True):
        pairs = sorted(itertools.product(range(size), repeat=2), key=lambda p: -matrix[p[0]][p[1]])
        chosen: dict[int, int] = {}
        for i, j in pairs:
            if i not in chosen and j not in chosen.values():
                chosen[i] = j
        assert found == [chosen[i] for i in range(size)]


def without_0_to_1(pairs: Tensor) -> Tensor:
    """Return pairs without one of them, where another is left."""
    without = pairs.clone()
    without[:, 0, 1] = False
    return torch.where(without.any(2, keepdim=True), without, pairs)


class Forbidden(HamiltonianCycle):
    """As a user changes a ready-made rule: by no means from 0 to 1."""

    def allowed(self, state: State) -> Tensor:
        return without_0_to_1(super().allowed(state))


class Forbidding:
    """The same as a mixin, which is no rule itself."""

    def allowed(self, state: State) -> Tensor:
        return without_0_to_1(super().allowed(state))  # type: ignore[misc]


@pytest.mark.parametrize("order", ["rule", "confidence"])
def test_a_rule_that_decides_otherwise_does_not_inherit_shortcuts(order: Order) -> None:
    """One method is changed; all that the parent does faster, kernels too, would not know of it."""
    wanted = torch.zeros(2, 5, 5)
    wanted[:, 0, 1] = 9.0
    first = torch.zeros(2, dtype=torch.long)
    assert (decode(CYCLE, wanted, order=order)[:, 0] == 1).all()
    choice = decode(Forbidden(), wanted, order=order)
    assert (choice[:, 0] != 1).all()
    assert all(is_tour(c) for c in choice.tolist())
    allowed = Forbidden().allowed_along(choice, 5, first)
    assert not allowed[:, 0, 1].any()
    assert allowed.gather(2, choice[:, :, None]).all()

    class Again(Forbidden):
        pass

    class Mixed(Forbidding, HamiltonianCycle):  # type: ignore[misc]
        pass

    for rule in (Again(), Mixed()):
        assert torch.equal(decode(rule, wanted, order=order), choice)


def test_shortcuts_belong_to_the_rule_that_has_them() -> None:
    """The two ready-made rules keep theirs, so does a rule that changes nothing, and own ones stay."""

    class Same(OneColumnPerRow):
        decodes = 3

    class Own(HamiltonianCycle):
        def follow(self, scores: Tensor, first: Tensor, mask: Tensor | None = None) -> Tensor:
            return super().follow(-scores, first, mask)

    class Complete(Own):
        def decode(self, *arguments: Any, **options: Any) -> Tensor:
            return HamiltonianCycle.decode(self, *arguments, **options)

    for name in ("follow", "by_confidence", "allowed_along", "decode"):
        for rule in (OneColumnPerRow, HamiltonianCycle):
            assert getattr(rule, name) is not getattr(Rule, name)
        assert getattr(Same, name) is getattr(OneColumnPerRow, name)
        assert getattr(Forbidden, name) is getattr(Rule, name)
    assert Own.follow is not HamiltonianCycle.follow
    assert Own.by_confidence is HamiltonianCycle.by_confidence
    assert Own.decode is Rule.decode
    assert Complete.decode is not Rule.decode
    scores, first = random_scores(4, 6, 6, 1, False), torch.zeros(4, dtype=torch.long)
    assert torch.equal(decode(Own(), scores), CYCLE.follow(-scores, first))
    assert torch.equal(decode(Complete(), scores), CYCLE.follow(scores, first))


def test_never_is_below_any_score_a_network_gives() -> None:
    """The mark of a forbidden pair survives float32 and bfloat16 and stays finite."""
    for dtype in (torch.float32, torch.bfloat16):
        mark = torch.tensor(NEVER, dtype=dtype)
        assert torch.isfinite(mark)
        assert mark < -1e8
