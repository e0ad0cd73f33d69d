"""Inner loops written as Python functions and compiled by numba.

numba is imported when the first such function is called, never when this module is. The compiler takes some seconds
when it meets a function for the first time on a machine; a search with a time limit lets it work `in_background` and
calls the functions as they are written until it is done.
"""

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.RLock()
_compilers: dict[tuple[Hashable, ...], threading.Thread] = {}
_here = threading.local()

SEARCH = "search"
"""The first word of a name for what searches call."""
BACKGROUND = "icdc-background-"
"""Prefix of the names of background threads. They are no daemons: an interpreter that ends while they are inside the
compiler, or import a library, would crash. Programs that must end at once leave by `os._exit`."""


class Compiled(Generic[P, R]):
    """A function that is compiled when it is first called; `plain` is the function as it was written.

    It may call other compiled functions by their global names. Machine code is kept in numba's cache, so that only the
    first call ever made on a machine waits for the compiler; the cache notices changes of a function's own file only:
    after editing a function that other files call, touch those files, too. No interpreter lock is held: calls
    from several threads run side by side.
    """

    def __init__(self, plain: Callable[P, R]) -> None:
        self.plain = plain
        self.__name__ = plain.__name__
        self.__doc__ = plain.__doc__
        self._fast: Callable[P, R] | None = None
        self._slow: Callable[P, R] | None = None
        self._done: set[Hashable] = set()  # kinds of arguments it has been compiled for

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if getattr(_here, "plainly", False):
            return (self._slow or self.slow())(*args, **kwargs)
        if not _compilers:
            return (self._fast or self.fast())(*args, **kwargs)
        kinds = kinds_of(args)
        if kinds not in self._done and compiling() and not getattr(_here, "compiles", False):
            return (self._slow or self.slow())(*args, **kwargs)
        result = (self._fast or self.fast())(*args, **kwargs)
        self._done.add(kinds)
        return result

    def fast(self) -> Callable[P, R]:
        """Return the compiled function."""
        with _lock:
            if self._fast is None:
                self._fast = self._compile()
            return self._fast

    def slow(self) -> Callable[P, R]:
        """Return the function as it was written, calling others as they were written: never half of each."""
        with _lock:
            if self._slow is None:
                self._slow = self._linked(lambda callee: callee.slow())
            return self._slow

    def _compile(self) -> Callable[P, R]:
        njit: Any = import_module("numba").njit
        copy = self._linked(lambda callee: callee.fast())
        try:
            fast: Callable[P, R] = njit(cache=True, nogil=True)(copy)
        except RuntimeError:  # no folder to keep a cache in: compile in every process
            fast = njit(nogil=True)(copy)
        return fast

    def _linked(self, version: "Callable[[Compiled[Any, Any]], Any]") -> Callable[P, R]:
        """Return a copy that calls one version of all compiled functions it names; numba resolves names only once."""
        written: Any = self.plain
        names = {name: value for name, value in written.__globals__.items() if name in written.__code__.co_names}
        callees = {
            name: version(value) for name, value in names.items() if isinstance(value, Compiled) and value is not self
        }
        copy: Any = FunctionType(
            written.__code__,
            {**written.__globals__, **callees},
            written.__name__,
            written.__defaults__,
            written.__closure__,
        )
        copy.__module__, copy.__qualname__ = written.__module__, written.__qualname__
        linked: Callable[P, R] = copy
        return linked


def compiled(function: Callable[P, R]) -> Compiled[P, R]:
    """Mark a function of numbers and arrays for compilation at its first call (a decorator)."""
    return Compiled(function)


def in_background(name: tuple[Hashable, ...], calls: Callable[[], object]) -> threading.Thread:
    """Run calls in a thread, once per name, to have what they call compiled.

    Meanwhile other threads run functions that are not yet compiled for their arguments as plain Python. A name begins
    with a word for what the calls belong to. Return the thread.
    """

    def run() -> None:
        _here.compiles = True
        calls()

    with _lock:
        if name not in _compilers:
            _compilers[name] = threading.Thread(target=run, name=f"{BACKGROUND}compiler")
            _compilers[name].start()
        return _compilers[name]


def compiling(word: str | None = None) -> bool:
    """Tell whether the compiler is at work in the background, on anything or on what belongs to a word."""
    return any(thread.is_alive() for name, thread in _compilers.items() if word is None or name[0] == word)


def fast_now() -> bool:
    """Tell whether calls from this thread run (or wait for) machine code, never plain Python."""
    return getattr(_here, "compiles", False) or not compiling()


def settle() -> None:
    """Wait until nothing is compiled in the background: answers without a limit must not depend on it."""
    for thread in list(_compilers.values()):
        thread.join()


def fast_here() -> bool:
    """Tell whether calls of searches made now run as machine code."""
    return not getattr(_here, "plainly", False) and not compiling(SEARCH)


def kinds_of(arguments: object) -> Hashable:
    """Return what the compiler makes a difference by: the kinds of numbers in arrays, and the types of all else."""
    if isinstance(arguments, tuple):
        return tuple(kinds_of(one) for one in arguments)
    return str(getattr(arguments, "dtype", type(arguments)))


@contextmanager
def plain() -> Iterator[None]:
    """Run marked functions as they are written in this thread: to compare them, or where a compiler is not worth it."""
    before, _here.plainly = getattr(_here, "plainly", False), True
    try:
        yield
    finally:
        _here.plainly = before
