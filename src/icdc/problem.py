"""The contract of a problem: everything the method needs to know about what it solves.

An instance is a set of named arrays with a leading batch axis. A solution gives each row one column and is
stored as `choice` (batch, samples, rows): several solutions for every instance of the batch at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from . import fused_totals
from .errors import InputError
from .noise import Noise
from .rules import Rule

Arrays = dict[str, NDArray[Any]]
Instances = Mapping[str, Tensor]
Size = tuple[int, ...]


@dataclass(frozen=True)
class Features:
    """What the network sees of a batch of instances.

    relations : Tensor (batch, rows, columns, channels)
        Raw relations first (`Problem.raw_relations` of them), derived ones after.
    rows, columns : Tensor (batch, items, channels) or None
        Features of the items themselves, where the problem has any.
    """

    relations: Tensor
    rows: Tensor | None = None
    columns: Tensor | None = None

    def repeat(self, samples: int) -> "Features":
        """Return the features with every instance `samples` times in a row."""
        if samples == 1:
            return self
        return Features(
            self.relations.repeat_interleave(samples, 0),
            None if self.rows is None else self.rows.repeat_interleave(samples, 0),
            None if self.columns is None else self.columns.repeat_interleave(samples, 0),
        )


@dataclass(frozen=True)
class FeatureSizes:
    """The feature dimensions a network is built for; all it ever knows about a problem."""

    relations: int
    raw_relations: int
    rows: int = 0
    columns: int = 0
    same_items: bool = False


class Problem(ABC):
    """What a problem is. Subclass it, fill in the abstract parts, and it can be trained and solved.

    Class attributes
    ----------------
    name : the word for it on the command line and in files.
    arrays : the names of the arrays that make an instance.
    size_names : what the integers of a size mean, in order, e.g. ("jobs", "machines").
    sizes : the feature dimensions that `features` returns.
    rule : how feasible solutions are built.
    """

    name: ClassVar[str]
    arrays: ClassVar[tuple[str, ...]]
    size_names: ClassVar[tuple[str, ...]]
    feature_sizes: ClassVar[FeatureSizes]
    rule: ClassVar[Rule]

    @abstractmethod
    def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
        """Draw `count` instances of one size, from integers of `rng` only, so that every machine agrees."""

    def sample_on_device(self, size: Size, noise: Noise) -> dict[str, Tensor] | None:
        """Draw one instance for each key of `noise` on its device, from the distribution of `sample`.

        Return None (the default) where there is no such generator; training then samples on the host.
        """
        return None

    @abstractmethod
    def size(self, arrays: Mapping[str, Any]) -> Size:
        """Return the size of a batch of instances."""

    @abstractmethod
    def shape(self, size: Size) -> tuple[int, int]:
        """Return (rows, columns) of the solution matrix for a size."""

    @abstractmethod
    def check(self, arrays: Mapping[str, Any]) -> Arrays:
        """Validate arrays from outside and return them as stored; raise InputError with a clear sentence."""

    @abstractmethod
    def features(self, instances: Instances) -> Features:
        """Return what the network sees, on a scale that does not depend on the instance's units."""

    @abstractmethod
    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        """Return the cost (batch, samples) of choices (batch, samples, rows); lower is better."""

    @abstractmethod
    def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
        """Check choices (batch, samples, rows) without using the rule; (batch, samples) bool."""

    @abstractmethod
    def density(self, size: Size) -> float:
        """Return q̄(x = 1): the share of ones in a feasible solution matrix."""

    @abstractmethod
    def violation(self, x: Tensor) -> Tensor:
        """Measure, differentiably, how far soft matrices (N, rows, columns) are from feasible; (N,)."""

    def mask(self, instances: Instances) -> Tensor | None:
        """Return the pairs an instance permits, (batch, rows, columns) bool, or None if all are."""
        return None

    def solution(self, choice: NDArray[np.int64]) -> list[int]:
        """Write one choice (rows,) as people read it (the default: the column of each row)."""
        return [int(column) for column in choice]

    def choice(self, solution: list[int]) -> NDArray[np.int64]:
        """Read what `solution` writes; raise InputError if it cannot be a solution."""
        return integers_of(solution)

    def lower_bound(self, arrays: Arrays) -> NDArray[np.float64] | None:
        """Return a proven lower bound on the cost of every instance, (count,), or None."""
        return None


def integers_of(solution: Sequence[int]) -> NDArray[np.int64]:
    """Return a list of integers as an array (items,); anything else is an InputError, never rounded."""
    try:
        items = np.asarray(solution)
    except (ValueError, OverflowError):
        items = np.empty(0)
    if items.ndim != 1 or not items.size:
        raise InputError("a solution must be a list of integers")
    if not np.issubdtype(items.dtype, np.integer):
        place = next((i for i, item in enumerate(solution) if not isinstance(item, int | np.integer)), 0)
        raise InputError(f"entry {place + 1} of the solution is {solution[place]!r}, not an integer")
    return items.astype(np.int64)


def to_tensors(arrays: Mapping[str, Any], device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Move stored arrays to a device: integers as int64 and reals as float64, so that costs stay exact."""
    tensors = {}
    for name, array in arrays.items():
        array = np.asarray(array)
        kind = np.int64 if np.issubdtype(array.dtype, np.integer) else np.float64
        tensors[name] = torch.from_numpy(np.ascontiguousarray(array, dtype=kind)).to(device)
    return tensors


def picked(matrix: Tensor, choice: Tensor) -> Tensor:
    """Return matrix[b, r, choice[b, k, r]], (batch, samples, rows), for matrix (batch, rows, columns)."""
    spread = matrix[:, None].expand(-1, choice.shape[1], -1, -1)
    return spread.gather(3, choice[..., None]).squeeze(3)


def totals_by_column(matrix: Tensor, choice: Tensor) -> Tensor:
    """Return what the rows that chose a column add up to there, for each column: (batch, samples, columns).

    From matrix (batch, rows, columns) and choices (batch, samples, rows): the loads of machines, for example.
    """
    if fused_totals.supports(matrix):
        totals: Tensor = fused_totals.column_totals(matrix, choice)
        return totals
    taken = picked(matrix, choice)
    taken = taken if taken.is_floating_point() else taken.long()
    return taken.new_zeros(*choice.shape[:2], matrix.shape[2]).scatter_add(2, choice, taken)


def one_hot(choice: Tensor, columns: int) -> Tensor:
    """Return the solution matrix (…, rows, columns), float32, of choices (…, rows)."""
    zeros = torch.zeros(*choice.shape, columns, device=choice.device)
    return zeros.scatter(-1, choice[..., None], 1.0)
