"""NumPy's files: instances in `.npy` and `.npz`, datasets with what is known about their optima, the standard sets.

What a file announces is checked before anything is allocated, and nothing is ever unpickled.

A dataset may leave its instances out and say from which seed they are drawn again. The standard sets (`sets.toml`) are
drawn from seeds and checked by SHA-256; what ships of each is `references/NAME.npz`: the cost of the best known
solution of every instance, whether it is proven optimal, and that solution, so that anyone can check the cost.
"""

import hashlib
import io
import json
import math
import tomllib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..problems import BUILT_IN, SHIPPED, get_problem, problem_of_file, problem_path
from ..problems.arrays import as_stored, is_numeric, too_large
from ..problems.base import Arrays, Problem, Size, structure_of
from ..problems.forbidden import batch_with_stand_ins, may_forbid, permitted_in
from ..problems.instance import BARE, RawInstance
from .files import LARGEST_FILE, read_bytes, replacing
from .json import FORBIDDEN

# beside the problem's arrays, a dataset may hold these
_ABOUT = frozenset(["problem", "reference", "proven", "choice", "name", "seed", "drawn"])
_AXES = {BARE: 2} | {
    name: cls.axes.get(name, 2)
    for cls in (*SHIPPED.values(), *BUILT_IN.values())  # the last word on a name is that of a problem with models
    for name in cls.arrays
}
"""How many axes the arrays of one instance have, for the problems that ship."""

LARGEST_ARRAYS = LARGEST_FILE
"""Bytes of all arrays of a file together."""
_CHUNK = 2**24
_MEMBERS = 1000
"""Entries of an archive; a dataset has a handful."""

Content = NDArray[Any] | dict[str, NDArray[Any]]

_ARCHIVE = (b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"\x93NUMPY")
"""What files of NumPy arrays begin with, packed once more by gzip or not."""


def load_arrays(content: bytes, name: str) -> Content:
    """Return the array of an NPY file or the named arrays of an NPZ archive; raise InputError for anything else."""
    if not content:
        raise InputError(f"{name}: the file is empty")
    try:
        if content.startswith(b"PK"):
            return _load_archive(content, name)
        return _load_one(io.BytesIO(content), len(content), name)
    except MemoryError:
        raise InputError(f"{name}: the arrays do not fit into memory") from None
    except InputError:
        raise
    except Exception as error:
        # numpy, zipfile and zlib raise a dozen kinds of exception for a broken file; all of them mean this
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise InputError(f"{name}: the file cannot be read as NumPy arrays ({reason})") from None


