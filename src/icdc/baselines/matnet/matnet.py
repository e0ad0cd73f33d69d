"""A MatNet bound to a problem, its file, and the solver: encode with random one-hot vectors, decode, keep the best.

Random numbers depend on the seed, the instance's own content and the number of the sample, so an answer does not
depend on what else is in the batch or on the size of a chunk, and more samples are never worse.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...diffusion.sampler import best_of
from ...errors import UsageError
from ...kernels import Noise, fold, root_key
from ...models.catalogue import default_for, read_model, reason_without_model
from ...models.file import (
    build_checked,
    build_fitting,
    pick_device,
    precision_on,
    read_weights,
    set_weights,
    write_model,
)
from ...problems import problem_path
from ...problems.base import Arrays, Problem, Size
from ...problems.features import Features
from ...problems.task import Task
from ...problems.tensors import to_tensors
from ...solving.solver import Abilities, Request, Solver
from ...solving.trajectories import fingerprints
from .pointer_network import MatNetEncoding, MatNetNetwork, MatNetNetworkConfig, Rollouts

Decoding = Literal["multistart", "greedy", "sample"]
CPU_CHUNK_BYTES = 16 * 2**20
GPU_CHUNK_BYTES = 2**30
"""Hidden scores of the encoder that are in memory together, as float32."""


class MatNet:
    """A network bound to a problem.

    Attributes
    ----------
    problem : the contract of the problem it is for.
    config : the shape of the network.
    network : the weights.
    name : how it is called in answers: the path it came from.
    card : what is known about it: sizes it was trained on, settings.
    """

    kind: ClassVar[str] = "matnet"

    def __init__(
        self,
        problem: Problem,
        config: MatNetNetworkConfig,
        name: str = "untrained",
        card: Mapping[str, Any] | None = None,
    ) -> None:
        self.problem, self.config, self.name = problem, config, name
        self.card: dict[str, Any] = dict(card or {})
        self.network = MatNetNetwork(config, problem.feature_sizes)

    @property
    def device(self) -> torch.device:
        """Return the device the weights are on."""
        return next(self.network.parameters()).device

    def to(self, device: torch.device | str) -> Self:
        """Move the weights to a device; returns itself."""
        self.network.to(device)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model in half precision; the file appears whole or not at all."""
        write_model(path, self)

    def one_hots(self, columns: int, noise: Noise) -> Tensor:
        """Draw which one-hot vector each column gets, (N, columns): all different while there are enough."""
        order: Tensor = noise.uniform(max(columns, self.config.one_hots)).argsort(dim=1, stable=True)
        return order[:, :columns] % self.config.one_hots

    def encode(self, features: Features, noise: Noise) -> MatNetEncoding:
        """Encode instances, one for each key of `noise`, from which the one-hot vectors of their columns come."""
        one_hots = self.one_hots(features.relations.shape[2], noise)
        with precision_on(self.device):
            return self.network.encode(features, one_hots)

    def roll_out(
        self,
        task: Task,
        encoding: MatNetEncoding,
        first: Tensor,
        *,
        noise: Noise | None = None,
        opening: Tensor | None = None,
        forced: Tensor | None = None,
    ) -> Rollouts:
        """Build solutions for first cities (N, K), sampled where there is noise; see `PointerDecoder.forward`.

        N is a multiple of the instances of the task, where they have been encoded several times.
        """
        mask = task.mask(len(first) // task.batch)
        with precision_on(self.device):
            rollouts: Rollouts = self.network.decoder(
                task.rule, encoding, first, noise=noise, mask=mask, opening=opening, forced=forced
            )
        return rollouts


def load_matnet(name: str | os.PathLike[str], device: str = "auto", problem: str | Problem | None = None) -> MatNet:
    """Load a MatNet by its name or path; see `icdc.load`."""
    target = pick_device(device)
    stored = read_model(name, MatNet.kind, problem)
    config = build_checked(MatNetNetworkConfig, stored.config, f"the configuration in {stored.path}")
    width = config.width
    products = [config.layers * width**2, config.feed_forward * width, config.heads * config.mixer_width]
    products += [config.usage_width]
    model = build_fitting(
        lambda: MatNet(stored.problem, config, stored.name, stored.card), config.layers, products, stored
    )
    set_weights(model.network, read_weights(stored.path), stored.path)
    model.network.eval()
    return model.to(target)


@dataclass
class MatNetSolver(Solver):
    """Solves instances with a trained MatNet.

    Parameters
    ----------
    model : a model, the name of a shipped one, a file's path, or None to pick the shipped one that knows the
        nearest size.
    decoding : every sample encodes an instance with new one-hot vectors. "multistart" then decodes greedily once from
        every city, or, where there are no cities, once with every column for the first decision; "greedy" decodes
        once; "sample" draws once from the network's own distribution, first cities in turn.
    device : "auto", "cpu" or "cuda".
    chunk : encodings that run together; None for as many as suit the device.
    """

    name: ClassVar[str] = "matnet"
    abilities: ClassVar[Abilities] = Abilities(samples=True, device=True)

    model: MatNet | str | None = None
    decoding: str = "multistart"
    device: str = "auto"
    chunk: int | None = None

    def __post_init__(self) -> None:
        if self.decoding not in get_args(Decoding):
            raise UsageError(f"unknown decoding '{self.decoding}'; choose {', '.join(get_args(Decoding))}")
        if self.chunk is not None and self.chunk < 1:
            raise UsageError(f"a chunk needs at least one encoding, got {self.chunk}")

    def refusal(self, problem: Problem) -> str | None:
        if isinstance(self.model, MatNet):
            if type(self.model.problem) is type(problem):
                return None
            return f"the model '{self.model.name}' is for {self.model.problem.name}, not for {problem.name}"
        return reason_without_model(problem, MatNet.kind, self.model)

    def prepare(self, problem: Problem, size: Size, device: str | None = None) -> Self:
        self._refuse(problem)
        return replace(self, model=self._model_for(problem, size, device))

    @property
    def model_name(self) -> str | None:
        return self.model.name if isinstance(self.model, MatNet) else self.model

    def search(self, request: Request) -> None:
        """Take samples; every instance gets one, whatever the time limit."""
        model = self._model_for(request.problem, request.size)
        count, samples, (rows, columns) = request.count, request.samples, request.shape
        together = self.chunk or self._default_chunk(model, rows * columns)
        each = min(samples, together)  # samples of an instance that run together
        width = max(1, together // each)
        request.start_clock()
        request.result.model = model.name
        with torch.inference_mode():
            for begin, at in product(range(0, samples, each), range(0, count, width)):
                if begin and request.budget.over:
                    break
                numbers, chunk = range(begin, min(begin + each, samples)), slice(at, at + width)
                request.offer(*self._run(model, request.part(chunk), numbers, request.seed), places=chunk)

    def _run(
        self, model: MatNet, arrays: Arrays, numbers: range, seed: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Take the samples of these numbers; return the best choice (B, rows) and its cost (B,)."""
        device, problem = model.device, model.problem
        task = Task(problem, to_tensors(arrays, device), only_feasible=True)
        keys = fold(root_key(seed, device), torch.from_numpy(fingerprints(arrays)).to(device))
        number = torch.arange(numbers.start, numbers.stop, device=device)
        noise = Noise(fold(keys[:, None], number[None]).flatten())
        encoding = model.encode(problem.features(task.instances).repeat(len(number)), noise)
        first = (number % task.rows).repeat(task.batch)[:, None]
        opening: Tensor | None = None
        if self.decoding == "greedy":
            first = torch.zeros_like(first)
        elif self.decoding == "multistart":
            starts = torch.arange(task.columns, device=device).expand(len(first), -1)
            if problem.feature_sizes.same_items:
                first = starts
            else:
                first, opening = torch.zeros_like(starts), starts
        sampling = noise.spawn(1) if self.decoding == "sample" else None
        rollouts = model.roll_out(task, encoding, first, noise=sampling, opening=opening)
        choice = rollouts.choice.view(task.batch, -1, task.rows)
        best, cost = best_of(choice, task.cost(choice.flatten(0, 1)))
        return best.cpu().numpy(), cost.double().cpu().numpy()

    def _default_chunk(self, model: MatNet, pairs: int) -> int:
        """Return how many encodings suit the device."""
        limit = GPU_CHUNK_BYTES if model.device.type == "cuda" else CPU_CHUNK_BYTES
        return max(1, limit // (4 * model.config.heads * model.config.mixer_width * pairs))

    def _model_for(self, problem: Problem, size: Size, device: str | None = None) -> MatNet:
        """Return the model for a size, loading it where that is still to be done."""
        target = pick_device(device or self.device)
        if isinstance(self.model, MatNet):
            return self.model if self.model.device.type == target.type else self.model.to(target)
        name = self.model or default_for(problem_path(problem), size, MatNet.kind)
        return load_matnet(name, str(target), problem)
