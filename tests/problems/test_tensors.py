"""Instances and choices as tensors, and what the reverse process asks of a batch of them."""

import numpy as np
import pytest
import torch
from torch import Tensor

from icdc.errors import UsageError
from icdc.problems.atsp import Atsp
from icdc.problems.base import Instances
from icdc.problems.pmsp import Pmsp
from icdc.problems.task import Task
from icdc.problems.tensors import one_hot, picked, to_tensors, totals_by_column


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


class _Late(Pmsp):
    """Counts loads twice: no longer the problem its times are about."""

    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        return 2 * super().cost(instances, choice)


def test_only_schedules_have_times() -> None:
    durations = torch.randint(1, 9, (2, 4, 3))
    assert torch.equal(Task(Pmsp(), {"durations": durations}).times(), durations)
    for task in (Task(Atsp(), {"distances": torch.rand(2, 4, 4)}), Task(_Late(), {"durations": durations})):
        with pytest.raises(UsageError, match='cannot be decoded in the order "loads"'):
            task.times()
