"""Where instances come from, which sizes a run spends its time on, and the shares of families in it.

A source draws one batch of instances of one size after the other: of a problem's own generator, or of a given set,
which has solutions where supervision learns from it.
"""

import math
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
from .config import MixtureConfig
from .validation import OWN, Gaps, size_name

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
    """Return the distinct names in order, with the share of each."""
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
    its_size = tuple(problem.size(dataset.arrays))
    if its_size != tuple(size):
        raise InputError(f"the examples in '{path}' are of size {list(its_size)}, the run learns {list(size)}")
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


Shares = NDArray[np.float64]

EVEN = 0.1
"""Gap in percent that is added to all before they are compared: what is nearly solved needs no more turns."""
MOVE = 0.5
"""How far shares move at each validation to where the gaps are, from 0 to 1."""


class Mixture:
    """The shares of sizes and families, and which size is next.

    Parameters
    ----------
    sizes, named : the sizes, and how often the configuration names each: the more often, the larger its share.
    families : as the configuration names them; the same goes for them.
    cells : entries of a matrix of each size, as the network sees it: the curriculum goes by them.
    config : how shares move, and when which size joins.

    Attributes
    ----------
    families : the different ones, in their order.
    size_shares (sizes,) and family_shares (sizes, families) : what each has now.
    """

    def __init__(
        self,
        sizes: Sequence[Size],
        named: Sequence[int],
        families: Sequence[str],
        cells: Sequence[int],
        config: MixtureConfig,
    ) -> None:
        self.config, self.sizes = config, list(sizes)
        self._base_sizes: Shares = np.array(named) / sum(named)
        self.families, self._base_families = counted(families)
        self.size_shares = self._base_sizes.copy()
        self.family_shares = np.tile(self._base_families, (len(self.sizes), 1))
        self._order = np.argsort(np.argsort(cells, kind="stable"), kind="stable")
        self._spent = np.zeros(len(self.sizes))
        self._joined = np.zeros(len(self.sizes), dtype=bool)

    def open(self, fraction: float) -> NDArray[np.bool_]:
        """Tell which sizes take part when `fraction` of the run is done: the smallest first, in the end all."""
        until = self.config.curriculum
        share = min(1.0, fraction / until) if until else 1.0
        first = self.config.first_share * len(self.sizes)
        count = max(1, math.ceil(first + share * (len(self.sizes) - first) - 1e-9))
        return np.asarray(self._order < count)

    def next(self, fraction: float) -> int:
        """Return the size whose turn it is, as its number: the one that has had least of what its share is worth."""
        now = self.open(fraction)
        behind = self._spent[self._joined & now].min(initial=np.inf)
        for new in np.flatnonzero(now & ~self._joined):
            # a size that joins late begins with the least that others have spent: it makes up for nothing
            self._spent[new] = max(self._spent[new], behind if np.isfinite(behind) else 0.0)
        self._joined |= now
        return int(np.where(now, self._spent, np.inf).argmin())

    def spend(self, size: int, amount: float) -> None:
        """Add the cost of a round to its size: seconds, or any other measure of work."""
        self._spent[size] += amount / self.size_shares[size]

    def move(self, gaps: Gaps) -> None:
        """Move shares towards the families and sizes with the largest gaps; sizes without gaps stay as they are."""
        means = np.full(len(self.sizes), np.nan)
        for number, size in enumerate(self.sizes):
            of_families = list(gaps.get(size_name(size), {}).values())
            if not of_families:
                continue
            means[number] = np.mean(of_families)
            if self.families:
                own = self.family_shares[number]
                self.family_shares[number] = self._moved(own, self._base_families, np.array(of_families))
        measured = np.isfinite(means)
        if measured.any():
            # a size that was not measured counts as an average one
            means = np.where(measured, means, means[measured].mean())
            self.size_shares = self._moved(self.size_shares, self._base_sizes, means)

    def shares(self) -> dict[str, dict[str, float]]:
        """Return what part of all time every family of every size has now, by their names, to three digits."""
        shares: dict[str, dict[str, float]] = {}
        for size, share, own in zip(self.sizes, self.size_shares, self.family_shares, strict=True):
            each = dict(zip(self.families, own, strict=True)) if self.families else {OWN: 1.0}
            shares[size_name(size)] = {family: float(f"{share * part:.3g}") for family, part in each.items()}
        return shares

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs again."""
        return {
            "size_shares": self.size_shares.tolist(),
            "family_shares": self.family_shares.tolist(),
            "spent": self._spent.tolist(),
            "joined": self._joined.tolist(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self.size_shares, self.family_shares = np.array(state["size_shares"]), np.array(state["family_shares"])
        self._spent, self._joined = np.array(state["spent"]), np.array(state["joined"], dtype=bool)

    def _moved(self, shares: Shares, base: Shares, gaps: Shares) -> Shares:
        """Return shares that moved towards those by gaps, all between base / most and base · most, with the sum one."""
        gaps = np.maximum(gaps, 0.0) + EVEN
        wanted = base * np.sqrt(gaps / gaps.mean())
        within = bounded(wanted, base / self.config.most, np.minimum(1.0, base * self.config.most))
        moved: Shares = shares + MOVE * (within - shares)
        return moved


def bounded(weights: Shares, low: Shares, high: Shares) -> Shares:
    """Return shares proportional to weights, but for those that a limit holds; their sum is one.

    The sum of `low` must be at most one and that of `high` at least one.
    """
    least, most = 0.0, float(np.max(high / np.maximum(weights, 1e-12)))
    for _ in range(60):
        factor = (least + most) / 2
        if np.clip(factor * weights, low, high).sum() < 1.0:
            least = factor
        else:
            most = factor
    shares: Shares = np.clip(most * weights, low, high)
    return shares
