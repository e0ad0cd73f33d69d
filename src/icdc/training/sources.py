"""Where instances come from, and solutions with them: a problem's own generator, or a given set.

A source draws one batch of instances of one size after the other. What the problem generates has no solutions, and
neither has the set of somebody who fine-tunes; a set with solutions is what supervision learns from.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..io.datasets import read_dataset
from ..kernels import Noise
from ..problems import problem_path
from ..problems.base import Problem, Size
from ..problems.families import mix, mix_on_device
from ..problems.tensors import to_tensors

EXAMPLES = 128_000
"""How many solved examples the paper's supervised baselines learn from."""

FreshNoise = Callable[[int], Noise]
"""Returns new noise for so many items; see `Weights.noise`."""


class Batch(NamedTuple):
    """B instances, named tensors with leading axis B, and a solution (B, rows) of each where the source has them."""

    instances: dict[str, Tensor]
    solutions: Tensor | None = None


class Source(ABC):
    """Draws instances of one size.

    Attributes
    ----------
    on_device : whether a draw needs nothing of the host, so that it can be part of a CUDA graph.
    rng : what it draws with on the host; a resumed run goes on from its state.
    """

    on_device: bool = True

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    @abstractmethod
    def draw(self, count: int) -> Batch:
        """Return `count` instances."""

    @property
    def forbids(self) -> bool:
        """Whether its instances may forbid pairs: those from outside may, whatever the first of them do."""
        return True


class Generated(Source):
    """New instances from the problem's own generator: on the device where it has one there, else on the host.

    families : what is drawn instead of the problem's own draw, where any are named: a family has a share for each time
        that it is named.
    most : by how much its share may grow later.
    """

    def __init__(
        self,
        problem: Problem,
        size: Size,
        noise: FreshNoise,
        rng: np.random.Generator,
        device: torch.device,
        families: Sequence[str] = (),
        most: float = 1.0,
    ) -> None:
        super().__init__(rng)
        self.problem, self.size, self.noise, self.device = problem, size, noise, device
        self.families, self.shares = counted(families)
        self.most = [min(1.0, most * share) for share in self.shares]
        # a captured draw reads shares from a tensor that stays where it is
        self.shares_there = torch.from_numpy(self.shares.copy()).to(device)
        self.on_device = self._on_device(noise(1)) is not None

    def draw(self, count: int) -> Batch:
        """Return `count` new instances."""
        if self.on_device:
            drawn = self._on_device(self.noise(count))
            assert drawn is not None
            return Batch(drawn)
        if not self.families:
            return Batch(to_tensors(self.problem.sample(count, self.size, self.rng), self.device))
        drawn_here = mix(self.problem, self.families, self.shares, count, self.size, self.rng)
        return Batch(to_tensors(drawn_here, self.device))

    def share_out(self, shares: NDArray[np.float64]) -> None:
        """Give every family another share, none more than it may have."""
        self.shares = shares
        self.shares_there.copy_(torch.from_numpy(shares))

    @property
    def forbids(self) -> bool:
        return any(self.problem.family(name).forbids for name in self.families)

    def _on_device(self, noise: Noise) -> dict[str, Tensor] | None:
        if not self.families:
            return self.problem.sample_on_device(self.size, noise)
        return mix_on_device(self.problem, self.families, self.shares_there, self.most, self.size, noise)


def counted(names: Sequence[Any]) -> tuple[list[Any], NDArray[np.float64]]:
    """Return the different ones of some names in their order, and the share of all names that each of them has."""
    different = list(dict.fromkeys(names))
    return different, np.array([names.count(name) for name in different], dtype=np.float64) / max(1, len(names))


class GivenSet(Source):
    """The instances of a given set, with their solutions where there are some; drawn with replacement."""

    def __init__(self, given: Batch, noise: FreshNoise, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.given, self.noise = given, noise

    def draw(self, count: int) -> Batch:
        """Return `count` instances of the set, each with its own solution."""
        instances, solutions = self.given
        pick = self.noise(count).integers(len(next(iter(instances.values()))))
        drawn = {name: tensor[pick] for name, tensor in instances.items()}
        return Batch(drawn, None if solutions is None else solutions[pick])


def read_examples(path: str, problem: Problem, size: Size, device: torch.device) -> Batch:
    """Return the instances of a dataset and their solutions, as `icdc generate --reference` writes it, checked."""
    command = examples_command(problem, size, path)
    if not Path(path).exists():
        raise InputError(f"there are no solved examples in '{path}'; make them with: {command}")
    dataset = read_dataset(path, problem)
    if dataset.choice is None:
        raise InputError(f"'{path}' holds no solutions; make them with: {command}")
    found = tuple(problem.size(dataset.arrays))
    if found != tuple(size):
        raise InputError(f"the examples in '{path}' are of size {list(found)}, the run learns {list(size)}")
    instances = to_tensors(dataset.arrays, device)
    solutions = torch.from_numpy(dataset.choice).to(device)
    feasible = problem.feasible(instances, solutions[:, None]).squeeze(1)
    if not bool(feasible.all()):
        raise InputError(f"'{path}': the solution of instance {int(feasible.int().argmin())} is not feasible")
    return Batch(instances, solutions)


def examples_command(problem: Problem, size: Size, path: str) -> str:
    """Return the command that makes solved examples; stopped and called again, it goes on where it was."""
    dimensions = "x".join(map(str, size))
    return (
        f"icdc generate {problem_path(problem)} --size {dimensions} --count {EXAMPLES} --seed 1 "
        f"--reference {_exact_solver(problem, size)} --without-instances --out {path}"
    )


def _exact_solver(problem: Problem, size: Size) -> str:
    """Return the exact solver that is done with so many examples soonest."""
    if problem.structure == "tour":
        return "branch"
    # the tables of dynamic programming grow with the makespan to the power of the machines
    if problem.structure == "makespan" and size[1] <= 5 and size[0] * size[1] <= 200:
        return "dp"
    return "cpsat"
