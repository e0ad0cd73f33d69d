"""The contract of a problem.

An instance is a set of named arrays with a leading batch axis. A solution gives each row one column and is
stored as `choice` (batch, samples, rows): several solutions for every instance of the batch at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from importlib import import_module
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..search.structures import structure_of as structure_of
from .present import Presentation

if TYPE_CHECKING:
    from torch import Tensor

    from ..kernels import Noise
    from .decoding import Starts
    from .features import Features
    from .instance import RawInstance
    from .rules import Rule

Arrays = dict[str, NDArray[Any]]
Instances: TypeAlias = "Mapping[str, Tensor]"
Size = tuple[int, ...]
Draw: TypeAlias = "Callable[[tuple[int, ...], Noise], dict[str, Tensor]]"
"""Draws one instance of a size for each key of the noise: integers, leading axis N; every key's numbers are its own."""


@dataclass(frozen=True)
class FeatureSizes:
    """The feature dimensions a network is built for; all it ever knows about a problem.

    same_items : whether rows and columns are the same items, which then have one embedding.
    """

    relations: int
    raw_relations: int
    rows: int = 0
    columns: int = 0
    same_items: bool = False


@dataclass(frozen=True)
class Family:
    """One family of instances of a problem.

    summary : what is special about it, in a line.
    draw : how its instances are drawn; None for the problem's own `sample`.
    unit : what training divides the numbers by, so that they are of the order of one to a hundred; where arrays have
        different units, one for each of them.
    forbids : whether it forbids pairs, by a number larger than any solution without it (`problems.forbidden`).
    """

    summary: str
    draw: Draw | None = None
    unit: float | Mapping[str, float] = 1.0
    forbids: bool = False

    def unit_of(self, array: str) -> float:
        """Return the unit of an array."""
        return self.unit[array] if isinstance(self.unit, Mapping) else self.unit


class InTorch:
    """A function, or the rule, of a problem that ships, in a module that imports torch: imported when it is first used.

    So such instances are read, checked and bounded without torch. In a class a function is a method.
    """

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    @cached_property
    def value(self) -> Any:
        """The function; or an object of the class that has this name."""
        value = getattr(import_module(self.module), self.name)
        return value() if isinstance(value, type) else value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(*args, **kwargs)

    def __get__(self, problem: Problem | None, owner: type) -> Any:
        if problem is None:
            return self
        return MethodType(self.value, problem) if isinstance(self.value, FunctionType) else self.value


F = TypeVar("F", bound=Callable[..., Any])


def in_torch(module: str) -> Callable[[F], F]:
    """Let a method of the contract do what the function of its name in a module that imports torch does."""

    def decorate(method: F) -> F:
        default = InTorch(module, method.__name__)
        return cast(F, wraps(method)(lambda *args, **kwargs: default(*args, **kwargs)))

    return decorate


