"""NPY and NPZ instances, datasets among them; nothing is ever unpickled."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..problem import Problem
from ..problems import problem_of_file
from .drafts import BARE, Draft, checked_arrays, split_batch
from .drawing import drawn_again

# beside the problem's arrays, a dataset may hold these
_ABOUT = frozenset(["problem", "reference", "proven", "choice", "name", "seed", "drawn"])
_BUILT_IN_AXES = {"distances": 2, "durations": 2, "coordinates": 2, "slowness": 2, "traffic": 2, BARE: 2}


def drafts_of_numpy(content: bytes, name: str, given: Problem | None = None) -> list[Draft]:
    """Return the instances of an NPY or NPZ file.

    An NPY file holds one matrix, or several stacked along a first axis; an NPZ archive is a dataset, the
    named arrays of one instance, or a single array of any name. A dataset without instances has them drawn again,
    which takes the problem itself: one of your own must be given.
    """
    arrays = _load(content, name)
    if isinstance(arrays, np.ndarray):
        return _drafts({BARE: arrays}, None, name)
    problem = None
    if "problem" in arrays:
        problem = str(arrays["problem"]) if arrays["problem"].dtype.kind == "U" else None
        if problem is None or arrays["problem"].ndim:
            raise InputError(f"{name}: 'problem' must be a name")
        if "drawn" in arrays:
            arrays.update(drawn_again(str(arrays["drawn"]), problem_of_file(problem, given, name), name))
    data = {key: array for key, array in arrays.items() if key not in _ABOUT}
    if not data:
        raise InputError(f"{name}: the archive holds no matrix")
    if problem is None and len(data) == 1 and next(iter(data)) not in _BUILT_IN_AXES:
        data = {BARE: next(iter(data.values()))}
    return _drafts(data, problem, name)


def _drafts(arrays: dict[str, NDArray[Any]], problem: str | None, name: str) -> list[Draft]:
    """Cut arrays into instances where they have a count axis.

    They have one if the file is a dataset (it says which problem it is) or if a matrix has three axes.
    """
    arrays = checked_arrays(arrays, name)
    stacked = any(array.ndim > _BUILT_IN_AXES[key] for key, array in arrays.items() if key in _BUILT_IN_AXES)
    unknown = not any(key in _BUILT_IN_AXES for key in arrays)
    draft = Draft(name, arrays, problem)
    if not stacked and not (unknown and problem is not None):
        return [draft]
    counts = {len(array) if array.ndim else -1 for array in arrays.values()}
    if len(counts) > 1 or -1 in counts:
        raise InputError(f"{name}: the arrays hold different numbers of instances")
    count = counts.pop()
    if count == 0:
        raise InputError(f"{name}: the file holds no instance")
    return split_batch(draft, count)


def _load(content: bytes, name: str) -> NDArray[Any] | dict[str, NDArray[Any]]:
    """Load arrays from bytes, whatever is wrong with them."""
    if not content:
        raise InputError(f"{name}: the file is empty")
    try:
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return {key: loaded[key] for key in loaded.files}
    except MemoryError:
        raise InputError(f"{name}: the file announces an array that does not fit into memory") from None
    except Exception as error:
        # numpy, zipfile and zlib raise a dozen kinds of exception for a broken file; all of them mean this
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        raise InputError(f"{name}: the file cannot be read as NumPy arrays ({reason})") from None
