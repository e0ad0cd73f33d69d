"""Validation inside a run: instances of every family and size, and how far the model's answers are from references.

References are made once, by classical search, and kept in a file. Those of the presets come with the package, so that
no run on a GPU begins with minutes of search.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..diffusion.sampler import SamplingOptions
from ..errors import InputError
from ..io.files import write_atomically
from ..models.diffusion import CANDIDATES_ORDER, Model
from ..problems import problem_path
from ..problems.base import Arrays, Problem, Size
from ..problems.families import sample_family
from ..solvers import make_solver
from ..solving.network import DiffusionSolver

SHIPPED = Path(__file__).with_name("references.json")
"""References of the presets that learn families."""
SEED = 20_777
"""Of validation instances: test sets have other seeds, and training draws from keys of its own."""
SEARCH = "search:seconds=1"
"""The solver that makes references; it ends early where an answer is proven."""
MOST_CELLS = 2**18
"""Entries of the instances of a family and size together: of large ones there are few."""
MOST_GAP = 100.0
"""Where gaps end, in percent: a forbidden pair that costs a million would drown all others in a mean."""
FEWEST = 2
"""Instances of each family and size, however large they are."""
SAMPLES, STEPS = 4, 10
"""Trajectories of each instance, and network passes of a trajectory; no search."""
OWN = "own"
"""What the problem's own draw is called where no families are named."""

Gaps = dict[str, dict[str, float]]
"""Mean gap in percent of every family of every size: gaps["100x20"]["job-correlated"]."""


class Group(NamedTuple):
    """Instances of one family and size, and what they are compared with: costs (count,)."""

    family: str
    size: Size
    arrays: Arrays
    reference: NDArray[np.float64]


class References:
    """Costs of good solutions of validation instances, by problem, family, size and number of instances.

    path : where new ones are kept; None keeps them in memory only. Those of the presets come with the package.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.new = _read(path) if path is not None and path.is_file() else {}
        self.shipped = _read(SHIPPED)

    def costs(self, problem: Problem, family: str, size: Size, arrays: Arrays) -> NDArray[np.float64]:
        """Return the costs of a group, made by search where there are none yet."""
        count = len(next(iter(arrays.values())))
        key = f"{problem_path(problem)}/{family}/{size_name(size)}/{count}"
        if key not in self.new and key not in self.shipped:
            solved = make_solver(SEARCH).solve(problem, arrays, samples=1, seed=0)
            self.new[key] = [float(cost) for cost in solved.cost]
            if self.path is not None:
                write_atomically(self.path, json.dumps(self.new, indent=0, sort_keys=True) + "\n", make_folder=True)
        return np.array(self.new[key] if key in self.new else self.shipped[key])


class Validation:
    """Validates a model on instances of every family and size.

    Parameters
    ----------
    problem : what is learned.
    sizes, families : of the instances; without families, the problem's own draw.
    instances : of each family and size, fewer of large ones.
    targets : how targets are made; answers are decoded in the same order.
    references : what answers are compared with.
    device : where the network runs.
    """

    def __init__(
        self,
        problem: Problem,
        sizes: Sequence[Size],
        families: Sequence[str],
        instances: int,
        *,
        targets: SamplingOptions,
        references: References,
        device: str,
    ) -> None:
        self.problem, self.sizes = problem, list(dict.fromkeys(map(tuple, sizes)))
        self.families = list(dict.fromkeys(families)) or [OWN]
        self.instances, self.device, self.references = instances, device, references
        self.sampling = SamplingOptions(steps=STEPS, order=targets.order, temperature=1.0, decodes=4)
        self._groups: dict[Size, list[Group]] = {}

    def groups(self, size: Size) -> list[Group]:
        """Return the instances of all families of a size, drawn when they are first asked for."""
        if size not in self._groups:
            self._groups[size] = [self._drawn(family, size) for family in self.families]
        return self._groups[size]

    def gaps(self, model: Model, sizes: Sequence[Size] | None = None) -> Gaps:
        """Return how far the answers of a model are from the references, in percent, of some sizes or of all."""
        gaps: Gaps = {}
        for size in self.sizes if sizes is None else sizes:
            groups = self.groups(size)
            together = {name: np.concatenate([group.arrays[name] for group in groups]) for name in groups[0].arrays}
            sampling = self.sampling
            if model.candidates_of(size) and sampling.order == "rule":  # following a tour looks at all columns
                sampling = replace(sampling, order=CANDIDATES_ORDER)
            solver = DiffusionSolver(model, sampling=sampling, device=self.device)
            cost = solver.solve(self.problem, together, samples=SAMPLES, seed=1).cost
            gaps[size_name(size)], first = {}, 0
            for group in groups:
                own = cost[first : first + len(group.reference)]
                gaps[size_name(size)][group.family] = round(float(gaps_in_percent(own, group.reference).mean()), 4)
                first += len(group.reference)
        return gaps

    def _drawn(self, family: str, size: Size) -> Group:
        rows, columns = self.problem.shape(size)
        count = max(FEWEST, min(self.instances, MOST_CELLS // (rows * columns)))
        name = None if family == OWN else family
        rng = np.random.default_rng([SEED, *size])
        arrays = sample_family(self.problem, name, count, size, rng, self.device)
        return Group(family, size, arrays, self.references.costs(self.problem, family, size, arrays))


def gaps_in_percent(cost: NDArray[Any], reference: NDArray[Any]) -> NDArray[np.float64]:
    """Return the gap of every instance, `MOST_GAP` at most."""
    gaps: NDArray[np.float64] = np.minimum(100 * (np.asarray(cost, np.float64) / reference - 1), MOST_GAP)
    return gaps


def size_name(size: Sequence[int]) -> str:
    """Return a size as it is written: 100x20."""
    return "x".join(map(str, size))


def mean_gap(gaps: Mapping[str, Mapping[str, float]]) -> float:
    """Return the mean of all families and sizes."""
    values = [value for families in gaps.values() for value in families.values()]
    return math.fsum(values) / len(values) if values else math.nan


def _read(path: Path) -> dict[str, list[float]]:
    try:
        costs: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} has no references that can be read ({error})") from None
    lists = costs.values() if isinstance(costs, dict) else [None]
    if not all(isinstance(one, list) and all(type(cost) in (int, float) for cost in one) for one in lists):
        raise InputError(f"{path} must be a table of names, each with a list of costs")
    return dict(costs)
