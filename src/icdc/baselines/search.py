"""The classical search of `icdc.search` as a solver: what the network has to add something to in the same time."""

from dataclasses import dataclass

from ..errors import UsageError
from ..solving.anytime_search import AnytimeSearch
from ..solving.solver import Abilities, Found, Request
from .support import ClassicalSolver


@dataclass(frozen=True)
class ClassicalSearch(ClassicalSolver):
    """Prices, constructions, local search and proofs: the default solver without its network.

    For `seconds` an instance, or as long as the time limit says; with neither (seconds=none) for as many steps as the
    default solver makes without a limit, and then a seed repeats itself. It ends early where an answer is proven. Inner
    loops are compiled, and use all cores.
    """

    name = "search"
    abilities = Abilities(bound=True)
    structures = ("tour", "makespan")

    seconds: float | None = 1.0

    def __post_init__(self) -> None:
        if self.seconds is not None and not self.seconds > 0:
            raise UsageError(f"option 'seconds' of solver 'search' must be positive, got {self.seconds}")

    def search(self, request: Request) -> Found:
        if request.time_limit is None and self.seconds is not None:
            request.time_limit = self.seconds * request.count
        return AnytimeSearch(request, None).run()
