"""What a network sees of instances: features of all pairs, or of a few candidate columns of each row.

Schedules and tours have features that are measured against dual prices (`kernels.schedule_prices` and
`kernels.tour_prices`): what a choice gives away beyond the best priced one of its row, in units of what a row costs in
a balanced solution. A job among fifty machines runs on one of its fastest, a step of a tour is among a city's shortest:
divided by the mean of the whole matrix all of them would be zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .. import kernels
from .tensors import one_hot

PRICE_ROUNDS = 60
"""Rounds of annealing prices: more change the order of a row's columns hardly any more."""
LARGEST = 6.0
"""Where excesses and logarithms end: further away nothing is ever chosen."""
FARTHEST = 1e3
"""Where excesses end before a logarithm is taken, and where candidates are chosen."""


@dataclass(frozen=True)
class Candidates:
    """Candidate columns of the rows of a batch of instances.

    What a network says about them has the shape (N, rows, k), N a multiple of the batch, instance-major.

    index : Tensor (batch, rows, k) int64, the columns, ascending within each row.
    columns : how many there are in all.
    excess : Tensor (batch, rows, columns), finite, what each pair gives away: the order of the pairs that are no
        candidates. None where nothing will be decoded.
    """

    index: Tensor
    columns: int
    excess: Tensor | None = None

    @property
    def count(self) -> int:
        """Return how many candidates a row has."""
        return self.index.shape[2]

    def repeat(self, samples: int) -> Candidates:
        """Return the candidates with every instance `samples` times in a row."""
        excess = None if self.excess is None else self.excess.repeat_interleave(samples, 0)
        return replace(self, index=self.index.repeat_interleave(samples, 0), excess=excess)

    def of(self, matrix: Tensor) -> Tensor:
        """Return the entries of candidates, (N, rows, k), from matrices (N, rows, columns)."""
        return matrix.gather(2, self._index(len(matrix)))

    def mark(self, choice: Tensor) -> Tensor:
        """Return one-hot rows over candidates, float32 (N, rows, k); all zeros where the choice is no candidate."""
        return (choice[..., None] == self._index(len(choice))).float()

    def spread(self, values: Tensor) -> Tensor:
        """Return matrices (N, rows, columns) with values (N, rows, k) at the candidates and zeros elsewhere."""
        zeros = values.new_zeros(*values.shape[:2], self.columns)
        return zeros.scatter(2, self._index(len(values)), values)

    def scores(self, values: Tensor) -> Tensor:
        """Return scores (N, rows, columns) of all pairs: values (N, rows, k), and below them all, by excess, the rest.

        Decoding by them takes candidates while it can, and then what gives away least.
        """
        return kernels.spread_scores(values, self.index, self.all_excess())

    def all_excess(self) -> Tensor:
        """Return the excess of all pairs, (batch, rows, columns)."""
        if self.excess is None:
            raise ValueError("these candidates are not for decoding: the excess of other pairs is not there")
        return self.excess

    def _index(self, count: int) -> Tensor:
        """Return the columns of candidates of `count` solutions, (N, rows, k)."""
        samples = count // len(self.index)
        return self.index if samples == 1 else self.index.repeat_interleave(samples, 0)


@dataclass(frozen=True)
class Features:
    """What the network sees of a batch of instances.

    relations : Tensor (batch, rows, columns, channels)
        Raw relations first (`FeatureSizes.raw_relations` of them), derived ones after.
    rows, columns : Tensor (batch, items, channels) or None
        Features of the items themselves, where the problem has any.
    candidates : the columns of each row that relations are of, (batch, rows, k, channels), where they are not of all.
    """

    relations: Tensor
    rows: Tensor | None = None
    columns: Tensor | None = None
    candidates: Candidates | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Return how many rows and columns there are."""
        rows, columns = self.relations.shape[1:3]
        return rows, columns if self.candidates is None else self.candidates.columns

    def marked(self, choice: Tensor) -> Tensor:
        """Return the solution matrices of choices (batch, rows) as the network sees them: of the shape of relations."""
        if self.candidates is None:
            return one_hot(choice, self.relations.shape[2])
        return self.candidates.mark(choice)

    def repeat(self, samples: int) -> Features:
        """Return the features with every instance `samples` times in a row."""
        if samples == 1:
            return self
        return Features(
            self.relations.repeat_interleave(samples, 0),
            None if self.rows is None else self.rows.repeat_interleave(samples, 0),
            None if self.columns is None else self.columns.repeat_interleave(samples, 0),
            None if self.candidates is None else self.candidates.repeat(samples),
        )


def best_candidates(excess: Tensor, count: int) -> Candidates:
    """Choose `count` columns of each row: those that give away least, and among them every column at least once.

    A column is always a candidate of the row that gives away least by it, as far as that row has room. Columns that are
    left out by all of them take the places of candidates that other rows have as well.

    Parameters
    ----------
    excess : (batch, rows, columns), finite and not negative; count · rows must be no less than the columns.
    """
    rows, columns = excess.shape[1:]
    if count * rows < columns:
        raise ValueError(f"{rows} rows with {count} candidates each cannot have {columns} columns")
    # ties for a column are broken round-robin, so that not one row has to take all such columns
    row, column = (torch.arange(size, device=excess.device) for size in (rows, columns))
    behind = ((row[:, None] - column) % rows).expand_as(excess)
    ties = excess == excess.amin(1, keepdim=True)
    owner = behind.masked_fill(~ties, rows).argmin(1, keepdim=True)
    wanted = excess.scatter(1, owner, -1.0)
    index = wanted.sort(dim=2, stable=True).indices[:, :, :count]
    return Candidates(_with_all_columns(index, columns).sort(2).values, columns, excess)


def _with_all_columns(index: Tensor, columns: int) -> Tensor:
    """Give every column without a row a dispensable place among candidates (batch, rows, k), best first.

    A place is dispensable if its column is ranked better, or as well by an earlier row, elsewhere.
    """
    batch, rows, count = index.shape
    # places from the best to the worst: first those that rows like best, row by row
    places = index.transpose(1, 2).flatten(1)
    number = torch.arange(count * rows, device=index.device).expand_as(places)
    none = torch.full((batch, columns), count * rows, device=index.device)
    first = none.scatter_reduce(1, places, number, "amin")
    missing = first == count * rows
    spare = first.gather(1, places) != number
    # the columns that are missing, in their order, take the places to spare from the worst to the better ones
    turn = spare.flip(1).cumsum(1).flip(1) - 1
    in_line = missing.byte().sort(dim=1, descending=True, stable=True).indices
    replaced = spare & (turn < missing.sum(1, keepdim=True))
    new = torch.where(replaced, in_line.gather(1, turn.clamp(0, columns - 1)), places)
    return new.view(batch, count, rows).transpose(1, 2)


def channels_of_candidates(excess: Tensor, planes: Iterator[Tensor], count: int) -> tuple[Tensor, Candidates]:
    """Return the channels of the best candidates, (batch, rows, count, channels): never all channels of all pairs."""
    candidates = best_candidates(excess.clamp_max(FARTHEST).float(), count)
    return torch.stack([candidates.of(plane).float() for plane in planes], -1), candidates
