"""The standard test sets: drawn again from a name and a seed, checked by SHA-256, with shipped references.

The instances of a set are never shipped, its references are: `references/NAME.npz` holds the cost of the
best known solution of every instance, whether it is proven optimal, and that solution itself, so that
anyone can check that the cost is attained. They were made with CP-SAT; `docs/baselines.md` says how.
"""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from ..errors import InputError, UsageError
from ..problems.contract import Arrays, Problem, Size
from ..problems.registry import get_problem
from .dataset import Dataset, SeededSample, fingerprint, read_dataset, reference_entries, write_arrays


@dataclass(frozen=True)
class StandardSet:
    """What defines a standard set, and the SHA-256 its instances must have."""

    problem: str
    size: Size
    count: int
    seed: int
    sha256: str

    @property
    def sample(self) -> SeededSample:
        """What its instances are drawn from."""
        return SeededSample(self.size, self.count, self.seed)


STANDARD_SETS: dict[str, StandardSet] = {
    "pmsp-20x3": StandardSet(
        "pmsp", (20, 3), 1000, 20241000, "85131f46fe1873eba8ac2a7a8e879b52bb72b62cee10f096b6b4817ac1d2deb4"
    ),
    "pmsp-20x4": StandardSet(
        "pmsp", (20, 4), 1000, 20241001, "e8b06e8348b5b215a13bc98f41e260e431eb567df6615a1dfb5c9514421feeb3"
    ),
    "pmsp-20x5": StandardSet(
        "pmsp", (20, 5), 1000, 20241002, "5ab94e1c0489311c1555f02ce6e678d32654c22c4c1f4c3aad7ec99c3bb01742"
    ),
    "pmsp-50x3": StandardSet(
        "pmsp", (50, 3), 1000, 20241003, "8a46aab410de69d50ce8b7a7906a3cca1b8bdbdaa9c632c0a5ce5e4aac2e2aa4"
    ),
    "pmsp-50x4": StandardSet(
        "pmsp", (50, 4), 1000, 20241004, "c1e60257bdf1b4763723bc18b5b82b93791703421c180e3bf22c53529c6b3408"
    ),
    "pmsp-50x5": StandardSet(
        "pmsp", (50, 5), 1000, 20241005, "f627004580e9f990af43cb52a258adcda55488020c262929f414d298cef4c0dd"
    ),
    "atsp-10": StandardSet(
        "atsp", (10,), 200, 20241006, "1751e5bddf2a2b608aba78bf8a25b805386f02bda2cee818057e4fc2382fa2e2"
    ),
    "atsp-15": StandardSet(
        "atsp", (15,), 200, 20241007, "5c1ee4c214d91920873d2cc8e71c2c584524e19b54273f26bb54690f5e2f96ad"
    ),
    "atsp-20": StandardSet(
        "atsp", (20,), 1000, 20241008, "4712fa49653e45a8414e7f56401f2bb0ad7fcba23ae34944999373355f81052c"
    ),
    "atsp-25": StandardSet(
        "atsp", (25,), 200, 20241009, "525f1658e91b25b643cd4fa46fbb59dbe50e005b3e1cfa5a22d8ae24786bc713"
    ),
    "atsp-30": StandardSet(
        "atsp", (30,), 200, 20241010, "b20d6fa76d64153beaf49ecbfbc3dadcf0c8a04469a88faf0b2630693dae1eaa"
    ),
    "atsp-35": StandardSet(
        "atsp", (35,), 200, 20241011, "24b27d8741be6b2807cd75e3be53490bd6f46bc7580dffcb1f1e1cfd2b83f487"
    ),
    "atsp-40": StandardSet(
        "atsp", (40,), 200, 20241012, "933f628afd06a29cc384f7adc431db918ca25a56f27a437fc99336b7ac8a82af"
    ),
    "atsp-45": StandardSet(
        "atsp", (45,), 200, 20241013, "2cf4a5b2d34791e2ffb98329f8b4d1ed406156388681a369669094239be87bf9"
    ),
    "atsp-50": StandardSet(
        "atsp", (50,), 1000, 20241014, "5e2098d42b3379fc33133cb757b9ed4c284fa571b50a0937bc845acc32e5dd58"
    ),
    "atsp-100": StandardSet(
        "atsp", (100,), 128, 20241015, "017d1f6998227ab1d666796f8a0c2544837e0f7cb1750d4e1420114d6d18abd6"
    ),
    "navigation-20": StandardSet(
        "navigation",
        (20,),
        1000,
        20241016,
        "4f23c1c13aeb8c0bb4b23a9052fc67bc0400dbf787cb5b82cbc165d58554a63f",
    ),
    "pmsp-100x5": StandardSet(
        "pmsp", (100, 5), 128, 20241017, "579c0240ec8262f84875015218cfc787a90340ef23f424fc34167404676e4a6d"
    ),
    "pmsp-100x10": StandardSet(
        "pmsp", (100, 10), 128, 20241018, "3eaf4e5ccfe541f2fb1592f5d8a4f34ccd6c4160c36c5f0b072ec32bca1d0daf"
    ),
}


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
    shipped = resources.files("icdc.io") / "references" / f"{name}.npz"
    if not shipped.is_file():
        return Dataset(problem, arrays, name=name)
    with resources.as_file(shipped) as path, np.load(path, allow_pickle=False) as file:
        return Dataset(
            problem,
            arrays,
            file["reference"].astype(np.float64),
            file["proven"].astype(bool),
            file["choice"].astype(np.int64),
            name,
        )


def open_dataset(name: str | Path, problem: Problem | None = None) -> Dataset:
    """Return a standard set by its name, or a dataset by its path (`problem`: as in `read_dataset`)."""
    if str(name) in STANDARD_SETS:
        return standard_set(str(name))
    if not Path(name).exists():
        raise InputError(f"there is no file '{name}', and the standard sets are {', '.join(STANDARD_SETS)}")
    return read_dataset(name, problem)


def write_references(dataset: Dataset, folder: str | Path) -> Path:
    """Write what ships of a standard set: cost, proof and solution of every instance, as small as can be."""
    if fingerprint(dataset.arrays) != STANDARD_SETS[dataset.name].sha256:
        raise InputError(f"'{dataset.name}' does not hold the standard instances of that name")
    if dataset.reference is None or dataset.proven is None or dataset.choice is None:
        raise InputError(f"'{dataset.name}' has no references with solutions")
    path = Path(folder) / f"{dataset.name}.npz"
    write_arrays(path, reference_entries(dataset))
    return path
