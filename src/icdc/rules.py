"""Decoding rules: which row decides next, which columns are allowed, what a choice does.

A solution gives every row exactly one column, so it is stored as `choice` (N, rows): the column of each row.
A rule turns scores into such a choice, one decision at a time, and knows nothing of where the scores come
from. To write one, implement the four abstract methods of `Rule` on batches, without reading a tensor's value
on the host; everything else has a generic implementation that the two ready-made rules override for speed.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from .fused_decoding import Kernel, kernel_for_columns, kernel_for_tours

State = dict[str, Tensor]

NEVER = -1e9
"""Score of a pair that may not be chosen; finite, so that softmax and argmax stay defined everywhere."""


class Rule(ABC):
    """How a feasible solution is built from a matrix of scores, row by row.

    Shapes: N solutions at once, `scores` (N, rows, columns), `mask` (N, rows, columns) bool or None (pairs
    the instance itself permits), `first` (N,) the row that decides first where the rule leaves that open.

    decodes : solutions to decode from one matrix where nobody says how many; more where they cost little.
    """

    decodes: ClassVar[int] = 8

    @abstractmethod
    def start(self, shape: tuple[int, int, int], first: Tensor, mask: Tensor | None) -> State:
        """Return the state before any decision, for `shape` = (N, rows, columns)."""

    @abstractmethod
    def next_row(self, state: State) -> Tensor:
        """Return the row that decides now in the rule's own order, (N,)."""

    @abstractmethod
    def allowed(self, state: State) -> Tensor:
        """Return every pair that may be chosen now, in any order, (N, rows, columns) bool."""

    @abstractmethod
    def choose(self, state: State, row: Tensor, column: Tensor) -> State:
        """Return the state after `row` (N,) has taken `column` (N,)."""

    def follow(self, scores: Tensor, first: Tensor, mask: Tensor | None = None) -> Tensor:
        """Decide in the rule's own order, the best-scored allowed column each time; choice (N, rows)."""
        count, rows, columns = scores.shape
        state = self.start((count, rows, columns), first, mask)
        choice = torch.zeros(count, rows, dtype=torch.long, device=scores.device)
        for _ in range(rows):
            row = self.next_row(state)
            allowed = _row_of(self.allowed(state), row)
            column = _row_of(scores, row).masked_fill(~allowed, NEVER).argmax(-1)
            choice = choice.scatter(1, row[:, None], column[:, None])
            state = self.choose(state, row, column)
        return choice

    def by_confidence(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Decide the best-scored allowed pair of all rows each time; choice (N, rows)."""
        count, rows, columns = scores.shape
        first = torch.zeros(count, dtype=torch.long, device=scores.device)
        state = self.start((count, rows, columns), first, mask)
        choice = torch.zeros(count, rows, dtype=torch.long, device=scores.device)
        for _ in range(rows):
            pair = scores.masked_fill(~self.allowed(state), NEVER).flatten(1).argmax(-1)
            row, column = pair // columns, pair % columns
            choice = choice.scatter(1, row[:, None], column[:, None])
            state = self.choose(state, row, column)
        return choice

    def kernel(self, log_odds: Tensor, by_confidence: bool) -> Kernel | None:
        """Return one GPU kernel that draws noise and decides by `follow` or `by_confidence`, without a mask.

        None (the default) where there is none for such log-odds (N, rows, columns) or their device. A rule that decides
        otherwise than the one it inherits from returns None, or a kernel of its own.
        """
        return None

    def allowed_along(self, choice: Tensor, columns: int, first: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the columns each row could have taken at its turn while `choice` was built.

        In the rule's own order, beginning at `first`; (N, rows, columns) bool, indexed by row, not by turn.
        """
        count, rows = choice.shape
        state = self.start((count, rows, columns), first, mask)
        seen = torch.zeros(count, rows, columns, dtype=torch.bool, device=choice.device)
        for _ in range(rows):
            row = self.next_row(state)
            allowed = _row_of(self.allowed(state), row)
            seen = seen.scatter(1, row[:, None, None].expand(-1, 1, columns), allowed[:, None])
            state = self.choose(state, row, choice.gather(1, row[:, None]).squeeze(1))
        return seen


class OneColumnPerRow(Rule):
    """Every row takes one permitted column, independently of the others (jobs to machines)."""

    decodes = 128

    def start(self, shape: tuple[int, int, int], first: Tensor, mask: Tensor | None) -> State:
        count, rows, columns = shape
        if mask is None:
            mask = torch.ones(count, rows, columns, dtype=torch.bool, device=first.device)
        return {
            "turn": torch.zeros(count, dtype=torch.long, device=first.device),
            "open": torch.ones(count, rows, dtype=torch.bool, device=first.device),
            "mask": mask,
        }

    def next_row(self, state: State) -> Tensor:
        return state["turn"]

    def allowed(self, state: State) -> Tensor:
        return state["mask"] & state["open"][:, :, None]

    def choose(self, state: State, row: Tensor, column: Tensor) -> State:
        taken = torch.zeros_like(state["open"]).scatter(1, row[:, None], True)
        return {"turn": state["turn"] + 1, "open": state["open"] & ~taken, "mask": state["mask"]}

    def follow(self, scores: Tensor, first: Tensor, mask: Tensor | None = None) -> Tensor:
        return (scores if mask is None else scores.masked_fill(~mask, NEVER)).argmax(-1)

    def by_confidence(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        # rows do not constrain each other, so the order of decisions cannot change them
        return self.follow(scores, scores.new_zeros(0, dtype=torch.long), mask)

    def kernel(self, log_odds: Tensor, by_confidence: bool) -> Kernel | None:
        return kernel_for_columns(log_odds)

    def allowed_along(self, choice: Tensor, columns: int, first: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            return mask
        return torch.ones(*choice.shape, columns, dtype=torch.bool, device=choice.device)


class HamiltonianCycle(Rule):
    """The columns chosen by the rows form one cycle through all items (successors on a tour).

    The state keeps the paths built so far by their ends. In the rule's own order the tour is followed from
    `first`. A mask that leaves some city without a permitted successor cannot be honoured by any greedy rule:
    a city with no permitted successor left may go anywhere, and the problem's own feasibility check has the
    last word.
    """

    def start(self, shape: tuple[int, int, int], first: Tensor, mask: Tensor | None) -> State:
        count, rows, columns = shape
        if rows != columns:
            raise ValueError(f"a cycle needs a square matrix, got {rows} rows and {columns} columns")
        device = first.device
        items = torch.arange(rows, device=device).expand(count, rows)
        state = {
            "current": first,
            "head": items.clone(),  # head[e]: first city of the path that ends in e
            "tail": items.clone(),  # tail[s]: last city of the path that starts in s
            "leaving": torch.ones(count, rows, dtype=torch.bool, device=device),
            "entering": torch.ones(count, rows, dtype=torch.bool, device=device),
        }
        if mask is not None:
            state["mask"] = mask
        return state

    def next_row(self, state: State) -> Tensor:
        return state["current"]

    def allowed(self, state: State) -> Tensor:
        leaving, entering, head = state["leaving"], state["entering"], state["head"]
        pairs = leaving[:, :, None] & entering[:, None, :]
        closing = torch.zeros_like(pairs).scatter(2, head[:, :, None], True)
        last = (leaving.sum(1) == 1)[:, None, None]  # the decision that closes the tour
        pairs = pairs & (~closing | last)
        if "mask" not in state:
            return pairs
        permitted = pairs & state["mask"]
        return torch.where(permitted.any(2, keepdim=True), permitted, pairs)

    def choose(self, state: State, row: Tensor, column: Tensor) -> State:
        i, j = row[:, None], column[:, None]
        start, end = state["head"].gather(1, i), state["tail"].gather(1, j)
        left = torch.zeros_like(state["leaving"]).scatter(1, i, True)
        entered = torch.zeros_like(left).scatter(1, j, True)
        return {
            **state,
            "current": column,
            "head": state["head"].scatter(1, end, start),
            "tail": state["tail"].scatter(1, start, end),
            "leaving": state["leaving"] & ~left,
            "entering": state["entering"] & ~entered,
        }

    def follow(self, scores: Tensor, first: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            return super().follow(scores, first, mask)
        current = first[:, None]
        unvisited = torch.ones_like(scores[:, 0], dtype=torch.bool).scatter(1, current, False)
        choice = torch.zeros_like(scores[:, 0], dtype=torch.long)
        for _ in range(scores.shape[1] - 1):
            step = _row_of(scores, current.squeeze(1)).masked_fill(~unvisited, NEVER).argmax(-1, keepdim=True)
            choice = choice.scatter(1, current, step)
            unvisited = unvisited.scatter(1, step, False)
            current = step
        return choice.scatter(1, current, first[:, None])

    def by_confidence(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            return super().by_confidence(scores, mask)
        count, size, _ = scores.shape
        diagonal = torch.eye(size, dtype=torch.bool, device=scores.device)
        if size > 1:
            scores = scores.masked_fill(diagonal, NEVER)
        flat = scores.reshape(count, size * size).clone()
        grid = flat.view(count, size, size)
        head = torch.arange(size, device=scores.device).expand(count, size).clone()
        tail = head.clone()
        choice = torch.zeros_like(head)
        for _ in range(size - 1):
            pair = flat.argmax(1, keepdim=True)
            i, j = pair // size, pair % size
            choice.scatter_(1, i, j)
            start, end = head.gather(1, i), tail.gather(1, j)
            grid.scatter_(1, i[:, :, None].expand(-1, 1, size), NEVER)
            grid.scatter_(2, j[:, :, None].expand(-1, size, 1), NEVER)
            flat.scatter_(1, end * size + start, NEVER)  # this edge would close the tour too early
            head.scatter_(1, end, start)
            tail.scatter_(1, start, end)
        open_end = (choice * 0).scatter(1, choice, 1)  # cities entered so far
        first = open_end.argmin(1, keepdim=True) if size > 1 else torch.zeros_like(choice)
        return choice.scatter(1, tail.gather(1, first), first)

    def kernel(self, log_odds: Tensor, by_confidence: bool) -> Kernel | None:
        return kernel_for_tours(log_odds, by_confidence)

    def allowed_along(self, choice: Tensor, columns: int, first: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            return super().allowed_along(choice, columns, first, mask)
        turn = positions(choice, first)
        # a row may enter every city visited after it; the last row must return to the first
        later = turn[:, None, :] > turn[:, :, None]
        last = turn == columns - 1
        home = torch.zeros_like(turn, dtype=torch.bool).scatter(1, first[:, None], True)
        return later | (last[:, :, None] & home[:, None, :])


def positions(successor: Tensor, first: Tensor) -> Tensor:
    """Return the position of every city on the tour that starts in `first`; (N, n) from successors (N, n)."""
    size = successor.shape[1]
    last = successor == first[:, None]
    # pointer jumping: `ahead` counts the cities between a city and the end of the tour, in log2(n) rounds
    pointer = torch.where(last, torch.arange(size, device=successor.device), successor)
    ahead = (~last).long()
    for _ in range(max(1, (size - 1).bit_length())):
        ahead = ahead + ahead.gather(1, pointer)
        pointer = pointer.gather(1, pointer)
    return size - 1 - ahead


def _row_of(matrix: Tensor, row: Tensor) -> Tensor:
    """Return one row (N, columns) of each matrix (N, rows, columns)."""
    index = row[:, None, None].expand(-1, 1, matrix.shape[2])
    return matrix.gather(1, index).squeeze(1)
