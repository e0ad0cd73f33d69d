"""A batch of instances of one size, with what generating their solutions asks of the problem."""

import torch
from torch import Tensor

from .contract import Features, Instances, Problem


class Task:
    """A batch of instances of one size, with what the reverse process asks of the problem.

    Parameters
    ----------
    problem : the contract.
    instances : named tensors, leading axis B.
    only_feasible : give solutions that fail the problem's own test an infinite cost, so that they never win.
        Rules make none, except where a mask leaves them no way out.
    """

    def __init__(self, problem: Problem, instances: Instances, only_feasible: bool = False) -> None:
        size = problem.size(instances)
        self.problem, self.instances = problem, instances
        self.rows, self.columns = problem.shape(size)
        self.density = problem.density(size)
        self.rule = problem.rule
        self.batch = len(next(iter(instances.values())))
        self._mask = problem.mask(instances)
        self._check = only_feasible and self._mask is not None

    def cost(self, choice: Tensor) -> Tensor:
        """Return costs (B, K) of choices (B · K, rows), instance-major."""
        choice = choice.view(self.batch, -1, self.rows)
        cost = self.problem.cost(self.instances, choice)
        if self._check:
            cost = torch.where(self.problem.feasible(self.instances, choice), cost.double(), torch.inf)
        return cost

    def features(self) -> Features:
        """Return what the network sees of the instances."""
        return self.problem.features(self.instances)

    def mask(self, samples: int) -> Tensor | None:
        """Return the permitted pairs for `samples` solutions of every instance."""
        return None if self._mask is None else self._mask.repeat_interleave(samples, 0)
