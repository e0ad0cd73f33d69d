"""Totals of columns as one kernel: what a loop over rows and choices adds up."""

import pytest
import torch
from torch import Tensor

from icdc import fused_noise, fused_totals
from icdc.problem import totals_by_column
from icdc.problems.pmsp import Pmsp

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.skipif(
    not fused_noise.available(torch.device(DEVICE)), reason="needs a GPU, or triton with TRITON_INTERPRET=1"
)


def by_hand(matrix: Tensor, choice: Tensor) -> Tensor:
    """Add up one entry after the other."""
    totals = torch.zeros(*choice.shape[:2], matrix.shape[2], dtype=matrix.dtype)
    for instance in range(choice.shape[0]):
        for sample in range(choice.shape[1]):
            for row, column in enumerate(choice[instance, sample].tolist()):
                totals[instance, sample, column] += matrix[instance, row, column]
    return totals


@pytest.mark.parametrize("kind", [torch.int64, torch.float32, torch.float64])
@pytest.mark.parametrize(("batch", "samples", "rows", "columns"), [(1, 1, 1, 1), (3, 5, 7, 4), (2, 70, 9, 13)])
def test_every_row_counts_once_in_its_column(
    kind: torch.dtype, batch: int, samples: int, rows: int, columns: int
) -> None:
    generator = torch.Generator().manual_seed(rows)
    matrix = torch.randint(1, 1000, (batch, rows, columns), generator=generator).to(kind)
    choice = torch.randint(columns, (batch, samples, rows), generator=generator)
    found = fused_totals.column_totals(matrix.to(DEVICE), choice.to(DEVICE))
    assert found.dtype == kind
    assert torch.equal(found.cpu(), by_hand(matrix, choice))


def test_no_column_adds_nothing() -> None:
    matrix = torch.full((1, 3, 2), 5, device=DEVICE)
    choice = torch.tensor([[[0, -1, 2]]], device=DEVICE)
    assert fused_totals.column_totals(matrix, choice).tolist() == [[[5, 0]]]


def test_no_solutions() -> None:
    matrix = torch.ones(2, 3, 2, device=DEVICE)
    choice = torch.zeros(2, 0, 3, dtype=torch.long, device=DEVICE)
    assert fused_totals.column_totals(matrix, choice).shape == (2, 0, 2)


def test_the_makespan_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    durations = torch.randint(2, 20, (4, 20, 3), generator=generator).to(DEVICE)
    choice = torch.randint(3, (4, 6, 20), generator=generator).to(DEVICE)
    calls = []
    real = fused_totals.column_totals
    monkeypatch.setattr(fused_totals, "column_totals", lambda *a: calls.append(1) or real(*a))
    fused = Pmsp().cost({"durations": durations}, choice)
    assert calls
    monkeypatch.setattr(fused_totals, "supports", lambda matrix: False)
    assert torch.equal(fused, totals_by_column(durations, choice).amax(-1))


def test_operation_is_well_behaved() -> None:
    torch.library.opcheck(
        fused_totals.column_totals,
        (torch.ones(2, 3, 4, device=DEVICE), torch.zeros(2, 5, 3, dtype=torch.long, device=DEVICE)),
        test_utils=("test_schema", "test_faketensor"),
    )
