"""Inner loops written once as Python functions: compiled by numba where it is installed, run as they stand elsewhere.

numba is optional, and is imported only when the first such function is called, never when this module is.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.RLock()
_plainly = False


class Compiled(Generic[P, R]):
    """A function that is compiled when it is first called; `plain` is the function as it was written.

    It may call other compiled functions by their global names. Machine code is kept in numba's cache, so that only the
    first call ever made on a machine waits for the compiler; the cache notices changes of a function's own file only:
    whoever edits a function that other files call should touch those files, too. No interpreter lock is held: calls
    from several threads run side by side.
    """

    def __init__(self, plain: Callable[P, R]) -> None:
        self.plain = plain
        self.__name__ = plain.__name__
        self.__doc__ = plain.__doc__
        self._fast: Callable[P, R] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if _plainly:
            return self.plain(*args, **kwargs)
        return (self._fast or self.fast())(*args, **kwargs)

    def fast(self) -> Callable[P, R]:
        """Return the compiled function, or the plain one where there is no numba."""
        with _lock:
            if self._fast is None:
                self._fast = self._compile() if available() else self.plain
            return self._fast

    def _compile(self) -> Callable[P, R]:
        njit: Any = import_module("numba").njit
        # numba resolves names when it compiles: a copy of the function sees compiled callees, the original plain ones
        written: Any = self.plain
        names = {name: value for name, value in written.__globals__.items() if name in written.__code__.co_names}
        callees = {
            name: value.fast() for name, value in names.items() if isinstance(value, Compiled) and value is not self
        }
        copy = FunctionType(
            written.__code__, {**written.__globals__, **callees}, written.__name__, written.__defaults__
        )
        copy.__module__, copy.__qualname__ = written.__module__, written.__qualname__
        try:
            fast: Callable[P, R] = njit(cache=True, nogil=True)(copy)
        except RuntimeError:  # no folder to keep a cache in: compile in every process
            fast = njit(nogil=True)(copy)
        return fast


def compiled(function: Callable[P, R]) -> Compiled[P, R]:
    """Mark a function of numbers and arrays for compilation at its first call (a decorator)."""
    return Compiled(function)


def available() -> bool:
    """Tell whether marked functions are compiled here."""
    return find_spec("numba") is not None


@contextmanager
def plain() -> Iterator[None]:
    """Run marked functions as they are written, for comparison with the compiled ones; for one thread at a time."""
    global _plainly
    before, _plainly = _plainly, True
    try:
        yield
    finally:
        _plainly = before
