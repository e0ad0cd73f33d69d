"""The conformance kit: does a problem keep the contract of `icdc.problem`?

Every check compares two parts of a problem that were written independently of each other, on instances so
tiny that all solutions can be listed. `assert_conforms` is for tests, `icdc check-problem module:Class` for
the command line.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .decoding import Order, decode, log_probability
from .errors import IcdcError, InputError, UsageError
from .noise import Noise, fold, root_key
from .problem import Problem, Size, one_hot, to_tensors

_MOST_SOLUTIONS = 50_000


@dataclass(frozen=True)
class Finding:
    """The outcome of one check: what was checked, and what is wrong if anything is."""

    check: str
    wrong: str | None = None


class _Wrong(Exception):
    """Raised inside a check with the sentence that says what is wrong."""


def assert_conforms(problem: Problem, size: Size | None = None, seed: int = 0) -> None:
    """Raise AssertionError with every broken part of the contract; for use in tests."""
    broken = [f"{f.check}: {f.wrong}" for f in check_conformance(problem, size, seed) if f.wrong is not None]
    if broken:
        raise AssertionError(f"'{problem.name}' breaks the contract of a problem:\n  " + "\n  ".join(broken))


def check_conformance(problem: Problem, size: Size | None = None, seed: int = 0) -> list[Finding]:
    """Run every check and return what each found.

    Parameters
    ----------
    problem : the problem.
    size : of the tiny instances; rows and columns should differ where they are different things, and all
        assignments of columns to rows must be few enough to list. Chosen from `size_names` unless given.
    seed : of the instances.
    """
    kit = _Kit(problem, size if size is not None else _tiny(problem), seed)
    checks: dict[str, Callable[[], None]] = {
        "instances are drawn repeatably and pass their own check": kit.instances,
        "check refuses what is not a number": kit.refuses,
        "features have the declared sizes and are finite": kit.features,
        "the order of rows and columns means nothing": kit.equivariance,
        "cost of an instance does not depend on the batch": kit.batch,
        "what the rule decodes is feasible": kit.decoding,
        "probabilities of all feasible solutions sum to one": kit.probabilities,
        "a solution reads back as the choice it was written from": kit.round_trip,
        "density is the share of ones": kit.density,
        "violation is zero on feasible matrices only": kit.violation,
        "the lower bound is below the best of all solutions": kit.bound,
        "the generator on the device draws like the one on the host": kit.device,
    }
    findings = []
    for name, check in checks.items():
        try:
            check()
        except _Wrong as wrong:
            findings.append(Finding(name, str(wrong)))
        except Exception as error:  # whatever a user's code raises is a finding, not a crash
            findings.append(Finding(name, f"{type(error).__name__}: {error}"))
        else:
            findings.append(Finding(name))
    return findings


class _Kit:
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
        if self.columns**self.rows > _MOST_SOLUTIONS:
            raise UsageError(f"size {size} has too many assignments to list; choose a smaller one")
        self.instances_ = to_tensors(self.arrays)
        listed = list(itertools.product(range(self.columns), repeat=self.rows))
        every = torch.tensor(listed)[None].expand(self.count, -1, -1)
        self.every = every
        feasible = problem.feasible(self.instances_, every)
        if feasible.shape != every.shape[:2] or feasible.dtype != torch.bool:
            raise InputError(f"'{problem.name}': feasible must return (batch, samples) bool")
        self.solutions = [every[i, feasible[i]] for i in range(self.count)]
        if any(len(found) == 0 for found in self.solutions):
            raise InputError(f"'{problem.name}': an instance of size {size} has no feasible solution at all")

    def instances(self) -> None:
        problem = self.problem
        again = problem.sample(self.count, self.size, np.random.default_rng(self.seed))
        other = problem.sample(self.count, self.size, np.random.default_rng(self.seed + 1))
        if set(self.arrays) != set(problem.arrays):
            raise _Wrong(f"sample returns {sorted(self.arrays)}, arrays declares {sorted(problem.arrays)}")
        if not all(np.array_equal(self.arrays[name], again[name]) for name in self.arrays):
            raise _Wrong("the same generator draws different instances")
        if all(np.array_equal(self.arrays[name], other[name]) for name in self.arrays):
            raise _Wrong("another seed draws the same instances")
        if tuple(problem.size(self.arrays)) != tuple(self.size):
            raise _Wrong(f"size returns {problem.size(self.arrays)} for instances of size {self.size}")
        checked = problem.check(self.arrays)
        for name, array in self.arrays.items():
            if not np.array_equal(checked[name], array):
                raise _Wrong(f"check changes the array '{name}' of an instance that sample drew")

    def refuses(self) -> None:
        for name, array in self.arrays.items():
            if array.dtype == bool:
                continue
            broken = array.astype(np.float64)
            broken[0].flat[1 % broken[0].size] = np.nan
            try:
                self.problem.check({**self.arrays, name: broken})
            except InputError:
                continue
            raise _Wrong(f"check accepts NaN in '{name}'")

    def features(self) -> None:
        found, sizes = self.problem.features(self.instances_), self.problem.feature_sizes
        expected = {
            "relations": (self.count, self.rows, self.columns, sizes.relations),
            "rows": (self.count, self.rows, sizes.rows) if sizes.rows else None,
            "columns": (self.count, self.columns, sizes.columns) if sizes.columns else None,
        }
        for name, shape in expected.items():
            tensor: Tensor | None = getattr(found, name)
            if (None if tensor is None else tuple(tensor.shape)) != shape:
                got = None if tensor is None else tuple(tensor.shape)
                raise _Wrong(f"{name} have shape {got}, feature_sizes says {shape}")
            if tensor is not None and not bool(tensor.isfinite().all()):
                raise _Wrong(f"{name} are not all finite")
        if not 1 <= sizes.raw_relations <= sizes.relations:
            raise _Wrong(f"{sizes.raw_relations} raw relations of {sizes.relations}")

    def equivariance(self) -> None:
        rng = np.random.default_rng(self.seed)
        row = rng.permutation(self.rows)
        same = self.problem.feature_sizes.same_items
        column = row if same else rng.permutation(self.columns)
        if self.rows == self.columns and not same:
            raise _Wrong("cannot tell rows from columns at this size; choose one where they differ")
        moved = {name: self._permuted(array, row, column) for name, array in self.arrays.items()}
        place = np.argsort(column)
        choice = self.every[:, :, torch.from_numpy(row)]
        choice = torch.from_numpy(place)[choice]
        here, there = self.instances_, to_tensors(moved)
        if not torch.equal(self.problem.feasible(here, self.every), self.problem.feasible(there, choice)):
            raise _Wrong("feasibility changes when rows and columns are reordered")
        for i, solutions in enumerate(self.solutions):
            one, other = _only(here, i), _only(there, i)
            follow = torch.from_numpy(place)[solutions[:, torch.from_numpy(row)]]
            before, after = self.problem.cost(one, solutions[None]), self.problem.cost(other, follow[None])
            if not torch.allclose(before.double(), after.double(), rtol=1e-9):
                raise _Wrong("the cost changes when rows and columns are reordered")
        first, second = self.problem.features(here), self.problem.features(there)
        expected = first.relations[:, torch.from_numpy(row)][:, :, torch.from_numpy(column)]
        if not torch.allclose(expected, second.relations, rtol=1e-3, atol=1e-4):
            raise _Wrong("the relations do not follow when rows and columns are reordered")

    def _permuted(
        self, array: NDArray[Any], row: NDArray[np.int64], column: NDArray[np.int64]
    ) -> NDArray[Any]:
        """Reorder every axis (after the first) that is as long as the rows, or the columns, are many."""
        for axis in range(1, array.ndim):
            if array.shape[axis] == self.rows:
                array = np.take(array, row, axis)
            elif array.shape[axis] == self.columns:
                array = np.take(array, column, axis)
        return array

    def batch(self) -> None:
        choice = torch.stack([solutions[:1] for solutions in self.solutions])
        together = self.problem.cost(self.instances_, choice)
        if together.shape != (self.count, 1):
            raise _Wrong(
                f"cost returns shape {tuple(together.shape)} for {self.count} instances and 1 sample"
            )
        for i in range(self.count):
            alone = self.problem.cost(_only(self.instances_, i), choice[i : i + 1])
            if not torch.equal(alone[0], together[i]):
                raise _Wrong(f"instance {i} costs {together[i].item()} in a batch and {alone.item()} alone")
            if not bool(torch.isfinite(alone.double()).all()):
                raise _Wrong("a feasible solution has a cost that is not finite")

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
                raise _Wrong(f"in the order '{order}' the rule built {bad}, which feasible refuses")

    def probabilities(self) -> None:
        mask = self.problem.mask(self.instances_)
        scores = Noise(fold(root_key(self.seed), torch.arange(self.count))).normal(self.rows, self.columns)
        for i, solutions in enumerate(self.solutions):
            spread = None if mask is None else mask[i : i + 1].expand(len(solutions), -1, -1)
            log_p = log_probability(
                self.problem.rule, scores[i : i + 1].expand(len(solutions), -1, -1), solutions, mask=spread
            )
            total = float(log_p.double().exp().sum())
            if not math.isclose(total, 1.0, abs_tol=1e-4):
                raise _Wrong(f"they sum to {total:.6f}: the rule and feasible disagree on what is allowed")

    def round_trip(self) -> None:
        for solutions in self.solutions:
            for choice in solutions[:50].numpy():
                written = self.problem.solution(choice)
                if not np.array_equal(self.problem.choice(written), choice):
                    raise _Wrong(f"{choice.tolist()} is written as {written} and read back differently")

    def density(self) -> None:
        found, share = self.problem.density(self.size), 1.0 / self.columns
        if not math.isclose(found, share, rel_tol=1e-6):
            raise _Wrong(f"density is {found:.6g}; one 1 in each row of {self.columns} makes it {share:.6g}")

    def violation(self) -> None:
        x = one_hot(self.solutions[0], self.columns)
        found = self.problem.violation(x)
        if found.shape != (len(x),):
            raise _Wrong(f"violation returns shape {tuple(found.shape)} for {len(x)} matrices")
        if float(found.abs().max()) > 1e-6:
            raise _Wrong("it is not zero on a feasible solution")
        soft = torch.full((2, self.rows, self.columns), 1.0)
        soft[1] = 0.0
        soft.requires_grad_()
        wrong = self.problem.violation(soft)
        if not bool((wrong > 0).all()):
            raise _Wrong("it is not positive on the matrix of ones and on that of zeros")
        (slope,) = torch.autograd.grad(wrong.sum(), soft)
        if not bool(slope.isfinite().all()) or not bool(slope.any()):
            raise _Wrong("its gradient is zero or not finite")

    def bound(self) -> None:
        bound = self.problem.lower_bound(self.arrays)
        if bound is None:
            return
        if np.shape(bound) != (self.count,):
            raise _Wrong(f"it has shape {np.shape(bound)} for {self.count} instances")
        for i, solutions in enumerate(self.solutions):
            best = float(self.problem.cost(_only(self.instances_, i), solutions[None]).min())
            if bound[i] > best + 1e-9 * abs(best):
                raise _Wrong(
                    f"instance {i} has a solution of cost {best:.10g}, below its bound {bound[i]:.10g}"
                )

    def device(self) -> None:
        tries = 256
        keys = fold(root_key(self.seed), torch.arange(tries))
        drawn = self.problem.sample_on_device(self.size, Noise(keys))
        if drawn is None:
            return
        host = to_tensors(self.problem.sample(tries, self.size, np.random.default_rng(self.seed)))
        here, there = (self.problem.features(instances).relations.double() for instances in (host, drawn))
        if here.shape != there.shape:
            raise _Wrong(f"relations have shape {tuple(there.shape)}, on the host {tuple(here.shape)}")
        scale = here.std((0, 1, 2)) + 1e-9
        apart = (here.mean((0, 1, 2)) - there.mean((0, 1, 2))).abs() / scale
        if float(apart.max()) > 0.2:
            raise _Wrong(
                f"the mean of relation {int(apart.argmax())} differs by {float(apart.max()):.2f} deviations"
            )


def _tiny(problem: Problem) -> Size:
    """Return a size whose solutions can be listed: five items, or five rows and three columns."""
    return (5, 3, 2, 2)[: len(problem.size_names)]


def _only(instances: dict[str, Tensor], index: int) -> dict[str, Tensor]:
    """Return one instance as a batch."""
    return {name: tensor[index : index + 1] for name, tensor in instances.items()}
