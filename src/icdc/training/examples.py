"""Solved examples to learn from: instances with a good solution each, on the device."""

from pathlib import Path

import torch
from torch import Tensor

from ..data.dataset import read_dataset
from ..errors import InputError
from ..noise import Noise
from ..problem import Problem, Size, to_tensors

EXAMPLES = 128_000
"""How many examples the paper's supervised baselines learn from."""


class Examples:
    """Instances of one size with solutions.

    Parameters
    ----------
    instances : named tensors, leading axis count.
    choice : (count, rows), a solution of each.
    """

    def __init__(self, instances: dict[str, Tensor], choice: Tensor) -> None:
        self.instances, self.choice = instances, choice

    def draw(self, noise: Noise) -> tuple[dict[str, Tensor], Tensor]:
        """Return one instance for each key of the noise, drawn with replacement, and its solution."""
        pick = noise.integers(len(self.choice))
        return {name: tensor[pick] for name, tensor in self.instances.items()}, self.choice[pick]


def examples_command(problem: str, size: Size, path: str) -> str:
    """Return the command that makes examples; stopped and called again, it goes on where it was."""
    dimensions = "x".join(map(str, size))
    return (
        f"icdc generate {problem} --size {dimensions} --count {EXAMPLES} --seed 1 "
        f"--reference {_exact_solver(problem, size)} --without-instances --out {path}"
    )


def _exact_solver(problem: str, size: Size) -> str:
    """Return the exact solver that is done with so many examples soonest."""
    if problem in ("atsp", "navigation"):
        return "branch"
    # the tables of dynamic programming grow with the makespan to the power of the machines
    if problem == "pmsp" and size[1] <= 5 and size[0] * size[1] <= 200:
        return "dp"
    return "cpsat"


def read_examples(path: str, problem: Problem, size: Size, device: torch.device) -> Examples:
    """Read a dataset with solutions, as `icdc generate --reference` writes it, and check that it fits."""
    command = examples_command(problem.name, size, path)
    if not Path(path).exists():
        raise InputError(f"there are no solved examples in '{path}'; make them with: {command}")
    dataset = read_dataset(path, problem)
    if dataset.choice is None:
        raise InputError(f"'{path}' holds no solutions; make them with: {command}")
    found = tuple(problem.size(dataset.arrays))
    if found != tuple(size):
        raise InputError(f"the examples in '{path}' are of size {list(found)}, the run learns {list(size)}")
    instances = to_tensors(dataset.arrays, device)
    choice = torch.from_numpy(dataset.choice).to(device)
    feasible = problem.feasible(instances, choice[:, None]).squeeze(1)
    if not bool(feasible.all()):
        raise InputError(f"'{path}': the solution of instance {int(feasible.int().argmin())} is not feasible")
    return Examples(instances, choice)
