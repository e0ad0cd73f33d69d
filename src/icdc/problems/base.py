"""What everything else is about: a problem, and one instance of it.

An instance is a set of named arrays with a leading batch axis. A solution gives each row one column and is
stored as `choice` (batch, samples, rows): several solutions for every instance of the batch at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..plots import new_figure, plot_heatmap
from ..search.structures import structure_of as structure_of
from .arrays import integers_of
from .present import wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from ..kernels import Noise
    from .decoding import Starts
    from .features import Features
    from .instance import Instance, RawInstance
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


class Problem(ABC):
    """What a problem is. Subclass it, fill in the abstract parts, and it can be trained and solved.

    Class attributes that every problem sets
    ----------------------------------------
    name : the word for it on the command line and in files.
    arrays : the names of the arrays that make an instance.
    size_names : what the integers of a size mean, in order, e.g. ("jobs", "machines").
    feature_sizes : the feature dimensions that `features` returns.
    rule : how feasible solutions are built.

    Class attributes with a default
    -------------------------------
    objective : what the cost is called in answers, e.g. "makespan".
    row_words, column_words : what one row, and several, are called, e.g. ("job", "jobs"); in answers, in files of
        solutions and, for the lists of names, in JSON instances.
    entries : what the numbers of an instance's matrix are, e.g. "processing times".
    axes : how many axes an array of one instance has, for those that are not matrices.
    solution_is_tour : whether `solution` lists the items in the order of a closed tour, instead of the column of
        each row; such solutions can be written as TSPLIB tours.
    priced_sizes : the feature dimensions that `priced_features` returns, where the problem has some; a subclass that
        changes `features` has none unless it declares them itself.
    structure : the name of what classical solvers may take for granted (`search.structures`), such as "tour". A
        subclass that changes `cost`, `mask`, `feasible` or `cost_matrix` has none unless it declares it itself: solvers
        would answer another question.
    restated : whether instances are put to solvers as those of another problem that ships (`problems.restating`).
    families : other draws than `sample`, by name (`icdc.problems.families`); a subclass that changes `sample` has none
        unless it declares them itself.

    Likewise a subclass that changes `cost` has no `cost_changes` but its own.
    """

    name: ClassVar[str]
    arrays: ClassVar[tuple[str, ...]]
    size_names: ClassVar[tuple[str, ...]]
    feature_sizes: ClassVar[FeatureSizes]
    rule: ClassVar[Rule]

    objective: ClassVar[str] = "objective"
    row_words: ClassVar[tuple[str, str]] = ("row", "rows")
    column_words: ClassVar[tuple[str, str]] = ("column", "columns")
    entries: ClassVar[str] = "numbers"
    axes: ClassVar[Mapping[str, int]] = {}
    solution_is_tour: ClassVar[bool] = False
    priced_sizes: ClassVar[FeatureSizes | None] = None
    structure: ClassVar[str | None] = None
    restated: ClassVar[bool] = False
    families: ClassVar[Mapping[str, Family]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # compare what is inherited, not what the class body says: a mixin may bring the change along
        promised = next(ancestor for ancestor in cls.__mro__ if "structure" in vars(ancestor))
        if any(getattr(cls, part) is not getattr(promised, part) for part in _PROMISED):
            cls.structure = None
        if cls.structure is not None:
            structure_of(cls.structure)  # refuses a name that is not registered
        described: Any = next(ancestor for ancestor in cls.__mro__ if "priced_sizes" in vars(ancestor))
        if cls.features is not described.features:
            cls.priced_sizes = None
        declared: Any = next(ancestor for ancestor in cls.__mro__ if "families" in vars(ancestor))
        if cls.sample is not declared.sample:
            cls.families = {}
        cost, changes = (
            next(place for place, ancestor in enumerate(cls.__mro__) if part in vars(ancestor))
            for part in ("cost", "cost_changes")
        )
        if cost < changes:  # they are those of another cost
            cls.cost_changes = Problem.cost_changes  # type: ignore[method-assign]

    def family(self, name: str) -> Family:
        """Return a family by its name; an unknown name is a UsageError that lists what there is."""
        if name not in self.families:
            known = f"choose one of {', '.join(self.families)}" if self.families else "it has none"
            raise UsageError(f"the problem '{self.name}' has no family '{name}'; {known}")
        return self.families[name]

    # What must be filled in.

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

    # What may be left as it is: more knowledge of the problem.

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

    # What may be left as it is: search.

    def cost_changes(self, instances: Instances, choice: Tensor) -> Tensor | None:
        """Return by how much the cost of choices (batch, samples, rows) rises if one row takes another column.

        (batch, samples, rows, columns), for each row and column, the other rows as they are; negative where that is
        better. Entries of a row's own column, and of what is not feasible, are never read. None (the default) has
        `improve` ask for the whole cost of every changed solution, which takes longer.
        """
        return None

    def improve(self, instances: Instances, choice: Tensor, rounds: int) -> Tensor:
        """Return choices (batch, samples, rows) no worse than those given, after at most `rounds` changes to each.

        One that is returned after fewer changes is a local optimum: no row can take another column, no two rows can
        exchange theirs, and on a tour no segment can move elsewhere, so that the cost falls. Feasible choices stay
        feasible, and each depends on its own instance alone. On a GPU no value is read on the host. The default does
        this for every problem through `cost` and `feasible`, or `cost_changes` where there is one (`local_search`);
        schedules and tours, by their structure with `times` or `travel`, have a faster one.
        """
        from . import local_search

        return local_search.improve(self, instances, choice, rounds)

    def merge(self, instances: Instances, choice: Tensor, others: Tensor) -> Tensor:
        """Return choices (batch, samples, rows) no worse than those given, after they took over parts of others.

        others : (batch, samples, count, rows), for each choice its own. Every row of what is returned has the column of
            the choice or of one of these.

        Feasible choices stay feasible, and each depends on its own instance and others alone. On a GPU no value is read
        on the host. The default has it where the structure is "makespan" with `times`, or "tour" with `travel`; where
        no parts are known that can be taken over by themselves, choices stay as they are.
        """
        from . import local_search

        return local_search.merge(self, instances, choice, others)

    def promised_times(self, instances: Instances) -> Tensor | None:
        """Return `times` where the structure promises that their largest total is the cost."""
        return self.times(instances) if self.structure == "makespan" else None

    def promised_travel(self, instances: Instances) -> Tensor | None:
        """Return `travel` where the structure promises that its sum along a tour is the cost."""
        return self.travel(instances) if self.structure == "tour" else None

    def construct(self, instances: Instances, count: int = 1) -> Starts:
        """Return `count` good solutions of every instance to begin with, always the same ones.

        The default draws what its rule may build at random and improves each, by as many changes as there are rows if
        they are not too many to look at.
        """
        from . import local_search

        return local_search.construct(self, instances, count)

    # What may be left as it is: files.

    @classmethod
    def recognises(cls, shape: tuple[int, ...], same_items: bool) -> bool:
        """Tell whether a nameless array of a file may be an instance; asked of the problems that ship.

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

    # What may be left as it is: solutions for people.

    def solution(self, choice: NDArray[np.int64]) -> list[int]:
        """Write one choice (rows,) as people read it (the default: the column of each row)."""
        return [int(column) for column in choice]

    def choice(self, solution: list[int]) -> NDArray[np.int64]:
        """Read what `solution` writes; raise InputError if it cannot be a solution."""
        return integers_of(solution)

    def solution_header(self) -> tuple[str, str]:
        """Return the header of a table of a solution; each line is an entry of `solution` and where it stands."""
        return "position" if self.solution_is_tour else self.row_words[0], self.column_words[0]

    def describe_size(self, size: Size) -> str:
        """Say what is solved, for the heading of an answer: "20 jobs on 4 machines"."""
        return f"{self.name} of " + ", ".join(f"{n} {what}" for n, what in zip(size, self.size_names, strict=True))

    def describe_pair(self, instance: Instance, pair: tuple[int, int]) -> str:
        """Name a pair (row, column) in a sentence: "job 'paint' with machine 'M2'", "from city 3 to city 5"."""
        row, column = instance.row_text(pair[0]), instance.column_text(pair[1])
        return f"from {row} to {column}" if self.feature_sizes.same_items else f"{row} with {column}"

    def describe_solution(self, instance: Instance, choice: NDArray[np.int64]) -> list[str]:
        """Return the lines that show a choice (rows,) below the heading of an answer."""
        return wrapped("  ", " ".join(instance.column_labels(self.solution(choice))))

    def timetable(self, instance: Instance, choice: NDArray[np.int64]) -> dict[str, list[Any]]:
        """Return what else a choice (rows,) says of each entry of `solution`, by name: when it begins and ends.

        The default is nothing. It stands in JSON and, entry by entry, in tables beside the solution.
        """
        return {}

    def draw_solution(self, instance: Instance, choice: NDArray[np.int64], bound: float | None = None) -> Figure:
        """Return a picture of a choice (rows,): by default, frames on the matrix of the instance.

        `bound` is a proven lower bound on the cost, where one is known. The figure needs no display.
        """
        figure = new_figure(8.0, 7.0)
        batch = instance.batch()
        matrices = main_matrix(self, batch)
        matrix = np.zeros(self.shape(self.size(batch))) if matrices is None else matrices[0]
        if instance.forbidden is not None:  # left blank
            matrix = np.where(instance.forbidden, np.nan, matrix)
        ax = plot_heatmap(matrix, choice, rows=instance.rows, columns=instance.columns, ax=figure.subplots())
        ax.set_xlabel(self.column_words[0])
        ax.set_ylabel(self.row_words[0])
        return figure


_PROMISED = ("cost", "mask", "feasible", "cost_matrix")
"""The parts of a problem that its `structure` is about."""


def main_matrix(problem: Problem, arrays: Arrays) -> NDArray[Any] | None:
    """Return one matrix (count, rows, columns) to look at: the costs, else the first array of a solution's shape."""
    costs = problem.cost_matrix(arrays)
    if costs is not None:
        return costs
    shape = problem.shape(problem.size(arrays))
    return next((array for array in arrays.values() if array.shape[1:] == shape), None)
