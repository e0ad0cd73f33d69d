"""How a name becomes a problem, and a problem a name."""

import pytest

from icdc.errors import UsageError
from icdc.problems import BUILT_IN, get_problem, problem_path, problems_of_matrix
from icdc.problems.atsp import Atsp


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