def members_of(content: bytes, name: str) -> list[str]:
    """Return the names of the entries of a zip archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return archive.namelist()
    except Exception:  # as above: whatever is raised, the archive is damaged
        raise InputError(
            f"{name}: the zip archive is damaged, it cannot be read as NumPy arrays or a workbook"
        ) from None


def _load_archive(content: bytes, name: str) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if not any(member.filename.endswith(".npy") for member in members):
            raise InputError(f"{name}: this is a zip archive without NumPy arrays in it")
        if len(members) > _MEMBERS:
            raise InputError(f"{name}: the archive has {len(members)} entries, more than {_MEMBERS}")
        _check_size(sum(member.file_size for member in members), name)
        arrays: dict[str, NDArray[Any]] = {}
        for member in members:
            key = member.filename.removesuffix(".npy")
            if key == member.filename:
                raise InputError(f"{name}: the archive's entry {key[:40]!r} is not a NumPy array")
            if key in arrays:
                raise InputError(f"{name}: the archive has the entry {key[:40]!r} twice")
            with archive.open(member) as file:
                arrays[key] = _load_one(file, member.file_size, name)
        return arrays


def _load_one(file: IO[bytes], size: int, name: str) -> NDArray[Any]:
    """Read one array from a file that is said to have `size` bytes."""
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise InputError(f"{name}: the file cannot be read as NumPy arrays (format {version[0]}.{version[1]})")
    shape, fortran, dtype = readers[version](file)
    if dtype.hasobject:
        raise InputError(f"{name}: the file cannot be read as NumPy arrays (it holds Python objects, not numbers)")
    if any(length < 0 for length in shape):
        raise InputError(f"{name}: the file cannot be read as NumPy arrays (a negative length)")
    announced = math.prod(shape) * dtype.itemsize
    _check_size(announced, name)
    if announced > size:
        raise InputError(
            f"{name}: the file cannot be read as NumPy arrays (it announces {announced} bytes of numbers and has fewer)"
        )
    flat = np.empty(announced, dtype=np.uint8)
    done = 0
    while done < announced:
        piece = file.read(min(_CHUNK, announced - done))
        if not piece:
            raise InputError(f"{name}: the file cannot be read as NumPy arrays (it ends too early)")
        flat[done : done + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
        done += len(piece)
    if file.read(1):  # also lets an archive compare its checksum
        raise InputError(f"{name}: the file cannot be read as NumPy arrays (it goes on after the array)")
    if not dtype.itemsize:
        return np.zeros(shape, dtype=dtype)
    return flat.view(dtype).reshape(shape, order="F" if fortran else "C")


def _check_size(size: int, name: str) -> None:
    if size > LARGEST_ARRAYS:
        raise InputError(
            f"{name}: the file announces {size / 2**20:.0f} MiB of arrays, more than the "
            f"{LARGEST_ARRAYS // 2**20} MiB that are read"
        )


@dataclass(frozen=True)
class SeededSample:
    """Instances that need not be kept: drawn from a size, a count and a seed, the same on every machine.

    family : a family of the problem; None for its own draw.
    """

    size: Size
    count: int
    seed: int
    family: str | None = None

    def draw(self, problem: Problem) -> Arrays:
        """Return the instances (NumPy's PCG64, integers)."""
        from ..problems.families import sample_family  # it needs torch, which reading does without

        rng = np.random.Generator(np.random.PCG64(self.seed))
        return sample_family(problem, self.family, self.count, self.size, rng)

    def forbidden(self, problem: Problem, arrays: Arrays) -> NDArray[np.bool_] | None:
        """Return the pairs that drawn instances forbid, (count, rows, columns); None where their family has none."""
        if self.family is None or problem.structure is None or not problem.family(self.family).forbids:
            return None
        return ~permitted_in(arrays[problem.arrays[0]], tour=not structure_of(problem.structure).diagonal)

    def text(self, arrays: Arrays) -> str:
        """Return what a file says instead of the instances it leaves out."""
        parts: dict[str, Any] = {"size": list(self.size), "count": self.count, "seed": self.seed}
        if self.family is not None:
            parts["family"] = self.family
        return json.dumps(parts | {"sha256": fingerprint(arrays)})


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
    forbidden : (count, rows, columns) bool, pairs that no solution may use, for which the arrays hold stand-ins
        (`problems.forbidden`); None where all are permitted.
    """

    problem: Problem
    arrays: Arrays
    reference: NDArray[np.float64] | None = None
    proven: NDArray[np.bool_] | None = None
    choice: NDArray[np.int64] | None = None
    name: str = ""
    forbidden: NDArray[np.bool_] | None = None

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
            None if self.forbidden is None else self.forbidden[part],
        )


def read_dataset(path: str | Path, problem: Problem | None = None) -> Dataset:
    """Read a dataset and check it; raise InputError with the file and what is wrong with it.

    Instances that the file leaves out are drawn again. Pairs are forbidden by the entry 'forbidden', or by inf.
    `problem` is needed only where it is one of your own: a file does not decide which code is imported.
    """
    path = Path(path)
    content = read_bytes(path)
    if not content.startswith(_ARCHIVE):
        raise InputError(f"'{path}' is not a dataset: those are .npz files, as icdc generate writes them")
    try:
        stored = load_arrays(content, str(path))
    except InputError as error:
        raise InputError(f"'{path}' is not a dataset (.npz): {error}") from None
    if isinstance(stored, np.ndarray) or "problem" not in stored:
        raise InputError(f"'{path}' is not a dataset: it has no entry 'problem'")
    problem = problem_of_file(str(stored["problem"]), problem, f"'{path}'")
    if "drawn" in stored:
        stored.update(_drawn_again(str(stored["drawn"]), problem, f"'{path}'"))
    missing = [name for name in problem.arrays if name not in stored]
    if missing:
        raise InputError(f"'{path}' lacks the array '{missing[0]}' of the problem '{problem.name}'")
    try:
        forbidden = _forbidden(stored, problem)
        arrays = problem.check({name: stored[name] for name in problem.arrays})
        if forbidden is not None:
            arrays = batch_with_stand_ins(problem, arrays, forbidden)
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
        forbidden,
    )


def write_dataset(path: str | Path, dataset: Dataset, *, drawn_from: SeededSample | None = None) -> None:
    """Write a dataset, whole or not at all; without its instances if it says what they were drawn from."""
    entries: dict[str, Any] = {"problem": np.array(problem_path(dataset.problem))}
    if drawn_from is None:
        entries.update(dataset.arrays)
        if dataset.forbidden is not None:
            entries[FORBIDDEN] = dataset.forbidden
    else:
        entries["drawn"] = np.array(drawn_from.text(dataset.arrays))
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


def raw_from_numpy(content: bytes, name: str, own: Problem | None = None) -> list[RawInstance]:
    """Return the instances of an NPY or NPZ file.

    An NPY file holds one matrix, or several stacked along a first axis; an NPZ archive is a dataset, the
    named arrays of one instance, or a single array of any name. A dataset without instances has them drawn again,
    which takes the problem itself: `own` is one of your own.
    """
    arrays = load_arrays(content, name)
    if isinstance(arrays, np.ndarray):
        return _split({BARE: arrays}, None, name)
    problem = None
    if "problem" in arrays:
        problem = str(arrays["problem"]) if arrays["problem"].dtype.kind == "U" else None
        if problem is None or arrays["problem"].ndim:
            raise InputError(f"{name}: 'problem' must be a name")
        if "drawn" in arrays:
            arrays.update(_drawn_again(str(arrays["drawn"]), problem_of_file(problem, own, name), name))
    data = {key: array for key, array in arrays.items() if key not in _ABOUT}
    if not data:
        raise InputError(f"{name}: the archive holds no matrix")
    if problem is None and len(data) == 1 and next(iter(data)) not in _AXES:
        data = {BARE: next(iter(data.values()))}
    return _split(data, problem, name)


def fingerprint(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of named arrays: names, types, shapes and values, the same on every machine."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _drawn_again(text: str, problem: Problem, source: str) -> Arrays:
    """Return the instances that `SeededSample.text` stands for, checked to be the same.

    source : the file it was found in, for messages.
    """
    try:
        parts = json.loads(text)
        size, count, seed = tuple(map(int, parts["size"])), int(parts["count"]), int(parts["seed"])
        family = None if parts.get("family") is None else str(parts["family"])
        sample = SeededSample(size, count, seed, family)
        sha256 = str(parts["sha256"])
    except (ValueError, TypeError, KeyError):
        raise InputError(f"{source}: 'drawn' does not say from what its instances are drawn") from None
    if len(sample.size) != len(problem.size_names) or min(*sample.size, sample.count) < 1 or sample.seed < 0:
        raise InputError(f"{source}: no instances of '{problem.name}' can be drawn from {text}")
    if family is not None and family not in problem.families:
        raise InputError(f"{source}: the problem '{problem.name}' has no family '{family}'")
    try:
        arrays = sample.draw(problem)
    except (MemoryError, ValueError):
        raise InputError(f"{source}: the instances it leaves out do not fit into memory") from None
    if fingerprint(arrays) != sha256:
        raise InputError(f"{source}: the instances drawn here differ from those it was made of (wrong SHA-256)")
    forbidden = sample.forbidden(problem, arrays)
    return arrays if forbidden is None else {**arrays, FORBIDDEN: forbidden}


def _forbidden(stored: dict[str, NDArray[Any]], problem: Problem) -> NDArray[np.bool_] | None:
    """Return the pairs that instances forbid, (count, rows, columns); infinite entries become zeros in place."""
    if not may_forbid(problem):
        return None
    (name,) = problem.arrays
    matrices = stored[name]
    forbidden = stored.get(FORBIDDEN, np.zeros(matrices.shape, dtype=bool))
    if forbidden.shape != matrices.shape or forbidden.dtype != bool:
        raise InputError(f"'{FORBIDDEN}' must be true or false for every entry of '{name}'")
    if matrices.dtype.kind == "f":
        forbidden = forbidden | np.isposinf(matrices)
        stored[name] = np.where(forbidden, 0.0, matrices)
    if problem.feature_sizes.same_items and forbidden.ndim == 3 and forbidden.shape[1] == forbidden.shape[2]:
        forbidden = forbidden & ~np.eye(forbidden.shape[1], dtype=bool)
    return forbidden if forbidden.any() else None


def _split(arrays: dict[str, NDArray[Any]], problem: str | None, name: str) -> list[RawInstance]:
    """Cut arrays into instances where they have a count axis.

    They have one if the file is a dataset (it says which problem it is) or if a matrix has three axes.
    """
    arrays = {
        key: _checked(array, f"{name}: the array '{key}'" if key else f"{name}: the array")
        for key, array in arrays.items()
    }
    stacked = any(array.ndim > _AXES[key] for key, array in arrays.items() if key in _AXES)
    unknown = not any(key in _AXES for key in arrays)
    if not stacked and not (unknown and problem is not None):
        return [RawInstance(name, arrays, problem)]
    counts = {len(array) if array.ndim else -1 for array in arrays.values()}
    if len(counts) > 1 or -1 in counts:
        raise InputError(f"{name}: the arrays hold different numbers of instances")
    count = counts.pop()
    if count == 0:
        raise InputError(f"{name}: the file holds no instance")
    names = [name] if count == 1 else [f"{name}[{i}]" for i in range(count)]
    return [RawInstance(names[i], {key: array[i] for key, array in arrays.items()}, problem) for i in range(count)]


def _checked(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Check an array of any numeric kind from a binary file; integers stay integers, reals become float64."""
    if array.dtype == bool:
        return array
    if not is_numeric(array):
        raise InputError(f"{where}: must hold numbers, got {array.dtype}")
    huge = too_large(array)
    if huge.any():
        raise InputError(f"{where}: {_place(huge)} is too large")
    return as_stored(array)


def _place(wrong: NDArray[np.bool_]) -> str:
    """Name the first entry that is wrong, counting from 1 as the other messages do."""
    index = [int(i) + 1 for i in np.argwhere(wrong)[0]]
    if len(index) == 2:
        return f"the value at row {index[0]}, column {index[1]}"
    return f"the value at ({', '.join(map(str, index))})"


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


@dataclass(frozen=True)
class StandardSet:
    """What defines a standard set, and the SHA-256 that its instances must have.

    family : of the problem, where it is not its own draw.
    """

    problem: str
    size: Size
    count: int
    seed: int
    sha256: str
    family: str | None = None

    @property
    def sample(self) -> SeededSample:
        """What its instances are drawn from."""
        return SeededSample(self.size, self.count, self.seed, self.family)


def _sets(group: str) -> dict[str, StandardSet]:
    entries = tomllib.loads((resources.files("icdc.io") / "sets.toml").read_text())[group]
    return {name: StandardSet(**{**entry, "size": tuple(entry["size"])}) for name, entry in entries.items()}


PAPER_SETS = _sets("paper")
FAMILY_SETS = _sets("families")
"""Larger and other instances than the paper's (`icdc.problems.families`); references are proven or the best known."""
STANDARD_SETS = PAPER_SETS | FAMILY_SETS


@dataclass(frozen=True)
class Provenance:
    """How the references of a set came about, an entry for every instance.

    found_by : (count,) the solver that found the best known solution.
    seconds : (count,) how long that run was allowed to take.
    proven_by : (count,) the solver that proved it optimal; empty where none did.
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
    shipped = shipped_references(name)
    if not shipped:
        return Dataset(problem, arrays, name=name)
    reference, proven, choice = shipped["reference"], shipped["proven"], shipped["choice"]
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
    shipped = shipped_references(name)
    if "found_by" not in shipped:
        return None
    return Provenance(shipped["found_by"], shipped["seconds"].astype(np.float64), shipped["proven_by"])


def open_dataset(name: str | Path, problem: Problem | None = None) -> Dataset:
    """Return a standard set by its name, or a dataset by its path (`problem`: as in `read_dataset`)."""
    if str(name) in STANDARD_SETS:
        return standard_set(str(name))
    if not Path(name).exists():
        raise InputError(f"there is no file '{name}', and the standard sets are {', '.join(STANDARD_SETS)}")
    return read_dataset(name, problem)


def write_references(dataset: Dataset, folder: str | Path, origin: Provenance | None = None) -> Path:
    """Write what ships of a standard set: cost, proof and solution of every instance, as small as can be."""
    if fingerprint(dataset.arrays) != STANDARD_SETS[dataset.name].sha256:
        raise InputError(f"'{dataset.name}' does not hold the standard instances of that name")
    if dataset.reference is None or dataset.proven is None or dataset.choice is None:
        raise InputError(f"'{dataset.name}' has no references with solutions")
    path = Path(folder) / f"{dataset.name}.npz"
    how = {} if origin is None else vars(origin)
    write_arrays(path, {**reference_entries(dataset), **how})
    return path
