"""The default solver: classical search, exact methods and a network together (`anytime_search`), where they can help.

A problem without a `structure` is left to the network alone. Without a model, or where instances are so large that a
network cannot help in time, there is the classical part alone, and torch is not even imported.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..machine import may_have_gpu
from ..problems.base import Arrays, Problem, Size
from .anytime_search import AnytimeSearch
from .request import Request
from .results import Found
from .solver import Abilities, Solver
from .verify import lower_bounds

if TYPE_CHECKING:
    from .diffusion import DiffusionSolver

CPU_PAIRS, GPU_PAIRS = 40_000, 400_000
"""Elements of a matrix up to which a network can help in reasonable time, on a CPU and on a GPU."""
LARGEST_BATCH = 256
TOGETHER_PAIRS = 2_000_000
"""Instances solved in one call, and elements of all their matrices, at most."""


class AnytimeSolver(Solver):
    """Solves instances by classical search, exact methods and a network together.

    Parameters
    ----------
    model : a model, the name of a shipped one, a file's path, or None for the shipped one that knows the nearest size.
    options : those of the network alone (`DiffusionSolver`), such as steps=10 or device="cpu".
    """

    name: ClassVar[str] = "icdc"
    abilities: ClassVar[Abilities] = Abilities(samples=True, device=True, bound=True, trace=True)
    default_samples: ClassVar[int] = 8
    quick_options: ClassVar[Mapping[str, Any]] = {"device": str}

    def __init__(self, model: Any = None, **options: Any) -> None:
        self.model, self.network_options = model, options
        self.device = options.get("device", "auto")
        if options.keys() - self.quick_options.keys():
            self.network()  # refuses values that make no sense now, not with the first instance

    def network(self) -> "DiffusionSolver":
        """Return the network's part as a solver of its own; this imports torch."""
        from .diffusion import DiffusionSolver

        return DiffusionSolver(self.model, **self.network_options)

    def refusal(self, problem: Problem) -> str | None:
        if self.model is None and problem.structure is not None:
            return None
        return self.network().refusal(problem)

    def search(self, request: Request) -> Found:
        if request.problem.structure is None or self.network_options.get("trace") is not None:
            if request.bound is None:
                request.bound = lower_bounds(request.problem, request.arrays)
            return self.network().search(request)
        network = self.network if self.network_helps(request.problem, request.shape) else None
        return AnytimeSearch(request, network).run()

    def network_helps(self, problem: Problem, shape: tuple[int, int]) -> bool:
        """Tell whether there is a model for a problem, and time to run it on matrices of a shape."""
        pairs = shape[0] * shape[1]
        if pairs > GPU_PAIRS:
            return False
        if self.model is None:
            from ..models.catalogue import reason_without_model

            if reason_without_model(problem, "diffusion", None) is not None:
                return False
        if pairs <= CPU_PAIRS:
            return True
        if self.device == "cpu" or not may_have_gpu():
            return False  # known without importing torch
        from ..models.file import pick_device

        return pick_device(self.device).type == "cuda"

    def prepared(self, problem: Problem, size: Size, device: str | None = None) -> Self:
        self._refuse(problem)
        if problem.structure is not None:
            if (wanted := device or self.device) not in ("auto", "cpu"):
                from ..models.file import pick_device

                pick_device(wanted)  # one that is not there is said now, though it may never be needed
            return self  # weights are read when they are needed
        return type(self)(self.network().prepared(problem, size, device).model, **self.network_options)

    def together(self, problem: Problem, size: Size, samples: int, device: str | None = None) -> int:
        if problem.structure is None:
            return self.network().together(problem, size, samples, device)
        rows, columns = problem.shape(size)
        return max(1, min(LARGEST_BATCH, TOGETHER_PAIRS // (rows * columns)))

    def unfamiliar(self, problem: Problem, arrays: Arrays) -> list[str | None]:
        """Say what is new to the model, where everything depends on it; classical search is at home everywhere."""
        if problem.structure is not None:
            return [None] * len(next(iter(arrays.values())))
        return self.network().unfamiliar(problem, arrays)

    @property
    def model_name(self) -> str | None:
        """The name of the model it was told to use; which one it chose, and whether it used any, answers say."""
        name = getattr(self.model, "name", self.model)
        return None if name is None else str(name)

    @classmethod
    def options(cls) -> dict[str, Any]:
        from .diffusion import DiffusionSolver

        return DiffusionSolver.options()
