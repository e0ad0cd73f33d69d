"""Datasets: instances of one problem and size in one `.npz`, with references where they are known."""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..files import replacing
from ..problem import Arrays, Problem
from ..problems import problem_of_file, problem_path
from .drawing import Origin, drawn_again, fingerprint

__all__ = ["Dataset", "fingerprint", "read_dataset", "reference_entries", "write_arrays", "write_dataset"]


@dataclass(frozen=True)
class Dataset:
    """Instances with what is known about their optima.

    problem : what the instances are of.
    arrays : its named arrays, leading axis count.
    reference : (count,) float64, the best known cost; NaN where there is none; None where there is none at
        all.
    proven : (count,) bool, True where the reference is a proven optimum; None without references.
    choice : (count, rows) int64, solutions that cost the references; optional.
    name : a word for tables: the standard set's name, or the file's.
    """

    problem: Problem
    arrays: Arrays
    reference: NDArray[np.float64] | None = None
    proven: NDArray[np.bool_] | None = None
    choice: NDArray[np.int64] | None = None
    name: str = ""

    def __len__(self) -> int:
        return len(self.arrays[self.problem.arrays[0]])

    def first(self, count: int) -> "Dataset":
        """Return the first `count` instances (all, if there are fewer)."""
        part = slice(0, count)
        return Dataset(
            self.problem,
            {name: array[part] for name, array in self.arrays.items()},
            None if self.reference is None else self.reference[part],
            None if self.proven is None else self.proven[part],
            None if self.choice is None else self.choice[part],
            self.name,
        )


def read_dataset(path: str | Path, problem: Problem | None = None) -> Dataset:
    """Read a dataset and check it; raise InputError with the file and what is wrong with it.

    Instances that the file leaves out are drawn again.
    `problem` is needed only where it is one of your own: a file does not decide which code is imported.
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            stored: dict[str, NDArray[Any]] = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise InputError(f"there is no file '{path}'") from None
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise InputError(f"'{path}' is not a dataset (.npz): {error}") from error
    if "problem" not in stored:
        raise InputError(f"'{path}' is not a dataset: it has no entry 'problem'")
    problem = problem_of_file(str(stored["problem"]), problem, f"'{path}'")
    if "drawn" in stored:
        stored.update(drawn_again(str(stored["drawn"]), problem, f"'{path}'"))
    missing = [name for name in problem.arrays if name not in stored]
    if missing:
        raise InputError(f"'{path}' lacks the array '{missing[0]}' of the problem '{problem.name}'")
    try:
        arrays = problem.check({name: stored[name] for name in problem.arrays})
    except InputError as error:
        raise InputError(f"'{path}': {error}") from error
    count = len(arrays[problem.arrays[0]])
    rows = problem.shape(problem.size(arrays))[0]
    reference = _vector(path, stored, "reference", (count,))
    proven = _vector(path, stored, "proven", (count,))
    choice = _vector(path, stored, "choice", (count, rows))
    if reference is not None and proven is None:
        proven = np.zeros(count, dtype=bool)
    return Dataset(
        problem,
        arrays,
        None if reference is None else reference.astype(np.float64),
        None if proven is None or reference is None else proven.astype(bool),
        None if choice is None else choice.astype(np.int64),
        path.stem,
    )


def write_dataset(path: str | Path, dataset: Dataset, *, origin: Origin | None = None) -> None:
    """Write a dataset, whole or not at all; without its instances if it says what they were drawn from."""
    entries: dict[str, Any] = {"problem": np.array(problem_path(dataset.problem))}
    if origin is None:
        entries.update(dataset.arrays)
    else:
        entries["drawn"] = np.array(origin.text(dataset.arrays))
    write_arrays(path, {**entries, **reference_entries(dataset)})


def reference_entries(dataset: Dataset) -> Arrays:
    """Return what is known about the optima, in the smallest types that hold it exactly."""
    entries: Arrays = {}
    if dataset.reference is not None:
        entries["reference"] = _smallest(dataset.reference)
    if dataset.proven is not None:
        entries["proven"] = dataset.proven
    if dataset.choice is not None:
        entries["choice"] = _smallest(dataset.choice)
    return entries


def write_arrays(path: str | Path, entries: Mapping[str, Any]) -> None:
    """Write named arrays to a compressed `.npz`, whole or not at all."""
    with replacing(path, make_folder=True) as file:
        np.savez_compressed(file, **entries)


def _vector(path: Path, stored: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...]) -> NDArray[Any] | None:
    if name not in stored:
        return None
    if stored[name].shape != shape:
        raise InputError(f"'{path}': the entry '{name}' has shape {stored[name].shape}, expected {shape}")
    return stored[name]


def _smallest(array: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers as the smallest integers that hold them, and all others as they are."""
    if not array.size or not np.isfinite(array).all() or np.abs(array).max() > 2**53 or (array != np.rint(array)).any():
        return array
    return array.astype(np.promote_types(*map(np.min_scalar_type, (int(array.min()), int(array.max())))))
