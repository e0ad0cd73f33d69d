"""The checks of forbidden pairs: what instances permit, and that nobody who is told so uses anything else."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..kernels import Noise, fold, root_key
from ..problems.base import Arrays
from ..problems.decoding import Order, decode, log_probability
from ..problems.forbidden import batch_with_stand_ins, may_forbid
from ..problems.tensors import to_tensors
from .instances import Wrong, only
from .search import SearchChecks


class MaskChecks(SearchChecks):
    """The checks of search, and those of forbidden pairs."""

    def permitted(self) -> None:
        self._keeps_optima(self.instances_)
        if not may_forbid(self.problem):
            return
        forbidden = self._some_forbidden()
        try:
            arrays = batch_with_stand_ins(self.problem, self.arrays, forbidden)
        except InputError:
            return  # its matrix does not say what pairs cost: its instances cannot forbid any
        self._knows(arrays, forbidden)

    def _keeps_optima(self, instances: dict[str, Tensor]) -> None:
        """Refuse permitted pairs that the mask forbids, and those without which no best solution is left."""
        permitted, mask = self.problem.permitted(instances), self.problem.mask(instances)
        if permitted is None:
            if mask is not None:
                raise Wrong("permitted says that all pairs are, mask that some are not")
            return
        if permitted.shape != (self.count, self.rows, self.columns) or permitted.dtype != torch.bool:
            raise Wrong(f"permitted returns {permitted.dtype} of shape {tuple(permitted.shape)}")
        if mask is not None and bool((permitted & ~mask).any()):
            raise Wrong("permitted has a pair that the mask forbids")
        for i, solutions in enumerate(self.solutions):
            cost = self.problem.cost(only(instances, i), solutions[None])[0].double()
            kept = permitted[i].expand(len(solutions), -1, -1).gather(2, solutions[..., None]).all(1).squeeze(1)
            if bool(kept.any()) and float(cost[kept].min()) > float(cost.min()):
                raise Wrong(f"without the pairs that instance {i} does not permit no best solution is left")

    def _some_forbidden(self) -> NDArray[np.bool_]:
        """Forbid a third of the pairs of every instance, but none of one of its solutions."""
        rng = np.random.default_rng(self.seed)
        forbidden = rng.random((self.count, self.rows, self.columns)) < 1 / 3
        for i, solutions in enumerate(self.solutions):
            forbidden[i, np.arange(self.rows), solutions[int(rng.integers(len(solutions)))].numpy()] = False
        if self.problem.feature_sizes.same_items:
            forbidden[:, np.arange(self.rows), np.arange(self.rows)] = False
        return forbidden

    def _knows(self, arrays: Arrays, forbidden: NDArray[np.bool_]) -> None:
        """Refuse what takes the numbers that stand in for forbidden pairs for numbers."""
        problem, instances, allowed = self.problem, to_tensors(arrays), torch.from_numpy(~forbidden)
        permitted, some = problem.permitted(instances), torch.from_numpy(forbidden.any((1, 2)))
        if not bool(some.any()):
            return
        if permitted is None or not torch.equal(permitted[some], allowed[some]):
            raise Wrong("permitted does not say which pairs an instance forbids; see icdc.problems.forbidden")
        self._keeps_optima(instances)
        if not bool(problem.features(instances).relations.isfinite().all()):
            raise Wrong("with forbidden pairs some relations are not finite")
        bound = problem.lower_bound(arrays)
        for i, solutions in enumerate(self.solutions):
            kept = allowed[i].expand(len(solutions), -1, -1).gather(2, solutions[..., None]).all(1).squeeze(1)
            cost = problem.cost(only(instances, i), solutions[None])[0].double()
            if not bool((cost[kept].max() < cost[~kept]).all()):
                raise Wrong(f"a solution of instance {i} costs no more for using a forbidden pair")
            if bound is not None and bound[i] > float(cost[kept].min()) * (1 + 1e-9):
                raise Wrong(f"the lower bound of instance {i} is above its best permitted solution")
            start = solutions[kept][:1][None]
            better = problem.improve(only(instances, i), start, self.rows)
            if not bool(allowed[i].gather(1, better[0, 0][:, None]).all()):
                raise Wrong(f"improve takes instance {i} from permitted pairs to a forbidden one")
            self._probable(i, allowed[i], solutions)
        noise = Noise(fold(root_key(self.seed), torch.arange(self.count)))
        scores = noise.normal(self.rows, self.columns)
        orders: tuple[Order, ...] = ("rule", "confidence")
        for order in orders:
            choice = decode(problem.rule, scores, order=order, noise=noise, mask=allowed)
            if not bool(problem.feasible(instances, choice[:, None]).all()):
                raise Wrong(f"in the order '{order}' a mask makes the rule build what feasible refuses")

    def _probable(self, index: int, allowed: Tensor, solutions: Tensor) -> None:
        count = len(solutions)
        log_p = log_probability(
            self.problem.rule, self._log_odds(index).expand(count, -1, -1), solutions,
            torch.zeros(count, dtype=torch.long), allowed.expand(count, -1, -1),
        )  # fmt: skip
        total = float(log_p.double().exp().sum())
        if abs(total - 1.0) > 1e-4:
            raise Wrong(f"with forbidden pairs the probabilities of instance {index} sum to {total:.4f}")
