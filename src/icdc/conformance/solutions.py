"""The checks of what a solution is: the rule that builds it, its probability, and how it is written."""

import itertools
import math

import numpy as np
import torch
from torch import Tensor

from ..kernels import Noise, fold, root_key
from ..problems.decoding import Order, decode, log_probability, random_choice
from ..problems.rules import Rule
from ..problems.tensors import one_hot
from .instances import FAR, InstanceChecks, Wrong, only


class SolutionChecks(InstanceChecks):
    """The checks of instances, and those that need solutions of them."""

    def decoding(self) -> None:
        tries = 200
        noise = Noise(fold(root_key(self.seed), torch.arange(self.count * tries)))
        scores = noise.normal(self.rows, self.columns)
        mask = self.problem.mask(self.instances_)
        spread = None if mask is None else mask.repeat_interleave(tries, 0)
        orders: tuple[Order, ...] = ("rule", "confidence")
        for order in orders:
            choice = decode(self.problem.rule, scores, order=order, noise=noise, mask=spread)
            good = self.problem.feasible(self.instances_, choice.view(self.count, tries, self.rows))
            if not bool(good.all()):
                bad = choice.view(self.count, tries, self.rows)[~good][0].tolist()
                raise Wrong(f"in the order '{order}' the rule built {bad}, which feasible refuses")
        anything = random_choice(self.problem.rule, (self.rows, self.columns), noise, spread)
        if not bool(self.problem.feasible(self.instances_, anything.view(self.count, tries, self.rows)).all()):
            raise Wrong("a solution drawn at random is one that feasible refuses")

    def probabilities(self) -> None:
        for i, first in itertools.product(range(self.count), range(self.rows)):
            log_p = self._log_probabilities(i, first)
            total = float(log_p.double().exp().sum())
            if float(log_p.min()) < -1e6:
                never = self.solutions[i][int(log_p.argmin())].tolist()
                raise Wrong(f"the rule can never build {never}, which feasible accepts")
            if not math.isclose(total, 1.0, abs_tol=1e-4):
                raise Wrong(f"they sum to {total:.6f}: the rule and feasible disagree on what is allowed")

    def _log_probabilities(self, index: int, first: int) -> Tensor:
        """Return log p̂ of every solution of an instance, for random log-odds, if row `first` begins."""
        solutions, mask = self.solutions[index], self.problem.mask(self.instances_)
        count = len(solutions)
        return log_probability(
            self.problem.rule,
            self._log_odds(index).expand(count, -1, -1),
            solutions,
            torch.full((count,), first),
            None if mask is None else mask[index].expand(count, -1, -1),
        )

    def _log_odds(self, index: int) -> Tensor:
        return Noise(fold(root_key(self.seed), torch.arange(self.count))).normal(self.rows, self.columns)[index]

    def frequencies(self) -> None:
        tries, mask = 2000, self.problem.mask(self.instances_)
        for i, solutions in enumerate(self.solutions):
            first = i % self.rows
            drawn = decode(
                self.problem.rule,
                self._log_odds(i).expand(tries, -1, -1),
                noise=Noise(fold(root_key(self.seed), 1, torch.arange(tries))),
                first=torch.full((tries,), first),
                mask=None if mask is None else mask[i].expand(tries, -1, -1),
            )
            expected = tries * self._log_probabilities(i, first).double().exp()
            met = (drawn[:, None] == solutions).all(2).sum(0)
            if bool(((met - expected).abs() > FAR * (expected.sqrt() + 1)).any()):
                raise Wrong(f"those of instance {i} do not, beginning with row {first}")

    def shortcuts(self) -> None:
        rule, tries = self.problem.rule, 16
        noise = Noise(fold(root_key(self.seed), 2, torch.arange(self.count * tries)))
        scores = noise.normal(self.rows, self.columns)
        scores[::4] = scores[::4].round().clamp(-1, 1)  # ties
        first = noise.integers(self.rows)
        mask = self.problem.mask(self.instances_)
        mask = None if mask is None else mask.repeat_interleave(tries, 0)
        choice, confident = rule.follow(scores, first, mask), rule.by_confidence(scores, mask)
        if not torch.equal(choice, Rule.follow(rule, scores, first, mask)):
            raise Wrong("follow decides differently")
        if not torch.equal(confident, Rule.by_confidence(rule, scores, mask)):
            raise Wrong("by_confidence decides differently")
        along = rule.allowed_along(choice, self.columns, first, mask)
        if not torch.equal(along, Rule.allowed_along(rule, choice, self.columns, first, mask)):
            raise Wrong("allowed_along allows something else")
        one, only = slice(5, 6), None if mask is None else mask[5:6]
        alone = rule.follow(scores[one], first[one], only), rule.by_confidence(scores[one], only)
        if not (torch.equal(alone[0], choice[one]) and torch.equal(alone[1], confident[one])):
            raise Wrong("a solution decoded alone differs from the same one in a batch")

    def round_trip(self) -> None:
        for solutions in self.solutions:
            for choice in solutions[:50].numpy():
                written = self.problem.solution(choice)
                if not all(type(item) is int for item in written):
                    raise Wrong(f"{choice.tolist()} is written as {written}, not as plain integers")
                if not np.array_equal(self.problem.choice(written), choice):
                    raise Wrong(f"{choice.tolist()} is written as {written} and read back differently")

    def density(self) -> None:
        found, share = self.problem.density(self.size), 1.0 / self.columns
        if not math.isclose(found, share, rel_tol=1e-6):
            raise Wrong(f"density is {found:.6g}; one 1 in each row of {self.columns} makes it {share:.6g}")

    def violation(self) -> None:
        x = one_hot(self.solutions[0], self.columns)
        found = self.problem.violation(x)
        if found.shape != (len(x),):
            raise Wrong(f"violation returns shape {tuple(found.shape)} for {len(x)} matrices")
        if float(found.abs().max()) > 1e-6:
            raise Wrong("it is not zero on a feasible solution")
        emptied, zeros, ones = x[:1].clone(), torch.zeros_like(x[:1]), torch.ones_like(x[:1])
        emptied[:, 0] = 0.0
        soft = torch.cat([emptied, zeros, ones] if self.columns > 1 else [emptied, zeros]).requires_grad_()
        wrong = self.problem.violation(soft)
        if not bool((wrong > 0).all()):
            raise Wrong("it is not positive where rows have no 1, or several")
        (slope,) = torch.autograd.grad(wrong.sum(), soft)
        if not bool(slope.isfinite().all()) or not bool(slope.any()):
            raise Wrong("its gradient is zero or not finite")

    def bound(self) -> None:
        bound = self.problem.lower_bound(self.arrays)
        if bound is None:
            return
        if np.shape(bound) != (self.count,):
            raise Wrong(f"it has shape {np.shape(bound)} for {self.count} instances")
        for i, solutions in enumerate(self.solutions):
            best = float(self.problem.cost(only(self.instances_, i), solutions[None]).min())
            if bound[i] > best + 1e-9 * abs(best):
                raise Wrong(f"instance {i} has a solution of cost {best:.10g}, below its bound {bound[i]:.10g}")
