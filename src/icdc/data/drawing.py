"""Instances that need not be kept: drawn again from a size, a count and a seed, and known by their SHA-256."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..problem import Arrays, Problem, Size


@dataclass(frozen=True)
class Origin:
    """What instances of a problem are drawn from, the same on every machine (NumPy's PCG64, integers)."""

    size: Size
    count: int
    seed: int

    def draw(self, problem: Problem) -> Arrays:
        return problem.sample(self.count, self.size, np.random.Generator(np.random.PCG64(self.seed)))

    def text(self, arrays: Arrays) -> str:
        """Return what a file says instead of the instances it leaves out."""
        known = {"size": list(self.size), "count": self.count, "seed": self.seed, "sha256": fingerprint(arrays)}
        return json.dumps(known)


def drawn_again(text: str, problem: Problem, source: str) -> Arrays:
    """Return the instances that `Origin.text` stands for, checked to be the same.

    source : the file it was found in, for messages.
    """
    try:
        known = json.loads(text)
        origin = Origin(tuple(map(int, known["size"])), int(known["count"]), int(known["seed"]))
        sha256 = str(known["sha256"])
    except (ValueError, TypeError, KeyError):
        raise InputError(f"{source}: 'drawn' does not say from what its instances are drawn") from None
    if len(origin.size) != len(problem.size_names) or min(*origin.size, origin.count) < 1 or origin.seed < 0:
        raise InputError(f"{source}: no instances of '{problem.name}' can be drawn from {text}")
    try:
        arrays = origin.draw(problem)
    except (MemoryError, ValueError):
        raise InputError(f"{source}: the instances it leaves out do not fit into memory") from None
    if fingerprint(arrays) != sha256:
        raise InputError(f"{source}: the instances drawn here differ from those it was made of (wrong SHA-256)")
    return arrays


def fingerprint(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of named arrays: names, types, shapes and values, the same on every machine."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
