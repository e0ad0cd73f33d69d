"""Worker processes on cores of their own, so that runs side by side do not disturb each other's clocks."""

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, TypeVar

from icdc.errors import UsageError

T = TypeVar("T")

THREADS = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""What tells libraries how many threads to use."""


def groups_of_cores(workers: int, each: int) -> list[list[int]]:
    """Return `workers` disjoint groups of `each` of the cores this process may use."""
    cores = sorted(os.sched_getaffinity(0))
    if workers < 1 or workers * each > len(cores):
        raise UsageError(f"{workers} workers with {each} cores each do not fit on {len(cores)} cores")
    return [cores[number * each : (number + 1) * each] for number in range(workers)]


class PinnedWorkers:
    """`workers` fresh interpreters with `each` cores and as many threads each; a context manager."""

    def __init__(self, workers: int, each: int = 1) -> None:
        self.groups, self.each = groups_of_cores(workers, each), each

    def __enter__(self) -> "PinnedWorkers":
        self.before = {name: os.environ.get(name) for name in THREADS}
        os.environ.update(dict.fromkeys(THREADS, str(self.each)))  # inherited before a worker loads any library
        context = multiprocessing.get_context("spawn")
        free = context.SimpleQueue()
        for group in self.groups:
            free.put(group)
        self.pool = ProcessPoolExecutor(len(self.groups), mp_context=context, initializer=_pin, initargs=(free,))
        return self

    def __exit__(self, *error: Any) -> None:
        # whoever has not answered by now would not be waited for: what counts is on disk already
        processes = list((self.pool._processes or {}).values())
        self.pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for name, value in self.before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value

    def submit(self, function: Callable[..., T], *arguments: Any) -> "Future[T]":
        """Run a function of a module on the next worker that is free."""
        return self.pool.submit(function, *arguments)


def _pin(free: Any) -> None:
    group = free.get()
    os.sched_setaffinity(0, group)
    import torch

    torch.set_num_threads(len(group))
