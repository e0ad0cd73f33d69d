"""Fixed steps are refused exactly where no solution has all of them; `test_wishes` has the sentences."""

import re
from itertools import pairwise, permutations

import numpy as np
import pytest

import icdc
from icdc.errors import InputError
from icdc.problems.atsp import Atsp
from icdc.problems.flow_shop import FlowShop
from icdc.problems.instance import Instance
from icdc.problems.wishes import Wishes, posed

NAMES = ("a", "b", "c", "d")
MATRIX = np.array([[0, 3, 4, 5], [6, 0, 7, 8], [1, 2, 0, 9], [4, 1, 2, 0]])
TOUR = Instance("map.csv", Atsp(), {"distances": MATRIX}, NAMES, NAMES)


def possible(items: int, closed: bool, fixed: list[tuple[int, int]], first: int | None, last: int | None) -> bool:
    """Tell whether some order of all items, and its return if it is closed, has every step and both ends."""
    for order in permutations(range(items)):
        steps = {*pairwise(order), *([(order[-1], order[0])] if closed else [])}
        if set(fixed) <= steps and first in (None, order[0]) and last in (None, order[-1]):
            return True
    return False


@pytest.mark.parametrize("kind", ["tour", "path", "sequence"])
def test_steps_are_refused_exactly_where_no_solution_has_them_all(kind: str) -> None:
    rng, refused, draws = np.random.default_rng(0), 0, 400
    for _ in range(draws):
        items = int(rng.integers(2, 6))
        durations = np.ones((items, items), dtype=np.int64)
        problem, name = (FlowShop(), "durations") if kind == "sequence" else (Atsp(), "distances")
        count = int(rng.integers(0, items + 1))
        fixed = [(int(row), int(rng.integers(items))) for row in rng.permutation(items)[:count]]
        first, last = (int(item) if rng.integers(2) else None for item in rng.permutation(items)[:2])
        wishes = Wishes(fixed=fixed, open=kind == "path", first=first, last=last)
        try:
            posed(Instance("x", problem, {name: durations}), wishes)
            told = True
        except InputError:
            told = False
        assert told == possible(items, kind == "tour", fixed, first, last), wishes
        refused += not told
    assert 0.2 * draws < refused < 0.9 * draws  # both happen often


def test_a_whole_tour_may_be_fixed() -> None:
    steps = {"a": "c", "c": "b", "b": "d", "d": "a"}
    answer = icdc.solve(TOUR, fixed=steps)
    assert (answer.solution, answer.optimal) == ([0, 2, 1, 3], True)
    answer = icdc.solve(TOUR, fixed=steps, first="b", last="c")
    assert answer.solution == [1, 3, 0, 2]
    path = icdc.solve(TOUR, fixed={"a": "c", "c": "b", "b": "d"}, open=True, first="a", last="d")
    assert (path.solution, path.objective, path.optimal) == ([0, 2, 1, 3], 14, True)


def test_a_long_circle_is_shortened() -> None:
    large = Instance("x", Atsp(), {"distances": np.ones((12, 12), dtype=np.int64)})
    steps = [(i, (i + 1) % 10) for i in range(10)]
    with pytest.raises(InputError, match=re.escape("0 → 1 → 2 → 3 → 4 → … → 0")):
        posed(large, Wishes(fixed=steps))
