"""Decoding rules: which row decides next, which columns are allowed, what a choice does.

A solution gives every row exactly one column, so it is stored as `choice` (N, rows): the column of each row.
A rule turns scores into such a choice, one decision at a time, and knows nothing of where the scores come
from. To write one, implement the four abstract methods of `Rule` on batches, without reading a tensor's value
on the host; everything else has a generic implementation that the two ready-made rules override for speed. A rule that
inherits from one of them and changes how it decides loses such shortcuts again, unless it brings its own.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import kernels
from ..errors import UsageError
from .features import Candidates

State = dict[str, Tensor]

_DECIDING = "start", "next_row", "allowed", "choose"
_SHORTCUTS = {
    "follow": _DECIDING,
    "by_confidence": _DECIDING,
    "by_loads": _DECIDING,
    "load_prices": _DECIDING,
    "allowed_along": _DECIDING,
    "decode": (*_DECIDING, "follow", "by_confidence"),
    "decode_candidates": (*_DECIDING, "follow", "by_confidence", "decode"),
}
"""Methods of `Rule` that may be overridden for speed, and the methods of which each is a consequence."""


class Rule(ABC):
    """How a feasible solution is built from a matrix of scores, row by row.

    Shapes: N solutions at once, `scores` (N, rows, columns), `mask` (N, rows, columns) bool or None (pairs
    the instance itself permits), `first` (N,) the row that decides first where the rule leaves that open. Where a rule
    leaves no permitted pair to choose, it may allow others: they are taken last.

    decodes : solutions to decode from one matrix by default; more where they cost little.
    """

    decodes: ClassVar[int] = 8

    def __init_subclass__(cls, **options: Any) -> None:
        """Replace shortcuts that were written for another way of deciding by the generic methods."""
        super().__init_subclass__(**options)

        def depth(method: str) -> int:
            return next(i for i, owner in enumerate(cls.__mro__) if method in vars(owner))

        for shortcut, rests_on in _SHORTCUTS.items():
            if any(depth(method) < depth(shortcut) for method in rests_on):
                setattr(cls, shortcut, vars(Rule)[shortcut])

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
        scores = scores if mask is None else kernels.barred(scores, mask)
        choice = torch.zeros(count, rows, dtype=torch.long, device=scores.device)
        for _ in range(rows):
            row = self.next_row(state)
            allowed = _row_of(self.allowed(state), row)
            column = _row_of(scores, row).masked_fill(~allowed, kernels.NEVER).argmax(-1)
            choice = choice.scatter(1, row[:, None], column[:, None])
            state = self.choose(state, row, column)
        return choice

    def by_confidence(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Decide the best-scored allowed pair of all rows each time; choice (N, rows)."""
        count, rows, columns = scores.shape
        first = torch.zeros(count, dtype=torch.long, device=scores.device)
        state = self.start((count, rows, columns), first, mask)
        scores = scores if mask is None else kernels.barred(scores, mask)
        choice = torch.zeros(count, rows, dtype=torch.long, device=scores.device)
        for _ in range(rows):
            pair = scores.masked_fill(~self.allowed(state), kernels.NEVER).flatten(1).argmax(-1)
            row, column = pair // columns, pair % columns
            choice = choice.scatter(1, row[:, None], column[:, None])
            state = self.choose(state, row, column)
        return choice

    def decode(
        self, log_odds: Tensor, first: Tensor, mask: Tensor | None, noise: kernels.GumbelNoise | None,
        by_confidence: bool = False, decodes: int = 1,
    ) -> Tensor:  # fmt: skip
        """Decide by log-odds plus noise, `decodes` times in a row for each matrix (N, rows, columns).

        In either order; for `first` (N · decodes,) and `mask` (N, rows, columns), or one for as many matrices in a row
        as there are to each, choice (N · decodes, rows).
        """
        scores = kernels.noisy_scores(log_odds, noise, decodes)
        mask = None if mask is None else kernels.spread_over(mask, len(scores))
        return self.by_confidence(scores, mask) if by_confidence else self.follow(scores, first, mask)

    def decode_candidates(
        self, scores: Tensor, candidates: Candidates, first: Tensor, mask: Tensor | None, by_confidence: bool = False
    ) -> Tensor:
        """Decide by scores (N, rows, k) of candidates while any is allowed, then by least excess.

        Return choices (N, rows), for `first` (N,) and `mask` (N, rows, columns). Forbidden candidates come after
        permitted columns that are no candidates.
        """
        return self.decode(candidates.scores(scores), first, mask, None, by_confidence)

    def by_loads(
        self, log_odds: Tensor, times: Tensor, mask: Tensor | None, noise: kernels.GumbelNoise | None, decodes: int = 1
    ) -> Tensor:
        """Decide longest row first, by log-odds less the price of the load it makes, for times (batch, rows, columns).

        Only where rows do not constrain each other; other rules refuse.
        """
        raise self._no_loads()

    def load_prices(self, times: Tensor, choice: Tensor) -> Tensor:
        """Return what was taken off the log-odds while `choice` (N, rows) was built by loads, (N, rows, columns)."""
        raise self._no_loads()

    def _no_loads(self) -> UsageError:
        return UsageError(f"{type(self).__name__} cannot decide by loads: its rows are not free to go longest first")

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
        decided = torch.zeros_like(state["open"]).scatter(1, row[:, None], True)
        return {"turn": state["turn"] + 1, "open": state["open"] & ~decided, "mask": state["mask"]}

    def follow(self, scores: Tensor, first: Tensor, mask: Tensor | None = None) -> Tensor:
        return kernels.pick_columns(scores if mask is None else scores.masked_fill(~mask, kernels.NEVER))

    def by_confidence(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        # rows do not constrain each other, so the order of decisions cannot change them
        return self.follow(scores, scores.new_zeros(0, dtype=torch.long), mask)

    def decode(
        self, log_odds: Tensor, first: Tensor, mask: Tensor | None, noise: kernels.GumbelNoise | None,
        by_confidence: bool = False, decodes: int = 1,
    ) -> Tensor:  # fmt: skip
        if mask is not None:
            log_odds = log_odds.masked_fill(~kernels.spread_over(mask, len(log_odds)), kernels.NEVER)
        return kernels.pick_columns(log_odds, noise, decodes)

    def by_loads(
        self, log_odds: Tensor, times: Tensor, mask: Tensor | None, noise: kernels.GumbelNoise | None, decodes: int = 1
    ) -> Tensor:
        return kernels.pick_by_loads(log_odds, times, noise, decodes, mask)

    def load_prices(self, times: Tensor, choice: Tensor) -> Tensor:
        return kernels.load_prices(times, choice)

    def allowed_along(self, choice: Tensor, columns: int, first: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            return mask
        return torch.ones(*choice.shape, columns, dtype=torch.bool, device=choice.device)


class HamiltonianCycle(Rule):
    """The columns chosen by the rows form one cycle through all items (successors on a tour).

    The state keeps the paths built so far by their ends. In the rule's own order the tour is followed from
    `first`. No greedy rule can honour every mask. With no permitted successor left, a city may go anywhere, after all
    other decisions; the problem's own feasibility check, or its cost, decides in the end.
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
        return kernels.follow_tours(_barred(scores, mask), first)

    def by_confidence(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        return kernels.join_tours(_barred(scores, mask))

    def decode(
        self, log_odds: Tensor, first: Tensor, mask: Tensor | None, noise: kernels.GumbelNoise | None,
        by_confidence: bool = False, decodes: int = 1,
    ) -> Tensor:  # fmt: skip
        log_odds = _barred(log_odds, mask)
        if by_confidence:
            return kernels.join_tours(log_odds, noise, decodes)
        return kernels.follow_tours(log_odds, first, noise, decodes)

    def decode_candidates(
        self, scores: Tensor, candidates: Candidates, first: Tensor, mask: Tensor | None, by_confidence: bool = False
    ) -> Tensor:
        if mask is not None and len(mask) > len(candidates.index):
            candidates = candidates.repeat(len(mask) // len(candidates.index))
        index, excess = candidates.index, candidates.all_excess()
        if mask is not None:
            # a forbidden candidate is turned into a self-loop, which no tour uses; forbidden steps come last by excess
            permitted = kernels.spread_over(mask, len(index))
            city = torch.arange(index.shape[1], device=index.device)[:, None]
            index = torch.where(permitted.gather(2, index), index, city)
            excess = torch.where(permitted, excess, excess + kernels.BARRED)
        if by_confidence:
            return kernels.join_candidates(scores, index, excess)
        return kernels.follow_candidates(scores, index, excess, first)

    def allowed_along(self, choice: Tensor, columns: int, first: Tensor, mask: Tensor | None = None) -> Tensor:
        turn = positions(choice, first)
        # a row may enter every city visited after it; the last row must return to the first
        later = turn[:, None, :] > turn[:, :, None]
        last = turn == columns - 1
        closing = torch.zeros_like(turn, dtype=torch.bool).scatter(1, first[:, None], True)
        pairs = later | (last[:, :, None] & closing[:, None, :])
        if mask is None:
            return pairs
        permitted = pairs & kernels.spread_over(mask, len(pairs))
        return torch.where(permitted.any(2, keepdim=True), permitted, pairs)


def _barred(scores: Tensor, mask: Tensor | None) -> Tensor:
    return scores if mask is None else kernels.barred(scores, mask)


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
