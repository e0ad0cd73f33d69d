"""The network alone: a diffusion model, chosen for the instances, and how its trajectories run."""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, get_type_hints

from ..diffusion.sampler import SamplingOptions
from ..errors import UsageError
from ..models.catalogue import default_for, reason_without_model
from ..models.diffusion import Model, shared
from ..models.file import pick_device
from ..problems import problem_path
from ..problems.base import Arrays, Problem, Size
from .diffusion_search import DiffusionSearch, Trace, found_by
from .fitting import default_chunk, seconds_of_a_pass
from .request import Request
from .results import Found
from .solver import Abilities, Solver

LARGEST_BATCH = 256
"""Instances solved in one call, at most, however small they are."""
LARGE = 300**2
"""Entries of a matrix from which on a pass over it on a CPU may take seconds."""
IMPROVE_BEST = 64
"""Decodes of every pass that local search improves where it is asked for: many good ones end in different optima."""


@dataclass(init=False)
class DiffusionSolver(Solver):
    """Solves instances with a trained diffusion model.

    Parameters
    ----------
    model : a model, the name of a shipped one, a file's path, or None for the shipped one that knows the nearest size.
    sampling : how trajectories run, to the last detail; None leaves it to the model's card, which knows what was best
        on validation data for a number of samples.
    refine : rounds of refinement after sampling; with a time limit there are as many as fit.
    refine_steps : network passes of a refinement.
    device : "auto", "cpu" or "cuda".
    chunk : trajectories that run together; None for as many as suit the device.
    trace : sees every reverse step of the first trajectories, for example to animate them.
    changes : fields of `SamplingOptions` to change, such as steps=10, whatever the card advises.
    """

    name: ClassVar[str] = "network"
    abilities: ClassVar[Abilities] = Abilities(samples=True, device=True, trace=True)
    default_samples: ClassVar[int] = 32

    model: Model | str | None
    sampling: SamplingOptions | None
    refine: int
    refine_steps: int
    device: str
    chunk: int | None
    trace: Trace | None

    def __init__(
        self,
        model: Model | str | None = None,
        *,
        sampling: SamplingOptions | None = None,
        refine: int = 0,
        refine_steps: int = 3,
        device: str = "auto",
        chunk: int | None = None,
        trace: Trace | None = None,
        **changes: Any,
    ) -> None:
        self.model, self.sampling, self.changes = model, sampling, changes
        self.refine, self.refine_steps = refine, refine_steps
        self.device, self.chunk, self.trace = device, chunk, trace
        replace(
            sampling or SamplingOptions(), **changes
        )  # refuses values that make no sense now, not with the first instance
        if refine < 0 or refine_steps < 1:
            raise UsageError("refine must not be negative, and a refinement needs at least one step")
        if chunk is not None and chunk < 1:
            raise UsageError(f"a chunk needs at least one trajectory, got {chunk}")

    def refusal(self, problem: Problem) -> str | None:
        if isinstance(self.model, Model):
            if type(self.model.problem) is type(problem):
                return None
            return f"the model '{self.model.name}' is for {self.model.problem.name}, not for {problem.name}"
        return reason_without_model(problem, Model.kind, self.model)

    def search(self, request: Request) -> Found:
        model = self.model_for(request.problem, request.size)
        options = self.options_for(model, request.size, request.samples)
        chunk = self.chunk or default_chunk(model, request.shape, options.decodes)
        if request.time_limit is not None:
            self._refuse_what_takes_longer(request, model, options, request.time_limit)
            if model.device.type == "cpu" and request.problem.structure is not None:
                from .chain import compile_chain

                compile_chain(request)  # nobody waits for it: plain operations do the same meanwhile
        found = DiffusionSearch(request, model, options, self.refine, self.refine_steps, chunk, self.trace).run()
        by = found_by(options)
        return found._replace(model=model.name, found_by=[by] * request.count)

    def _refuse_what_takes_longer(self, request: Request, model: Model, options: SamplingOptions, limit: float) -> None:
        """Say beforehand where a single pass of the network over a large matrix does not fit into the time limit."""
        rows, columns = request.shape
        if model.device.type != "cpu" or rows * columns < LARGE:
            return
        seconds = seconds_of_a_pass(request, model, options)
        if seconds > limit + 1:
            raise UsageError(
                f"the solver '{self.name}' needs {seconds:.2g} s and more for one pass over a matrix of {rows} × "
                f"{columns} here, and has {limit:.2g} s; give it more time, or try 'icdc'"
            )

    def prepared(self, problem: Problem, size: Size, device: str | None = None) -> Self:
        if self.model is not None:
            self._refuse(problem)
        return self.with_model(self.model_for(problem, size, device))

    def together(self, problem: Problem, size: Size, samples: int, device: str | None = None) -> int:
        model = self.model_for(problem, size)
        chunk = default_chunk(model, problem.shape(size), self.options_for(model, size, samples).decodes, device)
        return min(LARGEST_BATCH, max(1, chunk // samples))

    def unfamiliar(self, problem: Problem, arrays: Arrays) -> list[str | None]:
        size = problem.size(arrays)
        model = self.model_for(problem, size)
        return model.unfamiliar(arrays, with_search=self.options_for(model, size, 1).improve_rounds > 0)

    def options_for(self, model: Model, size: Size, samples: int, with_search: bool = False) -> SamplingOptions:
        """Return how trajectories run: as asked for, else as the model's card advises for a number of samples.

        with_search : there will be local search inside the chain, although nobody asked for it.
        """
        if self.sampling is not None:
            return replace(self.sampling, **self.changes)
        changes: dict[str, Any] = {"improve_best": IMPROVE_BEST, **self.changes}
        with_search = with_search or changes.get("improve_rounds", 0) > 0
        keeps_best = changes.get("keep") != "last"
        merging = keeps_best and changes.get("merge") != 0
        advised = model.sampling_options(size, samples, with_search, merging)
        if not keeps_best and advised.reverse == "best":
            advised = replace(advised, reverse="fresh")  # advice for those who keep the best; nobody asked for it
        return replace(advised, **changes)

    def model_for(self, problem: Problem, size: Size, device: str | None = None) -> Model:
        """Return the model for instances of a size, on its device or another; weights are read only once."""
        wanted = pick_device(device or self.device)
        if isinstance(self.model, Model):
            return self.model if self.model.device.type == wanted.type else self.model.to(wanted)
        return shared(self.model or default_for(problem_path(problem), size), wanted, problem)

    @property
    def model_name(self) -> str | None:
        return self.model.name if isinstance(self.model, Model) else self.model

    @classmethod
    def options(cls) -> dict[str, Any]:
        own, sampling = get_type_hints(cls), get_type_hints(SamplingOptions)
        given = {
            name: own[name] for name in ("model", "refine", "refine_steps", "device", "chunk", "sampling", "trace")
        }
        return {**given, **{option.name: sampling[option.name] for option in fields(SamplingOptions)}}

    def with_model(self, model: Model) -> Self:
        """Return this solver with another model."""
        return type(self)(
            model,
            sampling=self.sampling,
            refine=self.refine,
            refine_steps=self.refine_steps,
            device=self.device,
            chunk=self.chunk,
            trace=self.trace,
            **self.changes,
        )
