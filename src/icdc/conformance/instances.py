"""The tiny batch of instances that everything is checked on, and the checks of what instances and solutions are."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import IcdcError, InputError, UsageError
from ..kernels import Noise, fold, root_key
from ..problems.base import Problem, Size
from ..problems.decoding import Order, decode, log_probability, random_choice
from ..problems.rules import Rule
from ..problems.tensors import one_hot, to_tensors

MOST_SOLUTIONS = 50_000
FAR = 6.0
"""Standard deviations beyond which two numbers are taken to differ; the seed fixes all random numbers."""


class Wrong(Exception):
    """Raised inside a check with the sentence that says what is wrong."""


class InstanceChecks:
    """One tiny batch of instances with all of its assignments, and the checks on it."""

    count = 3

    def __init__(self, problem: Problem, size: Size, seed: int) -> None:
        self.problem, self.size, self.seed = problem, size, seed
        try:
            self.rows, self.columns = problem.shape(size)
            self.arrays = problem.sample(self.count, size, np.random.default_rng(seed))
        except IcdcError:
            raise
        except Exception as error:
            raise InputError(f"'{problem.name}' cannot draw instances of size {size}: {error!r}") from error
        if self.columns**self.rows > MOST_SOLUTIONS:
            raise UsageError(f"size {size} has too many assignments to list; choose a smaller one")
        self.tensors = to_tensors(self.arrays)
        listed = list(itertools.product(range(self.columns), repeat=self.rows))
        every = torch.tensor(listed)[None].expand(self.count, -1, -1)
        self.every = every
        feasible = problem.feasible(self.tensors, every)
        if feasible.shape != every.shape[:2] or feasible.dtype != torch.bool:
            raise InputError(f"'{problem.name}': feasible must return (batch, samples) bool")
        self.solutions = [every[i, feasible[i]] for i in range(self.count)]
        if any(len(some) == 0 for some in self.solutions):
            raise InputError(f"'{problem.name}': an instance of size {size} has no feasible solution at all")

    def instances(self) -> None:
        problem = self.problem
        again = problem.sample(self.count, self.size, np.random.default_rng(self.seed))
        other = problem.sample(self.count, self.size, np.random.default_rng(self.seed + 1))
        if set(self.arrays) != set(problem.arrays):
            raise Wrong(f"sample returns {sorted(self.arrays)}, arrays declares {sorted(problem.arrays)}")
        if not all(np.array_equal(self.arrays[name], again[name]) for name in self.arrays):
            raise Wrong("the same generator draws different instances")
        if all(np.array_equal(self.arrays[name], other[name]) for name in self.arrays):
            raise Wrong("another seed draws the same instances")
        if tuple(problem.size(self.arrays)) != tuple(self.size):
            raise Wrong(f"size returns {problem.size(self.arrays)} for instances of size {self.size}")
        checked = problem.check(self.arrays)
        for name, array in self.arrays.items():
            if not np.array_equal(checked[name], array):
                raise Wrong(f"check changes the array '{name}' of an instance that sample drew")

    def refuses(self) -> None:
        for name, array in self.arrays.items():
            if array.dtype == bool:
                continue
            broken = array.astype(np.float64)
            broken[0].flat[1 % broken[0].size] = np.nan
            for what, value in (("NaN", broken), ("an empty array", broken[:0])):
                try:
                    self.problem.check({**self.arrays, name: value})
                except InputError:
                    continue
                raise Wrong(f"check accepts {what} in '{name}'")

    def features(self) -> None:
        features, sizes = self.problem.features(self.tensors), self.problem.feature_sizes
        expected = {
            "relations": (self.count, self.rows, self.columns, sizes.relations),
            "rows": (self.count, self.rows, sizes.rows) if sizes.rows else None,
            "columns": (self.count, self.columns, sizes.columns) if sizes.columns else None,
        }
        for name, shape in expected.items():
            tensor: Tensor | None = getattr(features, name)
            if (None if tensor is None else tuple(tensor.shape)) != shape:
                got = None if tensor is None else tuple(tensor.shape)
                raise Wrong(f"{name} have shape {got}, feature_sizes says {shape}")
            if tensor is not None and not (tensor.dtype == torch.float32 and bool(tensor.isfinite().all())):
                raise Wrong(f"{name} are not all finite float32")
        if not 1 <= sizes.raw_relations <= sizes.relations:
            raise Wrong(f"{sizes.raw_relations} raw relations of {sizes.relations}")
        for i in range(self.count):
            alone = self.problem.features(only(self.tensors, i)).relations[0]
            if not torch.allclose(alone, features.relations[i], rtol=1e-3, atol=1e-4):
                raise Wrong(f"instance {i} has other relations alone than in a batch")

    def equivariance(self) -> None:
        rng = np.random.default_rng(self.seed)
        row = rng.permutation(self.rows)
        same = self.problem.feature_sizes.same_items
        column = row if same else rng.permutation(self.columns)
        if self.rows == self.columns and not same:
            return  # an array's axes cannot be told apart at this size
        if self.problem.named(self.size) != (self.rows, self.columns):
            return  # no array has the rows that only solutions have
        moved = {name: self._permuted(array, row, column) for name, array in self.arrays.items()}
        place = np.argsort(column)
        choice = self.every[:, :, torch.from_numpy(row)]
        choice = torch.from_numpy(place)[choice]
        here, there = self.tensors, to_tensors(moved)
        if not torch.equal(self.problem.feasible(here, self.every), self.problem.feasible(there, choice)):
            raise Wrong("feasibility changes when rows and columns are reordered")
        for i, solutions in enumerate(self.solutions):
            one, other = only(here, i), only(there, i)
            follow = torch.from_numpy(place)[solutions[:, torch.from_numpy(row)]]
            before, after = self.problem.cost(one, solutions[None]), self.problem.cost(other, follow[None])
            if not torch.allclose(before.double(), after.double(), rtol=1e-9):
                raise Wrong("the cost changes when rows and columns are reordered")
        first, second = self.problem.features(here), self.problem.features(there)
        r, c = torch.from_numpy(row), torch.from_numpy(column)
        pairs = [("relations", first.relations[:, r][:, :, c], second.relations)]
        if first.rows is not None and second.rows is not None:
            pairs.append(("features of rows", first.rows[:, r], second.rows))
        if first.columns is not None and second.columns is not None:
            pairs.append(("features of columns", first.columns[:, c], second.columns))
        mask, moved_mask = self.problem.mask(here), self.problem.mask(there)
        if mask is not None and moved_mask is not None:
            pairs.append(("permitted pairs", mask[:, r][:, :, c].float(), moved_mask.float()))
        for name, expected, actual in pairs:
            if not torch.allclose(expected, actual, rtol=1e-3, atol=1e-3):
                raise Wrong(f"the {name} do not follow when rows and columns are reordered")

    def _permuted(self, array: NDArray[Any], row: NDArray[np.int64], column: NDArray[np.int64]) -> NDArray[Any]:
        """Reorder every axis (after the first) that is as long as the rows, or the columns, are many."""
        for axis in range(1, array.ndim):
            if array.shape[axis] == self.rows:
                array = np.take(array, row, axis)
            elif array.shape[axis] == self.columns:
                array = np.take(array, column, axis)
        return array

    def batch(self) -> None:
        together = self.problem.cost(self.tensors, self.every)
        if together.shape != self.every.shape[:2]:
            expected = tuple(self.every.shape[:2])
            raise Wrong(f"cost returns shape {tuple(together.shape)} for {expected} solutions")
        for i, solutions in enumerate(self.solutions):
            alone = self.problem.cost(only(self.tensors, i), self.every[:1, ::3])
            if not torch.allclose(alone[0].double(), together[i, ::3].double(), rtol=1e-9, equal_nan=True):
                raise Wrong(f"solutions of instance {i} cost something else alone than in a batch")
            cost = self.problem.cost(only(self.tensors, i), solutions[None])
            if not bool(torch.isfinite(cost.double()).all()):
                raise Wrong("a feasible solution has a cost that is not finite")

    def feasibility(self) -> None:
        outside = self.every[:, :1].repeat(1, 2, 1)
        outside[:, 0, 0], outside[:, 1, -1] = -1, self.columns
        if bool(self.problem.feasible(self.tensors, outside).any()):
            raise Wrong("it accepts a column that does not exist")
        mask = self.problem.mask(self.tensors)
        if mask is None:
            return
        if mask.shape != (self.count, self.rows, self.columns) or mask.dtype != torch.bool:
            raise Wrong(f"mask returns {mask.dtype} of shape {tuple(mask.shape)}")
        for i, solutions in enumerate(self.solutions):
            permitted = mask[i].expand(len(solutions), -1, -1).gather(2, solutions[:, :, None])
            if not bool(permitted.all()):
                raise Wrong(f"it accepts a pair that the mask of instance {i} forbids")

    def device(self) -> None:
        tries = 1000
        keys = fold(root_key(self.seed), torch.arange(tries))
        drawn = self.problem.sample_on_device(self.size, Noise(keys))
        if drawn is None:
            return
        host = to_tensors(self.problem.sample(tries, self.size, np.random.default_rng(self.seed)))
        for name in self.problem.arrays:
            if name not in drawn or drawn[name].shape != host[name].shape:
                raise Wrong(f"it does not return '{name}' in the shape of sample")
        alone = self.problem.sample_on_device(self.size, Noise(keys[5:6]))
        if alone is None or not all(torch.equal(alone[name][0], drawn[name][5]) for name in drawn):
            raise Wrong("a key draws another instance alone than in a batch")
        for name in self.problem.arrays:
            # in units of the mean size, so that the first moment says nothing and the second does
            if _differ(_unitless(host[name]).square(), _unitless(drawn[name]).square()):
                raise Wrong(f"the spread of '{name}' differs")
        here, there = (self.problem.features(instances).relations.double() for instances in (host, drawn))
        for channel in range(here.shape[-1]):
            if _differ(here[..., channel], there[..., channel]):
                raise Wrong(f"the mean of relation {channel} differs")

    def synchronisation(self) -> None:
        problem, rule = self.problem, self.problem.rule
        # tensors of the device "meta" have shapes and no values: reading one fails
        instances = {name: tensor.to("meta") for name, tensor in self.tensors.items()}
        choice = torch.empty(self.count, 1, self.rows, dtype=torch.long, device="meta")
        scores = torch.empty(self.count, self.rows, self.columns, device="meta")
        keys = torch.empty(self.count, dtype=torch.long, device="meta")
        mask = problem.mask(instances)
        parts: dict[str, Callable[[], object]] = {
            "features": lambda: problem.features(instances),
            "cost": lambda: problem.cost(instances, choice),
            "feasible": lambda: problem.feasible(instances, choice),
            "violation": lambda: problem.violation(scores),
            "sample_on_device": lambda: problem.sample_on_device(self.size, Noise(keys)),
            "decoding in the rule's order": lambda: decode(rule, scores, noise=Noise(keys), mask=mask),
            "decoding by confidence": lambda: decode(rule, scores, order="confidence", mask=mask),
            "log-probability": lambda: log_probability(rule, scores, choice[:, 0], mask=mask),
            "cost_changes": lambda: problem.cost_changes(instances, choice),
            "improve": lambda: problem.improve(instances, choice, 2),
            "merge": lambda: problem.merge(instances, choice, choice[:, :, None]),
            "construct": lambda: problem.construct(instances, 2),
        }
        for name, run in parts.items():
            try:
                run()
            except Exception as error:
                raise Wrong(f"{name} reads one, or leaves the device ({error})") from error

    # What a solution is: the rule that builds it, its probability, and how it is written.

    def decoding(self) -> None:
        tries = 200
        noise = Noise(fold(root_key(self.seed), torch.arange(self.count * tries)))
        scores = noise.normal(self.rows, self.columns)
        mask = self.problem.mask(self.tensors)
        spread = None if mask is None else mask.repeat_interleave(tries, 0)
        orders: tuple[Order, ...] = ("rule", "confidence")
        for order in orders:
            choice = decode(self.problem.rule, scores, order=order, noise=noise, mask=spread)
            good = self.problem.feasible(self.tensors, choice.view(self.count, tries, self.rows))
            if not bool(good.all()):
                bad = choice.view(self.count, tries, self.rows)[~good][0].tolist()
                raise Wrong(f"in the order '{order}' the rule built {bad}, which feasible refuses")
        choice = random_choice(self.problem.rule, (self.rows, self.columns), noise, spread)
        if not bool(self.problem.feasible(self.tensors, choice.view(self.count, tries, self.rows)).all()):
            raise Wrong("a solution drawn at random is one that feasible refuses")

    def probabilities(self) -> None:
        for i, first in itertools.product(range(self.count), range(self.rows)):
            log_p = self._log_probabilities(i, first, self.problem.mask(self.tensors))
            total = float(log_p.double().exp().sum())
            if float(log_p.min()) < -1e6:
                never = self.solutions[i][int(log_p.argmin())].tolist()
                raise Wrong(f"the rule can never build {never}, which feasible accepts")
            if not math.isclose(total, 1.0, abs_tol=1e-4):
                raise Wrong(f"they sum to {total:.6f}: the rule and feasible disagree on what is allowed")

    def _log_probabilities(self, index: int, first: int, mask: Tensor | None) -> Tensor:
        """Return log p̂ of every solution of an instance, for random log-odds, if row `first` begins."""
        solutions, count = self.solutions[index], len(self.solutions[index])
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
        tries, mask = 2000, self.problem.mask(self.tensors)
        for i, solutions in enumerate(self.solutions):
            first = i % self.rows
            choice = decode(
                self.problem.rule,
                self._log_odds(i).expand(tries, -1, -1),
                noise=Noise(fold(root_key(self.seed), 1, torch.arange(tries))),
                first=torch.full((tries,), first),
                mask=None if mask is None else mask[i].expand(tries, -1, -1),
            )
            expected = tries * self._log_probabilities(i, first, mask).double().exp()
            count = (choice[:, None] == solutions).all(2).sum(0)
            if bool(((count - expected).abs() > FAR * (expected.sqrt() + 1)).any()):
                raise Wrong(f"those of instance {i} do not, beginning with row {first}")

    def shortcuts(self) -> None:
        rule, tries = self.problem.rule, 16
        noise = Noise(fold(root_key(self.seed), 2, torch.arange(self.count * tries)))
        scores = noise.normal(self.rows, self.columns)
        scores[::4] = scores[::4].round().clamp(-1, 1)  # ties
        first = noise.integers(self.rows)
        mask = self.problem.mask(self.tensors)
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
        density, share = self.problem.density(self.size), 1.0 / self.columns
        if not math.isclose(density, share, rel_tol=1e-6):
            raise Wrong(f"density is {density:.6g}; one 1 in each row of {self.columns} makes it {share:.6g}")

    def violation(self) -> None:
        x = one_hot(self.solutions[0], self.columns)
        violation = self.problem.violation(x)
        if violation.shape != (len(x),):
            raise Wrong(f"violation returns shape {tuple(violation.shape)} for {len(x)} matrices")
        if float(violation.abs().max()) > 1e-6:
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
        self._check_bound(bound)

    def _check_bound(self, bound: NDArray[np.float64]) -> None:
        """Refuse bounds (count,) that some solution of their instance is below."""
        for i, solutions in enumerate(self.solutions):
            best = float(self.problem.cost(only(self.tensors, i), solutions[None]).min())
            if bound[i] > best + 1e-9 * abs(best):
                raise Wrong(f"instance {i} has a solution of cost {best:.10g}, below its bound {bound[i]:.10g}")


def only(instances: dict[str, Tensor], index: int) -> dict[str, Tensor]:
    """Return one instance as a batch."""
    return {name: tensor[index : index + 1] for name, tensor in instances.items()}


def _unitless(array: Tensor) -> Tensor:
    """Return values in units of their mean size over the batch: two generators may use different units."""
    values = array.double()
    return values / values.abs().mean().clamp_min(1e-300)


def _differ(a: Tensor, b: Tensor) -> bool:
    """Tell whether the means of two batches differ by more than chance explains."""
    a, b = a.flatten(1).mean(1), b.flatten(1).mean(1)
    error = float((a.var() / len(a) + b.var() / len(b)).sqrt())
    return abs(float(a.mean() - b.mean())) > FAR * error + 1e-6
