"""What a solver is, learned or classical: what it can do, and how it is asked.

A solver of one's own subclasses `Solver`, says what it can do in `abilities`, and implements `refusal` and `search`.
`Solver.solve` does the rest for all of them alike: it refuses what cannot be answered, and checks what was found. What
these methods take and return (`request`, `results`) can be imported from here as well.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Self, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..options import check_all
from ..problems.base import Arrays, Problem, Size
from .request import Improvement, Request, SolveCallback, check_start
from .results import Found, Results, checked, known_so_far

__all__ = ["Abilities", "Found", "Improvement", "Request", "Results", "SolveCallback", "Solver"]


@dataclass(frozen=True)
class Abilities:
    """What a solver can make use of.

    samples : more samples make better answers; without it every number of samples is as good as one.
    device : it can run on a GPU.
    bound : it works out lower bounds at least as good as the problem's own, which is then not asked for them.
    trace : it can show the steps of its search, to animate them.
    """

    samples: bool = False
    device: bool = False
    bound: bool = False
    trace: bool = False


class Solver(ABC):
    """Anything that answers a batch of instances of one size. Options are the fields of a dataclass.

    Class attributes
    ----------------
    name : the word for it on the command line and in answers.
    abilities : what it can make use of.
    default_samples : tries of an instance where nobody says how many.
    quick_options : options, each with its type, that are understood without importing what lists all of them.
    """

    name: ClassVar[str]
    abilities: ClassVar[Abilities] = Abilities()
    default_samples: ClassVar[int] = 1
    quick_options: ClassVar[Mapping[str, Any]] = {}

    @abstractmethod
    def refusal(self, problem: Problem) -> str | None:
        """Say in a sentence why it cannot answer a problem; None if it can."""

    @abstractmethod
    def search(self, request: Request) -> Found:
        """Answer a request that this solver does not refuse."""

    def supports(self, problem: Problem) -> bool:
        """Tell whether this solver can answer instances of a problem."""
        return self.refusal(problem) is None

    def solve(
        self,
        problem: Problem,
        arrays: Arrays,
        *,
        samples: int = 1,
        seed: int = 0,
        time_limit: float | None = None,
        start: NDArray[np.int64] | None = None,
        bound: NDArray[np.float64] | None = None,
        callback: SolveCallback | None = None,
    ) -> Results:
        """Answer every instance of `arrays` (leading axis: count) and check the answers; see `Request`."""
        checked_options = check_all({"time_limit": time_limit, "samples": samples, "seed": seed})
        time_limit, samples, seed = (checked_options[name] for name in ("time_limit", "samples", "seed"))
        self._refuse(problem)
        request = Request(problem, arrays, samples, seed, time_limit, start, bound, callback, self.name)
        if start is not None:
            check_start(request)
        began = time.perf_counter()
        try:
            found = self.search(request)
        except KeyboardInterrupt:
            found = known_so_far(request, time.perf_counter() - began)
        return checked(request, found)

    def prepared(self, problem: Problem, size: Size, device: str | None = None) -> Self:
        """Return a solver that has all it needs for instances of a size, itself by default; refuse other problems.

        device : where its weights, if it has any, are to lie; by default where it runs.
        """
        self._refuse(problem)
        return self

    def together(self, problem: Problem, size: Size, samples: int, device: str | None = None) -> int:
        """Return how many instances of a size to solve in one call, on its own or another kind of device.

        Enough to keep the device busy, few enough that answers appear while others wait.
        """
        return 32

    def unfamiliar(self, problem: Problem, arrays: Arrays) -> list[str | None]:
        """Say for every instance what about it is new to a learned solver; None where nothing is."""
        return [None] * len(next(iter(arrays.values())))

    @property
    def model_name(self) -> str | None:
        """The name of the model it uses, once that is known."""
        return None

    @property
    def runs_on(self) -> str:
        """The device it runs on: "cpu", "cuda", or "auto"."""
        return str(getattr(self, "device", "cpu"))

    @classmethod
    def options(cls) -> dict[str, Any]:
        """Return the options of this solver by name, each with its type."""
        kind: Any = cls
        hints = get_type_hints(kind)
        return {option.name: hints[option.name] for option in fields(kind)} if is_dataclass(kind) else {}

    def _refuse(self, problem: Problem) -> None:
        if (reason := self.refusal(problem)) is not None:
            raise UsageError(reason)
