"""Heavy modules that are imported when they are first used: `from ..later import torch` costs nothing.

Problems are described in torch, and most of what is asked of them needs none of it: reading and checking an instance,
judging an answer, proving a small one. So modules on that way take `torch`, the `kernels`, which are written in it, and
the larger parts of SciPy from here; what they write stays what it would be, `torch.zeros(…)`. Names of types are for
annotations alone (`from __future__ import annotations`, and an import under `TYPE_CHECKING`). Everything that runs a
network anyway imports torch itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch as torch
    from scipy import optimize as optimize
    from scipy import sparse as sparse
    from scipy.sparse import csgraph as csgraph

    from . import kernels as kernels


class Later:
    """A module that is imported when its first attribute is asked for."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), attribute)
        self.__dict__[attribute] = value  # the next time it is an attribute like any other
        return value

    def __repr__(self) -> str:
        return f"<module '{self.__name__}', imported when it is needed>"


if not TYPE_CHECKING:
    torch, kernels = Later("torch"), Later("icdc.kernels")
    optimize, sparse, csgraph = Later("scipy.optimize"), Later("scipy.sparse"), Later("scipy.sparse.csgraph")
