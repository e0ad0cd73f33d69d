"""Rows that were measured when a model was shipped: its card has them, for the same test set in the same way."""

from collections.abc import Mapping
from typing import Any

from ..data.dataset import Dataset
from ..evaluation import Summary
from ..solving import DiffusionSolver
from .rows import Measured, Row
from .wording import how, settled


def from_card(card: Mapping[str, Any], row: Row, dataset: Dataset, solver: DiffusionSolver) -> Measured | None:
    """Return a row as the card of its model has it; None where the card has no such measurement.

    Refined rows may differ in the number of rounds: *how* says what was done.
    """
    size = dataset.problem.size(dataset.arrays)
    wanted = how(settled(solver, dataset.problem, size, row.samples, card))
    for result in card.get("results", []):
        same = (result["set"], result["samples"], result["instances"]) == (row.dataset, row.samples, len(dataset))
        if not same:
            continue
        measured = DiffusionSolver(**result["options"])
        untold = {name: value for name, value in card.items() if name != "solving"}  # as measured, not as advised
        way = settled(measured, dataset.problem, size, row.samples, untold)
        if how(way) == wanted and (measured.refine > 0) == (solver.refine > 0):
            return Measured(row, _summary(result, row, dataset), how=how(way, measured.refine))
    return None


def _summary(result: Mapping[str, Any], row: Row, dataset: Dataset) -> Summary:
    reference = None if dataset.reference is None else float(dataset.reference.mean())
    return Summary(
        dataset=row.dataset,
        solver=row.solver,
        samples=row.samples,
        seed=0,
        instances=result["instances"],
        cost=result["cost"],
        reference=reference,
        gap=result["gap"],
        gap_low=result["gap_low"],
        gap_high=result["gap_high"],
        gap_at_most=None,
        symmetric_gap=result["symmetric_gap"],
        optimal=result["optimal"],
        feasible=result["feasible"],
        below=result.get("below", 0),  # older cards do not tell
        seconds=result["seconds"],
        seconds_per_instance=result["seconds"] / result["instances"],
        device=result["device"],
    )
