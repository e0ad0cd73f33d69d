"""The contract: its defaults, the structure that solvers rely on, and how a name becomes a problem."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from icdc.conformance import assert_conforms
from icdc.errors import InputError, UsageError
from icdc.problems import (
    BUILT_IN,
    SHIPPED,
    Atsp,
    Instance,
    Navigation,
    Pmsp,
    get_problem,
    problem_path,
    problems_of_matrix,
)
from icdc.problems.arrays import checked_matrix
from icdc.problems.base import Arrays, FeatureSizes, Instances, InTorch, Problem, Size, main_matrix
from icdc.problems.features import Features
from icdc.problems.rules import OneColumnPerRow, Rule
from icdc.problems.sequencing import FlowShop
from icdc.problems.tensors import picked


@pytest.mark.parametrize("problem", [Pmsp(), Atsp()])
@pytest.mark.parametrize(
    ("solution", "sentence"),
    [
        ([0, 1.5, 2], "entry 2 of the solution is 1.5, not an integer"),
        ([0, 1, 2.0], "entry 3 of the solution is 2.0, not an integer"),
        ([0, None, 1], "entry 2 of the solution is None, not an integer"),
        (["0", "1"], "entry 1 of the solution is '0', not an integer"),
        ([True, False], "entry 1 of the solution is True, not an integer"),
        ([[0, 1]], "must be a list of integers"),
        ([[0, 1], [2]], "must be a list of integers"),
        ([], "must be a list of integers"),
    ],
)
def test_a_solution_is_never_rounded(problem: Problem, solution: list[Any], sentence: str) -> None:
    """What is not a list of integers is refused, and the entry is named."""
    with pytest.raises(InputError, match=sentence):
        problem.choice(solution)


def test_integers_of_every_kind_make_a_solution() -> None:
    """Lists, and what NumPy and torch make of them."""
    for solution in ([2, 0, 1], list(np.array([2, 0, 1], dtype=np.uint8)), list(torch.tensor([2, 0, 1]))):
        choice = Pmsp().choice(solution)
        assert choice.dtype == np.int64
        assert choice.tolist() == [2, 0, 1]


def test_a_problem_must_be_filled_in() -> None:
    """The contract itself cannot be used, and says what is missing."""
    with pytest.raises(TypeError, match="abstract"):
        Problem()  # type: ignore[abstract]


class Shifts(Problem):
    """A problem from nothing, with words of its own: nurses take shifts, at a price for each pair."""

    name = "shifts"
    arrays = ("prices",)
    size_names = ("nurses", "shifts")
    feature_sizes = FeatureSizes(relations=1, raw_relations=1)
    rule = OneColumnPerRow()
    row_words = ("nurse", "nurses")
    column_words = ("shift", "shifts")

    def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
        return {"prices": rng.integers(1, 9, (count, *size))}

    def size(self, arrays: Mapping[str, Any]) -> Size:
        return tuple(arrays["prices"].shape[1:])

    def shape(self, size: Size) -> tuple[int, int]:
        return size[0], size[1]

    def check(self, arrays: Mapping[str, Any]) -> Arrays:
        return {"prices": checked_matrix(arrays["prices"], "the matrix of prices")}

    def features(self, instances: Instances) -> Features:
        prices = instances["prices"].float()
        return Features((prices / prices.mean((1, 2), keepdim=True))[..., None])

    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        return picked(instances["prices"], choice).sum(-1)

    def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
        return ((choice >= 0) & (choice < instances["prices"].shape[2])).all(-1)

    def density(self, size: Size) -> float:
        return 1.0 / size[1]

    def violation(self, x: Tensor) -> Tensor:
        return (x.sum(2) - 1).square().sum(1)


PRICES = np.array([[3, 5], [4, 2], [6, 1]])


def test_a_problem_from_nothing_conforms() -> None:
    """What must be filled in is enough; everything else has a default that works."""
    assert_conforms(Shifts(), (4, 3))


def test_defaults_speak_the_problems_own_words() -> None:
    problem, choice = Shifts(), np.array([0, 1, 1])
    instance = Instance("ward", problem, {"prices": PRICES}, rows=("Ann", "Bo", "Cy"))
    assert problem.objective == "objective"
    assert problem.describe_size((3, 2)) == "shifts of 3 nurses, 2 shifts"
    assert problem.describe_solution(instance, choice) == ["  0 1 1"]
    named = Instance("ward", problem, {"prices": PRICES}, columns=("early", "late"))
    assert problem.describe_solution(named, choice) == ["  early late late"]
    assert problem.solution_header() == ("nurse", "shift")
    assert problem.structure is None
    assert problem.cost_matrix(instance.batch()) is None
    assert not problem.recognises((3, 2), False)
    assert Problem.row_words == ("row", "rows")
    assert Problem.column_words == ("column", "columns")


def test_the_default_picture_frames_the_choice_on_the_matrix() -> None:
    instance = Instance("ward", Shifts(), {"prices": PRICES}, rows=("Ann", "Bo", "Cy"))
    ax = Shifts().draw_solution(instance, np.array([0, 1, 1])).axes[0]
    assert np.array_equal(np.asarray(ax.images[0].get_array()), PRICES)
    frames = [(int(p.vertices[0, 1] + 0.5), int(p.vertices[0, 0] + 0.5)) for p in ax.collections[-1].get_paths()]
    assert frames == [(0, 0), (1, 1), (2, 1)]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["Ann", "Bo", "Cy"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("shift", "nurse")


def test_the_main_matrix_is_the_costs_or_the_first_of_the_shape() -> None:
    class Told(Shifts):
        def cost_matrix(self, arrays: Arrays) -> NDArray[Any]:
            return arrays["prices"] * 10

    arrays = {"weights": np.ones((1, 3)), "prices": PRICES[None], "later": PRICES[None] + 1}
    assert np.array_equal(main_matrix(Shifts(), arrays), PRICES[None])
    assert np.array_equal(main_matrix(Told(), arrays), 10 * PRICES[None])

    class Pairs(Shifts):
        def shape(self, size: Size) -> tuple[int, int]:
            return size[1], size[0]

    assert main_matrix(Pairs(), arrays) is None


@pytest.mark.parametrize(("base", "structure"), [(Pmsp, "makespan"), (Atsp, "tour"), (Navigation, "tour")])
def test_a_structure_is_lost_with_the_question_it_is_about(base: type[Problem], structure: str) -> None:
    """A subclass that changes the question answers another one, unless it promises otherwise itself."""
    assert base.structure == structure
    for part in ("cost", "mask", "feasible", "cost_matrix"):
        changed = type("Changed", (base,), {part: lambda self, *arguments: None})
        assert changed.structure is None, part
        assert type("Later", (changed,), {"name": "later"}).structure is None, part
        kept = type("Kept", (base,), {part: lambda self, *arguments: None, "structure": structure})
        assert kept.structure == structure, part
        assert type("KeptLater", (kept,), {"name": "later"}).structure == structure, part
        mixin = type("Mixin", (), {part: lambda self, *arguments: None})
        assert type("Mixed", (mixin, base), {}).structure is None, part
    same = type("Same", (base,), {"name": "same", "features": lambda self, instances: None})
    assert same.structure == structure


ONES = np.ones((2, 2), dtype=np.int64)
SHOP = Instance("t", Pmsp(), {"durations": ONES}, rows=("cut", "\x1b[2Jdrill"), columns=("M1", "M2"))
TOUR = Instance("t", Atsp(), {"distances": ONES})
FLOW = Instance("t", FlowShop(), {"durations": ONES}, rows=("cut", "drill"), columns=("M1", "M2"))


def test_what_an_item_is_called() -> None:
    assert (SHOP.row_text(0), SHOP.column_text(1)) == ("job 'cut'", "machine 'M2'")
    assert (TOUR.row_text(0), TOUR.column_text(1)) == ("city 0", "city 1")


def test_what_a_pair_is_called() -> None:
    assert SHOP.pair_text((1, 0)) == r"job '\x1b[2Jdrill' with machine 'M1'"
    assert TOUR.pair_text((0, 1)) == "from city 0 to city 1"
    assert FLOW.pair_text((0, 1)) == "job 'drill' after job 'cut'"
    assert FLOW.pair_text((2, 0)) == "job 'cut' first"
    assert FLOW.pair_text((0, 2)) == "job 'cut' last"


def test_what_is_written_in_torch_is_there() -> None:
    """Every method and draw of a problem that ships is found under the name that it is announced by."""
    for problem in SHIPPED.values():
        announced = [part for cls in problem.__mro__ for part in vars(cls).values() if isinstance(part, InTorch)]
        announced += [family.draw for family in problem.families.values() if isinstance(family.draw, InTorch)]
        assert len(announced) > 5
        assert all(callable(part.value) or isinstance(part.value, Rule) for part in announced)


def test_instances_are_checked_bounded_and_described_without_torch() -> None:
    code = """
