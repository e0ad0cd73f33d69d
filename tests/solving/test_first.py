"""An answer at once."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from icdc.problems import get_problem
from icdc.problems.tensors import to_tensors
from icdc.solving.first import first_choice
from icdc.solving.results import at_once

WITHOUT_TORCH = """
import sys
import numpy as np
from icdc.problems import get_problem
from icdc.solving.results import at_once
for name, size in (("atsp", (6,)), ("pmsp", (6, 3))):
    problem = get_problem(name)
    assert at_once(problem, problem.sample(2, size, np.random.default_rng(0))).feasible.all()
print("torch" in sys.modules)
"""


@pytest.mark.parametrize(("name", "size"), [("atsp", (7,)), ("pmsp", (6, 3))])
def test_it_is_what_the_rule_makes_of_the_cheapest_pairs(name: str, size: tuple[int, ...]) -> None:
    problem = get_problem(name)
    arrays = problem.sample(5, size, np.random.default_rng(1))
    costs = problem.cost_matrix(arrays)
    assert costs is not None
    scores = -torch.from_numpy(np.array(costs, dtype=np.float32))
    wanted = problem.rule.follow(scores, torch.zeros(5, dtype=torch.long), problem.mask(to_tensors(arrays)))
    np.testing.assert_array_equal(first_choice(problem, arrays), wanted.numpy())


def test_nearest_neighbours_of_a_line() -> None:
    problem = get_problem("atsp")
    places = np.array([0, 10, 2, 5])
    arrays = {"distances": np.abs(places[:, None] - places[None])[None]}
    np.testing.assert_array_equal(first_choice(problem, arrays), [[2, 0, 3, 1]])


def test_infinitely_far_cities_are_visited_too() -> None:
    distances = np.full((1, 4, 4), np.inf)
    distances[0, 0, 2] = 1.0
    choice = first_choice(get_problem("atsp"), {"distances": distances})
    np.testing.assert_array_equal(choice, [[2, 3, 1, 0]])


def test_it_says_what_it_is() -> None:
    problem = get_problem("pmsp")
    arrays = problem.sample(2, (4, 2), np.random.default_rng(0))
    results = at_once(problem, arrays)
    assert results.feasible.all()
    assert results.interrupted
    assert (results.samples, results.found_by) == (0, ("construction", "construction"))
    start = np.zeros((2, 4), dtype=np.int64)
    begun = at_once(problem, arrays, start)
    np.testing.assert_array_equal(begun.choice, start)
    assert begun.found_by == ("start", "start")


def test_it_does_not_wait_for_torch() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
