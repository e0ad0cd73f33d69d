"""A batch of instances of one size, with what generating their solutions asks of the problem."""

import torch
from torch import Tensor

from ..errors import UsageError
from .base import Instances, Problem
from .features import Candidates
from .tensors import neutral, one_hot


class Task:
    """A batch of instances of one size, with what the reverse process asks of the problem.

    Parameters
    ----------
    problem : the contract.
    instances : named tensors, leading axis B.
    only_feasible : give solutions that fail the problem's own test an infinite cost, so that they never win.
        Rules make none, except where a mask leaves them no way out.
    candidates : the columns of each row that the network looks at, where it does not look at all of them.
    masked : whether instances may have forbidden pairs; None: detect from the instances (one host sync).

    width : entries of a row of the matrices that the process works on: all columns, or the candidates.
    density : q̄, the share of ones in these matrices.
    """

    def __init__(
        self,
        problem: Problem,
        instances: Instances,
        only_feasible: bool = False,
        candidates: Candidates | None = None,
        masked: bool | None = None,
    ) -> None:
        size = problem.size(instances)
        self.problem, self.instances, self.candidates = problem, instances, candidates
        self.rows, self.columns = problem.shape(size)
        self.width = self.columns if candidates is None else candidates.count
        self.density = problem.density(size) * (self.columns / self.width)
        self.rule = problem.rule
        self.batch = len(next(iter(instances.values())))
        self._mask = problem.mask(instances)
        self._check = only_feasible and self._mask is not None
        if masked is not False:
            self._mask = problem.permitted(instances)
        if masked is None and self._mask is not None and bool(self._mask.all()):
            self._mask = None

    def cost(self, choice: Tensor) -> Tensor:
        """Return costs (B, K) of choices (B · K, rows), instance-major."""
        choice = choice.view(self.batch, -1, self.rows)
        cost = self.problem.cost(self.instances, choice)
        if self._check:
            cost = torch.where(self.problem.feasible(self.instances, choice), cost.double(), torch.inf)
        return cost

    def improve(self, choice: Tensor, cost: Tensor, rounds: int) -> tuple[Tensor, Tensor]:
        """Improve solutions (B · K, rows) with costs (B · K,), instance-major; return them with their costs."""
        improved = self.problem.improve(self.instances, choice.view(self.batch, -1, self.rows), rounds).flatten(0, 1)
        return self._no_worse(choice, cost, improved)

    def merge(self, choice: Tensor, cost: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """Let solutions (B · K, rows) with costs (B · K,) take over parts of others (B · K, count, rows)."""
        mine = choice.view(self.batch, -1, self.rows)
        merged = self.problem.merge(self.instances, mine, others.view(*mine.shape[:2], -1, self.rows))
        return self._no_worse(choice, cost, merged.flatten(0, 1))

    def _no_worse(self, choice: Tensor, cost: Tensor, changed: Tensor) -> tuple[Tensor, Tensor]:
        """Return every solution as it was changed, and its cost; or as it was before, where that is better."""
        changed_cost = self.cost(changed).flatten()
        # a search adds up changes in an order of its own, and rounding may make a gain of nothing; equal costs may hide
        # progress, such as one fullest machine less
        worse = changed_cost > cost
        return torch.where(worse[:, None], choice, changed), torch.where(worse, cost, changed_cost)

    def starts(self, count: int) -> tuple[Tensor, Tensor]:
        """Return `count` solutions of every instance to begin with, (B · count, rows), and their costs."""
        choice = self.problem.construct(self.instances, count).choice.flatten(0, 1)
        return choice, self.cost(choice).flatten()

    def marked(self, choice: Tensor) -> Tensor:
        """Return the matrices (N, rows, width) of choices (N, rows), as the process works on them."""
        return one_hot(choice, self.columns) if self.candidates is None else self.candidates.mark(choice)

    def mask(self, samples: int) -> Tensor | None:
        """Return the permitted pairs for `samples` solutions of every instance; None where all are."""
        return None if self._mask is None else self._mask.repeat_interleave(samples, 0)

    @property
    def has_loads(self) -> bool:
        """Tell whether solutions can be decoded by loads."""
        return self.problem.promised_times(self.instances) is not None

    def times(self) -> Tensor:
        """Return what a row adds to the load of each column, (B, rows, columns), for decoding by loads.

        Where a pair is forbidden, something above all others.
        """
        times = self.problem.promised_times(self.instances)
        if times is None:
            raise UsageError(
                f'{self.problem.name} cannot be decoded in the order "loads": that is for schedules, problems of the '
                'structure "makespan" whose `times` says what a row adds to the load of a column'
            )
        return times if self._mask is None else neutral(times, self._mask)
