"""The classical search of `icdc.search` as a solver: what the network has to beat with the same time."""

from dataclasses import dataclass

from ..errors import UsageError
from ..search import schedule_search, tour_search
from ..solving.solver import Abilities
from .one_by_one import OneByOne, Single, SingleAnswer


@dataclass(frozen=True)
class ClassicalSearch(OneByOne):
    """Prices, constructions, local search and proofs for `seconds` an instance, or as long as the time limit says.

    Inner loops are compiled where numba is installed (`pip install 'icdc[search]'`); the first call ever made on a
    machine waits some seconds for the compiler. It ends early where the bound is met.
    """

    name = "search"
    abilities = Abilities(start=True, proof=True)
    structures = ("tour", "makespan")

    seconds: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.seconds > 0:
            raise UsageError(f"option 'seconds' of solver 'search' must be positive, got {self.seconds}")

    def answer(self, single: Single) -> SingleAnswer:
        seconds = self.seconds if single.limit is None else single.limit
        if single.tour:
            tour = tour_search.search(single.matrix, seconds, single.seed)
            if tour is None:
                return SingleAnswer(single.start)
            return SingleAnswer(tour.successor, float(tour.bound), tour.proven)
        schedule = schedule_search.search(single.matrix, seconds, single.seed, start=single.start)
        return SingleAnswer(schedule.choice, schedule.bound, schedule.proven)