class Problem(Presentation, ABC):
    """What a problem is. Subclass it, fill in the abstract parts, and it can be trained and solved.

    How it is written and drawn are further parts (`Presentation`). What every problem sets:

    name : the word for it on the command line and in files.
    arrays : the names of the arrays that make an instance.
    size_names : what the integers of a size mean, in order, e.g. ("jobs", "machines").
    feature_sizes : the feature dimensions that `features` returns.
    rule : how feasible solutions are built.

    What has a default, to which it returns in a subclass that changes a method that it rests on (`_RESTS_ON`):

    structure : the name of what classical solvers may take for granted (`icdc.search.structures`).
    priced_sizes : the feature dimensions that `priced_features` returns, where the problem has some.
    families : other draws than `sample`, by name (`icdc.problems.families`).
    cost_changes : see there.

    And other defaults:

    axes : how many axes an array of one instance has, for those that are not matrices.
    restated : whether instances are put to solvers as those of another problem that ships (`problems.restating`).
    """

    arrays: ClassVar[tuple[str, ...]]
    feature_sizes: ClassVar[FeatureSizes]
    rule: ClassVar[Rule]

    axes: ClassVar[Mapping[str, int]] = {}
    priced_sizes: ClassVar[FeatureSizes | None] = None
    structure: ClassVar[str | None] = None
    restated: ClassVar[bool] = False
    families: ClassVar[Mapping[str, Family]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)

        def depth(part: str) -> int:  # a mixin may bring the change along
            return next(place for place, ancestor in enumerate(cls.__mro__) if part in vars(ancestor))

        for part, methods in _RESTS_ON.items():
            if any(depth(method) < depth(part) for method in methods):
                setattr(cls, part, vars(Problem)[part])
        if cls.structure is not None:
            structure_of(cls.structure)  # refuses a name that is not registered

    def family(self, name: str) -> Family:
        """Return a family by its name; an unknown name is a UsageError that lists what there is."""
        if name not in self.families:
            choices = f"choose one of {', '.join(self.families)}" if self.families else "it has none"
            raise UsageError(f"the problem '{self.name}' has no family '{name}'; {choices}")
        return self.families[name]

    # What every problem fills in.

    @abstractmethod
    def sample(self, count: int, size: Size, rng: np.random.Generator) -> Arrays:
        """Draw `count` instances of one size, from integers of `rng` only, so that every machine agrees."""

    @abstractmethod
    def size(self, arrays: Mapping[str, Any]) -> Size:
        """Return the size of a batch of instances."""

    @abstractmethod
    def shape(self, size: Size) -> tuple[int, int]:
        """Return (rows, columns) of the solution matrix for a size."""

    @abstractmethod
    def check(self, arrays: Mapping[str, Any]) -> Arrays:
        """Validate arrays from outside and return them as stored; raise InputError with a clear sentence."""

    @abstractmethod
    def features(self, instances: Instances) -> Features:
        """Return what the network sees, on a scale that does not depend on the instance's units."""

    @abstractmethod
    def cost(self, instances: Instances, choice: Tensor) -> Tensor:
        """Return the cost (batch, samples) of choices (batch, samples, rows); lower is better."""

    @abstractmethod
    def feasible(self, instances: Instances, choice: Tensor) -> Tensor:
        """Check choices (batch, samples, rows) without using the rule; (batch, samples) bool."""

    @abstractmethod
    def density(self, size: Size) -> float:
        """Return q̄(x = 1): the share of ones in a feasible solution matrix."""

    @abstractmethod
    def violation(self, x: Tensor) -> Tensor:
        """Measure, differentiably, how far soft matrices (N, rows, columns) are from feasible; (N,)."""

    # What has a default: more knowledge of the problem.

    def sample_on_device(self, size: Size, noise: Noise) -> dict[str, Tensor] | None:
        """Draw one instance for each key of `noise` on its device, from the distribution of `sample`.

        Return None (the default) where there is no such generator; training then samples on the host.
        """
        return None

    def random_cost(self, instances: Instances) -> tuple[Tensor, Tensor] | None:
        """Return mean and standard deviation of the cost of random feasible solutions, (batch,) each, if known exactly.

        Random as decoding without any knowledge makes them, every allowed column equally likely. Where this is None,
        the default, training draws some instead.
        """
        return None

    def mask(self, instances: Instances) -> Tensor | None:
        """Return the pairs an instance permits, (batch, rows, columns) bool, or None if all are."""
        return None

    def permitted(self, instances: Instances) -> Tensor | None:
        """Return the pairs that decoding chooses from while it can, (batch, rows, columns) bool; None for all.

        What `mask` forbids is never among them. Pairs that are in no best solution may be left out as well: those whose
        cost says that they are forbidden. No value is read on the host.
        """
        return self.mask(instances)

    def priced_features(self, instances: Instances, candidates: int = 0) -> Features:
        """Return what a network sees that is built for `priced_sizes`: relations measured against dual prices.

        candidates : describe only so many columns of each row, those that give away least; 0 for all of them.
        """
        return self.features(instances)

    def lower_bound(self, arrays: Arrays) -> NDArray[np.float64] | None:
        """Return a proven lower bound on the cost of every instance, (count,), or None."""
        return None

    def cost_matrix(self, arrays: Arrays) -> NDArray[Any] | None:
        """Return what each pair costs, (count, rows, columns), or None where no matrix says it."""
        return None

    def times(self, instances: Instances) -> Tensor | None:
        """Return what a row adds to the load of each column, (batch, rows, columns), or None where there are no loads.

        With it a problem whose structure is "makespan" can be decoded in the order "loads", and is improved faster.
        """
        return None

    def travel(self, instances: Instances) -> Tensor | None:
        """Return what each step of a tour costs, (batch, n, n), or None where solutions are no tours.

        With it a problem whose structure is "tour" is improved faster.
        """
        return None

    # What has a default: search.

    def cost_changes(self, instances: Instances, choice: Tensor) -> Tensor | None:
        """Return by how much the cost of choices (batch, samples, rows) rises if one row takes another column.

        (batch, samples, rows, columns), for each row and column, the other rows as they are; negative where that is
        better. Entries of a row's own column, and of what is not feasible, are never read. None (the default) has
        `improve` ask for the whole cost of every changed solution, which takes longer.
        """
        return None

    @in_torch("icdc.problems.local_search")
    def improve(self, instances: Instances, choice: Tensor, rounds: int) -> Tensor:
        """Return choices (batch, samples, rows) no worse than those given, after at most `rounds` changes to each.

        One that is returned after fewer changes is a local optimum: no row can take another column, no two rows can
        exchange theirs, and on a tour no segment can move elsewhere, so that the cost falls. Feasible choices stay
        feasible, and each depends on its own instance alone. On a GPU no value is read on the host. The default does
        this for every problem through `cost` and `feasible`, or `cost_changes` where there is one (`local_search`);
        schedules and tours, by their structure with `times` or `travel`, have a faster one.
        """
        raise NotImplementedError

    @in_torch("icdc.problems.local_search")
    def merge(self, instances: Instances, choice: Tensor, others: Tensor) -> Tensor:
        """Return choices (batch, samples, rows) no worse than those given, after they took over parts of others.

        others : (batch, samples, count, rows), for each choice its own. Every row of what is returned has the column of
            the choice or of one of these.

        Feasible choices stay feasible, and each depends on its own instance and others alone. On a GPU no value is read
        on the host. The default has it where the structure is "makespan" with `times`, or "tour" with `travel`; where
        no parts are known that can be taken over by themselves, choices stay as they are.
        """
        raise NotImplementedError

    def promised_times(self, instances: Instances) -> Tensor | None:
        """Return `times` where the structure promises that their largest total is the cost."""
        return self.times(instances) if self.structure == "makespan" else None

    def promised_travel(self, instances: Instances) -> Tensor | None:
        """Return `travel` where the structure promises that its sum along a tour is the cost."""
        return self.travel(instances) if self.structure == "tour" else None

    @in_torch("icdc.problems.local_search")
    def construct(self, instances: Instances, count: int = 1) -> Starts:
        """Return `count` good solutions of every instance to begin with, always the same ones.

        The default draws what its rule may build at random and improves each, by as many changes as there are rows if
        they are not too many to look at.
        """
        raise NotImplementedError

    # What has a default: files.

    @classmethod
    def recognises(cls, shape: tuple[int, ...], same_items: bool) -> bool:
        """Tell whether a nameless array of a file may be an instance; used of the problems that ship.

        shape : of the array.
        same_items : whether the file shows that its rows and columns are the same items: by the same names above
            and beside the matrix, or by a diagonal left blank.
        """
        return False

    def complete(self, raw: RawInstance) -> RawInstance:
        """Return an instance from outside with the arrays that may be left out; raise InputError where it is wrong."""
        return raw

    def named(self, size: Size) -> tuple[int, int]:
        """Return how many rows and columns of an instance have names (the default: all of a solution's)."""
        return self.shape(size)


_RESTS_ON = {
    "structure": ("cost", "mask", "feasible", "cost_matrix"),
    "priced_sizes": ("features",),
    "families": ("sample",),
    "cost_changes": ("cost",),
}
"""What a subclass loses that changes a method, and does not say it again: it was said of another problem."""


def main_matrix(problem: Problem, arrays: Arrays) -> NDArray[Any] | None:
    """Return one matrix (count, rows, columns) to look at: the costs, else the first array of a solution's shape."""
    costs = problem.cost_matrix(arrays)
    if costs is not None:
        return costs
    shape = problem.shape(problem.size(arrays))
    return next((array for array in arrays.values() if array.shape[1:] == shape), None)
