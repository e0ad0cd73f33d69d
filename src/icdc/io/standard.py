"""The standard test sets: drawn again from a name and a seed, checked by SHA-256, with shipped references.

The instances of a set are never shipped, its references are: `references/NAME.npz` holds the cost of the
best known solution of every instance, whether it is proven optimal, and that solution itself, so that
anyone can check that the cost is attained. Those of the paper's sets were made with CP-SAT (`docs/baselines.md`), those
of the families by several solvers, and say by which (`docs/families.md`).
"""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..problems.base import Arrays, Problem
from ..problems.registry import get_problem
from .dataset import Dataset, fingerprint, read_dataset, reference_entries, write_arrays
from .standard_sets import FAMILY_SETS, PAPER_SETS, STANDARD_SETS, StandardSet

__all__ = [
    "FAMILY_SETS",
    "PAPER_SETS",
    "STANDARD_SETS",
    "Provenance",
    "StandardSet",
    "open_dataset",
    "provenance",
    "shipped_references",
    "standard_instances",
    "standard_set",
    "write_references",
]


@dataclass(frozen=True)
class Provenance:
    """How the references of a set came about, an entry for every instance.

    found_by : (count,) the solver that found the best known solution.
    seconds : (count,) how long that run was allowed to take.
    proven_by : (count,) the solver that proved it optimal; empty where nobody did.
    """

    found_by: NDArray[np.str_]
    seconds: NDArray[np.float64]
    proven_by: NDArray[np.str_]

    def __getitem__(self, index: int) -> str:
        """Say how the reference of one instance is known: "proven by branch", or "best known, search, 30 s"."""
        if self.proven_by[index]:
            return f"proven by {self.proven_by[index]}"
        return f"best known, {self.found_by[index]}, {self.seconds[index]:g} s"


def standard_instances(name: str) -> Arrays:
    """Draw the instances of a standard set and check that they are the ones everybody has."""
    if name not in STANDARD_SETS:
        raise UsageError(f"unknown test set '{name}'; the standard ones are {', '.join(STANDARD_SETS)}")
    spec = STANDARD_SETS[name]
    arrays = spec.sample.draw(get_problem(spec.problem))
    if fingerprint(arrays) != spec.sha256:
        raise InputError(f"the instances of '{name}' drawn here differ from the standard ones (wrong SHA-256)")
    return arrays


def standard_set(name: str) -> Dataset:
    """Return a standard test set with its shipped references."""
    arrays = standard_instances(name)
    problem = get_problem(STANDARD_SETS[name].problem)
    known = shipped_references(name)
    if not known:
        return Dataset(problem, arrays, name=name)
    reference, proven, choice = known["reference"], known["proven"], known["choice"]
    return Dataset(problem, arrays, reference.astype(np.float64), proven.astype(bool), choice.astype(np.int64), name)


def shipped_references(name: str) -> Arrays:
    """Return what ships of a standard set: `reference` (count,), `proven` (count,), `choice` (count, rows) and more.

    Empty where nothing does.
    """
    shipped = resources.files("icdc.io") / "references" / f"{name}.npz"
    if not shipped.is_file():
        return {}
    with resources.as_file(shipped) as path, np.load(path, allow_pickle=False) as file:
        return {entry: file[entry] for entry in file.files}


def provenance(name: str) -> Provenance | None:
    """Return how the references of a standard set came about; None where its file does not say."""
    known = shipped_references(name)
    if "found_by" not in known:
        return None
    return Provenance(known["found_by"], known["seconds"].astype(np.float64), known["proven_by"])


def open_dataset(name: str | Path, problem: Problem | None = None) -> Dataset:
    """Return a standard set by its name, or a dataset by its path (`problem`: as in `read_dataset`)."""
    if str(name) in STANDARD_SETS:
        return standard_set(str(name))
    if not Path(name).exists():
        raise InputError(f"there is no file '{name}', and the standard sets are {', '.join(STANDARD_SETS)}")
    return read_dataset(name, problem)


def write_references(dataset: Dataset, folder: str | Path, known: Provenance | None = None) -> Path:
    """Write what ships of a standard set: cost, proof and solution of every instance, as small as can be."""
    if fingerprint(dataset.arrays) != STANDARD_SETS[dataset.name].sha256:
        raise InputError(f"'{dataset.name}' does not hold the standard instances of that name")
    if dataset.reference is None or dataset.proven is None or dataset.choice is None:
        raise InputError(f"'{dataset.name}' has no references with solutions")
    path = Path(folder) / f"{dataset.name}.npz"
    how = {} if known is None else vars(known)
    write_arrays(path, {**reference_entries(dataset), **how})
    return path