import sys
import numpy as np
from icdc.problems import Instance
from icdc.problems import SHIPPED
from icdc.problems.conditions import cost, with_conditions, violation
for name, problem in SHIPPED.items():
    problem = problem()
    arrays = problem.check(problem.sample(2, (4, 3)[: len(problem.size_names)], np.random.default_rng(0)))
    if name != "navigation":
        assert problem.lower_bound(arrays).shape == (2,) and problem.cost_matrix(arrays).ndim == 3
        instance = Instance("x", problem, {key: array[0] for key, array in arrays.items()})
        choice = problem.choice([0, 1, 2, 1] if name == "pmsp" else [0, 1, 2, 3])
        instance, _ = with_conditions(instance, dict(fixed={0: 1} if name != "pmsp" else {0: 0}))
        assert violation(instance, choice) is None and cost(instance, choice) > 0
        assert problem.describe_solution(instance, choice)
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_built_in_names_lead_back() -> None:
    """Every shipped problem is found by its name, and its name by the problem."""
    assert set(BUILT_IN) == {"atsp", "pmsp", "navigation"}
    for name, kind in BUILT_IN.items():
        assert type(get_problem(name)) is kind
        assert problem_path(get_problem(name)) == name


def test_a_problem_of_ones_own_is_found_by_module_and_class() -> None:
    """module:Class works, and a subclass does not pass for the built-in it inherits its name from."""

    class Mine(Atsp):
        pass

    assert type(get_problem("icdc.problems.atsp:Atsp")) is Atsp
    assert problem_path(Mine()) != "atsp"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("tsp", "unknown problem 'tsp'; choose atsp, pmsp, navigation"),
        ("no.such.module:Thing", "cannot import"),
        ("icdc.problems:Thing", "no class 'Thing'"),
        ("icdc.kernels:Noise", "not a subclass"),
        ("icdc.kernels:fold", "not a subclass"),
    ],
)
def test_names_that_lead_nowhere(name: str, sentence: str) -> None:
    """Each wrong name gets its own sentence."""
    with pytest.raises(UsageError, match=sentence):
        get_problem(name)


@pytest.mark.parametrize(
    ("shape", "same_items", "names"),
    [
        ((3, 2), False, ["pmsp"]),
        ((2, 3), False, ["pmsp"]),
        ((3, 3), False, ["atsp", "pmsp"]),
        ((3, 3), True, ["atsp"]),
        ((3, 2), True, ["atsp"]),  # which then says that it must be square
        ((3,), False, []),
        ((2, 3, 3), False, []),
    ],
)
def test_what_a_nameless_matrix_may_be(shape: tuple[int, ...], same_items: bool, names: list[str]) -> None:
    assert [problem.name for problem in problems_of_matrix(shape, same_items)] == names
