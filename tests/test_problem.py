"""The helpers of the contract: tensors of instances, what a choice picks, its matrix, repeated features."""

from typing import Any

import numpy as np
import pytest
import torch

from icdc.errors import InputError
from icdc.problem import Features, Problem, one_hot, picked, to_tensors, totals_by_column
from icdc.problems import Atsp, Pmsp


def test_arrays_keep_their_values_exactly() -> None:
    """Integers become int64, so that costs of whole numbers stay whole; reals become float64."""
    tensors = to_tensors(
        {
            "small": np.array([[200, 255]], dtype=np.uint8),
            "large": np.array([[2**62 + 1]]),
            "single": np.array([[0.1]], dtype=np.float32),
            "flipped": np.arange(6).reshape(2, 3).T,
        }
    )
    assert {name: tensor.dtype for name, tensor in tensors.items()} == {
        "small": torch.int64,
        "large": torch.int64,
        "single": torch.float64,
        "flipped": torch.int64,
    }
    assert tensors["small"].sum().item() == 455
    assert tensors["large"].item() == 2**62 + 1
    assert tensors["flipped"].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_totals_are_what_the_rows_bring_to_their_column() -> None:
    matrix = torch.tensor([[[1, 2], [3, 4], [5, 6]]])
    choice = torch.tensor([[[0, 1, 0], [1, 1, 1]]])
    assert totals_by_column(matrix, choice).tolist() == [[[6, 4], [0, 12]]]


def test_totals_of_small_integers_do_not_wrap_around() -> None:
    matrix = torch.full((1, 3, 1), 200, dtype=torch.uint8)
    assert totals_by_column(matrix, torch.zeros(1, 1, 3, dtype=torch.long)).item() == 600


def test_picked_is_the_entry_each_row_chose() -> None:
    """matrix[b, r, choice[b, k, r]] for every instance, solution and row."""
    matrix, choice = torch.randn(2, 3, 4), torch.randint(0, 4, (2, 5, 3))
    found = picked(matrix, choice)
    for b in range(2):
        for k in range(5):
            for r in range(3):
                assert found[b, k, r] == matrix[b, r, choice[b, k, r]]


def test_one_hot_has_one_1_in_each_row() -> None:
    """The matrix of a choice, float32, with any leading axes."""
    matrix = one_hot(torch.tensor([[2, 0], [1, 1]]), 3)
    assert matrix.dtype == torch.float32
    assert matrix.tolist() == [[[0, 0, 1], [1, 0, 0]], [[0, 1, 0], [0, 1, 0]]]
    assert one_hot(torch.zeros(4, 5, 6, dtype=torch.long), 7).shape == (4, 5, 6, 7)


def test_features_repeat_instance_by_instance() -> None:
    """Each instance several times in a row, in every part that is there."""
    features = Features(torch.randn(2, 3, 4, 1), rows=torch.randn(2, 3, 2))
    twice = features.repeat(2)
    assert torch.equal(twice.relations[1], features.relations[0])
    assert torch.equal(twice.relations[2], features.relations[1])
    assert twice.rows is not None
    assert features.rows is not None
    assert torch.equal(twice.rows[3], features.rows[1])
    assert twice.columns is None
    assert features.repeat(1) is features


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
