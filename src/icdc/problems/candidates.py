"""The few columns of each row that are worth looking at, where there are too many to look at all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .. import kernels


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
        """Return ones at the candidates that are chosen (N, rows), else zeros; float32 (N, rows, k).

        A row whose choice is no candidate has no one.
        """
        return (choice[..., None] == self._index(len(choice))).float()

    def spread(self, values: Tensor) -> Tensor:
        """Return matrices (N, rows, columns) with values (N, rows, k) at the candidates and zeros elsewhere."""
        zeros = values.new_zeros(*values.shape[:2], self.columns)
        return zeros.scatter(2, self._index(len(values)), values)

    def scores(self, values: Tensor) -> Tensor:
        """Return scores (N, rows, columns) of all pairs: values (N, rows, k), and below them all, by excess, the rest.

        Whoever decides by them takes candidates as long as it may, and then what gives away least.
        """
        return kernels.spread_scores(values, self.index, self.known_excess())

    def known_excess(self) -> Tensor:
        """Return the excess of all pairs, (batch, rows, columns)."""
        if self.excess is None:
            raise ValueError("these candidates are not for decoding: nobody knows what other pairs give away")
        return self.excess

    def _index(self, count: int) -> Tensor:
        """Return the columns of candidates of `count` solutions, (N, rows, k)."""
        samples = count // len(self.index)
        return self.index if samples == 1 else self.index.repeat_interleave(samples, 0)


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
    # rows that tie for a column stand in line by turns, so that not one of them has to take all such columns
    row, column = (torch.arange(size, device=excess.device) for size in (rows, columns))
    behind = ((row[:, None] - column) % rows).expand_as(excess)
    ties = excess == excess.amin(1, keepdim=True)
    owner = behind.masked_fill(~ties, rows).argmin(1, keepdim=True)
    wanted = excess.scatter(1, owner, -1.0)
    index = wanted.sort(dim=2, stable=True).indices[:, :, :count]
    return Candidates(_with_all_columns(index, columns).sort(2).values, columns, excess)


def _with_all_columns(index: Tensor, columns: int) -> Tensor:
    """Return candidates (batch, rows, k), best first, after columns that are nobody's took places that can be spared.

    A place can be spared where its column is another row's candidate in a better place, or a row's before it.
    """
    batch, rows, count = index.shape
    # places from the best to the worst: first those that rows like best, row by row
    places = index.transpose(1, 2).flatten(1)
    number = torch.arange(count * rows, device=index.device).expand_as(places)
    nobody = torch.full((batch, columns), count * rows, device=index.device)
    first = nobody.scatter_reduce(1, places, number, "amin")
    missing = first == count * rows
    spare = first.gather(1, places) != number
    # the columns that are missing, in their order, take the places to spare from the worst to the better ones
    turn = spare.flip(1).cumsum(1).flip(1) - 1
    in_line = missing.byte().sort(dim=1, descending=True, stable=True).indices
    taken = spare & (turn < missing.sum(1, keepdim=True))
    new = torch.where(taken, in_line.gather(1, turn.clamp(0, columns - 1)), places)
    return new.view(batch, count, rows).transpose(1, 2)
